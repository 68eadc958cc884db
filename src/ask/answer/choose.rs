//! Which units are quoted, and how far they answer. Pure.

use crate::ask::answer::candidates::Candidate;
use crate::ask::answer::evidence::Asked;
use crate::ask::answer::weights;
use crate::model::AnswerOutcome;

/// Quotes of an answer at most.
const QUOTES: usize = 3;
/// Characters of all quotes; the first may be longer.
const CHARS: usize = 490;
/// A further quote of the same hit has a score at most this far below the best.
const BESIDE: f32 = 2.5;
/// The same of another hit.
const BESIDE_OTHER: f32 = 0.7;
/// From this probability of a right quote on the quotes answer; below it they show where to look.
const ANSWERED: f32 = 0.14;
/// Below this probability that anything answers nothing does.
const ANSWERABLE: f32 = 0.15;

/// What is quoted.
pub(super) struct Choice {
    pub(super) outcome: AnswerOutcome,
    pub(super) confidence: f32,
    /// Places in the candidates, best first.
    pub(super) quotes: Vec<usize>,
}

impl Choice {
    fn nothing(confidence: f32) -> Choice {
        Choice { outcome: AnswerOutcome::Nothing, confidence, quotes: Vec::new() }
    }
}

/// Chooses among candidates, best first.
/// `parts` are the parts of a question that asks for two things, else empty.
pub(super) fn choose(asked: &Asked, parts: &[Asked], candidates: &[Candidate]) -> Choice {
    let Some(best) = candidates.first() else { return Choice::nothing(0.0) };
    let known = candidates.iter().fold(0, |all, it| all | it.known);
    if asked.has_unknown_code(known) {
        return Choice::nothing(0.0);
    }
    let confidence = weights::right(&best.numbers, best.has_cosine);
    if weights::answerable(&best.numbers, best.has_cosine) < ANSWERABLE {
        return Choice::nothing(confidence);
    }
    let outcome = if confidence >= ANSWERED { AnswerOutcome::Answered } else { AnswerOutcome::Passage };
    Choice { outcome, confidence, quotes: quotes(parts, candidates) }
}

fn quotes(parts: &[Asked], candidates: &[Candidate]) -> Vec<usize> {
    let best = &candidates[0];
    let mut chosen: Vec<usize> = parts.iter().filter_map(|it| best_of_part(it, candidates)).collect();
    chosen.dedup();
    if chosen.is_empty() {
        chosen.push(0);
    }
    let mut chars: usize = chosen.iter().map(|it| candidates[*it].text.chars().count()).sum();
    for (index, candidate) in candidates.iter().enumerate() {
        if chosen.len() == QUOTES {
            break;
        }
        let least = if candidate.hit == best.hit { BESIDE } else { BESIDE_OTHER };
        let length = candidate.text.chars().count();
        if chosen.contains(&index) {
            continue;
        }
        let is_new = chosen.iter().all(|it: &usize| candidates[*it].text != candidate.text);
        if is_new && candidate.score >= best.score - least && chars + length <= CHARS {
            chosen.push(index);
            chars += length;
        }
    }
    chosen
}

/// The candidate that answers one part of a question: of the file of the best, with what the part asks for.
fn best_of_part(part: &Asked, candidates: &[Candidate]) -> Option<usize> {
    let merit = |candidate: &Candidate| {
        let words = part.share(part.held(&candidate.text).words);
        candidate.score + 2.0 * part.kind_held(&candidate.text) + 2.0 * words
    };
    let same_file = candidates.iter().enumerate().filter(|(_, it)| it.hit == candidates[0].hit);
    same_file.max_by(|a, b| merit(a.1).total_cmp(&merit(b.1)).then(b.0.cmp(&a.0))).map(|it| it.0)
}
