//! Embedding: computes the vectors of texts with a model.
//!
//! [`Embedder`] has three implementations: in process (the default; with vic's own encoder or ONNX Runtime), Ollama, and
//! OpenAI-compatible servers. This module does not depend on chunks or the store, and accesses no files except those of the
//! models. [`open`] returns the configured embedder, [`models`] manages the model files, and [`crate::egress`] checks every
//! outgoing request.

mod bert;
mod batching;
mod blocking;
mod checksums;
mod convert;
mod converted_weights;
mod e5s1;
mod embedder;
pub mod model_catalog;
mod download;
mod model_file;
pub mod models;
pub(crate) mod onnx;
mod precompiled_map;
pub(crate) mod remote;
mod reranker;
mod sample;
mod suggestion;
pub(crate) mod tokenizer;
mod unigram;
mod unigram_tokenizer;

use std::sync::Arc;

pub use crate::embed::embedder::{Embedder, Vector};
pub use crate::embed::model_catalog::{
    ModelEntry, ModelFile, ModelKind, Package, PackageFormat, Pooling, Quality, VectorRecipe,
};
pub use onnx::disable_telemetry;
pub(crate) use remote::open_server;
pub(crate) use reranker::{Reranker, RerankerSettings, open_reranker};
pub(crate) use sample::Random;
pub use sample::{sample_texts, sample_texts_with_lengths};
pub(crate) use suggestion::suggest_model;

use crate::config::{Config, EmbedBackend};
use crate::error::Result;
use crate::model::Redaction;

/// Opens the embedding model that the user has configured.
///
/// # Errors
/// A missing model or library ([`crate::error::ErrorCode::NotFound`], with the command that fetches it), an unreachable
/// server, or a privacy mode that forbids to use the server.
pub async fn open(config: &Config) -> Result<Arc<dyn Embedder>> {
    // Sets the trusted certificates for language models too: every process that sends requests to a server opens its
    // embedder first.
    if let Some(path) = &config.servers_ca {
        crate::egress::trust_certificates(path)?;
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
