//! What every transport implements: [`Transport`], and the pieces of an answer.

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::error::{Error, ErrorCode, Result};
use crate::model::PrivacyMode;
use crate::model::llm::capabilities::ModelCapability;
use crate::model::llm::event::{FinishReason, Usage};
use crate::model::llm::request::{LlmRequest, ModelId, ToolCall};

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerPiece {
    /// More text.
    Text(String),
    /// A complete tool call.
    Call(ToolCall),
    /// The end; no piece follows.
    Done {
        /// The finish reason.
        finish: FinishReason,
        /// Tokens used.
        usage: Usage,
    },
}

/// The pieces of an answer: texts and calls, then one `Done` or one error.
pub type PieceStream = BoxStream<'static, Result<AnswerPiece>>;

/// A connection to a backend. Shared by all threads.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Returns the kind: `ollama`, `openai`, `command` or `mock`.
    fn backend(&self) -> &'static str;

    /// Returns its address or program.
    fn place(&self) -> String;

    /// Returns the default model.
    fn model(&self) -> &str;

    /// Queries the capabilities of its models.
    ///
    /// # Errors
    /// See the docs of [`crate::llm`].
    async fn capabilities(&self, mode: PrivacyMode) -> Result<Vec<ModelCapability>>;

    /// Queries the capabilities of one model.
    ///
    /// # Errors
    /// As [`Transport::capabilities`].
    async fn capability(&self, model: &ModelId, mode: PrivacyMode) -> Result<ModelCapability> {
        let models = self.capabilities(mode).await?;
        let known = ModelCapability::find_by_name(&models, model).cloned();
        Ok(known.unwrap_or_else(|| ModelCapability::with_defaults(model.clone())))
    }

    /// Returns whether requests set the context size of the model; otherwise the server decides.
    fn takes_context(&self) -> bool {
        false
    }

    /// Sends a request. Dropping the stream ends it.
    ///
    /// # Errors
    /// See the docs of [`crate::llm`]; the stream can end with the same errors.
    async fn stream(&self, request: LlmRequest) -> Result<PieceStream>;

    /// Embeds texts, with a context size if the backend [takes](Transport::takes_context) one.
    ///
    /// # Errors
    /// `FailedPrecondition` if the backend cannot embed.
    async fn embed(&self, _texts: &[String], _context: Option<u32>, _mode: PrivacyMode) -> Result<Vec<Vec<f32>>> {
        Err(Error::new(ErrorCode::FailedPrecondition, format!("the backend `{}` does not embed", self.backend())))
    }
}
