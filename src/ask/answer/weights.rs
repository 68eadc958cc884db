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
    4.13, -0.94, 2.51, -0.38, 1.76, 1.28, 2.14, 1.43, -1.3, 0.19, 1.41, -0.05, 2.59, 0.57, -0.45, -2.44, 0.22, 0.09,
    1.22, 2.41, 0.8, 1.0, 3.0,
];

/// The same with words alone.
const BY_WORDS: Numbers = [
    0.0, 0.16, 3.11, 0.69, 2.18, 0.7, 2.21, 2.3, -1.0, 0.01, 1.38, 0.28, 1.87, 0.74, 0.07, -2.36, -0.14, 0.02, 1.36,
    3.58, 0.8, 1.0, 3.0,
];

/// A logistic model.
struct Model {
    bias: f32,
    weights: Numbers,
}

/// Whether the quote of the best unit answers.
const RIGHT: Model = Model {
    bias: -7.0,
    weights: [
        5.0, 2.0, 1.0, 1.5, 0.5, 0.5, 0.5, 1.0, 0.8, 0.2, 0.5, -1.0, 0.5, 0.5, -2.0, -1.0, -0.5, -0.7, 0.5, 1.0, 0.8,
        1.0, 3.0,
    ],
};

/// Whether anything in the files answers.
const ANSWERABLE: Model = Model {
    bias: -5.0,
    weights: [
        5.0, 2.0, 1.0, 1.5, 0.5, 0.5, 0.5, 1.0, 0.8, 0.2, 0.5, -1.0, 0.5, 0.5, -2.0, -1.0, -0.5, -0.7, 0.5, 1.0, 0.8,
        1.0, 3.0,
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
