//! How many texts go to an embedder in one call: what the configuration says, else what suits the backend.

use std::sync::Arc;

use async_trait::async_trait;

use crate::embed::{Embedder, Vector};
use crate::error::Result;
use crate::model::TokenCounter;

/// Texts in a call at least, unless set: progress of a job moves at this grain.
const TEXTS_A_CALL: usize = 128;

/// An embedder that asks for calls of another size.
struct InCallsOf {
    texts: usize,
    embedder: Arc<dyn Embedder>,
}

/// Lets an embedder ask for `setting` texts in a call; 0 leaves it to the embedder, within reason.
pub(super) fn in_calls_of(setting: usize, embedder: Arc<dyn Embedder>) -> Arc<dyn Embedder> {
    let texts = if setting == 0 { embedder.batch_size().max(TEXTS_A_CALL) } else { setting };
    Arc::new(InCallsOf { texts, embedder })
}

#[async_trait]
impl Embedder for InCallsOf {
    async fn embed_documents(&self, texts: &[String]) -> Result<Vec<Vector>> {
        self.embedder.embed_documents(texts).await
    }

    async fn embed_urgent(&self, texts: &[String]) -> Result<Vec<Vector>> {
        self.embedder.embed_urgent(texts).await
    }

    async fn embed_query(&self, text: &str) -> Result<Vector> {
        self.embedder.embed_query(text).await
    }

    fn dimension(&self) -> usize {
        self.embedder.dimension()
    }

    fn max_tokens(&self) -> usize {
        self.embedder.max_tokens()
    }

    fn batch_size(&self) -> usize {
        self.texts
    }

    fn padding_waste(&self) -> Option<f64> {
        self.embedder.padding_waste()
    }

    fn fingerprint(&self) -> &str {
        self.embedder.fingerprint()
    }

    fn name(&self) -> &str {
        self.embedder.name()
    }

    fn engine(&self) -> &str {
        self.embedder.engine()
    }

    fn precision(&self) -> Option<&str> {
        self.embedder.precision()
    }

    fn token_counter(&self) -> Arc<dyn TokenCounter> {
        self.embedder.token_counter()
    }
}
