//! Decides which texts can be the term of a definition.

use serde_json::{Value, json};

use crate::corpus::text::words::truncate_to_line;

/// Maximum words of a term.
const MAX_TERM_WORDS: usize = 6;

/// Words that are not terms, because they refer to something else or introduce a remark.
const NON_TERMS: &[&str] = &[
    "it",
    "this",
    "that",
    "these",
    "those",
    "which",
    "there",
    "he",
    "she",
    "they",
    "we",
    "you",
    "i",
    "what",
    "who",
    "note",
    "warning",
    "important",
    "tip",
    "example",
    "todo",
    "the following",
    "the latter",
    "the former",
    "date",
    "one",
    "here",
    "such",
    "caution",
    "problem",
    "question",
    "reason",
    "result",
    "difference",
    "advantage",
    "disadvantage",
    "drawback",
    "default",
    "step",
    "figure",
    "table",
    "summary",
    "abstract",
    "answer",
    "description",
    "returns",
    "purpose",
    "goal",
    "author",
    "status",
];

/// Returns whether a text can be the term of a definition.
pub(super) fn is_term(term: &str) -> bool {
    let lower = term.trim().to_lowercase();
    let words = lower.split_whitespace().count();
    (1..=MAX_TERM_WORDS).contains(&words)
        && !NON_TERMS.contains(&lower.as_str())
        && !lower.split_whitespace().next().is_some_and(|it| NON_TERMS.contains(&it))
        && lower.chars().any(char::is_alphabetic)
}

/// Returns the fields of a definition object.
pub(super) fn definition_fields(term: &str, text: &str, context: &str) -> Value {
    json!({"term": truncate_to_line(term, 80), "definition_text": truncate_to_line(text, 600), "source_context": truncate_to_line(context, 120)})
}
