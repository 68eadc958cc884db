//! Citations: numbers in brackets, authors with a year, keys of TeX and Markdown, footnote marks.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::json;

use crate::contract::extract::{Object, is_reference_heading};
use crate::contract::source::{Passage, Source};
use crate::contract::words::{sentences, short};

/// A range such as `[3-40]` names each of its works; a longer one is no citation.
const WIDEST_RANGE: u32 = 30;

/// Citations of one paragraph; more of them are a list of numbers.
const MOST_MARKS: usize = 200;

const AUTHORS: &str =
    r"[\p{Lu}][\p{L}’'-]+(?:(?:, [\p{Lu}][\p{L}’'-]+)*,? (?:and|&|und) [\p{Lu}][\p{L}’'-]+| et al\.?)?";

static NUMBERS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\[(\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*)\]").expect("a constant"));
/// `[1]–[3]`.
static SPAN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\[(\d{1,3})\]\s?[–-]\s?\[(\d{1,3})\]").expect("a constant"));
static AUTHOR_YEAR: LazyLock<Regex> = LazyLock::new(|| {
    let one = format!(r"(?:see |e\.g\.,? |cf\. )?{AUTHORS},? (?:1[6-9]|20)\d\d[a-z]?(?:, pp?\. ?\d+(?:[–-]\d+)?)?");
    Regex::new(&format!(r"\({one}(?:; {one})*\)")).expect("a constant")
});
static NARRATIVE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!(r"{AUTHORS} \((?:1[6-9]|20)\d\d[a-z]?\)")).expect("a constant"));
static KEYS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\\(?:cite|citep|citet|autocite|parencite|textcite)\*?(?:\[[^\]]*\])*\{[^}]+\}|\[@[\w:.-]+(?:; ?@[\w:.-]+)*\]",
    )
    .expect("a constant")
});
static FOOTNOTE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[\^([\w-]+)\]").expect("a constant"));

const MONTHS: &[&str] = &[
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
    "Since",
    "In",
    "Version",
    "Chapter",
    "Section",
    "Table",
    "Figure",
    "Summer",
    "Winter",
    "Spring",
    "Autumn",
];

/// Finds the citations of a document, outside of its references.
pub(crate) fn find(source: &Source) -> Vec<Object> {
    let mut found = Vec::new();
    for passage in source.prose().filter(|it| !is_reference_heading(source.heading(it))) {
        if is_note(&passage.text) {
            continue;
        }
        let mut marks = marks(&passage.text);
        marks.sort_by_key(|it| (it.0.start, it.1));
        marks.truncate(MOST_MARKS);
        found.extend(marks.into_iter().map(|(range, number, confidence)| {
            let text = &passage.text[range.clone()];
            let fields = json!({"number": number, "text": text, "context": context(passage, &range)});
            Object::new(source.place(passage, &range), confidence, fields)
        }));
    }
    found
}

/// The text of a note or of a reference is no citation of it.
fn is_note(text: &str) -> bool {
    static NOTE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\[\^?[\w-]+\]:?\s|^\\bibitem").expect("a constant"));
    NOTE.is_match(text)
}

type Mark = (Range<usize>, Option<u32>, f64);

fn marks(text: &str) -> Vec<Mark> {
    let mut found: Vec<Mark> = Vec::new();
    let mut spans: Vec<Range<usize>> = Vec::new();
    for span in SPAN.captures_iter(text) {
        let range = span.get(0).map_or(0..0, |it| it.range());
        let named = numbers(&format!("{}-{}", &span[1], &span[2]));
        if !named.is_empty() && !is_index(text, &range) {
            found.extend(named.into_iter().map(|it| (range.clone(), Some(it), 0.95)));
            spans.push(range);
        }
    }
    for mark in NUMBERS.captures_iter(text) {
        let range = mark.get(0).map_or(0..0, |it| it.range());
        let in_span = spans.iter().any(|it| it.contains(&range.start));
        if !in_span && !is_index(text, &range) {
            found.extend(numbers(&mark[1]).into_iter().map(|it| (range.clone(), Some(it), 0.95)));
        }
    }
    for (pattern, confidence) in [(&*AUTHOR_YEAR, 0.95), (&*NARRATIVE, 0.9), (&*KEYS, 0.99)] {
        let named = pattern.find_iter(text).filter(|it| {
            let first = it.as_str().trim_start_matches('(').split([' ', ',']).next().unwrap_or_default();
            !MONTHS.contains(&first)
        });
        found.extend(named.map(|it| (it.range(), None, confidence)));
    }
    for mark in FOOTNOTE.captures_iter(text) {
        found.push((mark.get(0).map_or(0..0, |it| it.range()), mark[1].parse().ok(), 0.97));
    }
    found
}

/// `row[1]`, `[1](link)`, `[1]: link` and the numbers of a list are no citations.
fn is_index(text: &str, range: &Range<usize>) -> bool {
    let before = text[..range.start].chars().next_back();
    let after = text[range.end..].chars().next();
    let in_code = text[..range.start].matches('`').count() % 2 == 1;
    let word = text[..range.start].rsplit(|it: char| it.is_whitespace()).next().unwrap_or_default();
    let variable = !word.is_empty() && (word.contains(['_', '(', '=', '.']) || word.chars().count() <= 2);
    matches!(after, Some('(' | ':' | '['))
        || matches!(before, Some('!' | ']'))
        || in_code
        || variable
        || before.is_none()
}

/// The numbers of `3, 5-7`.
fn numbers(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for part in text.split([',', ';']) {
        let ends: Vec<u32> = part.split(['-', '–']).filter_map(|it| it.trim().parse().ok()).collect();
        match ends.as_slice() {
            // Counting from 0 is the habit of programs.
            [one] if *one > 0 => found.push(*one),
            [first, last] if first < last && last - first <= WIDEST_RANGE => found.extend(*first..=*last),
            _ => {}
        }
    }
    found
}

fn context(passage: &Passage, range: &Range<usize>) -> String {
    let sentence = sentences(&passage.text).into_iter().find(|it| it.start <= range.start && range.start < it.end);
    short(&passage.text[sentence.unwrap_or(range.clone())], 240)
}
