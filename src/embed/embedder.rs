//! The interface of an embedding model.

use std::sync::Arc;

use crate::error::Result;
use crate::model::TokenCounter;

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
