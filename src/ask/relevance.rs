//! Decides whether a passage is relevant to a question. If no hit is relevant, OCR may run and more files that match only by
//! name are shown. Pure functions.

use crate::ask::hit::{Evidence, RankedHit};
use crate::ask::question::Question;

/// A passage with at least this fraction of the question's words and at least [`NEAR_SIMILARITY`] is relevant.
const MIN_WORD_SHARE: f64 = 0.5;
/// Minimum similarity for [`MIN_WORD_SHARE`]. Unrelated passages stay below 0.25 with the default model.
const NEAR_SIMILARITY: f32 = 0.3;
/// A passage with at least this number of the question's words, [`NEARLY_ALL_WORD_SHARE`] of them, and [`FAR_SIMILARITY`] is
/// relevant: vectors of code and of long passages say little about a single sentence in them.
const MANY_WORDS_COUNT: usize = 4;
/// Minimum fraction of the question's words for [`MANY_WORDS_COUNT`].
const NEARLY_ALL_WORD_SHARE: f64 = 0.8;
/// Minimum similarity for [`MANY_WORDS_COUNT`].
const FAR_SIMILARITY: f32 = 0.2;
/// A passage with at least this similarity is relevant even without a word of the question.
const VERY_NEAR_SIMILARITY: f32 = 0.55;

/// Returns whether any hit is relevant to the question.
pub(super) fn any_relevant(question: &Question, hits: &[RankedHit]) -> bool {
    hits.iter().filter_map(|it| it.evidence.as_deref()).any(|it| is_relevant(question, it))
}

fn is_relevant(question: &Question, evidence: &Evidence) -> bool {
    is_relevant_by(question.words.len(), evidence.words_matched, evidence.similarity)
}

/// Decides for a passage with `matched` of the question's `words`. The similarity is `None` if only the keyword search ran.
fn is_relevant_by(words: usize, matched: usize, similarity: Option<f32>) -> bool {
    let share = matched as f64 / words.max(1) as f64;
    let Some(similarity) = similarity else { return share >= MIN_WORD_SHARE };
    let says_it = matched >= MANY_WORDS_COUNT && share >= NEARLY_ALL_WORD_SHARE;
    similarity >= VERY_NEAR_SIMILARITY
        || (share >= MIN_WORD_SHARE && similarity >= NEAR_SIMILARITY)
        || (says_it && similarity >= FAR_SIMILARITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relevance_combines_words_and_similarity() {
        for (words, matched, similarity, relevant) in [
            (4, 2, Some(0.3), true),
            (4, 1, Some(0.5), false),
            (4, 0, Some(0.6), true),
            (6, 5, Some(0.26), true),
            (6, 4, Some(0.26), false),
            (3, 3, Some(0.26), false),
            (6, 6, Some(0.1), false),
            (4, 2, None, true),
            (4, 1, None, false),
        ] {
            assert_eq!(is_relevant_by(words, matched, similarity), relevant, "{matched} of {words}, {similarity:?}");
        }
    }
}
