//! Finds citations: numbers in brackets, authors with a year, TeX and Markdown keys, footnote marks.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::json;

use crate::corpus::document::passages::{Passage, SourceDocument};
use crate::corpus::objects::doi_links::{self, overlap};
use crate::corpus::objects::object::Object;
use crate::corpus::objects::reference::{NUMBERED, is_reference_heading};
use crate::corpus::text::words::truncate_to_line;
use crate::text::trimmed_sentences;

/// Maximum length of a range of numbers in one citation: `[3-40]` is not a citation.
const MAX_RANGE: u32 = 30;

/// Maximum citations of one paragraph; a paragraph with more is a list of numbers.
const MAX_CITATIONS: usize = 200;

/// Minimum number of words outside the DOI links of a paragraph; with fewer, the links are not citations.
const MIN_OTHER_WORDS: usize = 4;

/// Pattern of a family name with its particles.
const NAME: &str = r"(?:(?:van|von|de|der|den|del|della|di|da|du|la|le|ten|ter)\s+){0,3}\p{Lu}[\p{L}’'-]+";

const YEAR: &str = r"(?:(?:1[6-9]|20)\d\d[a-z]?|n\.d\.|in press|forthcoming)";

/// Pattern of the name of a party of a court case; the party may be a ship.
const PARTY: &str = r"(?:\p{Lu}[\p{L}’'.&-]*|&)(?:,?\s+(?:\p{Lu}[\p{L}’'.&-]*|&|of|the|for|and|de)){0,6}";

static NUMBERS: LazyLock<Regex> = LazyLock::new(|| {
    let place = r"(?:,\s*(?:pp?|sec|sect|section|ch|chap|chapter|fig|table|thm|theorem|eq)s?\.?\s?[\dA-Z][\d.–-]*)?";
    Regex::new(&format!(r"\[(\d{{1,3}}(?:\s*[,;–-]\s*\d{{1,3}})*){}\]", place.replace("(?:,", "(?i:,")))
        .expect("a constant")
});
/// A range of citations with brackets around each number: `[1]–[3]`.
static SPAN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\[(\d{1,3})\]\s?[–-]\s?\[(\d{1,3})\]").expect("a constant"));
static AUTHOR_YEAR: LazyLock<Regex> = LazyLock::new(|| {
    let lead = r"(?:(?:but )?[Ss]ee(?: also)? |e\.g\.,? |cf\. |for example,? )?";
    let authors = authors();
    let one =
        format!(r"{lead}{authors},?\s+{YEAR}(?:,\s+(?:1[6-9]|20)\d\d[a-z])*(?:, pp?\.\s?\d+(?:[–-]\d+)?|:\s?\d+)?");
    // The pattern also ends at `;`, because a remark may follow: `(Porter 1996; but see Hanson (2001))`.
    Regex::new(&format!(r"\({one}(?:;\s+{one})*(?:\)|;)")).expect("a constant")
});
static NARRATIVE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!(r"{}\s+\({YEAR}\)", authors())).expect("a constant"));
static KEYS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\\(?:cite|citep|citet|autocite|parencite|textcite)\*?(?:\[[^\]]*\])*\{[^}]+\}|\[@[\w:.-]+(?:; ?@[\w:.-]+)*\]",
    )
    .expect("a constant")
});
static FOOTNOTE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[\^([\w-]+)\]").expect("a constant"));
/// Citations in reStructuredText: `[Pugh2014]_`, `[#note]_` and `[1]_`.
static UNDERLINED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\[(#?[\w.:+-]+|#|\*)\]_(?:\b|$|\W)").expect("a constant"));
/// A court case: `A v. B, 217 N.Y. 382 (1916)`.
static CASE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(
        r"{PARTY}\s+v\.?\s+{PARTY},\s+\d{{1,4}}\s+\p{{Lu}}[\p{{L}}.]*(?:\s?[\p{{Lu}}\d][\p{{L}}\d.]*){{0,3}}\s+\d{{1,5}}(?:,\s+\d{{1,5}})*(?:\s+\([^()]{{0,30}}\d{{4}}\))?"
    ))
    .expect("a constant")
});
/// A court case with a neutral or a British citation: `A v B [2001] EWCA Civ 12`, `[1983] 1 AC 736`.
static NEUTRAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(
        r"(?:{PARTY}\s+v\.?\s+{PARTY},?\s+)?\[(?:1[6-9]|20)\d\d\]\s+(?:\d{{1,2}}\s+)?\p{{Lu}}{{2,}}\w*(?:\s+\p{{Lu}}\p{{Ll}}+)?\s+\d{{1,5}}\b"
    ))
    .expect("a constant")
});
/// A law of the United States: `15 U.S.C. § 2064`, `29 C.F.R. § 1926.1053(b)`.
static STATUTE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b\d{1,3}\s+(?:U\.\s?S\.\s?C\.|USC|C\.\s?F\.\s?R\.|CFR)(?:\s+§{1,2}|\s+[Ss]ec\.)?\s*\d[\w-]*(?:\.\d[\w-]*)*(?:\(\w{1,4}\))*")
        .expect("a constant")
});

/// A fast test that is true for every text in which one of the three legal patterns matches.
static LAW_PREFILTER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\sv\.?\s|\[(?:1[6-9]|20)\d\d\]|U\.?\s?S\.?\s?C|C\.?\s?F\.?\s?R").expect("a constant")
});

fn authors() -> String {
    format!(r"{NAME}(?:(?:,\s+{NAME})*,?\s+(?:and|&|und)\s+{NAME}|\s+et\s+al\.?)?")
}

const NOT_AUTHORS: &[&str] = &[
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

/// Finds the citations of a document, outside its reference list.
pub(crate) fn find_citations(source: &SourceDocument) -> Vec<Object> {
    let mut found = Vec::new();
    let last = highest_reference_number(source);
    for passage in source.prose().filter(|it| !is_reference_heading(source.heading(it))) {
        if is_note(&passage.text) {
            continue;
        }
        let mut marks = find_marks(&passage.text, last);
        if matches!(source.extension.as_str(), "rst" | "rest") {
            marks.retain(|it| !passage.text[it.0.end..].starts_with('_'));
            marks.extend(rst_marks(&passage.text));
        }
        let works = linked_works(source, passage);
        let is_new = |it: &Range<usize>| !marks.iter().any(|mark| overlap(&mark.0, it));
        let added: Vec<CitationMark> =
            works.iter().filter(|it| is_new(&it.0)).map(|it| (it.0.clone(), None, 0.95)).collect();
        marks.extend(added);
        marks.sort_by_key(|it| (it.0.start, it.1));
        marks.truncate(MAX_CITATIONS);
        found.extend(marks.into_iter().map(|(range, number, confidence)| {
            let text = &passage.text[range.clone()];
            let doi = works.iter().find(|it| overlap(&it.0, &range)).map(|it| &it.1);
            let fields =
                json!({"number": number, "text": text, "context": sentence_around(passage, &range), "doi": doi});
            Object::new(source.place(passage, &range), confidence, fields)
        }));
    }
    found
}

/// Returns links to works by DOI. Returns none for a paragraph of links only: it states the DOI of its own document.
fn linked_works(source: &SourceDocument, passage: &Passage) -> Vec<(Range<usize>, String)> {
    let found = doi_links::find_doi_links(source, passage);
    if found.is_empty() || doi_links::count_unlinked_words(&passage.text, &found) < MIN_OTHER_WORDS {
        return Vec::new();
    }
    found.into_iter().filter_map(|it| Some((it.words?, it.doi))).collect()
}

/// Returns whether a text is itself a note or a reference.
fn is_note(text: &str) -> bool {
    static NOTE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^\[\^?[\w-]+\]:?\s|^\\bibitem|^\.\. \[").expect("a constant"));
    NOTE.is_match(text)
}

/// Returns the highest reference number, if references are numbered. Ignores notes, which have their own numbers.
fn highest_reference_number(source: &SourceDocument) -> Option<u32> {
    let entries = source.passages.iter().filter(|it| is_reference_heading(source.heading(it)));
    let number = |found: regex::Captures<'_>| found.iter().skip(1).flatten().next()?.as_str().parse().ok();
    entries.flat_map(|it| NUMBERED.captures_iter(&it.text)).filter_map(number).max()
}

fn rst_marks(text: &str) -> Vec<CitationMark> {
    let mark = |found: regex::Captures<'_>| {
        let inner = found.get(1)?.range();
        Some((inner.start - 1..inner.end + 2, found[1].trim_start_matches('#').parse().ok(), 0.97))
    };
    UNDERLINED.captures_iter(text).filter_map(mark).collect()
}

type CitationMark = (Range<usize>, Option<u32>, f64);

/// Finds the citations in a paragraph. If a number of a pair such as `[10, 20]` exceeds `last`, the highest reference
/// number, the pair is an interval and not a citation.
fn find_marks(text: &str, last: Option<u32>) -> Vec<CitationMark> {
    let mut found = numbered_marks(text);
    if let Some(last) = last {
        let beyond: Vec<usize> = found.iter().filter(|it| it.1 > Some(last)).map(|it| it.0.start).collect();
        let is_pair = |it: &Range<usize>| text[it.clone()].split(',').count() == 2;
        found.retain(|it| !(is_pair(&it.0) && beyond.contains(&it.0.start)));
    }
    found.extend(named_marks(text));
    for mark in FOOTNOTE.captures_iter(text) {
        found.push((mark.get(0).map_or(0..0, |it| it.range()), mark[1].parse().ok(), 0.97));
    }
    found
}

/// Finds `[3]`, `[2, 5-7]` and `[1]–[3]`, as one citation for each number.
fn numbered_marks(text: &str) -> Vec<CitationMark> {
    let mut found: Vec<CitationMark> = Vec::new();
    let mut spans: Vec<Range<usize>> = Vec::new();
    for span in SPAN.captures_iter(text) {
        let range = span.get(0).map_or(0..0, |it| it.range());
        let named = parse_numbers(&format!("{}-{}", &span[1], &span[2]));
        if !named.is_empty() && !is_index(text, &range) {
            found.extend(named.into_iter().map(|it| (range.clone(), Some(it), 0.95)));
            spans.push(range);
        }
    }
    // Distinguish `[5][7]`, which are two citations, from `[text][7]`, which is a link.
    let mut before: Option<(usize, bool)> = None;
    for mark in NUMBERS.captures_iter(text) {
        let range = mark.get(0).map_or(0..0, |it| it.range());
        let in_span = spans.iter().any(|it| it.contains(&range.start));
        let is_index = match before {
            Some((end, is_index)) if end == range.start => is_index || makes_link(text, range.end),
            _ => is_index(text, &range),
        };
        before = Some((range.end, is_index));
        if !in_span && !is_index {
            found.extend(parse_numbers(&mark[1]).into_iter().map(|it| (range.clone(), Some(it), 0.95)));
        }
    }
    found
}

/// Finds authors with a year, citation keys, and legal citations.
fn named_marks(text: &str) -> Vec<CitationMark> {
    let common = [(&*AUTHOR_YEAR, 0.95), (&*NARRATIVE, 0.9), (&*KEYS, 0.99)];
    let law = [(&*CASE, 0.93), (&*NEUTRAL, 0.93), (&*STATUTE, 0.95)];
    // Run the slow legal patterns only on paragraphs that pass the fast test.
    let law = law.into_iter().filter(|_| LAW_PREFILTER.is_match(text));
    let is_named = |it: &Range<usize>| {
        let first = text[it.clone()].trim_start_matches('(').split([' ', ',']).next().unwrap_or_default();
        !NOT_AUTHORS.contains(&first)
    };
    let mut found = Vec::new();
    for (pattern, confidence) in common.into_iter().chain(law) {
        let marks = pattern.find_iter(text).map(|it| strip_lead(text, it.range())).filter(is_named);
        found.extend(marks.map(|it| (it, None, confidence)));
    }
    found
}

/// Returns the range without a word such as `See` before a case name, and without the `(` and `;` around citations that a
/// remark follows.
fn strip_lead(text: &str, range: Range<usize>) -> Range<usize> {
    let lead = ["See also ", "See ", "In ", "Compare ", "But see ", "Cf. "]
        .iter()
        .find(|it| text[range.clone()].starts_with(**it));
    if text[range.clone()].ends_with(';') {
        return range.start + 1..range.end - 1;
    }
    range.start + lead.map_or(0, |it| it.len())..range.end
}

/// Returns whether a number in brackets is not a citation: `row[1]`, `[1](link)`, `[1]: link`, list numbers.
fn is_index(text: &str, range: &Range<usize>) -> bool {
    let before = &text[..range.start];
    let in_code = before.matches('`').count() % 2 == 1;
    let word = before.rsplit(|it: char| it.is_whitespace()).next().unwrap_or_default();
    let ends_sentence = word.ends_with(['.', ',', ';', ':', '”', '"']) && word.chars().count() > 2;
    let word = word.trim_start_matches(['(', '"', '“']).trim_end_matches(['.', ',', ';', ':', '”', '"']);
    let short = !ends_sentence && word.chars().count() <= 2;
    let variable = !word.is_empty() && (word.contains(['_', '(', '=', '.']) || short);
    makes_link(text, range.end) || before.ends_with(['!', ']']) || in_code || variable || before.is_empty()
}

/// Returns whether the text after brackets makes them a link. `(`, `:` and `[name]` do; `[3]` and `[citation needed]`
/// do not.
fn makes_link(text: &str, end: usize) -> bool {
    match text[end..].chars().next() {
        Some('(' | ':') => true,
        Some('[') => {
            let next = next_bracket(&text[end..]);
            !NUMBERS.is_match(next) && !next.contains(char::is_whitespace)
        }
        _ => false,
    }
}

/// Returns the bracketed text at the start of `text`.
fn next_bracket(text: &str) -> &str {
    text.find(']').map_or("", |it| &text[..=it])
}

/// Parses the numbers of a citation such as `3, 5-7`.
fn parse_numbers(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for part in text.split([',', ';']) {
        let ends: Vec<u32> = part.split(['-', '–']).filter_map(|it| it.trim().parse().ok()).collect();
        match ends.as_slice() {
            // Reject the number 0 and ranges from 0: they are program indexes or intervals.
            [0] | [0, _] => return Vec::new(),
            [one] => found.push(*one),
            [first, last] if first < last && last - first <= MAX_RANGE => found.extend(*first..=*last),
            _ => {}
        }
    }
    found
}

fn sentence_around(passage: &Passage, range: &Range<usize>) -> String {
    let sentence =
        trimmed_sentences(&passage.text).into_iter().find(|it| it.start <= range.start && range.start < it.end);
    truncate_to_line(&passage.text[sentence.unwrap_or(range.clone())], 240)
}
