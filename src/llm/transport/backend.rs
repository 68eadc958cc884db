//! The trait [`Transport`], which connects the model client to a backend, and the pieces of an answer.

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::error::{Error, ErrorCode, Result};
use crate::model::PrivacyMode;
use crate::model::llm::capabilities::ModelCapability;
use crate::model::llm::event::{FinishReason, Usage};
use crate::model::llm::request::{LlmRequest, ModelId, ToolCall};

/// A piece of a model's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerPiece {
    /// The next part of the text.
    Text(String),
    /// A complete tool call.
    Call(ToolCall),
    /// The end of the answer; no piece follows.
    Done {
        /// Why the answer ended.
        finish: FinishReason,
        /// Number of tokens of prompt and answer.
        usage: Usage,
    },
}

/// Stream of the pieces of an answer: texts and tool calls, then one `Done` or one error.
pub type PieceStream = BoxStream<'static, Result<AnswerPiece>>;

/// A connection to a model backend. Shared between threads.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Returns the kind of backend: `ollama`, `openai`, `command` or `mock`.
    fn backend(&self) -> &'static str;

    /// Returns the address of the server, or the command line of the plugin.
    fn place(&self) -> String;

    /// Returns the name of the default model.
    fn model(&self) -> &str;

    /// Queries the capabilities of all models of the backend.
    ///
    /// # Errors
    /// See the docs of [`crate::llm`].
    async fn capabilities(&self, mode: PrivacyMode) -> Result<Vec<ModelCapability>>;

    /// Queries the capabilities of one model; returns default ones if the backend does not know it.
    ///
    /// # Errors
    /// The same errors as [`Transport::capabilities`].
    async fn capability(&self, model: &ModelId, mode: PrivacyMode) -> Result<ModelCapability> {
        let models = self.capabilities(mode).await?;
        let known = ModelCapability::find_by_name(&models, model).cloned();
        Ok(known.unwrap_or_else(|| ModelCapability::with_defaults(model.clone())))
    }

    /// Returns whether requests can set the context size of the model; otherwise the server decides.
    fn takes_context(&self) -> bool {
        false
    }

    /// Sends a request and returns the pieces of the answer. Dropping the stream ends the request.
    ///
    /// # Errors
    /// See the docs of [`crate::llm`]; the stream can end with the same errors.
    async fn stream(&self, request: LlmRequest) -> Result<PieceStream>;

    /// Computes embeddings of texts, with a context size if the backend [takes](Transport::takes_context) one.
    ///
    /// # Errors
    /// `FailedPrecondition` if the backend cannot embed.
    async fn embed(&self, _texts: &[String], _context: Option<u32>, _mode: PrivacyMode) -> Result<Vec<Vec<f32>>> {
        Err(Error::new(ErrorCode::FailedPrecondition, format!("the backend `{}` cannot embed", self.backend())))
    }
}
