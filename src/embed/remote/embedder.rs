//! The embedding model on a server, independent of the server's protocol.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::embed::embedder::{Embedder, Vector};
use crate::embed::remote::batch::{self, Wire};
use crate::embed::tokenizer::TokenEstimate;
use crate::error::{Error, ErrorCode, Result};
use crate::model::TokenCounter;

/// Timeout for embedding a query. If a server hangs or is still loading a model, the question is answered by keyword search
/// alone. Indexing has a longer timeout.
const QUERY_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 4 } else { 10 });

/// An embedding model on a server.
pub(super) struct RemoteEmbedder<W> {
    wire: W,
    dimension: usize,
    fingerprint: String,
    name: String,
    tokens: Arc<TokenEstimate>,
}

impl<W: Wire> RemoteEmbedder<W> {
    /// Opens a model: embeds a probe to determine the vector length, and computes the fingerprint. `backend` is the name of
    /// the kind of server.
    pub(super) async fn probe(wire: W, backend: &str, model: &str) -> Result<RemoteEmbedder<W>> {
        let tokens = Arc::new(TokenEstimate::new(batch::MAX_TOKENS));
        let probe = batch::embed_all(&wire, &[batch::PROBE.to_string()], tokens.as_ref()).await?;
        let dimension = probe[0].len();
        let weights = wire.weights().await?;
        Ok(RemoteEmbedder {
            fingerprint: fingerprint(backend, model, &weights, dimension),
            name: format!("{model} ({backend})"),
            tokens,
            wire,
            dimension,
        })
    }
}

#[async_trait]
impl<W: Wire> Embedder for RemoteEmbedder<W> {
    async fn embed_documents(&self, texts: &[String]) -> Result<Vec<Vector>> {
        let vectors = batch::embed_all(&self.wire, texts, self.tokens.as_ref()).await?;
        batch::check_dimension(&vectors, self.dimension)?;
        Ok(vectors)
    }

    async fn embed_query(&self, text: &str) -> Result<Vector> {
        let texts = [text.to_string()];
        let vectors = tokio::time::timeout(QUERY_TIMEOUT, self.embed_documents(&texts)).await;
        let mut vectors = vectors.map_err(|_| {
            let late = format!("the server of {} did not answer within {} s", self.name, QUERY_TIMEOUT.as_secs());
            Error::new(ErrorCode::DeadlineExceeded, late)
        })??;
        vectors.pop().ok_or_else(|| Error::internal("the server returned no vector for the question"))
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn max_tokens(&self) -> usize {
        batch::MAX_TOKENS
    }

    fn batch_size(&self) -> usize {
        batch::BATCH_TEXTS * batch::CONCURRENT_REQUESTS
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn token_counter(&self) -> Arc<dyn TokenCounter> {
        self.tokens.clone()
    }
}

/// Returns the fingerprint of a server's model. `weights` distinguishes models of the same name: the model's digest if the
/// server reports one, otherwise the server's address, so that another server counts as another model.
fn fingerprint(backend: &str, model: &str, weights: &str, dimension: usize) -> String {
    let all = format!("{backend}\0{model}\0{weights}\0{dimension}");
    blake3::hash(all.as_bytes()).to_hex()[..32].to_string()
}
