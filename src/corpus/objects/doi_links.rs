//! Finds DOIs in texts, and behind links in web pages and light markup.

use std::ops::Range;
use std::sync::LazyLock;

use percent_encoding::percent_decode_str;
use regex::{Captures, Regex};

use crate::corpus::document::passages::{Passage, SourceDocument, strip_tags};
use crate::corpus::text::words::words;

/// A link to a work by its DOI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DoiLink {
    /// Byte range of the link text in the passage; `None` if the link has no text.
    pub(super) words: Option<Range<usize>>,
    pub(super) doi: String,
}

/// A DOI. Old DOIs contain brackets, angle brackets and semicolons; [`doi_of`] removes characters that end a sentence.
pub(super) static DOI: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(10\.\d{4,9}/[^\s\x22{}]+)").expect("a constant"));

/// Pattern of the resolver part of an address, before the DOI.
const RESOLVER: &str = r"(?:https?://(?:dx\.|www\.)?doi\.org/|doi:)";

static ANCHOR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(r#"(?is)<a\s[^>]*?href\s*=\s*["']\s*{RESOLVER}(10\.\d{{4,9}}(?:/|%2F)[^"'\s]+)\s*["'][^>]*>"#))
        .expect("a constant")
});
/// A link in light markup: `[words](address)`, `` `words <address>`_ `` or `\href{address}{words}`.
static MARKED: LazyLock<Regex> = LazyLock::new(|| {
    // Allow brackets inside a DOI, because old DOIs contain them.
    let doi = r"10\.\d{4,9}/(?:[^\s<>{}()]|\([^\s()]*\))+";
    Regex::new(&format!(
        r#"\[([^\[\]\n]+)\]\(<?{RESOLVER}({doi})>?(?:\s+"[^"]*")?\)|`([^`<]+?)\s*<{RESOLVER}({doi})>`_|\\href\{{{RESOLVER}({doi})\}}\{{([^}}]+)\}}"#
    ))
    .expect("a constant")
});
/// A resolver address without link markup.
static BARE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"https?://(?:dx\.|www\.)?doi\.org/10\.\d{4,9}/[^\s<>{}|`]+").expect("a constant"));

/// Finds the DOI links of a passage.
pub(super) fn find_doi_links(source: &SourceDocument, passage: &Passage) -> Vec<DoiLink> {
    let mut found = if source.is_page() { page_links(source, passage) } else { markup_links(&passage.text) };
    // Skip a bare address inside a link in markup, because that link is already found.
    let mut told: Vec<Range<usize>> = found.iter().filter_map(|it| it.words.clone()).collect();
    told.extend(MARKED.find_iter(&passage.text).map(|it| it.range()));
    for bare in BARE.find_iter(&passage.text).filter(|it| !told.iter().any(|other| overlap(other, &it.range()))) {
        if let Some(doi) = doi_of(bare.as_str()) {
            let length = bare.as_str().find(&doi).map_or(bare.len(), |it| it + doi.len());
            found.push(DoiLink { words: Some(bare.start()..bare.start() + length), doi });
        }
    }
    found.sort_by_key(|it| it.words.as_ref().map(|it| it.start));
    found
}

/// Counts the words that belong neither to an address nor to a link.
pub(super) fn count_unlinked_words(text: &str, found: &[DoiLink]) -> usize {
    let linked = found.iter().filter_map(|it| text.get(it.words.clone()?)).filter(|it| !BARE.is_match(it));
    let linked: usize = linked.map(|it| words(it).count()).sum();
    words(&BARE.replace_all(text, " ")).count().saturating_sub(linked)
}

/// Returns whether two byte ranges overlap.
pub(super) fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Returns the DOI in a text, without characters that only end the sentence or close a bracket around the DOI.
pub(super) fn doi_of(text: &str) -> Option<String> {
    let found = DOI.captures(text)?;
    let mut doi = found.get(1)?.as_str();
    while let Some(last) = doi.chars().next_back() {
        let opening = match last {
            '.' | ',' | ';' | ':' | '*' | '_' => None,
            ')' => Some('('),
            ']' => Some('['),
            '>' => Some('<'),
            _ => break,
        };
        if opening.is_some_and(|it| doi.matches(it).count() >= doi.matches(last).count()) {
            break;
        }
        doi = &doi[..doi.len() - last.len_utf8()];
    }
    Some(doi.to_string())
}

/// Finds the links in a passage of a web page, including an image link after the last word.
fn page_links(source: &SourceDocument, passage: &Passage) -> Vec<DoiLink> {
    let Some((raw, bytes)) = source.raw.as_ref().zip(source.markup_around(passage)) else { return Vec::new() };
    let html = &raw.text[bytes.clone()];
    if !html.contains("doi") {
        return Vec::new();
    }
    let link = |found: Captures<'_>| {
        let start = found.get(0)?.end();
        let length = html[start..].find("</a").or_else(|| html[start..].find("</A")).unwrap_or(html.len() - start);
        let inner = bytes.start + start..bytes.start + start + length;
        let doi = percent_decode_str(found[1].split(['?', '#']).next()?).decode_utf8().ok()?.replace("&amp;", "&");
        Some(DoiLink { words: source.locate_words(passage, &strip_tags(&raw.text[inner.clone()]), &inner), doi })
    };
    ANCHOR.captures_iter(html).filter_map(link).collect()
}

fn markup_links(text: &str) -> Vec<DoiLink> {
    let link = |found: Captures<'_>| {
        let (words, doi) = [(1, 2), (3, 4), (6, 5)].into_iter().find_map(|it| found.get(it.0).zip(found.get(it.1)))?;
        Some(DoiLink { words: Some(words.range()), doi: doi.as_str().to_string() })
    };
    MARKED.captures_iter(text).filter_map(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doi_keeps_own_brackets_only() {
        for (text, doi) in [
            ("(doi:10.5555/ice.2018).", "10.5555/ice.2018"),
            ("doi:10.5555/(A)1(2014)17:15<66::B>3.0.CO;2-2", "10.5555/(A)1(2014)17:15<66::B>3.0.CO;2-2"),
            ("<https://doi.org/10.5555/a_b>,", "10.5555/a_b"),
            ("[10.5555/x(y)], p. 3", "10.5555/x(y)"),
        ] {
            assert_eq!(doi_of(text).as_deref(), Some(doi), "{text}");
        }
    }
}
