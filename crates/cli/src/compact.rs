//! The short form of an answer, for programs and models that pay for every character: the quotes, then path, place and passage
//! of each hit, without scores, colours and blank lines.

use std::fmt::Write;

use serde::Deserialize;

use crate::text;
use vic_protocol::model::{Anchor, AnswerOutcome, AskResponse, SearchHit};

/// Characters that are printed unless the caller says otherwise.
pub(crate) const MAX_CHARS: usize = 1_500;
/// Characters of one passage.
const PASSAGE_CHARS: usize = 300;
/// Hits below an answer, which are named and not shown.
const NAMED_HITS: usize = 2;

/// Writes an answer in at most so many characters.
pub(crate) fn compact(response: &AskResponse, max_chars: usize) -> String {
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
            lines.push(cited(hit));
        } else {
            lines.extend(passages(hit));
        }
    }
    if is_answered {
        // The quotes name their places: only further files are news.
        let quoted = answer.map_or(0, |it| it.quotes.len());
        lines = lines.drain(..quoted).chain(further(response)).collect();
    }
    lines.extend(response.warnings.iter().map(|it| format!("warning: {}", one_line(it))));
    joined(&lines, max_chars)
}

/// The next best files that no quote comes from.
fn further(response: &AskResponse) -> Vec<String> {
    let quoted = |number: usize| {
        let quotes = response.answer.iter().flat_map(|it| &it.quotes);
        quotes.into_iter().any(|it| it.hit as usize == number + 1)
    };
    let others =
        response.hits.iter().enumerate().filter(|(number, it)| !quoted(*number) && !it.metadata.contains_key("weak"));
    others.take(NAMED_HITS).map(|(_, it)| format!("also: {}", cited(it))).collect()
}

fn passages(hit: &SearchHit) -> Vec<String> {
    let mut lines = vec![cited(hit), one_line(&cut(&hit.excerpt, PASSAGE_CHARS))];
    let windows = hit.metadata.get("windows").and_then(|it| it.as_array());
    for window in windows.into_iter().flatten() {
        let text = |name: &str| window[name].as_str().unwrap_or_default().to_string();
        let place = text("place");
        let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
        lines.push(one_line(&format!("{place}{}", cut(&text("excerpt"), PASSAGE_CHARS))));
    }
    lines.retain(|it| !it.is_empty());
    lines
}

fn cited(hit: &SearchHit) -> String {
    let anchor = hit.metadata.get("anchor").and_then(|it| Anchor::deserialize(it).ok()).unwrap_or_default();
    let place = anchor.place();
    one_line(&if place.is_empty() { hit.path.clone() } else { format!("{}, {place}", hit.path) })
}

fn one_line(text: &str) -> String {
    text::visible(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// The lines that fit, and a last one that says how many do not.
fn joined(lines: &[String], max_chars: usize) -> String {
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
    fn an_answer_is_its_quotes_with_their_places() {
        let response = samples::answer("x");
        let expected = "The budget of the harbour project was signed by Ada on Monday. (notes/plan.md, lines 3-5)\n\
                        warning: 2 files are still to be read\n";
        assert_eq!(compact(&response, MAX_CHARS), expected);
    }

    #[test]
    fn without_an_answer_each_hit_has_its_passage() {
        let mut response = samples::answer("x");
        if let Some(answer) = &mut response.answer {
            answer.outcome = AnswerOutcome::Nothing;
            answer.quotes.clear();
        }
        let shown = compact(&response, MAX_CHARS);
        assert!(shown.starts_with("nothing answers this\nnotes/plan.md, lines 3-5\nThe budget"), "{shown}");
    }

    #[test]
    fn the_bound_on_characters_holds() {
        let mut response = samples::answer("x");
        response.answer = None;
        response.hits = vec![response.hits[0].clone(); 50];
        for most in [1, 10, 100, 1_000] {
            let shown = compact(&response, most);
            assert!(shown.chars().count() <= most, "{most}: {shown:?}");
        }
    }
}
