//! Splits a streamed answer into lines, with limits on line length, silence and total size.

use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::time::{Instant, timeout_at};

use crate::embed::egress;
use crate::error::{Error, ErrorCode, Result};
use crate::model::llm::request::{LlmRequest, Patience};

/// Longest line. A token takes some hundred bytes; only servers that do not stream send a whole answer in one line.
const MAX_LINE_BYTES: usize = 1 << 20;

/// A reader of the lines of an answer.
pub(super) struct Lines {
    body: BoxStream<'static, reqwest::Result<Vec<u8>>>,
    held: Vec<u8>,
    place: String,
    patience: Patience,
    deadline: Instant,
    begun: bool,
    text_left: usize,
}

impl Lines {
    /// Reads until `deadline` at the latest. `place` is the server's address, for messages.
    pub(super) fn new(response: reqwest::Response, place: String, request: &LlmRequest, deadline: Instant) -> Lines {
        let body = response.bytes_stream().map(|it| it.map(|bytes| bytes.to_vec())).boxed();
        let (patience, text_left) = (request.patience, request.max_answer_bytes);
        Lines { body, held: Vec::new(), place, patience, deadline, begun: false, text_left }
    }

    /// Returns the next line without its line break; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(end) = self.held.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.held.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_string()));
            }
            if self.held.len() > MAX_LINE_BYTES {
                return Err(self.nonsense("a line that is too long"));
            }
            match self.piece().await? {
                Some(piece) => self.held.extend_from_slice(&piece),
                // A last line needs no line break; the parser detects whether it is complete.
                None if self.held.is_empty() => return Ok(None),
                None => return Ok(Some(String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned())),
            }
        }
    }

    /// Returns the rest of the answer as one text.
    pub(super) async fn rest(&mut self) -> Result<String> {
        while let Some(piece) = self.piece().await? {
            self.held.extend_from_slice(&piece);
            if self.held.len() > MAX_LINE_BYTES {
                return Err(self.nonsense("an answer that is too long"));
            }
        }
        Ok(String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned())
    }

    async fn piece(&mut self) -> Result<Option<Vec<u8>>> {
        let wait = if self.begun { self.patience.idle } else { self.patience.first };
        let until = self.deadline.min(Instant::now() + wait);
        match timeout_at(until, self.body.next()).await {
            Ok(Some(Ok(piece))) => {
                self.begun = true;
                Ok(Some(piece))
            }
            Ok(Some(Err(error))) => Err(Error::new(
                ErrorCode::Unavailable,
                format!("`{}` broke off its answer: {}", self.place, egress::cause(&error)),
            )),
            Ok(None) => Ok(None),
            Err(_) => Err(silence(&self.place, Instant::now() >= self.deadline)),
        }
    }

    /// Subtracts text from the size limit of the answer.
    pub(super) fn count(&mut self, text: &str) -> Result<()> {
        self.text_left = self.text_left.checked_sub(text.len()).ok_or_else(|| {
            Error::new(ErrorCode::ResourceExhausted, format!("the model's answer from `{}` is too long", self.place))
                .hint("try another model")
        })?;
        Ok(())
    }

    /// Returns the error for an unparsable answer.
    pub(super) fn nonsense(&self, what: &str) -> Error {
        let shown: String = what.chars().take(120).collect();
        Error::new(ErrorCode::FailedPrecondition, format!("`{}` gave no usable answer: `{shown}`", self.place))
            .hint("check that the configured address is the right server")
    }

    /// Returns the error for a connection that closed early.
    pub(super) fn cut(&self) -> Error {
        Error::new(ErrorCode::Unavailable, format!("`{}` closed before the answer was complete", self.place))
            .hint("check the server's log and try again")
    }
}

/// Returns the error for a timeout.
pub(super) fn silence(place: &str, over: bool) -> Error {
    let what = if over { "took too long to answer" } else { "stopped answering" };
    Error::new(ErrorCode::DeadlineExceeded, format!("`{place}` {what}")).hint("is the model too large for the server?")
}
