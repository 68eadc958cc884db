//! Transports, which send requests to model backends. A transport makes one attempt of one request; the client has the
//! queue, retries and tools.

mod backend;
mod command;
mod answer_lines;
pub(crate) mod mock;
mod ollama;
mod openai;
mod server;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use crate::llm::transport::backend::{AnswerPiece, PieceStream, Transport};

use crate::config::Config;
use crate::error::Result;
use crate::llm::plugin::PluginCommand;

/// The kind of a transport, and the server or command that it talks to.
#[derive(Clone)]
pub enum TransportConfig {
    /// The native API of an Ollama server.
    Ollama {
        /// Address of the server.
        base_url: String,
        /// Bearer token, if the server requires one.
        auth_token: Option<String>,
        /// Name of the model.
        model: String,
    },
    /// The OpenAI-compatible chat API of llama.cpp's server, vLLM, LM Studio and others.
    OpenAi {
        /// Address of the server, with or without `/v1`.
        base_url: String,
        /// Bearer token, if the server requires one.
        auth_token: Option<String>,
        /// Name of the model.
        model: String,
    },
    /// A plugin: a command that implements the plugin protocol.
    Command {
        /// The plugin command to run.
        command: PluginCommand,
        /// Name of the model that the plugin should use; may be empty.
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
