//! The answer as a summary for people and as data for programs, and the fixed answers that quote no passage.

use crate::ask::hit::RankedHit;
use crate::ask::question::Question;
use crate::model::{Answer, AnswerOutcome};

/// Heading of quotes that are near the question but do not answer it.
const POINTERS_HEADING: &str = "No single sentence answers this; these passages come nearest:";
/// Confidence of an answer that only names a file, because the file matches by its name and not by its text.
const NAME_MATCH_CONFIDENCE: f32 = 0.5;

/// An answer as a summary for people and as data for programs.
#[derive(Default)]
pub(crate) struct ComposedAnswer {
    /// The summary for people.
    pub(crate) summary: Option<String>,
    /// The answer for programs; `None` for a list of files.
    pub(crate) answer: Option<Answer>,
}

impl ComposedAnswer {
    pub(super) fn nothing(summary: &str, confidence: f32) -> ComposedAnswer {
        let answer =
            Answer { outcome: AnswerOutcome::Nothing, confidence: round_probability(confidence), quotes: Vec::new() };
        ComposedAnswer { summary: Some(summary.to_string()), answer: Some(answer) }
    }
}

/// Returns an answer that names the best file, if the names of the file contain all words of the question; else `None`.
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
        summary: Some(format!("No text answers this; the name of `{}` contains all words of the question.", hit.path)),
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

/// Formats the quotes as lines for people; `None` if there are no quotes.
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

/// Rounds a probability to three decimal places.
pub(super) fn round_probability(probability: f32) -> f64 {
    (f64::from(probability) * 1_000.0).round() / 1_000.0
}
