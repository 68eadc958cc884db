//! Turns texts into vectors.
//!
//! [`Embedder`] has three implementations: in process (the default; by vic's own encoder or ONNX Runtime), Ollama, and
//! OpenAI-compatible servers. This module does not depend on chunks or the store, and touches no files except those of
//! the models. [`open`] returns the configured embedder, [`models`] manages the model files, and [`egress`] checks
//! every outgoing request.

pub(crate) mod redact_hosts;
mod bert;
mod batching;
pub mod egress;
mod model_catalog;
mod download;
pub mod models;
pub(crate) mod onnx;
pub(crate) mod remote;
mod sample;
pub(crate) mod tokenizer;

use std::sync::Arc;

pub use crate::embed::model_catalog::{ModelEntry, ModelFile, ModelKind, Pooling, VectorRecipe};
pub use onnx::disable_telemetry;
pub(crate) use sample::Random;
pub use sample::{sample_texts, sample_texts_with_lengths};

use crate::config::{Config, EmbedBackend, EmbedConfig};
use crate::error::Result;
use crate::model::{PrivacyMode, Redaction, TokenCounter};

/// A vector: as long as [`Embedder::dimension`], L2 norm 1.
pub type Vector = Vec<f32>;

/// An embedding model, ready to use. Shared by all threads.
///
/// The vector of a text does not depend on the other texts in the call.
#[async_trait::async_trait]
pub trait Embedder: Send + Sync {
    /// Embeds passages and returns their vectors in order. Cuts texts longer than [`Embedder::max_tokens`].
    ///
    /// # Errors
    /// The backend cannot be reached or refuses the text, or the privacy mode forbids the request.
    async fn embed_documents(&self, texts: &[String]) -> Result<Vec<Vector>>;

    /// Embeds a few passages, in order, ahead of other callers' passages if the backend supports priorities.
    ///
    /// # Errors
    /// As [`Embedder::embed_documents`].
    async fn embed_urgent(&self, texts: &[String]) -> Result<Vec<Vector>> {
        self.embed_documents(texts).await
    }

    /// Embeds one query.
    ///
    /// # Errors
    /// As [`Embedder::embed_documents`].
    async fn embed_query(&self, text: &str) -> Result<Vector>;

    /// Returns the length of the vectors.
    fn dimension(&self) -> usize;

    /// Returns the longest text in tokens, special tokens included.
    fn max_tokens(&self) -> usize;

    /// Returns the recommended number of texts per call.
    fn batch_size(&self) -> usize;

    /// Returns the share of computed positions that was padding, 0 to 1; `None` if the backend does not report it.
    fn padding_waste(&self) -> Option<f64> {
        None
    }

    /// Identifies everything that affects a vector: model, weights, precision, pooling, prefixes, dimension. Vectors
    /// with different fingerprints are never compared.
    fn fingerprint(&self) -> &str;

    /// Returns the display name of model and backend, e.g. `all-MiniLM-L6-v2 (onnx)`.
    fn name(&self) -> &str;

    /// Returns the compute engine. It differs between machines and affects vectors and speed.
    fn engine(&self) -> &str {
        "server"
    }

    /// Returns the precision: `int8`, `fp32`, or `as it is` for a ready-made network, which ignores the setting. `None`
    /// if it is unknown.
    fn precision(&self) -> Option<&str> {
        None
    }

    /// Returns the model's tokenizer, which sizes chunks. Remote models return an approximation.
    fn token_counter(&self) -> Arc<dyn TokenCounter>;
}

/// Opens the configured embedder.
///
/// # Errors
/// A missing model or library ([`crate::error::ErrorCode::NotFound`], with the command that fetches it), an unreachable
/// server, or a privacy mode that forbids it.
pub async fn open(config: &Config) -> Result<Arc<dyn Embedder>> {
    // Language models need this too: every process that sends requests to a server opens its embedder first.
    if let Some(path) = &config.servers_ca {
        egress::trust_certificates(path)?;
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
    Ok(batching::with_batch_size(config.embed.batch, redaction, embedder))
}

/// Opens a model on a server: OpenAI-compatible if configured, otherwise Ollama.
///
/// # Errors
/// As [`open`].
pub(crate) async fn open_server(config: &EmbedConfig, mode: PrivacyMode) -> Result<Arc<dyn Embedder>> {
    Ok(match config.backend {
        EmbedBackend::OpenAi => Arc::new(remote::openai::open(config, mode).await?),
        EmbedBackend::Ollama | EmbedBackend::Onnx => Arc::new(remote::ollama::open(config, mode).await?),
    })
}
