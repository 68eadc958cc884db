//! Finds definitions that web pages mark: `dt` with its `dd`, and `dfn` in the sentence that defines the term.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::corpus::document::passages::{Passage, SourceDocument, strip_tags};
use crate::corpus::objects::object::Object;
use crate::corpus::objects::term::{definition_fields, is_term};
use crate::text::trimmed_sentences;

/// Bytes before a passage in which its opening tag is searched.
const TAG_SEARCH_BYTES: usize = 300;

/// Maximum number of `dt` terms that share one `dd`.
const MAX_SHARED_TERMS: usize = 4;

static DFN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?is)<dfn\b([^>]*)>(.{1,400}?)</dfn\s*>").expect("a constant"));
/// The attribute `title`, which gives the full form of a term or abbreviation.
static TITLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?i)\btitle\s*=\s*(?:"([^"]+)"|'([^']+)')"#).expect("a constant"));
/// The words between a term and the meaning after it.
static TERM_TO_MEANING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:\s*\([^)]*\))?[\s,:–—-]*(?:(?:is|are|was|were) (?:defined as|the (?:term|name|word) for)|(?:is|are|was|were|means|denotes|describes) |refers to|stands for|is short for)?\s*")
        .expect("a constant")
});
/// The words between a meaning and the term after it.
static MEANING_TO_TERM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)[\s,]*(?:(?:is|are|was|were) )?(?:often |usually |also )?(?:called|termed|named|known as)(?: an?| the)?\s*$")
        .expect("a constant")
});

/// Finds the definition of a `<dt>` and the `<dd>` after it; several terms may share one `<dd>`.
pub(super) fn dt_definition(source: &SourceDocument, at: usize) -> Option<Object> {
    let term = &source.passages[at];
    if !source.is_page() || enclosing_tag(source, term)? != "<dt" {
        return None;
    }
    let mut below = source.passages[at + 1..].iter().take(MAX_SHARED_TERMS);
    let text = below.find(|it| enclosing_tag(source, it).as_deref() != Some("<dt"))?;
    if enclosing_tag(source, text)? != "<dd" {
        return None;
    }
    let place = source.place_of(term).merge(&source.place_of(text));
    Some(Object::new(place, 0.96, definition_fields(&term.text, &text.text, source.heading(term))))
}

/// Returns the open tag around a passage: `<dt` or `<dd`.
fn enclosing_tag(source: &SourceDocument, passage: &Passage) -> Option<String> {
    let bytes = source.bytes(passage, &(0..passage.text.len()))?;
    let before = &source.raw.as_ref()?.text[..bytes.start];
    let before = &before[before.floor_char_boundary(before.len().saturating_sub(TAG_SEARCH_BYTES))..];
    let open = ["<dt", "<dd", "<DT", "<DD"].iter().filter_map(|it| before.rfind(it)).max()?;
    // Ignore an element that was closed before the passage: it does not contain the passage.
    let between = before[open..].to_ascii_lowercase();
    let closed = ["</dt", "</dd", "</dl"].iter().any(|it| between.contains(it));
    (!closed).then(|| between[..3].to_string())
}

/// Finds the `dfn` terms of a paragraph, each defined by its sentence.
pub(super) fn dfn_definitions(source: &SourceDocument, passage: &Passage) -> Vec<Object> {
    if !source.is_page() {
        return Vec::new();
    }
    let Some((raw, bytes)) = source.raw.as_ref().zip(source.markup_around(passage)) else { return Vec::new() };
    let html = &raw.text[bytes.clone()];
    let object = |found: regex::Captures<'_>| {
        let inner = found.get(2)?;
        let words = strip_tags(inner.as_str());
        let at = source.locate_words(passage, &words, &(bytes.start + inner.start()..bytes.start + inner.end()))?;
        let title = TITLE.captures(found.get(1)?.as_str()).or_else(|| TITLE.captures(inner.as_str()));
        let term = title.and_then(|it| it.iter().skip(1).flatten().next().map(|it| it.as_str().to_string()));
        let sentence = trimmed_sentences(&passage.text).into_iter().find(|it| it.contains(&at.start))?;
        dfn_object(source, passage, &term.unwrap_or(words), &at, &sentence)
    };
    DFN.captures_iter(html).filter_map(object).collect()
}

fn dfn_object(
    source: &SourceDocument,
    passage: &Passage,
    term: &str,
    at: &Range<usize>,
    sentence: &Range<usize>,
) -> Option<Object> {
    let after = &passage.text[at.end.min(sentence.end)..sentence.end];
    let meaning = &after[TERM_TO_MEANING.find(after).map_or(0, |it| it.end())..];
    let before = &passage.text[sentence.start..at.start];
    let called = MEANING_TO_TERM.find(before).map(|it| &before[..it.start()]);
    let text = match called {
        Some(text) => text,
        None if meaning.split_whitespace().count() >= 3 => meaning,
        None => &passage.text[sentence.clone()],
    };
    let text = text.trim().trim_end_matches(['.', ';', ',']);
    let place = source.place(passage, sentence);
    (is_term(term) && text.split_whitespace().count() >= 3)
        .then(|| Object::new(place, 0.95, definition_fields(term, text, source.heading(passage))))
}
