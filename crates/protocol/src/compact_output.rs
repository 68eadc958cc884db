//! Formats an answer for programs and models that pay per character: the quotes, then path, location and passage of each
//! hit, without scores, colours and blank lines.

use std::fmt::Write;

use serde::Deserialize;

use crate::escape::escape_controls;
use crate::model::{Anchor, AnswerOutcome, AskResponse, SearchHit};

/// Maximum number of characters of an answer, if a request sets none.
pub const MAX_CHARS: usize = 1_500;
/// Maximum number of characters of one passage; a longer one is truncated.
const MAX_PASSAGE_CHARS: usize = 300;
/// Below the quotes of an answer, at most this many other files are named, without a passage.
pub const MAX_NAMED_HITS: usize = 2;

/// Formats an answer in at most `max_chars` characters.
pub fn compact_answer(response: &AskResponse, max_chars: usize) -> String {
    let mut lines = answer_lines(response);
    let hits = listed_hits(response);
    if is_answered(response) {
        // The quotes contain their locations; only the best other files are named.
        lines.extend(hits.take(MAX_NAMED_HITS).map(|(_, it)| named_hit(it)));
    } else {
        lines.extend(hits.flat_map(|(_, it)| passage_lines(it)));
    }
    lines.extend(response.warnings.iter().map(|it| format!("warning: {}", one_line(it))));
    join_within(&lines, max_chars)
}

/// Returns the quotes of an answer with their locations, or that nothing answers the question, one line each.
pub fn answer_lines(response: &AskResponse) -> Vec<String> {
    match response.answer.as_ref() {
        Some(it) if it.outcome == AnswerOutcome::Nothing => vec!["nothing answers this".to_string()],
        Some(it) => it.quotes.iter().map(|it| format!("{} ({})", one_line(&it.text), one_line(&it.place))).collect(),
        None => response.answer_summary.as_deref().map(one_line).into_iter().collect(),
    }
}

/// Returns whether the quotes of an answer answer the question.
pub fn is_answered(response: &AskResponse) -> bool {
    response.answer.as_ref().is_some_and(|it| it.outcome == AnswerOutcome::Answered)
}

/// Returns the hits to list, each with its index: those that are not weak, and below an answer those without a quote.
pub fn listed_hits(response: &AskResponse) -> impl Iterator<Item = (usize, &SearchHit)> {
    let is_answered = is_answered(response);
    let is_quoted = move |number: usize| {
        let mut quotes = response.answer.iter().flat_map(|it| &it.quotes);
        is_answered && quotes.any(|it| it.hit as usize == number + 1)
    };
    let hits = response.hits.iter().enumerate();
    hits.filter(move |(number, it)| !is_quoted(*number) && !it.metadata.contains_key("weak"))
}

/// Returns the line that names a hit below an answer.
pub fn named_hit(hit: &SearchHit) -> String {
    format!("also: {}", hit_with_place(hit))
}

/// Returns the path and the location of a hit, and the passages that match, one line each.
pub fn passage_lines(hit: &SearchHit) -> Vec<String> {
    let mut lines = vec![hit_with_place(hit), one_line(&truncate_chars(&hit.excerpt, MAX_PASSAGE_CHARS))];
    let windows = hit.metadata.get("windows").and_then(|it| it.as_array());
    for window in windows.into_iter().flatten() {
        let text = |name: &str| window[name].as_str().unwrap_or_default().to_string();
        let place = text("place");
        let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
        lines.push(one_line(&format!("{place}{}", truncate_chars(&text("excerpt"), MAX_PASSAGE_CHARS))));
    }
    lines.retain(|it| !it.is_empty());
    lines
}

fn hit_with_place(hit: &SearchHit) -> String {
    let anchor = hit.metadata.get("anchor").and_then(|it| Anchor::deserialize(it).ok()).unwrap_or_default();
    let place = anchor.place();
    one_line(&if place.is_empty() { hit.path.clone() } else { format!("{}, {place}", hit.path) })
}

/// Returns a text in one line, with control characters escaped.
pub fn one_line(text: &str) -> String {
    escape_controls(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

/// Truncates a text to a number of characters, and appends an ellipsis if anything was cut.
pub fn truncate_chars(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// Joins the lines that fit into `max_chars`, and adds how many lines were left out.
fn join_within(lines: &[String], max_chars: usize) -> String {
    let mut out = String::new();
    let mut left = max_chars;
    for (number, line) in lines.iter().enumerate() {
        let needed = line.chars().count() + 1;
        if needed > left {
            let note = format!("… {} more lines", lines.len() - number);
            if number == 0 {
                let shown: String = line.chars().take(left.saturating_sub(2)).collect();
                let _ = if shown.is_empty() { Ok(()) } else { writeln!(out, "{shown}…") };
            } else if note.chars().count() < left {
                let _ = writeln!(out, "{note}");
            }
            break;
        }
        left -= needed;
        let _ = writeln!(out, "{line}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::samples;

    #[test]
    fn compact_answer_is_its_quotes_with_places() {
        let response = samples::answer("x");
        let expected = "The budget of the harbour project was signed by Ada on Monday. (notes/plan.md, lines 3-5)\n\
                        warning: 2 files are still to be read\n";
        assert_eq!(compact_answer(&response, MAX_CHARS), expected);
    }

    #[test]
    fn unanswered_question_lists_passages_of_hits() {
        let mut response = samples::answer("x");
        if let Some(answer) = &mut response.answer {
            answer.outcome = AnswerOutcome::Nothing;
            answer.quotes.clear();
        }
        let shown = compact_answer(&response, MAX_CHARS);
        assert!(shown.starts_with("nothing answers this\nnotes/plan.md, lines 3-5\nThe budget"), "{shown}");
    }

    #[test]
    fn compact_respects_max_chars() {
        let mut response = samples::answer("x");
        response.answer = None;
        response.hits = vec![response.hits[0].clone(); 50];
        for most in [1, 10, 100, 1_000] {
            let shown = compact_answer(&response, most);
            assert!(shown.chars().count() <= most, "{most}: {shown:?}");
        }
    }
}
