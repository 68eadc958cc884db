//! Wraps an embedder, to set the recommended number of texts per call, and to redact secrets in texts that are sent to a
//! server.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;

use crate::embed::embedder::{Embedder, Vector};
use crate::error::Result;
use crate::model::{Redaction, TokenCounter};
use crate::secrets::Redactor;

/// Default minimum number of texts per call; a size that the user configures may be smaller. The progress of a job
/// advances in steps of this size.
const MIN_TEXTS_PER_CALL: usize = 128;

/// Wraps `embedder`: reports `texts` as its batch size, and redacts secrets in every text.
struct BatchingEmbedder {
    texts: usize,
    /// Which secrets are redacted before the embedder receives a text.
    redaction: Redaction,
    embedder: Arc<dyn Embedder>,
}

/// Sets the batch size of an embedder to `setting` texts; 0 keeps the embedder's own, but at least
/// [`MIN_TEXTS_PER_CALL`]. Also redacts secrets, because queries arrive unredacted, and file texts were redacted only
/// if redaction was on when they were indexed.
pub(super) fn with_batch_size(setting: usize, redaction: Redaction, embedder: Arc<dyn Embedder>) -> Arc<dyn Embedder> {
    let texts = if setting == 0 { embedder.batch_size().max(MIN_TEXTS_PER_CALL) } else { setting };
    Arc::new(BatchingEmbedder { texts, redaction, embedder })
}

impl BatchingEmbedder {
    /// Redacts one text. Each text is redacted on its own, because a secret never spans two texts.
    fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Redactor::new(self.redaction).redact(text)
    }

    /// Redacts several texts; copies them only if at least one of them changed.
    fn redact_all<'t>(&self, texts: &'t [String]) -> Cow<'t, [String]> {
        let cleaned: Vec<Cow<'_, str>> = texts.iter().map(|it| self.redact(it)).collect();
        match cleaned.iter().all(|it| matches!(it, Cow::Borrowed(_))) {
            true => Cow::Borrowed(texts),
            false => Cow::Owned(cleaned.into_iter().map(Cow::into_owned).collect()),
        }
    }
}

#[async_trait]
impl Embedder for BatchingEmbedder {
    async fn embed_documents(&self, texts: &[String]) -> Result<Vec<Vector>> {
        self.embedder.embed_documents(&self.redact_all(texts)).await
    }

    async fn embed_urgent(&self, texts: &[String]) -> Result<Vec<Vector>> {
        self.embedder.embed_urgent(&self.redact_all(texts)).await
    }

    async fn embed_query(&self, text: &str) -> Result<Vector> {
        self.embedder.embed_query(&self.redact(text)).await
    }

    fn dimension(&self) -> usize {
        self.embedder.dimension()
    }

    fn known_share(&self, text: &str) -> f32 {
        self.embedder.known_share(text)
    }

    fn is_word(&self, word: &str) -> bool {
        self.embedder.is_word(word)
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
