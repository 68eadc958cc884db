//! Selects the text units to quote, and decides whether the quotes answer the question. Pure functions.

use crate::ask::answer::candidates::Candidate;
use crate::ask::answer::features::ParsedQuestion;
use crate::ask::answer::scoring;
use crate::model::AnswerOutcome;

/// Maximum number of quotes in an answer.
const MAX_QUOTES: usize = 3;
/// Maximum number of characters in all quotes together; the first quote may be longer.
const MAX_QUOTE_CHARS: usize = 490;
/// A further text unit (sentence, table row) from the same hit as the best unit is quoted if its score is at most this much
/// below the best score.
const MAX_SCORE_GAP_SAME_HIT: f32 = 2.5;
/// A text unit of another hit is quoted if its score is at most this much below the best score.
const MAX_SCORE_GAP_OTHER_HIT: f32 = 0.7;
/// Minimum probability, for the outcome `answered`, that the best quote is right; below it, quotes are related passages
/// only.
const MIN_ANSWERED_PROBABILITY: f32 = 0.14;
/// Minimum probability that the files answer the question at all; below it nothing is quoted.
const MIN_ANSWERABLE_PROBABILITY: f32 = 0.15;

/// The selected quotes and the outcome of the answer.
pub(super) struct QuoteSelection {
    pub(super) outcome: AnswerOutcome,
    pub(super) confidence: f32,
    /// Indices of the quoted candidates, best first.
    pub(super) quotes: Vec<usize>,
}

impl QuoteSelection {
    fn nothing(confidence: f32) -> QuoteSelection {
        QuoteSelection { outcome: AnswerOutcome::Nothing, confidence, quotes: Vec::new() }
    }
}

/// Selects quotes from `candidates`, best first. `parts` has both parts of a question that asks two things, else it is
/// empty.
pub(super) fn select_quotes(
    asked: &ParsedQuestion,
    parts: &[ParsedQuestion],
    candidates: &[Candidate],
) -> QuoteSelection {
    let Some(best) = candidates.first() else { return QuoteSelection::nothing(0.0) };
    let known = candidates.iter().fold(0, |all, it| all | it.known_words);
    if asked.has_unknown_code(known) {
        return QuoteSelection::nothing(0.0);
    }
    let confidence = scoring::right_probability(&best.features, best.has_cosine);
    if scoring::answerable_probability(&best.features, best.has_cosine) < MIN_ANSWERABLE_PROBABILITY {
        return QuoteSelection::nothing(confidence);
    }
    let outcome = if confidence >= MIN_ANSWERED_PROBABILITY { AnswerOutcome::Answered } else { AnswerOutcome::Passage };
    QuoteSelection { outcome, confidence, quotes: quote_indices(parts, candidates) }
}

fn quote_indices(parts: &[ParsedQuestion], candidates: &[Candidate]) -> Vec<usize> {
    let best = &candidates[0];
    let mut chosen: Vec<usize> = parts.iter().filter_map(|it| best_of_part(it, candidates)).collect();
    chosen.dedup();
    if chosen.is_empty() {
        chosen.push(0);
    }
    let mut chars: usize = chosen.iter().map(|it| candidates[*it].text.chars().count()).sum();
    for (index, candidate) in candidates.iter().enumerate() {
        if chosen.len() == MAX_QUOTES {
            break;
        }
        let least = if candidate.hit == best.hit { MAX_SCORE_GAP_SAME_HIT } else { MAX_SCORE_GAP_OTHER_HIT };
        let length = candidate.text.chars().count();
        if chosen.contains(&index) {
            continue;
        }
        let is_new = chosen.iter().all(|it: &usize| candidates[*it].text != candidate.text);
        if is_new && candidate.score >= best.score - least && chars + length <= MAX_QUOTE_CHARS {
            chosen.push(index);
            chars += length;
        }
    }
    chosen
}

/// Returns the index of the candidate that answers one part of a question best, among those from the file of the first
/// (best) candidate.
fn best_of_part(part: &ParsedQuestion, candidates: &[Candidate]) -> Option<usize> {
    let merit = |candidate: &Candidate| {
        let words = part.word_share(part.match_text(&candidate.text).words);
        candidate.score + 2.0 * part.kind_match(&candidate.text) + 2.0 * words
    };
    let same_file = candidates.iter().enumerate().filter(|(_, it)| it.hit == candidates[0].hit);
    same_file.max_by(|a, b| merit(a.1).total_cmp(&merit(b.1)).then(b.0.cmp(&a.0))).map(|it| it.0)
}
