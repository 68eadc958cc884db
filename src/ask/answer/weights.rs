//! What the numbers of a unit are worth, and how sure an answer is. Pure.
//!
//! The units of one question are ordered by a score, a weighted sum fitted so that the units that answer come first (softmax over
//! the units of a question). How sure the best of them is two logistic models say, of the same numbers: whether its quote
//! answers, and whether anything in the files does. `benches/answers.py fit` makes the constants from questions with known
//! answers, and prints how well they do on questions that were left out.

use crate::ask::answer::evidence::{COUNT, Numbers};

/// What a cosine is taken to be where vectors are not at hand: that of a typical answer.
const TYPICAL_COSINE: f32 = 0.6;

/// Weights of the score, with the cosine of the unit.
const WITH_COSINE: Numbers = [
    4.41, -0.34, 2.26, -0.12, 1.43, 1.88, 1.83, 1.12, -1.54, -0.09, 0.92, -0.12, 2.10, 0.73, 0.00, -4.50, -0.91, -0.00,
    1.09, 2.88, 1.41, -0.07, 5.13, 0.00, 0.00, 0.00, 0.00,
];

/// The same with words alone.
const BY_WORDS: Numbers = [
    0.00, 0.77, 2.83, 1.09, 1.74, 1.11, 1.77, 2.00, -0.96, -0.24, 0.93, 0.01, 1.20, 1.03, 0.00, -4.98, -1.33, -0.15,
    1.12, 4.54, 0.69, 0.04, 4.57, 0.00, 0.00, 0.00, 0.00,
];

/// A logistic model.
struct Model {
    bias: f32,
    weights: Numbers,
}

/// Whether the quote of the best unit answers.
const RIGHT: Model = Model {
    bias: -7.08,
    weights: [
        1.28, -0.85, 2.27, -0.76, 0.39, 1.65, 1.13, -0.83, 0.09, -1.42, 1.16, -4.35, -0.76, 0.91, 0.00, 0.00, -0.27,
        0.17, 1.99, 5.39, 0.66, -1.00, 1.48, 0.00, 0.00, 0.00, 0.00,
    ],
};

/// Whether anything in the files answers.
const ANSWERABLE: Model = Model {
    bias: -5.93,
    weights: [
        1.88, -0.97, 1.57, 0.39, 0.03, 1.27, 0.57, -0.90, -0.84, -0.83, 1.87, -5.36, -1.07, -0.63, 0.00, 0.00, 3.99,
        0.10, -0.06, 8.82, 0.97, -1.41, 4.34, 0.00, 0.00, 0.00, 0.00,
    ],
};

/// How much speaks for a unit, comparable among the units of one question; `has_cosine` says whether its cosine is known.
pub(super) fn score(numbers: &Numbers, has_cosine: bool) -> f32 {
    sum(if has_cosine { &WITH_COSINE } else { &BY_WORDS }, numbers)
}

/// The probability, 0 to 1, that the quote of the best unit answers.
pub(super) fn right(numbers: &Numbers, has_cosine: bool) -> f32 {
    RIGHT.probability(numbers, has_cosine)
}

/// The probability, 0 to 1, that anything in the files answers, by the numbers of the best unit.
pub(super) fn answerable(numbers: &Numbers, has_cosine: bool) -> f32 {
    ANSWERABLE.probability(numbers, has_cosine)
}

impl Model {
    fn probability(&self, numbers: &Numbers, has_cosine: bool) -> f32 {
        let mut numbers = *numbers;
        if !has_cosine {
            (numbers[0], numbers[1]) = (TYPICAL_COSINE, TYPICAL_COSINE);
        }
        1.0 / (1.0 + (-self.bias - sum(&self.weights, &numbers)).exp())
    }
}

fn sum(weights: &Numbers, numbers: &Numbers) -> f32 {
    (0..COUNT).map(|it| weights[it] * numbers[it]).sum()
}
