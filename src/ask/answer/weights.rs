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
    3.58, 0.00, 2.00, 0.00, 1.42, 1.69, 2.12, 0.00, 0.31, -1.50, 1.94, 0.70, -5.31, -1.65, 0.00, 1.07, 2.76, 0.39,
    0.04, 4.83, 0.60, 0.13, 0.39,
];

/// The same with words alone.
const BY_WORDS: Numbers = [
    0.00, 0.37, 3.04, 1.35, 2.01, 0.63, 2.18, 0.17, 0.50, -1.50, 1.32, 0.88, -5.65, -2.07, 0.00, 1.06, 5.52, 0.19,
    0.16, 4.13, 0.00, 0.00, 0.06,
];

/// A logistic model.
struct Model {
    bias: f32,
    weights: Numbers,
}

/// Whether the quote of the best unit answers. The bias is lowered by 1 (`CAUTION` in `benches/answers.py`), so that a wrong
/// quote seldom has more than 0.7 where files and questions differ from those of the fit.
const RIGHT: Model = Model {
    bias: -8.00,
    weights: [
        1.67, 0.37, 0.53, 0.00, 0.00, 0.00, 1.11, 0.00, 0.30, -1.50, -0.56, 0.53, 0.00, -0.57, 0.00, 1.51, 3.97, 1.02,
        0.00, 1.10, 0.75, 0.00, 0.40,
    ],
};

/// Whether anything in the files answers.
const ANSWERABLE: Model = Model {
    bias: -6.09,
    weights: [
        1.09, 1.57, 0.00, 0.00, 0.00, 0.00, 0.44, 0.00, 0.48, -1.50, 0.76, 0.04, 0.00, 0.00, 0.00, 0.19, 4.27, 0.79,
        0.00, 4.07, 0.87, 0.00, 1.49,
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
