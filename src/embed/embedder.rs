//! The trait `Embedder`, the interface of all embedding models.

use std::sync::Arc;

use crate::error::Result;
use crate::model::TokenCounter;

/// The vector of a text, with [`Embedder::dimension`] numbers and L2 norm 1.
pub type Vector = Vec<f32>;

/// An embedding model that is ready to use, shared between threads.
///
/// The vector of a text does not depend on the other texts in the call.
#[async_trait::async_trait]
pub trait Embedder: Send + Sync {
    /// Computes the vectors of passages, in order. Truncates texts longer than [`Embedder::max_tokens`].
    ///
    /// # Errors
    /// The backend cannot be reached or rejects a text, or the privacy mode forbids the request.
    async fn embed_documents(&self, texts: &[String]) -> Result<Vec<Vector>>;

    /// Computes the vectors of a few passages, in order, before other callers' passages if the backend supports priorities.
    ///
    /// # Errors
    /// The same errors as [`Embedder::embed_documents`].
    async fn embed_urgent(&self, texts: &[String]) -> Result<Vec<Vector>> {
        self.embed_documents(texts).await
    }

    /// Computes the vector of one query.
    ///
    /// # Errors
    /// The same errors as [`Embedder::embed_documents`].
    async fn embed_query(&self, text: &str) -> Result<Vector>;

    /// Returns the length of the vectors.
    fn dimension(&self) -> usize;

    /// Returns the maximum length of a text in tokens, special tokens included.
    fn max_tokens(&self) -> usize;

    /// Returns the recommended number of texts per call of [`Embedder::embed_documents`].
    fn batch_size(&self) -> usize;

    /// Returns the fraction (0 to 1) of the computed token positions that were padding; `None` if the backend does not
    /// report it.
    fn padding_waste(&self) -> Option<f64> {
        None
    }

    /// Returns the hash of everything that affects a vector: model, weights, precision, pooling, prefixes, dimension.
    /// Vectors with different fingerprints are never compared.
    fn fingerprint(&self) -> &str;

    /// Returns the display name of model and backend, e.g. `all-MiniLM-L6-v2 (onnx)`.
    fn name(&self) -> &str;

    /// Returns the name of the compute engine, which may differ between machines and affects vectors and speed.
    fn engine(&self) -> &str {
        "server"
    }

    /// Returns the precision: `int8`, `fp32`, or `as it is` for a model that comes as an `.onnx` file, which ignores
    /// the configured precision. Returns `None` if it is unknown.
    fn precision(&self) -> Option<&str> {
        None
    }

    /// Returns the fraction (0 to 1) of the tokens of a text that are in the model's vocabulary; 1 if the backend does not
    /// report it. The vector of a text with few known tokens says nothing about the text.
    fn known_share(&self, _text: &str) -> f32 {
        1.0
    }

    /// Whether a lower-case word is in the model's vocabulary, perhaps with a usual ending; true if the backend does not tell.
    fn is_word(&self, _word: &str) -> bool {
        true
    }

    /// Returns the model's tokenizer, by which the size of chunks is measured. Models on servers return an estimate.
    fn token_counter(&self) -> Arc<dyn TokenCounter>;
}
