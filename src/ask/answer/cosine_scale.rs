//! Normalizes the cosines of any embedding model: 0 is typical of unrelated texts, 1 of a question and its answer.
//!
//! Models differ: unrelated texts may have a cosine of 0.0 with one model and 0.7 with another. A few pairs of questions and
//! answers, embedded once for each model, calibrate the scale.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::ask::fuse::CosineCalibration;
use crate::embed::{Embedder, Vector};
use crate::error::Result;

/// Maximum time that an answer waits for the scale of a model. A longer measurement still completes, for the next answer.
const SCALE_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Questions, each with its answer. A question and the answer of another pair count as unrelated.
const CALIBRATION_PAIRS: &[(&str, &str)] = &[
    ("When does the library open on Saturdays?", "On Saturdays the library opens at ten in the morning."),
    ("Who repaired the roof of the barn?", "The roof of the barn was repaired by the carpenter from Lindale."),
    ("How much flour does the bread need?", "Take 500 g of flour for one loaf of bread."),
    ("Which train goes to the coast?", "The 8:15 train from platform two goes to the coast."),
    ("Where are the winter tyres stored?", "We keep the winter tyres in the cellar behind the boiler."),
    ("Why was the concert cancelled?", "The concert had to be called off because the singer was ill."),
    ("How do I reset the router?", "To reset the router, hold the small button for ten seconds."),
    ("What is the boiling point of ethanol?", "Ethanol boils at 78.4 degrees Celsius."),
];

/// The mean cosines of a model for unrelated texts and for questions with their answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CosineScale {
    unrelated: f32,
    answering: f32,
    /// Standard deviation of the cosines of unrelated texts.
    deviation: f32,
}

/// Cache of the scale of the model that was used last.
#[derive(Clone, Default)]
pub(crate) struct CosineScaleCache(Arc<Mutex<Option<(String, CosineScale)>>>);

impl CosineScale {
    /// Returns the place of a cosine between that of unrelated texts (0) and of a question with its answer (1), both lower
    /// with a noisy model.
    pub(crate) fn nearness(&self, cosine: f32) -> f32 {
        let calibration = self.calibration();
        calibration.nearness(calibration.apply(cosine))
    }

    /// Returns the conversion of the model's cosines for fusion and thresholds.
    pub(crate) fn calibration(&self) -> CosineCalibration {
        CosineCalibration::new(self.unrelated, self.answering, self.deviation)
    }

    fn measure(questions: &[Vector], answers: &[Vector]) -> CosineScale {
        let dot = |a: &Vector, b: &Vector| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let (mut answering, mut unrelated) = (Vec::new(), Vec::new());
        for (number, question) in questions.iter().enumerate() {
            for (other, answer) in answers.iter().enumerate() {
                let cosines = if number == other { &mut answering } else { &mut unrelated };
                cosines.push(dot(question, answer));
            }
        }
        let mean = |cosines: &[f32]| cosines.iter().sum::<f32>() / cosines.len().max(1) as f32;
        let center = mean(&unrelated);
        let squares: f32 = unrelated.iter().map(|it| (it - center).powi(2)).sum();
        let deviation = (squares / unrelated.len().saturating_sub(1).max(1) as f32).sqrt();
        CosineScale { unrelated: center, answering: mean(&answering), deviation }
    }
}

impl CosineScaleCache {
    /// Returns the scale of a model, measured once; `None` if the model fails or takes longer than `SCALE_TIMEOUT`.
    pub(crate) async fn scale_of(&self, embedder: &Arc<dyn Embedder>) -> Option<CosineScale> {
        let (scales, embedder) = (self.clone(), embedder.clone());
        let measuring = tokio::spawn(async move { scales.measure_once(embedder.as_ref()).await });
        match tokio::time::timeout(SCALE_TIMEOUT, measuring).await.ok()?.ok()? {
            Ok(scale) => Some(scale),
            Err(error) => {
                tracing::debug!("cannot measure the cosine scale of the embedding model: {error}");
                None
            }
        }
    }

    async fn measure_once(&self, embedder: &dyn Embedder) -> Result<CosineScale> {
        let name = embedder.fingerprint().to_string();
        let mut known = self.0.lock().await;
        if let Some((_, scale)) = known.as_ref().filter(|(of, _)| *of == name) {
            return Ok(*scale);
        }
        let mut questions = Vec::with_capacity(CALIBRATION_PAIRS.len());
        for (question, _) in CALIBRATION_PAIRS {
            questions.push(embedder.embed_query(question).await?);
        }
        let answers: Vec<String> = CALIBRATION_PAIRS.iter().map(|(_, answer)| (*answer).to_string()).collect();
        let scale = CosineScale::measure(&questions, &embedder.embed_urgent(&answers).await?);
        tracing::debug!(
            scale.unrelated,
            scale.answering,
            scale.deviation,
            "measured the cosines of the embedding model"
        );
        *known = Some((name, scale));
        Ok(scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_maps_unrelated_to_zero_and_answers_to_one() {
        let questions = vec![vec![1.0, 0.0], vec![0.0, 1.0]];
        let answers = vec![vec![0.8, 0.6], vec![0.6, 0.8]];
        let scale = CosineScale::measure(&questions, &answers);
        assert!(scale.nearness(0.6).abs() < 1e-6 && (scale.nearness(0.8) - 1.0).abs() < 1e-6, "{scale:?}");
    }

    #[test]
    fn deviation_is_that_of_unrelated_texts() {
        let questions = vec![vec![1.0, 0.0], vec![0.0, 1.0]];
        let scale = CosineScale::measure(&questions, &[vec![1.0, 0.1], vec![0.3, 1.0]]);
        assert!((scale.deviation - 0.02_f32.sqrt()).abs() < 1e-6, "{scale:?}");
    }

    #[test]
    fn constant_model_yields_finite_scale() {
        let scale = CosineScale::measure(&[vec![1.0], vec![1.0]], &[vec![1.0], vec![1.0]]);
        assert!(scale.nearness(1.0).is_finite());
    }
}
