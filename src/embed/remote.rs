//! Embedding models on servers, and the HTTP requests to all model servers.
//!
//! [`http`] sends requests and retries them, [`ollama`] and [`openai`] implement the two protocols, [`batch`] embeds texts
//! in batches over one of them, and [`embedder`] implements the interface of an embedding model.

mod batch;
mod embedder;
mod http;
mod ollama;
mod openai;
mod rerank;
#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;

use crate::config::{EmbedBackend, EmbedConfig};
use crate::embed::embedder::Embedder;
use crate::error::{Error, Result};
use crate::model::PrivacyMode;

pub(crate) use http::{Failure, endpoint, error_from_response, post_once, read_answer, retry_after_json};
pub(crate) use ollama::{forwarded_model_error, remote_host_of_model};
pub(super) use rerank::RerankServer;

/// Opens the configured model on the configured kind of server.
///
/// # Errors
/// The errors of [`crate::embed::open`]; [`crate::error::ErrorCode::InvalidArgument`] if the configured backend is not
/// a server.
pub(crate) async fn open_server(config: &EmbedConfig, mode: PrivacyMode) -> Result<Arc<dyn Embedder>> {
    Ok(match config.backend {
        EmbedBackend::OpenAi => Arc::new(openai::open(config, mode).await?),
        EmbedBackend::Ollama => Arc::new(ollama::open(config, mode).await?),
        EmbedBackend::Onnx => {
            return Err(Error::invalid(format!(
                "VIC_EMBED_BACKEND is `{}`, which is not a server",
                config.backend.name()
            ))
            .hint("set VIC_EMBED_BACKEND to `ollama` or `openai`"));
        }
    })
}
