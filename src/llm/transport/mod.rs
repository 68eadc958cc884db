//! Transports to models. A transport makes one attempt of one request; it has no queue, retries or tools.

mod command;
mod answer_lines;
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

/// The kind of transport and its target.
#[derive(Clone)]
pub enum TransportConfig {
    /// The native API of an Ollama server.
    Ollama {
        /// Its address.
        base_url: String,
        /// Bearer token, if required.
        auth_token: Option<String>,
        /// The model.
        model: String,
    },
    /// The chat API of llama.cpp's server, vLLM, LM Studio and others.
    OpenAi {
        /// Its address, with or without `/v1`.
        base_url: String,
        /// Bearer token, if required.
        auth_token: Option<String>,
        /// The model.
        model: String,
    },
    /// A command that implements the plugin protocol.
    Command {
        /// The command.
        command: PluginCommand,
        /// The model for the plugin to use; may be empty.
        model: String,
    },
    /// A deterministic mock that sends no requests.
    Mock,
    /// A custom transport.
    Custom(Arc<dyn Transport>),
}

impl TransportConfig {
    /// Returns the transport of the configured Ollama server.
    pub fn ollama(config: &Config, model: &str) -> TransportConfig {
        let servers = &config.embed;
        TransportConfig::Ollama {
            base_url: servers.ollama_url.clone(),
            auth_token: servers.ollama_key.clone(),
            model: model.into(),
        }
    }

    /// Returns the transport of the configured OpenAI-compatible server.
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
            TransportConfig::Command { command, model } => Arc::new(command::CommandBackend::new(command, &model)),
            TransportConfig::Mock => Arc::new(mock::Echo),
            TransportConfig::Custom(transport) => transport,
        })
    }
}
