//! Reranks the best hits with a model that reads the question together with each passage, if one is configured.
//!
//! The order of the judged hits is that of `(1 - w) * score + w * relevance`, where the score is that of the fused search and
//! the relevance is 0 to 1. The places keep their scores, so that scores and thresholds mean the same with and without a
//! reranker. The time is limited: hits that the model does not reach stay behind those that it judges.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::OnceCell;

use crate::ask::hit::RankedHit;
use crate::ask::question::Question;
use crate::config::Config;
use crate::embed::{Reranker, RerankerSettings, open_reranker};
use crate::error::{Error, ErrorCode, Result};

/// Maximum number of hits that the model judges.
pub(super) const RERANKED_HITS: usize = 20;
/// Weight of the model's relevance against the fused score. Not measured: the weights of a real reranker were not at hand.
const MODEL_WEIGHT: f64 = 0.5;

/// The configured reranker, which is opened at the first question.
#[derive(Clone)]
pub(super) struct ModelReranking {
    settings: RerankerSettings,
    opened: Arc<OnceCell<Arc<dyn Reranker>>>,
}

impl ModelReranking {
    /// Returns the configured reranker; `None` if the user configures none.
    pub(super) fn from_config(config: &Config) -> Option<ModelReranking> {
        RerankerSettings::from_config(config).map(|settings| ModelReranking { settings, opened: Arc::default() })
    }

    /// Returns the model. Opens it at the first call; a question does not wait for that longer than for a reranking.
    async fn model(&self) -> Result<Arc<dyn Reranker>> {
        if let Some(model) = self.opened.get() {
            return Ok(model.clone());
        }
        let (opened, settings) = (self.opened.clone(), self.settings.clone());
        let opening = tokio::spawn(async move { opened.get_or_try_init(|| open_reranker(settings)).await.cloned() });
        match tokio::time::timeout(self.settings.time_limit(), opening).await {
            Ok(model) => model.map_err(Error::internal)?,
            Err(_) => Err(Error::new(ErrorCode::Unavailable, "the reranker is still being loaded")),
        }
    }
}

/// Reranks the best hits.
///
/// # Errors
/// The model cannot be opened, fails, or is too slow; the order of the hits is unchanged.
pub(super) async fn rerank_hits(reranking: &ModelReranking, question: &Question, hits: &mut [RankedHit]) -> Result<()> {
    // Copies of other files come last, although their scores are high, and stay there.
    let mut least = f64::INFINITY;
    let sorted = hits.iter().take_while(|it| std::mem::replace(&mut least, it.hit.score) >= it.hit.score);
    let texts = sorted.take(RERANKED_HITS).map_while(|it| Some(it.evidence.as_ref()?.chunk.text.clone()));
    let passages: Vec<String> = texts.collect();
    if passages.len() < 2 {
        return Ok(());
    }
    let model = reranking.model().await?;
    let limit = reranking.settings.time_limit();
    let judged = model.judge(&question.plan.raw_user_text, &passages, question.privacy, limit).await?;
    let relevance: Vec<f64> = judged.into_iter().map_while(|it| it.map(f64::from)).collect();
    if relevance.is_empty() {
        let text = format!("{} judged no passage within {} ms", model.name(), limit.as_millis());
        return Err(Error::new(ErrorCode::Unavailable, text).hint("set VIC_RERANK_MS to a longer time"));
    }
    order_by_relevance(hits, &as_shares(relevance), model.name(), question.explain);
    Ok(())
}

/// Converts the values of a server to 0 to 1: logits by the logistic function, all other values as they are.
fn as_shares(relevance: Vec<f64>) -> Vec<f64> {
    match relevance.iter().all(|it| (0.0..=1.0).contains(it)) {
        true => relevance,
        false => relevance.into_iter().map(|it| 1.0 / (1.0 + (-it).exp())).collect(),
    }
}

/// Orders the first hits by score and relevance; the places keep their scores.
fn order_by_relevance(hits: &mut [RankedHit], relevance: &[f64], model: &str, explain: bool) {
    let judged = &mut hits[..relevance.len()];
    let scores: Vec<f64> = judged.iter().map(|it| it.hit.score).collect();
    let mut blended: Vec<(f64, RankedHit)> = Vec::with_capacity(judged.len());
    for (found, relevance) in judged.iter().zip(relevance) {
        let mut found = found.clone();
        let merit = (1.0 - MODEL_WEIGHT) * found.hit.score + MODEL_WEIGHT * relevance;
        found.hit.reasoning.push_str(&format!("; relevance {relevance:.2} by {model}"));
        if explain && let Some(explanation) = found.hit.metadata.get_mut("explain").and_then(|it| it.as_object_mut()) {
            let formula =
                "(1 - weight) * score + weight * relevance orders the judged hits; the places keep their scores";
            let rerank = json!({ "formula": formula, "model": model, "weight": MODEL_WEIGHT, "relevance": relevance,
                "score": found.hit.score, "blended": merit });
            explanation.insert("rerank".into(), rerank);
        }
        blended.push((merit, found));
    }
    blended.sort_by(|a, b| b.0.total_cmp(&a.0));
    for ((place, (_, found)), score) in judged.iter_mut().zip(blended).zip(scores) {
        *place = found;
        place.hit.score = score;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_become_shares_and_shares_stay() {
        assert_eq!(as_shares(vec![0.0, 0.5, 1.0]), [0.0, 0.5, 1.0]);
        let shares = as_shares(vec![-8.0, 0.0, 8.0]);
        assert!(shares[0] < 0.01 && (shares[1] - 0.5).abs() < 1e-9 && shares[2] > 0.99, "{shares:?}");
    }
}
