//! What talks to a model. A transport makes one try of one request and knows nothing of queues, retries or tools.

mod command;
mod lines;
pub(crate) mod mock;
mod ollama;
mod openai;
mod server;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::config::Config;
use crate::error::{Error, ErrorCode, Result};
use crate::llm::plugin::PluginCommand;
use crate::model::PrivacyMode;
use crate::model::llm::capabilities::ModelCapability;
use crate::model::llm::event::{FinishReason, Usage};
use crate::model::llm::request::{LlmRequest, ModelId, ToolCall};

/// A step of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// More text.
    Text(String),
    /// A call of a tool, whole.
    Call(ToolCall),
    /// The end; nothing comes after it.
    Done {
        /// Why.
        finish: FinishReason,
        /// What it took.
        usage: Usage,
    },
}

/// Steps of an answer: texts and calls, then one `Done` or one error.
pub type PieceStream = BoxStream<'static, Result<Piece>>;

/// A way to models. Shared by all threads.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Its kind: `ollama`, `openai`, `command` or `mock`.
    fn backend(&self) -> &'static str;

    /// Where it leads: an address, or a program.
    fn place(&self) -> String;

    /// The model that is asked when a request names none.
    fn model(&self) -> &str;

    /// What its models can do, as far as it says.
    ///
    /// # Errors
    /// See the module of the room.
    async fn capabilities(&self, mode: PrivacyMode) -> Result<Vec<ModelCapability>>;

    /// What one model can do, as far as the backend says.
    ///
    /// # Errors
    /// As [`Transport::capabilities`].
    async fn look(&self, model: &ModelId, mode: PrivacyMode) -> Result<ModelCapability> {
        let models = self.capabilities(mode).await?;
        let known = ModelCapability::named(&models, model).cloned();
        Ok(known.unwrap_or_else(|| ModelCapability::unknown(model.clone())))
    }

    /// Whether a request says how much context its model is to have. Where it does not, the server knows.
    fn takes_context(&self) -> bool {
        false
    }

    /// Asks. Dropping the stream ends the request.
    ///
    /// # Errors
    /// See the module of the room; the stream itself can end with the same errors.
    async fn stream(&self, request: LlmRequest) -> Result<PieceStream>;

    /// Turns texts into vectors, with so much context where it [takes](Transport::takes_context) one.
    ///
    /// # Errors
    /// `FailedPrecondition` where that cannot be asked for.
    async fn embed(&self, _texts: &[String], _context: Option<u32>, _mode: PrivacyMode) -> Result<Vec<Vec<f32>>> {
        Err(Error::new(ErrorCode::FailedPrecondition, format!("the backend `{}` does not embed", self.backend())))
    }
}

/// Which transport, and where to.
#[derive(Clone)]
pub enum TransportConfig {
    /// The native API of an Ollama server.
    Ollama {
        /// Its address.
        base_url: String,
        /// Bearer token, if it asks for one.
        auth_token: Option<String>,
        /// The model.
        model: String,
    },
    /// The chat API that llama.cpp's server, vLLM, LM Studio and others share.
    OpenAi {
        /// Its address, with or without `/v1`.
        base_url: String,
        /// Bearer token, if it asks for one.
        auth_token: Option<String>,
        /// The model.
        model: String,
    },
    /// A command that speaks the plugin protocol.
    Command {
        /// It.
        command: PluginCommand,
        /// The model that it is told to use; may be empty.
        model: String,
    },
    /// Says the same every time; asks nobody.
    Mock,
    /// One of the caller's own.
    Custom(Arc<dyn Transport>),
}

impl TransportConfig {
    /// The configured Ollama server.
    pub fn ollama(config: &Config, model: &str) -> TransportConfig {
        let servers = &config.embed;
        TransportConfig::Ollama {
            base_url: servers.ollama_url.clone(),
            auth_token: servers.ollama_key.clone(),
            model: model.into(),
        }
    }

    /// The configured OpenAI-compatible server.
    pub fn openai(config: &Config, model: &str) -> TransportConfig {
        let servers = &config.embed;
        TransportConfig::OpenAi {
            base_url: servers.openai_url.clone(),
            auth_token: servers.openai_key.clone(),
            model: model.into(),
        }
    }

    pub(super) fn open(self) -> Result<Arc<dyn Transport>> {
        Ok(match self {
            TransportConfig::Ollama { base_url, auth_token, model } => {
                Arc::new(ollama::Ollama::new(&base_url, auth_token, &model))
            }
            TransportConfig::OpenAi { base_url, auth_token, model } => {
                Arc::new(openai::OpenAi::new(&base_url, auth_token, &model))
            }
            TransportConfig::Command { command, model } => Arc::new(command::Command::new(command, &model)),
            TransportConfig::Mock => Arc::new(mock::Echo),
            TransportConfig::Custom(transport) => transport,
        })
    }
}
