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
    4.21, -0.94, 1.33, 0.66, 1.40, 1.41, 2.11, -0.04, -1.41, -0.05, 0.85, 0.03, 1.98, 0.87, -4.38, -1.23, 0.11, 1.00,
    3.96, 1.43, 0.50, 4.49, 1.04, 0.18, 0.06,
];

/// The same with words alone.
const BY_WORDS: Numbers = [
    0.00, 0.37, 3.64, 1.93, 1.74, 0.65, 2.17, 0.25, -0.98, -0.11, 0.95, 0.07, 1.24, 1.21, -4.58, -1.64, 0.03, 1.04,
    5.36, 0.88, 0.55, 3.80, -1.00, 0.51, -0.33,
];

/// A logistic model.
struct Model {
    bias: f32,
    weights: Numbers,
}

/// Whether the quote of the best unit answers.
const RIGHT: Model = Model {
    bias: -8.32,
    weights: [
        2.40, -0.44, 1.70, -1.43, -0.94, -0.16, 0.88, -0.50, -0.33, -0.84, 1.38, -2.10, 0.05, 0.25, 0.00, -0.95, 0.17,
        2.03, 5.26, 1.47, -2.12, 1.27, 1.12, 0.65, 0.45,
    ],
};

/// Whether anything in the files answers.
const ANSWERABLE: Model = Model {
    bias: -6.52,
    weights: [
        1.66, 1.04, 0.95, 0.03, -1.24, -1.77, 0.70, -0.88, -0.77, 0.05, 1.12, -3.21, -0.47, -0.03, 0.00, 4.64, -0.36,
        0.76, 6.25, 1.05, -1.97, 4.50, 1.98, -0.25, 2.14,
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
