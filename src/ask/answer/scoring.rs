//! Turns the features of a text unit into a score, and estimates the confidence of an answer. Pure functions.
//!
//! A score ranks the units of one question. It is a weighted sum of features, fitted with a softmax over the units so that
//! answering units come first. Two logistic models of the same features rate the best unit: the probability that its quote
//! answers the question, and that anything in the files does. `benches/answers.py fit` computes the constants from questions
//! with known answers, and prints the quality on held-out questions.

use crate::ask::answer::features::{FEATURE_COUNT, Features};

/// Cosine that the logistic models assume for a unit without a vector: that of a typical answer.
const TYPICAL_COSINE: f32 = 0.6;

/// Weight of each feature, in the order of `FEATURE_NAMES`, in the score of a unit whose cosine is known.
const WITH_COSINE: Features = [
    3.58, 0.00, 2.00, 0.00, 1.42, 1.69, 2.12, 0.00, 0.31, -1.50, 1.94, 0.70, -5.31, -1.65, 0.00, 1.07, 2.76, 0.39,
    0.04, 4.83, 0.60, 0.13, 0.39,
];

/// Weight of each feature, in the order of `FEATURE_NAMES`, in the score of a unit that was not embedded.
const WITHOUT_COSINE: Features = [
    0.00, 0.37, 3.04, 1.35, 2.01, 0.63, 2.18, 0.17, 0.50, -1.50, 1.32, 0.88, -5.65, -2.07, 0.00, 1.06, 5.52, 0.19,
    0.16, 4.13, 0.00, 0.00, 0.06,
];

/// A logistic regression model of the features.
struct LogisticModel {
    bias: f32,
    weights: Features,
}

/// Model that estimates the probability that a quote of the best unit answers the question.
const RIGHT_MODEL: LogisticModel = LogisticModel {
    bias: -8.00,
    weights: [
        1.67, 0.37, 0.53, 0.00, 0.00, 0.00, 1.11, 0.00, 0.30, -1.50, -0.56, 0.53, 0.00, -0.57, 0.00, 1.51, 3.97, 1.02,
        0.00, 1.10, 0.75, 0.00, 0.40,
    ],
};

/// Model that estimates the probability that any text in the files answers the question.
const ANSWERABLE_MODEL: LogisticModel = LogisticModel {
    bias: -6.09,
    weights: [
        1.09, 1.57, 0.00, 0.00, 0.00, 0.00, 0.44, 0.00, 0.48, -1.50, 0.76, 0.04, 0.00, 0.00, 0.00, 0.19, 4.27, 0.79,
        0.00, 4.07, 0.87, 0.00, 1.49,
    ],
};

/// Returns the score of a text unit, comparable among the units of one question. `has_cosine` tells whether its cosine is
/// known.
pub(super) fn unit_score(numbers: &Features, has_cosine: bool) -> f32 {
    weighted_sum(if has_cosine { &WITH_COSINE } else { &WITHOUT_COSINE }, numbers)
}

/// Returns the probability, 0 to 1, that the quote of the best unit answers the question.
pub(super) fn right_probability(numbers: &Features, has_cosine: bool) -> f32 {
    RIGHT_MODEL.probability(numbers, has_cosine)
}

/// Returns the probability, 0 to 1, that anything in the files answers the question, by the features of the best unit.
pub(super) fn answerable_probability(numbers: &Features, has_cosine: bool) -> f32 {
    ANSWERABLE_MODEL.probability(numbers, has_cosine)
}

impl LogisticModel {
    fn probability(&self, numbers: &Features, has_cosine: bool) -> f32 {
        let mut numbers = *numbers;
        if !has_cosine {
            (numbers[0], numbers[1]) = (TYPICAL_COSINE, TYPICAL_COSINE);
        }
        1.0 / (1.0 + (-self.bias - weighted_sum(&self.weights, &numbers)).exp())
    }
}

fn weighted_sum(weights: &Features, numbers: &Features) -> f32 {
    (0..FEATURE_COUNT).map(|it| weights[it] * numbers[it]).sum()
}
