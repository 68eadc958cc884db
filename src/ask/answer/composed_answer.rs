//! An answer in both forms, for people and for programs, and the answers that quote no passage.

use crate::ask::hit::RankedHit;
use crate::ask::question::Question;
use crate::model::{Answer, AnswerOutcome};

/// Heading of quotes that are only pointers.
const POINTERS_HEADING: &str = "No single sentence answers this; these passages come nearest:";
/// Confidence in a file that matches by name alone.
const NAME_MATCH_CONFIDENCE: f32 = 0.5;

/// An answer in both forms.
#[derive(Default)]
pub(crate) struct ComposedAnswer {
    /// The summary for people.
    pub(crate) summary: Option<String>,
    /// The answer for programs; none for a list of files.
    pub(crate) answer: Option<Answer>,
}

impl ComposedAnswer {
    pub(super) fn nothing(summary: &str, confidence: f32) -> ComposedAnswer {
        let answer =
            Answer { outcome: AnswerOutcome::Nothing, confidence: round_probability(confidence), quotes: Vec::new() };
        ComposedAnswer { summary: Some(summary.to_string()), answer: Some(answer) }
    }
}

/// Returns the answer if no text answers, but the name of the best file holds all words of the question.
pub(super) fn answer_by_name(question: &Question, hits: &[RankedHit]) -> Option<ComposedAnswer> {
    let hit = &hits.first()?.hit;
    let held = hit.metadata.get("name_words")?.as_array()?.len();
    if question.words.is_empty() || held < question.words.len() {
        return None;
    }
    let answer = Answer {
        outcome: AnswerOutcome::Passage,
        confidence: round_probability(NAME_MATCH_CONFIDENCE),
        quotes: Vec::new(),
    };
    Some(ComposedAnswer {
        summary: Some(format!("No text answers this; `{}` has the name.", hit.path)),
        answer: Some(answer),
    })
}

pub(super) fn list_summary(found: usize, shown: usize) -> String {
    match (found, shown) {
        (0, _) => "No file matches.".into(),
        (1, _) => "1 file matches.".into(),
        (found, shown) if found == shown => format!("{found} files match."),
        (found, shown) => format!("{found} files match; the newest {shown} are listed."),
    }
}

/// Formats the quotes as lines for people; none if there are no quotes.
pub(super) fn quotes_summary(answer: &Answer) -> Option<String> {
    let quotes = answer.quotes.iter();
    let mut lines: Vec<String> = quotes.map(|it| format!("[{}] \"{}\" ({})", it.hit, it.text, it.place)).collect();
    if lines.is_empty() {
        return None;
    }
    if answer.outcome == AnswerOutcome::Passage {
        lines.insert(0, POINTERS_HEADING.to_string());
    }
    Some(lines.join("\n"))
}

/// Rounds a probability to three digits.
pub(super) fn round_probability(probability: f32) -> f64 {
    (f64::from(probability) * 1_000.0).round() / 1_000.0
}
