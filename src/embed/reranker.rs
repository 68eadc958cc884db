//! Rerankers: models that read a question together with each passage, which is slower but more exact than comparing
//! vectors.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt};
use tokio::time::Instant;

use crate::config::{Config, EmbedConfig, RerankConfig};
use crate::embed::blocking::blocking;
use crate::embed::models::ModelStore;
use crate::embed::onnx::cross_encoder::CrossEncoder;
use crate::embed::remote::RerankServer;
use crate::error::Result;
use crate::model::{PrivacyMode, Redaction};
use crate::secrets::Redactor;

/// Number of passages that are queued at once, so that both threads of a model in process always have work.
const PASSAGES_IN_FLIGHT: usize = 4;

/// A model that judges how well passages answer a question.
#[async_trait]
pub(crate) trait Reranker: Send + Sync {
    /// Returns for each passage how well it answers the question: higher is better, 0 to 1 for models in process. Passages
    /// are judged in order; `None` if the time `most` ended before.
    ///
    /// # Errors
    /// The model fails, a server cannot be reached in time, or `mode` forbids to send text to it.
    async fn judge(
        &self,
        question: &str,
        passages: &[String],
        mode: PrivacyMode,
        most: Duration,
    ) -> Result<Vec<Option<f32>>>;

    /// Returns the name of the model.
    fn name(&self) -> &str;
}

/// The settings with which a reranker is opened.
#[derive(Clone)]
pub(crate) struct RerankerSettings {
    rerank: RerankConfig,
    embed: EmbedConfig,
    models: ModelStore,
    redaction: Redaction,
}

impl RerankerSettings {
    /// Returns the configured settings; `None` if the user configures no reranker.
    pub(crate) fn from_config(config: &Config) -> Option<RerankerSettings> {
        let rerank = config.rerank.clone();
        (rerank.model.is_some() || rerank.url.is_some()).then(|| RerankerSettings {
            rerank,
            embed: config.embed.clone(),
            models: ModelStore::new(config.model_dirs.clone()),
            redaction: config.limits.redaction,
        })
    }

    /// Returns the time limit of one question.
    pub(crate) fn time_limit(&self) -> Duration {
        Duration::from_millis(self.rerank.milliseconds.into())
    }
}

/// Opens the configured reranker.
///
/// # Errors
/// The files of the model are missing, damaged, or those of a model that is no cross-encoder of the BERT family.
pub(crate) async fn open_reranker(settings: RerankerSettings) -> Result<Arc<dyn Reranker>> {
    let RerankerSettings { rerank, embed, models, redaction } = settings;
    if let Some(url) = &rerank.url {
        return Ok(Arc::new(ServerReranker { server: RerankServer::new(url, &rerank), redaction }));
    }
    let model = rerank.model.unwrap_or_default();
    Ok(Arc::new(blocking(move || CrossEncoder::open(&models, &embed, &model)).await?))
}

#[async_trait]
impl Reranker for CrossEncoder {
    async fn judge(
        &self,
        question: &str,
        passages: &[String],
        _mode: PrivacyMode,
        most: Duration,
    ) -> Result<Vec<Option<f32>>> {
        let end = Instant::now() + most;
        let asked: Vec<_> = passages.iter().map(|it| self.relevance(question, it)).collect();
        let mut judged = std::pin::pin!(stream::iter(asked).buffered(PASSAGES_IN_FLIGHT));
        let mut found = Vec::with_capacity(passages.len());
        while let Ok(Some(relevance)) = tokio::time::timeout_at(end, judged.next()).await {
            found.push(Some(relevance?));
        }
        found.resize(passages.len(), None);
        Ok(found)
    }

    fn name(&self) -> &str {
        CrossEncoder::name(self)
    }
}

/// A reranker on a server; secrets are redacted in what it receives.
struct ServerReranker {
    server: RerankServer,
    redaction: Redaction,
}

#[async_trait]
impl Reranker for ServerReranker {
    async fn judge(
        &self,
        question: &str,
        passages: &[String],
        mode: PrivacyMode,
        most: Duration,
    ) -> Result<Vec<Option<f32>>> {
        let redact = |text: &str| Redactor::new(self.redaction).redact(text).into_owned();
        let passages: Vec<String> = passages.iter().map(|it| redact(it)).collect();
        let found = self.server.judge(&redact(question), &passages, mode, most).await?;
        Ok(found.into_iter().map(Some).collect())
    }

    fn name(&self) -> &str {
        self.server.name()
    }
}
