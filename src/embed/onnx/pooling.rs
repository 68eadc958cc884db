//! Combines the vectors of tokens to the vector of a text (pooling).

use crate::embed::embedder::Vector;
use crate::embed::model_catalog::{Pooling, VectorRecipe};
use crate::error::{Error, Result};

/// Combines the token vectors `tokens` (row-major, `width` numbers per row, no padding) to one vector, truncates it if the
/// recipe says so, and normalises it. A single row is a vector that the model has already pooled.
pub(crate) fn pool_tokens(tokens: &[f32], width: usize, recipe: &VectorRecipe) -> Result<Vector> {
    let kept = recipe.truncate_dim.unwrap_or(width);
    if width == 0 || kept == 0 || kept > width || tokens.is_empty() || !tokens.len().is_multiple_of(width) {
        return Err(Error::internal(format!(
            "cannot truncate vectors to {kept} numbers: the model returned {width} per token; check its `truncate_dim`"
        )));
    }
    let mut vector = match recipe.pooling {
        Pooling::Cls => tokens[..kept].to_vec(),
        Pooling::Mean => {
            // Computes the sum instead of the mean, because the vector is normalised below.
            let mut sum = vec![0f32; kept];
            for row in tokens.chunks_exact(width) {
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            sum
        }
    };
    let norm = vector.iter().map(|it| f64::from(*it) * f64::from(*it)).sum::<f64>().sqrt();
    if !norm.is_finite() || norm == 0.0 {
        return Err(Error::internal("the model returned a vector with a zero or non-finite norm"));
    }
    vector.iter_mut().for_each(|it| *it = (f64::from(*it) / norm) as f32);
    Ok(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tokens: &[f32], width: usize, recipe: VectorRecipe, expect: &[f32]) {
        let vector = pool_tokens(tokens, width, &recipe).unwrap();
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
        let wide = VectorRecipe { truncate_dim: Some(3), ..VectorRecipe::default() };
        assert!(pool_tokens(&[1.0, 2.0], 2, &wide).is_err());
        assert!(pool_tokens(&[f32::NAN, 2.0], 2, &VectorRecipe::default()).is_err());
        assert!(pool_tokens(&[0.0, 0.0], 2, &VectorRecipe::default()).is_err());
    }
}
