//! Finds references: bibliography entries, also of TeX and BibTeX, and the notes and link definitions of Markdown.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::json;

use crate::corpus::document::passages::{Passage, PassageRole, SourceDocument};
use crate::corpus::objects::doi_links::{self, DOI, doi_of};
use crate::corpus::objects::object::Object;
use crate::corpus::text::words::truncate_to_line;

static HEADING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:\d+(?:\.\d+)*\.?\s+)?(?:references|bibliography|works cited|literature(?: cited)?|sources|cited works|reference list)\s*:?$")
        .expect("a constant")
});
static ARXIV: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)arxiv(?:\.org/(?:abs|pdf)/|[:\s])\s*(\d{4}\.\d{4,5}(?:v\d+)?|[a-z-]+/\d{7})").expect("a constant")
});
/// The number of an entry at the start of a line: `[3] `, `3. `, `3) `.
pub(super) static NUMBERED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^[ \t]*(?:\[(\w[\w:.+-]*)\]|(\d{1,3})[.)])[ \t]+").expect("a constant"));
static BIBITEM: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\\bibitem(?:\[[^\]]*\])?\{([^}]+)\}").expect("a constant"));
static BIBTEX: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^\s*@(\w+)\s*\{\s*([^,\s]+)\s*,").expect("a constant"));
/// A note or link definition of Markdown: `[^3]: text` and `[3]: address`.
static NOTE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m)^[ \t]*\[(\^?[\w-]+)\]:[ \t]+").expect("a constant"));
/// A reference of reStructuredText: `.. [3] text`.
static DIRECTIVE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^[ \t]*\.\. \[(#?[\w.:+-]+)\][ \t]+").expect("a constant"));
/// The first line of an entry that begins with a name instead of a number: `Name, A.` or `van der Name, Anna`.
static ENTRY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^(?:(?:van|von|de|der|den|del|di|da|du|la|le|ten|ter) ){0,3}\p{Lu}[\p{L}’'-]+,? (?:\p{Lu}\.|\p{Lu}{1,3}[,.]|\p{Lu}\p{Ll}+[ .,])")
        .expect("a constant")
});
static YEAR: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(?:1[6-9]|20)\d\d[a-z]?\b|\(n\.d\.\)").expect("a constant"));

/// Returns whether a heading introduces references.
pub(super) fn is_reference_heading(heading: &str) -> bool {
    HEADING.is_match(heading.trim())
}

/// Finds the references of a document.
pub(crate) fn find_references(source: &SourceDocument) -> Vec<Object> {
    let mut found = Vec::new();
    let mut position = 0;
    for passage in source
        .passages
        .iter()
        .filter(|it| matches!(it.role, PassageRole::Prose | PassageRole::Item | PassageRole::Code))
    {
        let text = &passage.text;
        if passage.role == PassageRole::Code && source.extension != "bib" {
            continue;
        }
        if BIBITEM.is_match(text) {
            found.extend(marked_entries(source, passage, &BIBITEM));
        } else if BIBTEX.is_match(text) {
            found.extend(marked_entries(source, passage, &BIBTEX));
        } else if DIRECTIVE.is_match(text) {
            found.extend(marked_entries(source, passage, &DIRECTIVE));
        } else if NOTE.is_match(text) {
            found.extend(marked_entries(source, passage, &NOTE));
        } else if is_reference_heading(source.heading(passage)) {
            match NUMBERED.is_match(text) {
                true => found.extend(marked_entries(source, passage, &NUMBERED)),
                false => found.extend(unnumbered_entries(source, passage, &mut position)),
            }
        }
    }
    found
}

/// Splits a passage into entries that begin with a match of `mark`.
fn marked_entries(source: &SourceDocument, passage: &Passage, mark: &Regex) -> Vec<Object> {
    let text = &passage.text;
    let marks: Vec<(Range<usize>, String)> = mark
        .captures_iter(text)
        .filter_map(|it| Some((it.get(0)?.range(), it.iter().skip(1).flatten().last()?.as_str().to_string())))
        .collect();
    let mut found = Vec::new();
    for (at, (range, index)) in marks.iter().enumerate() {
        let end = marks.get(at + 1).map_or(text.len(), |it| it.0.start);
        let leading = text[range.start..].len() - text[range.start..].trim_start().len();
        let body = text[range.end..end].split("\\end{thebibliography}").next().unwrap_or_default();
        let whole = range.start + leading..range.end + body.trim_end().len();
        let shown = if std::ptr::eq(mark, &*BIBTEX) { &text[whole.clone()] } else { body };
        let index = index.trim_start_matches(['^', '#']);
        found.extend(reference_object(source, passage, whole, index, shown, 0.96));
    }
    found
}

/// Splits a passage into entries without numbers. A line that begins with a name starts a new entry, if the text before
/// the line and the text from it on both contain a year, DOI or arXiv id.
fn unnumbered_entries(source: &SourceDocument, passage: &Passage, position: &mut usize) -> Vec<Object> {
    let text = &passage.text;
    let is_entry = |it: &str| YEAR.is_match(it) || DOI.is_match(it) || ARXIV.is_match(it);
    let mut starts = vec![0];
    for start in ENTRY.find_iter(text).map(|it| it.start()).filter(|it| *it > 0) {
        let before = starts.last().map_or(0, |it| *it);
        if is_entry(&text[before..start]) && is_entry(&text[start..]) {
            starts.push(start);
        }
    }
    let mut found = Vec::new();
    for (at, start) in starts.iter().enumerate() {
        let end = starts.get(at + 1).map_or(text.len(), |it| *it);
        let body = text[*start..end].trim_end();
        if !is_entry(body) && passage.role != PassageRole::Item {
            continue;
        }
        *position += 1;
        let confidence = if passage.role == PassageRole::Item { 0.93 } else { 0.85 };
        found.extend(reference_object(
            source,
            passage,
            *start..start + body.len(),
            &position.to_string(),
            body,
            confidence,
        ));
    }
    found
}

/// Returns the DOI in the target of a link in an entry, for entries without a DOI in their text.
fn linked_doi(source: &SourceDocument, passage: &Passage, range: &Range<usize>) -> Option<String> {
    let is_inside = |it: &doi_links::DoiLink| match &it.words {
        Some(words) => doi_links::overlap(words, range),
        None => range.end == passage.text.len(),
    };
    doi_links::find_doi_links(source, passage).into_iter().find(is_inside).map(|it| it.doi)
}

fn reference_object(
    source: &SourceDocument,
    passage: &Passage,
    range: Range<usize>,
    index: &str,
    text: &str,
    confidence: f64,
) -> Option<Object> {
    let full_text = truncate_to_line(text, 2_000);
    if full_text.is_empty() {
        return None;
    }
    let doi = doi_of(&full_text).or_else(|| linked_doi(source, passage, &range));
    let arxiv_id = ARXIV.captures(&full_text).map(|it| it[1].to_string());
    let fields = json!({"index": index, "full_text": full_text, "doi": doi, "arxiv_id": arxiv_id});
    Some(Object::new(source.place(passage, &range), confidence, fields))
}
