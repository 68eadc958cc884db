//! The lines of an answer that comes in pieces, with bounds on their length, on silence and on the whole.

use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::time::{Instant, timeout_at};

use crate::embed::egress;
use crate::error::{Error, ErrorCode, Result};
use crate::model::llm::request::{LlmRequest, Patience};

/// Longest line. A token takes some hundred bytes; only servers that do not stream put a whole answer in one line.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Reads lines.
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
    /// Waits at most until `deadline` for all of it. `place` is the server's address, for messages.
    pub(super) fn new(response: reqwest::Response, place: String, request: &LlmRequest, deadline: Instant) -> Lines {
        let body = response.bytes_stream().map(|it| it.map(|bytes| bytes.to_vec())).boxed();
        let (patience, text_left) = (request.patience, request.max_answer_bytes);
        Lines { body, held: Vec::new(), place, patience, deadline, begun: false, text_left }
    }

    /// The next line without its end; none after the last.
    pub(super) async fn next(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(end) = self.held.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.held.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_string()));
            }
            if self.held.len() > MAX_LINE_BYTES {
                return Err(self.nonsense("a line without end"));
            }
            match self.piece().await? {
                Some(piece) => self.held.extend_from_slice(&piece),
                // A last line needs no line break; whether it is whole is seen by whoever reads it.
                None if self.held.is_empty() => return Ok(None),
                None => return Ok(Some(String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned())),
            }
        }
    }

    /// All that is left, as one text.
    pub(super) async fn rest(&mut self) -> Result<String> {
        while let Some(piece) = self.piece().await? {
            self.held.extend_from_slice(&piece);
            if self.held.len() > MAX_LINE_BYTES {
                return Err(self.nonsense("an answer without end"));
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

    /// Takes text off the bound on the whole answer.
    pub(super) fn count(&mut self, text: &str) -> Result<()> {
        self.text_left = self.text_left.checked_sub(text.len()).ok_or_else(|| {
            Error::new(ErrorCode::ResourceExhausted, format!("the model's answer from `{}` does not end", self.place))
                .hint("try another model")
        })?;
        Ok(())
    }

    /// The error of an answer that cannot be understood.
    pub(super) fn nonsense(&self, what: &str) -> Error {
        let shown: String = what.chars().take(120).collect();
        Error::new(ErrorCode::FailedPrecondition, format!("`{}` gave no usable answer: `{shown}`", self.place))
            .hint("is it the server that the configuration says?")
    }

    /// The error of a server that went away.
    pub(super) fn cut(&self) -> Error {
        Error::new(ErrorCode::Unavailable, format!("`{}` closed before the answer was complete", self.place))
            .hint("look into the server's log; try again")
    }
}

/// The error of a server that says nothing.
pub(super) fn silence(place: &str, over: bool) -> Error {
    let what = if over { "took too long to answer" } else { "stopped answering" };
    Error::new(ErrorCode::DeadlineExceeded, format!("`{place}` {what}")).hint("is the model too large for the server?")
}
