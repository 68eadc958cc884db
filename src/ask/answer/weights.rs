//! What the numbers of a unit are worth, and how sure an answer is: two logistic models. Pure.
//!
//! `benches/answers.py fit` makes the constants from questions with known answers, and prints how well they do on those that
//! it left out.

use crate::ask::answer::evidence::{COUNT, Numbers};

/// A logistic model of a unit: whether it answers.
struct Model {
    bias: f32,
    weights: Numbers,
}

/// With the cosine of the unit.
const WITH_COSINE: Model = Model {
    bias: -7.0,
    weights: [5.0, 2.0, 1.0, 1.5, 0.5, 0.5, 0.5, 1.0, 0.8, 0.2, 0.5, -1.0, 0.5, 0.5, -2.0, -1.0, -0.5, -0.7, 0.5, 1.0],
};

/// With words alone.
const BY_WORDS: Model = Model {
    bias: -6.0,
    weights: [0.0, 3.0, 2.0, 2.0, 1.0, 0.5, 0.5, 1.0, 0.8, 0.2, 0.5, -1.0, 0.5, 0.5, -2.0, -1.0, -0.5, -0.7, 0.5, 1.0],
};

/// The probability, 0 to 1, that a unit answers, as far as its numbers tell; `has_cosine` says whether its cosine is known.
pub(super) fn probability(numbers: &Numbers, has_cosine: bool) -> f32 {
    let model = if has_cosine { &WITH_COSINE } else { &BY_WORDS };
    let sum: f32 = (0..COUNT).map(|it| model.weights[it] * numbers[it]).sum();
    logistic(model.bias + sum)
}

fn logistic(it: f32) -> f32 {
    1.0 / (1.0 + (-it).exp())
}
