//! How texts go to an embedder: as many in one call as the configuration says, else as suits the backend; and to a server
//! without keys and tokens, as everything that is sent to one.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;

use crate::embed::{Embedder, Vector};
use crate::error::Result;
use crate::model::{Redaction, TokenCounter};
use crate::secrets::Censor;

/// Texts in a call at least, unless set: progress of a job moves at this grain.
const TEXTS_A_CALL: usize = 128;

/// An embedder that asks for calls of another size.
struct InCallsOf {
    texts: usize,
    /// What is blacked out in a text before the embedder sees it.
    redaction: Redaction,
    embedder: Arc<dyn Embedder>,
}

/// Lets an embedder ask for `setting` texts in a call; 0 leaves it to the embedder, within reason. Texts of files have lost
/// their keys before, unless they were indexed when nobody asked for it; questions have not.
pub(super) fn in_calls_of(setting: usize, redaction: Redaction, embedder: Arc<dyn Embedder>) -> Arc<dyn Embedder> {
    let texts = if setting == 0 { embedder.batch_size().max(TEXTS_A_CALL) } else { setting };
    Arc::new(InCallsOf { texts, redaction, embedder })
}

impl InCallsOf {
    /// A text as the embedder sees it. Each on its own: a key does not begin in one and end in another.
    fn cleaned<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Censor::new(self.redaction).clean(text)
    }

    /// The same of some, which are copied only where one of them is another then.
    fn all_cleaned<'t>(&self, texts: &'t [String]) -> Cow<'t, [String]> {
        let cleaned: Vec<Cow<'_, str>> = texts.iter().map(|it| self.cleaned(it)).collect();
        match cleaned.iter().all(|it| matches!(it, Cow::Borrowed(_))) {
            true => Cow::Borrowed(texts),
            false => Cow::Owned(cleaned.into_iter().map(Cow::into_owned).collect()),
        }
    }
}

#[async_trait]
impl Embedder for InCallsOf {
    async fn embed_documents(&self, texts: &[String]) -> Result<Vec<Vector>> {
        self.embedder.embed_documents(&self.all_cleaned(texts)).await
    }

    async fn embed_urgent(&self, texts: &[String]) -> Result<Vec<Vector>> {
        self.embedder.embed_urgent(&self.all_cleaned(texts)).await
    }

    async fn embed_query(&self, text: &str) -> Result<Vector> {
        self.embedder.embed_query(&self.cleaned(text)).await
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
