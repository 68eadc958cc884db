//! Combines the vectors of tokens to the vector of a text (pooling).

use std::sync::Arc;

use crate::embed::embedder::Vector;
use crate::embed::model_catalog::{Pooling, VectorRecipe};
use crate::embed::onnx::dense_layer::DenseLayer;
use crate::error::{Error, ErrorCode, Result};

/// Combines the token vectors of a model to vectors of texts.
#[derive(Clone)]
pub(crate) struct Pooler {
    recipe: VectorRecipe,
    /// Layer that is applied to the combined vector.
    dense: Option<Arc<DenseLayer>>,
}

impl Pooler {
    /// Creates a pooler; `dense` is the layer after pooling, if the model has one.
    pub(crate) fn new(recipe: VectorRecipe, dense: Option<Arc<DenseLayer>>) -> Pooler {
        Pooler { recipe, dense }
    }

    /// Combines the token vectors `tokens` (row-major, `width` numbers per row, no padding) to one vector, applies the
    /// dense layer, truncates the vector if the recipe says so, and normalises it.
    pub(crate) fn pool(&self, tokens: &[f32], width: usize) -> Result<Vector> {
        if width == 0 || tokens.is_empty() || !tokens.len().is_multiple_of(width) {
            return Err(Error::internal("the model returned no token vectors"));
        }
        let mut vector = match self.recipe.pooling {
            Pooling::Cls => tokens[..width].to_vec(),
            // The sum has the direction of the mean, and the vector is normalised below.
            Pooling::Mean => sum(tokens, width),
        };
        if let Some(dense) = &self.dense {
            if dense.inputs() != width {
                return Err(Error::new(
                    ErrorCode::DataLoss,
                    format!("the dense layer takes {} numbers, but the model returned {width}", dense.inputs()),
                )
                .hint("the files belong to different models: fetch them again with `vic models pull`"));
            }
            if self.recipe.pooling == Pooling::Mean {
                let count = (tokens.len() / width) as f32;
                vector.iter_mut().for_each(|it| *it /= count);
            }
            vector = dense.apply(&vector);
        }
        self.finish(vector)
    }

    /// Truncates and normalises a vector that the model has already pooled.
    pub(crate) fn finish(&self, mut vector: Vec<f32>) -> Result<Vector> {
        let kept = self.recipe.truncate_dim.unwrap_or(vector.len());
        if kept == 0 || kept > vector.len() {
            return Err(Error::internal(format!(
                "cannot truncate vectors to {kept} numbers: the model returned {}; check its `truncate_dim`",
                vector.len()
            )));
        }
        vector.truncate(kept);
        let norm = vector.iter().map(|it| f64::from(*it) * f64::from(*it)).sum::<f64>().sqrt();
        if !norm.is_finite() || norm == 0.0 {
            return Err(Error::internal("the model returned a vector with a zero or non-finite norm"));
        }
        vector.iter_mut().for_each(|it| *it = (f64::from(*it) / norm) as f32);
        Ok(vector)
    }
}

fn sum(tokens: &[f32], width: usize) -> Vec<f32> {
    let mut sum = vec![0f32; width];
    for row in tokens.chunks_exact(width) {
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::onnx::dense_layer::DenseFiles;
    use crate::embed::onnx::dense_layer::tests::write_dense;

    fn check(tokens: &[f32], width: usize, recipe: VectorRecipe, expect: &[f32]) {
        let vector = Pooler::new(recipe, None).pool(tokens, width).unwrap();
        assert_eq!(vector.len(), expect.len());
        for (got, expect) in vector.iter().zip(expect) {
            assert!((got - expect).abs() < 1e-6, "{vector:?}");
        }
    }

    #[test]
    fn mean_pooling_is_normalised() {
        check(&[3.0, 0.0, 3.0, 8.0], 2, VectorRecipe::default(), &[0.6, 0.8]);
    }

    #[test]
    fn cls_pooling_uses_first_token_only() {
        let recipe = VectorRecipe { pooling: Pooling::Cls, ..VectorRecipe::default() };
        check(&[3.0, 4.0, 100.0, 100.0], 2, recipe, &[0.6, 0.8]);
    }

    #[test]
    fn truncated_vector_is_normalised_again() {
        let recipe = VectorRecipe { truncate_dim: Some(2), ..VectorRecipe::default() };
        check(&[3.0, 4.0, 12.0], 3, recipe, &[0.6, 0.8]);
    }

    #[test]
    fn invalid_pooling_input_is_rejected() {
        let pool = |tokens: &[f32], width, recipe| Pooler::new(recipe, None).pool(tokens, width);
        let wide = VectorRecipe { truncate_dim: Some(3), ..VectorRecipe::default() };
        assert!(pool(&[1.0, 2.0], 2, wide).is_err());
        assert!(pool(&[f32::NAN, 2.0], 2, VectorRecipe::default()).is_err());
        assert!(pool(&[0.0, 0.0], 2, VectorRecipe::default()).is_err());
        assert!(pool(&[], 2, VectorRecipe::default()).is_err());
    }

    #[test]
    fn dense_layer_follows_mean_and_precedes_truncation() {
        let home = tempfile::tempdir().unwrap();
        write_dense(home.path(), 2, &[1.0, 0.0, 0.0, 2.0, 5.0, 5.0], &[1.0, 0.0, 0.0], "");
        let dense = DenseLayer::open(&DenseFiles::find(home.path()).unwrap().unwrap()).unwrap();
        let recipe = VectorRecipe { truncate_dim: Some(2), ..VectorRecipe::default() };
        let pooler = Pooler::new(recipe, Some(Arc::new(dense)));
        // The mean is (2, 2), and the layer gives (3, 4, 20).
        let vector = pooler.pool(&[1.0, 0.0, 3.0, 4.0], 2).unwrap();
        assert!((vector[0] - 0.6).abs() < 1e-6 && (vector[1] - 0.8).abs() < 1e-6, "{vector:?}");
        assert!(pooler.pool(&[1.0; 3], 3).unwrap_err().message.contains("dense layer takes 2"));
    }
}
