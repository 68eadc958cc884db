//! Mock transports: one that echoes the user's message, and, for tests, one with scripted answers.

use async_trait::async_trait;
use futures::StreamExt;

use crate::error::Result;
use crate::llm::transport::backend::{AnswerPiece, PieceStream, Transport};
use crate::model::PrivacyMode;
use crate::model::llm::capabilities::ModelCapability;
use crate::model::llm::event::{FinishReason, Usage};
use crate::model::llm::request::{LlmRequest, Role};

/// Answers with the last user message, so that programs can be tried without a model.
pub(super) struct Echo;

#[async_trait]
impl Transport for Echo {
    fn backend(&self) -> &'static str {
        "mock"
    }

    fn place(&self) -> String {
        "this process".into()
    }

    fn model(&self) -> &str {
        "mock"
    }

    async fn capabilities(&self, _mode: PrivacyMode) -> Result<Vec<ModelCapability>> {
        Ok(vec![ModelCapability::with_defaults("mock".into())])
    }

    async fn stream(&self, request: LlmRequest) -> Result<PieceStream> {
        let last = request.messages.iter().rfind(|it| it.role == Role::User).map_or("", |it| it.content.as_str());
        let words: Vec<&str> = last.split_inclusive(' ').collect();
        let kept = words.len().min(request.max_tokens as usize);
        let finish = if kept < words.len() { FinishReason::Length } else { FinishReason::Stop };
        let usage = Usage { prompt_tokens: words.len() as u64, answer_tokens: kept as u64 };
        let mut pieces: Vec<Result<AnswerPiece>> =
            words[..kept].iter().map(|it| Ok(AnswerPiece::Text(it.to_string()))).collect();
        pieces.push(Ok(AnswerPiece::Done { finish, usage }));
        Ok(futures::stream::iter(pieces).boxed())
    }
}

#[cfg(test)]
pub(crate) use scripted::Mock;

#[cfg(test)]
mod scripted {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::error::{Error, ErrorCode};
    use crate::llm::{LlmClient, LlmClientConfig, TransportConfig, client};

    /// A transport that returns its scripted answers in order, then `Unavailable`, and records the requests.
    pub(crate) struct Mock {
        answers: Mutex<VecDeque<Result<Vec<AnswerPiece>>>>,
        asked: Mutex<Vec<LlmRequest>>,
    }

    impl Mock {
        /// Creates a mock that returns these texts or errors, each text streamed in two pieces.
        pub(crate) fn new(answers: Vec<Result<String>>) -> Arc<Mock> {
            let in_two = |text: String| {
                let (first, second) = text.split_at(text.floor_char_boundary(text.len() / 2));
                let done = AnswerPiece::Done { finish: FinishReason::Stop, usage: Usage::default() };
                vec![AnswerPiece::Text(first.into()), AnswerPiece::Text(second.into()), done]
            };
            Mock::in_pieces(answers.into_iter().map(|it| it.map(in_two)).collect())
        }

        /// Creates a mock that returns these pieces or errors.
        pub(crate) fn in_pieces(answers: Vec<Result<Vec<AnswerPiece>>>) -> Arc<Mock> {
            Arc::new(Mock { answers: Mutex::new(answers.into()), asked: Mutex::new(Vec::new()) })
        }

        /// Returns the requests so far.
        pub(crate) fn asked(&self) -> Vec<LlmRequest> {
            self.asked.lock().unwrap().clone()
        }

        /// Creates a client of this mock.
        pub(crate) fn client(self: &Arc<Mock>) -> LlmClient {
            self.client_with(LlmClientConfig::default())
        }

        /// Creates a client of this mock with other settings.
        pub(crate) fn client_with(self: &Arc<Mock>, config: LlmClientConfig) -> LlmClient {
            client(LlmClientConfig { transport: TransportConfig::Custom(self.clone()), ..config }).unwrap()
        }
    }

    #[async_trait]
    impl Transport for Mock {
        fn backend(&self) -> &'static str {
            "mock"
        }

        fn place(&self) -> String {
            // Returns a unique address, so that each mock has its own queue.
            format!("{self:p}")
        }

        fn model(&self) -> &str {
            "mock"
        }

        async fn capabilities(&self, _mode: PrivacyMode) -> Result<Vec<ModelCapability>> {
            Ok(vec![ModelCapability { max_tokens: 4_096, ..ModelCapability::with_defaults("mock".into()) }])
        }

        fn takes_context(&self) -> bool {
            true
        }

        async fn stream(&self, request: LlmRequest) -> Result<PieceStream> {
            self.asked.lock().unwrap().push(request);
            let away = || Err(Error::new(ErrorCode::Unavailable, "the mock has no more answers"));
            let pieces = self.answers.lock().unwrap().pop_front().unwrap_or_else(away)?;
            Ok(futures::stream::iter(pieces.into_iter().map(Ok)).boxed())
        }
    }
}
