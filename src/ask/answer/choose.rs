//! Which units are quoted, and how far they answer. Pure.

use crate::ask::answer::candidates::Candidate;
use crate::ask::answer::evidence::Asked;
use crate::model::AnswerOutcome;

/// Quotes of an answer at most.
const QUOTES: usize = 3;
/// Characters of all quotes; the first may be longer.
const CHARS: usize = 480;
/// A further quote of the same hit is at least this probable beside the best.
const BESIDE: f32 = 0.45;
/// The same of another hit.
const BESIDE_OTHER: f32 = 0.8;
/// From this confidence on the quotes answer.
const ANSWERED: f32 = 0.35;
/// From this confidence on the passage is worth a look; below it nothing answers.
const PASSAGE: f32 = 0.08;

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
pub(super) fn choose(asked: &Asked, candidates: &[Candidate]) -> Choice {
    let Some(best) = candidates.first() else { return Choice::nothing(0.0) };
    let known = candidates.iter().fold(0, |all, it| all | it.known);
    if asked.has_unknown_code(known) {
        return Choice::nothing(0.0);
    }
    let confidence = best.probability;
    let outcome = match confidence {
        it if it >= ANSWERED => AnswerOutcome::Answered,
        it if it >= PASSAGE => AnswerOutcome::Passage,
        _ => return Choice::nothing(confidence),
    };
    Choice { outcome, confidence, quotes: quotes(candidates) }
}

fn quotes(candidates: &[Candidate]) -> Vec<usize> {
    let best = &candidates[0];
    let mut chosen = vec![0];
    let mut chars = best.text.chars().count();
    for (index, candidate) in candidates.iter().enumerate().skip(1) {
        if chosen.len() == QUOTES {
            break;
        }
        let least = if candidate.hit == best.hit { BESIDE } else { BESIDE_OTHER };
        let length = candidate.text.chars().count();
        let is_new = chosen.iter().all(|it: &usize| candidates[*it].text != candidate.text);
        if is_new && candidate.probability >= least * best.probability && chars + length <= CHARS {
            chosen.push(index);
            chars += length;
        }
    }
    chosen
}
