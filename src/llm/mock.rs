//! A model that says what it is told to, and remembers what it was asked.

use std::collections::VecDeque;
use std::sync::Mutex;

use futures::StreamExt;

use crate::error::{Error, ErrorCode, Result};
use crate::llm::{Finish, Llm, LlmEvent, LlmRequest, LlmStream, Usage};

/// Gives its answers in order; then it is away.
pub(crate) struct Mock {
    answers: Mutex<VecDeque<Result<String>>>,
    asked: Mutex<Vec<LlmRequest>>,
}

impl Mock {
    pub(crate) fn new(answers: Vec<Result<String>>) -> Mock {
        Mock { answers: Mutex::new(answers.into()), asked: Mutex::new(Vec::new()) }
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<LlmRequest> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl Llm for Mock {
    fn name(&self) -> &str {
        "mock"
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmStream> {
        self.asked.lock().unwrap().push(request);
        let away = || Err(Error::new(ErrorCode::Unavailable, "the mock has no more answers"));
        let text = self.answers.lock().unwrap().pop_front().unwrap_or_else(away)?;
        // In two pieces, as a stream has them.
        let (first, second) = text.split_at(text.floor_char_boundary(text.len() / 2));
        let events = [
            LlmEvent::Text(first.into()),
            LlmEvent::Text(second.into()),
            LlmEvent::Done { finish: Finish::Stop, usage: Usage::default() },
        ];
        Ok(futures::stream::iter(events.map(Ok)).boxed())
    }
}
