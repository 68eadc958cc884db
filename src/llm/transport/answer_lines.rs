//! Splits the streamed response of a model server into lines, with limits on line length, idle time and total size.

use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::time::{Instant, timeout_at};

use crate::egress;
use crate::error::{Error, ErrorCode, Result};
use crate::model::llm::request::{LlmRequest, Timeouts};

/// Maximum bytes of a line; a longer one is an error. A line with one token has a few hundred bytes, but servers that
/// do not stream send a whole answer in one line.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Reads the lines of a streamed response.
pub(super) struct AnswerLines {
    body: BoxStream<'static, reqwest::Result<Vec<u8>>>,
    held: Vec<u8>,
    place: String,
    timeouts: Timeouts,
    deadline: Instant,
    begun: bool,
    text_left: usize,
}

impl AnswerLines {
    /// Creates a reader of a response. After `deadline`, reading fails with a timeout. `place` is the server's address,
    /// for error messages.
    pub(super) fn new(
        response: reqwest::Response,
        place: String,
        request: &LlmRequest,
        deadline: Instant,
    ) -> AnswerLines {
        let body = response.bytes_stream().map(|it| it.map(|bytes| bytes.to_vec())).boxed();
        let (timeouts, text_left) = (request.timeouts, request.max_answer_bytes);
        AnswerLines { body, held: Vec::new(), place, timeouts, deadline, begun: false, text_left }
    }

    /// Returns the next line without its line break; `None` after the last line.
    pub(super) async fn next(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(end) = self.held.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.held.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_string()));
            }
            if self.held.len() > MAX_LINE_BYTES {
                return Err(self.unparsable("a line that is too long"));
            }
            match self.next_chunk().await? {
                Some(piece) => self.held.extend_from_slice(&piece),
                // Returns a last line without a line break too; the parser detects whether it is complete.
                None if self.held.is_empty() => return Ok(None),
                None => return Ok(Some(String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned())),
            }
        }
    }

    /// Returns the rest of the response as one text.
    pub(super) async fn read_rest(&mut self) -> Result<String> {
        while let Some(piece) = self.next_chunk().await? {
            self.held.extend_from_slice(&piece);
            if self.held.len() > MAX_LINE_BYTES {
                return Err(self.unparsable("an answer that is too long"));
            }
        }
        Ok(String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned())
    }

    async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let wait = if self.begun { self.timeouts.idle } else { self.timeouts.first };
        let until = self.deadline.min(Instant::now() + wait);
        match timeout_at(until, self.body.next()).await {
            Ok(Some(Ok(piece))) => {
                self.begun = true;
                Ok(Some(piece))
            }
            Ok(Some(Err(error))) => Err(Error::new(
                ErrorCode::Unavailable,
                format!("`{}` broke off its answer: {}", self.place, egress::innermost_cause(&error)),
            )),
            Ok(None) => Ok(None),
            Err(_) => Err(timeout_error(&self.place, Instant::now() >= self.deadline)),
        }
    }

    /// Subtracts the size of a piece of text from the bytes that are left for the answer; fails if it exceeds them.
    pub(super) fn count_text(&mut self, text: &str) -> Result<()> {
        self.text_left = self.text_left.checked_sub(text.len()).ok_or_else(|| {
            Error::new(ErrorCode::ResourceExhausted, format!("the model's answer from `{}` is too long", self.place))
                .hint("try another model")
        })?;
        Ok(())
    }

    /// Returns the error for a response that cannot be parsed; `what` is quoted as the reason.
    pub(super) fn unparsable(&self, what: &str) -> Error {
        let shown: String = what.chars().take(120).collect();
        Error::new(ErrorCode::FailedPrecondition, format!("`{}` gave no usable answer: `{shown}`", self.place))
            .hint("check that the configured address is that of the model server")
    }

    /// Returns the error for a connection that the server closed before the end of the answer.
    pub(super) fn closed_early(&self) -> Error {
        Error::new(ErrorCode::Unavailable, format!("`{}` disconnected before the answer was complete", self.place))
            .hint("check the server's log and try again")
    }
}

/// Returns the error for a timeout: of the whole request if `over`, otherwise of waiting for the next data.
pub(super) fn timeout_error(place: &str, over: bool) -> Error {
    let what = if over { "took too long to answer" } else { "stopped answering" };
    Error::new(ErrorCode::DeadlineExceeded, format!("`{place}` {what}"))
        .hint("the model may be too large for the server")
}
