//! Formats an answer for programs and models that pay per character: the quotes, then path, location and passage of each
//! hit, without scores, colours and blank lines.

use std::fmt::Write;

use serde::Deserialize;

use crate::text;
use vic_protocol::model::{Anchor, AnswerOutcome, AskResponse, SearchHit};

/// Maximum number of characters of the compact output, if `--max-chars` is not given.
pub(crate) const MAX_CHARS: usize = 1_500;
/// Maximum number of characters of one passage; a longer one is truncated.
const MAX_PASSAGE_CHARS: usize = 300;
/// Below the quotes of an answer, at most this many other files are named, without a passage.
const MAX_NAMED_HITS: usize = 2;

/// Formats an answer in at most `max_chars` characters.
pub(crate) fn compact_answer(response: &AskResponse, max_chars: usize) -> String {
    let mut lines = Vec::new();
    let answer = response.answer.as_ref();
    let is_answered = answer.is_some_and(|it| it.outcome == AnswerOutcome::Answered);
    match answer {
        Some(it) if it.outcome == AnswerOutcome::Nothing => lines.push("nothing answers this".to_string()),
        Some(it) => {
            lines.extend(it.quotes.iter().map(|it| format!("{} ({})", one_line(&it.text), one_line(&it.place))));
        }
        None => lines.extend(response.answer_summary.as_deref().map(one_line)),
    }
    let hits = response.hits.iter().filter(|it| !it.metadata.contains_key("weak"));
    for hit in hits {
        if is_answered {
            lines.push(hit_with_place(hit));
        } else {
            lines.extend(passage_lines(hit));
        }
    }
    if is_answered {
        // Keeps only the quotes, which contain their locations, and names the best other files.
        let quoted = answer.map_or(0, |it| it.quotes.len());
        lines = lines.drain(..quoted).chain(further_files(response)).collect();
    }
    lines.extend(response.warnings.iter().map(|it| format!("warning: {}", one_line(it))));
    join_within(&lines, max_chars)
}

/// Returns the best hits without a quote, up to [`MAX_NAMED_HITS`], one line each.
fn further_files(response: &AskResponse) -> Vec<String> {
    let quoted = |number: usize| {
        let quotes = response.answer.iter().flat_map(|it| &it.quotes);
        quotes.into_iter().any(|it| it.hit as usize == number + 1)
    };
    let others =
        response.hits.iter().enumerate().filter(|(number, it)| !quoted(*number) && !it.metadata.contains_key("weak"));
    others.take(MAX_NAMED_HITS).map(|(_, it)| format!("also: {}", hit_with_place(it))).collect()
}

fn passage_lines(hit: &SearchHit) -> Vec<String> {
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

fn one_line(text: &str) -> String {
    text::escape_controls(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

fn truncate_chars(text: &str, chars: usize) -> String {
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
    use vic_protocol::model::samples;

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
