//! Texts to vectors.
//!
//! [`Embedder`] has three implementations: in process (the default; by vic's own encoder or ONNX Runtime), Ollama and
//! OpenAI-compatible servers.
//! Nothing here knows of chunks or the store, and no file is touched but those of the models. [`open`] gives the embedder
//! that the configuration asks for; [`models`] keeps the models on disk; [`egress`] is the gate for whatever is sent.

pub(crate) mod addresses;
mod bert;
mod calls;
pub mod egress;
mod entry;
mod fetch;
pub mod models;
mod ollama;
pub(crate) mod onnx;
mod openai;
pub(crate) mod remote;
mod sample;
mod served;
pub(crate) mod tokens;

#[cfg(test)]
mod remote_tests;

use std::sync::Arc;

pub use entry::{ModelEntry, ModelFile, ModelKind, Pooling, VectorRecipe};
pub use onnx::disable_telemetry;
pub(crate) use sample::Random;
pub use sample::{sample_texts, sample_texts_of};

use crate::config::{Config, EmbedBackend, EmbedConfig};
use crate::error::Result;
use crate::model::{PrivacyMode, Redaction, TokenCounter};

/// A vector: as long as [`Embedder::dimension`], L2 norm 1.
pub type Vector = Vec<f32>;

/// An embedding model, ready to use. Shared by all threads.
///
/// The same text gives the same vector whatever other texts are in the call.
#[async_trait::async_trait]
pub trait Embedder: Send + Sync {
    /// Embeds passages, in order. Texts longer than [`Embedder::max_tokens`] are cut.
    ///
    /// # Errors
    /// The backend cannot be reached, refuses the text, or the privacy mode forbids it.
    async fn embed_documents(&self, texts: &[String]) -> Result<Vec<Vector>>;

    /// Embeds a few passages, in order, before those of other callers where the backend can tell them apart.
    ///
    /// # Errors
    /// As [`Embedder::embed_documents`].
    async fn embed_urgent(&self, texts: &[String]) -> Result<Vec<Vector>> {
        self.embed_documents(texts).await
    }

    /// Embeds one question.
    ///
    /// # Errors
    /// As [`Embedder::embed_documents`].
    async fn embed_query(&self, text: &str) -> Result<Vector>;

    /// Length of the vectors.
    fn dimension(&self) -> usize;

    /// Longest text in tokens, special tokens included.
    fn max_tokens(&self) -> usize;

    /// Texts worth handing over in one call.
    fn batch_size(&self) -> usize;

    /// Share of the positions computed so far that was padding, 0 to 1; none where the backend does not tell.
    fn padding_waste(&self) -> Option<f64> {
        None
    }

    /// Identifies everything that shapes a vector: model, weights, precision, pooling, prefixes, dimension. Vectors of
    /// different fingerprints are never compared.
    fn fingerprint(&self) -> &str;

    /// The model and backend as people call it, e.g. `all-MiniLM-L6-v2 (onnx)`.
    fn name(&self) -> &str;

    /// What computes, where that can differ from machine to machine and shapes vectors and speed.
    fn engine(&self) -> &str {
        "server"
    }

    /// In what precision it computes: `int8`, `fp32`, or `as it is` for a network that came ready-made, whatever is asked for.
    /// None where that is not ours to know.
    fn precision(&self) -> Option<&str> {
        None
    }

    /// The model's own tokenizer, to size chunks. Remote models give an approximation.
    fn token_counter(&self) -> Arc<dyn TokenCounter>;
}

/// Opens the embedder that the configuration asks for.
///
/// # Errors
/// A model or library that is missing ([`crate::error::ErrorCode::NotFound`], with the command that fetches it), a server
/// that cannot be reached, or a privacy mode that forbids it.
pub async fn open(config: &Config) -> Result<Arc<dyn Embedder>> {
    // Also for language models: every process that asks a server has opened its embedder first.
    if let Some(path) = &config.servers_ca {
        egress::trust(path)?;
    }
    let (embedder, redaction): (Arc<dyn Embedder>, _) = match config.embed.backend {
        EmbedBackend::Onnx => {
            let store = models::ModelStore::new(config.model_dirs.clone());
            (Arc::new(onnx::OnnxEmbedder::open(store, config.embed.clone()).await?), Redaction::None)
        }
        EmbedBackend::Ollama | EmbedBackend::OpenAi => {
            (open_server(&config.embed, config.privacy_mode).await?, config.limits.redaction)
        }
    };
    Ok(calls::in_calls_of(config.embed.batch, redaction, embedder))
}

/// Opens a model on a server: the OpenAI-compatible one, or else Ollama's.
///
/// # Errors
/// As [`open`].
pub(crate) async fn open_server(config: &EmbedConfig, mode: PrivacyMode) -> Result<Arc<dyn Embedder>> {
    Ok(match config.backend {
        EmbedBackend::OpenAi => Arc::new(openai::open(config, mode).await?),
        EmbedBackend::Ollama | EmbedBackend::Onnx => Arc::new(ollama::open(config, mode).await?),
    })
}
