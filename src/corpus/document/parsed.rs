//! A parsed document, cached by content hash: passages, objects, facts, links and terms.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::corpus::document::location::SourceLocation;
use crate::corpus::document::metadata::{self, Facts};
use crate::corpus::document::passages::SourceDocument;
use crate::corpus::document::stored_passage::{PassageKind, StoredPassage, stored_passages};
use crate::corpus::objects::{self, Objects};
use crate::corpus::text::words;
use crate::model::{Document, FileKind, Redaction};
use crate::secrets::Redactor;

/// A link in a document to a file or an address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Link {
    pub(crate) target: String,
    pub(crate) place: SourceLocation,
}

/// A parsed document: passages, objects, facts, links and terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ParsedDocument {
    pub(crate) facts: Facts,
    pub(crate) objects: Objects,
    pub(crate) passages: Vec<StoredPassage>,
    pub(crate) links: Vec<Link>,
    /// The document's `key: value` pairs by key, each with its location.
    pub(crate) stated: BTreeMap<String, (String, SourceLocation)>,
    /// Number of occurrences of each word stem.
    pub(crate) terms: BTreeMap<String, u32>,
    /// Descriptions of parts that could not be read.
    pub(crate) problems: Vec<String>,
}

impl ParsedDocument {
    /// Parses a document. `raw` is the content of the file, if the file is a text file.
    pub(crate) fn parse(
        extension: &str,
        kind: FileKind,
        document: Document,
        raw: Option<String>,
        redaction: Redaction,
    ) -> ParsedDocument {
        let (pages, mut problems) = (document.pages, document.problems.clone());
        if document.truncated {
            problems.push("the text was truncated at the size limit".into());
        }
        let source = SourceDocument::new(extension, document, raw);
        let objects = objects::find_objects(&source, redaction);
        let passages = stored_passages(&source);
        if passages.len() < source.passages.len() {
            problems.push(format!("only the first {} passages of {} are kept", passages.len(), source.passages.len()));
        }
        let links = find_links(&source, redaction);
        let stated = find_key_values(&passages);
        let facts = metadata::compute_facts(&metadata::FactsInput {
            source: &source,
            kind,
            pages,
            objects: &objects,
            stated: &stated,
            passages: &passages,
            links: links.len(),
        });
        let mut terms = BTreeMap::new();
        for passage in passages.iter().filter(|it| it.part != PassageKind::Code) {
            for (stem, count) in words::terms(&passage.text) {
                *terms.entry(stem).or_default() += count;
            }
        }
        ParsedDocument { facts, objects, passages, links, stated, terms, problems }
    }

    /// Returns the heading passages in order.
    pub(crate) fn headings(&self) -> impl Iterator<Item = &StoredPassage> {
        self.passages.iter().filter(|it| it.part == PassageKind::Heading)
    }

    /// Returns the passages that hold running text.
    pub(crate) fn prose(&self) -> impl Iterator<Item = &StoredPassage> {
        self.passages.iter().filter(|it| matches!(it.part, PassageKind::Text | PassageKind::Item))
    }
}

/// Finds the links in the text, and on web pages also those of `<a>` tags.
fn find_links(source: &SourceDocument, redaction: Redaction) -> Vec<Link> {
    static TEXT: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"\]\(<?([^)\s>]+)>?(?: "[^"]*")?\)|\[\[([^\]|#]+)[^\]]*\]\]|\\(?:href|url)\{([^}]+)\}|\b(https?://[^\s<>")\]}]+)"#).expect("a constant")
    });
    static ANCHORS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"(?i)<a\s[^>]*?href\s*=\s*["']([^"'#][^"']*)["']"#).expect("a constant"));
    let mut links = Vec::new();
    for passage in source.prose() {
        for found in TEXT.captures_iter(&passage.text) {
            let Some(target) = found.iter().skip(1).flatten().next() else { continue };
            let place = source.place(passage, &target.range());
            links.push(Link { target: target.as_str().trim_end_matches(['.', ',', ';']).to_string(), place });
        }
    }
    if let (Some(raw), true) = (&source.raw, matches!(source.extension.as_str(), "html" | "htm" | "xhtml")) {
        let anchors = ANCHORS.captures_iter(&raw.text).filter_map(|it| it.get(1));
        links.extend(anchors.map(|it| Link { target: it.as_str().to_string(), place: raw.place(&it.range()) }));
    }
    // Redact the targets again: addresses can contain keys, and those of a web page come from the unredacted file.
    links.iter_mut().for_each(|it| it.target = Redactor::new(redaction).redact(&it.target).into_owned());
    links
}

/// Returns the first `key: value` pair of each key in metadata, list items and tables with two columns.
fn find_key_values(passages: &[StoredPassage]) -> BTreeMap<String, (String, SourceLocation)> {
    static PAIR: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^\s*(?:[-*] )?(?:\*\*|__)?([\p{L}][\p{L}\d _/-]{1,40}?)(?:\*\*|__)?\s*[:=](?:\*\*)?\s+(.{1,300})$")
            .expect("a constant")
    });
    let mut found = BTreeMap::new();
    for passage in passages {
        for line in passage.text.lines() {
            let pair = match passage.part {
                PassageKind::Table => line.split_once(" | ").filter(|it| !it.1.contains(" | ")),
                PassageKind::Text | PassageKind::Item | PassageKind::Facts => {
                    PAIR.captures(line).and_then(|it| Some((it.get(1)?.as_str(), it.get(2)?.as_str())))
                }
                PassageKind::Heading | PassageKind::Code => None,
            };
            if let Some((key, value)) = pair {
                let value = value.trim().trim_matches(['"', '\'', '*']).to_string();
                found.entry(words::normalize_key(key)).or_insert_with(|| (value, passage.place.clone()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::document::passages::MAX_HEADING_BYTES;
    use crate::corpus::document::stored_passage::{MAX_PASSAGES, MAX_TEXT_BYTES};
    use crate::model::{Anchor, Block, BlockKind};

    /// Parses an RTF document with this heading and this many one-letter paragraphs below the heading.
    fn parse_rtf(heading: &str, paragraphs: usize) -> ParsedDocument {
        let block = |kind, text: &str| Block { kind, text: text.into(), anchor: Anchor::default(), rows: Vec::new() };
        let heading = (!heading.is_empty()).then(|| block(BlockKind::Heading(1), heading));
        let blocks = heading.into_iter().chain((0..paragraphs).map(|_| block(BlockKind::Paragraph, "a")));
        let document = Document { blocks: blocks.collect(), ..Document::default() };
        ParsedDocument::parse("rtf", FileKind::Document, document, None, Redaction::default())
    }

    #[test]
    fn huge_heading_is_cut_in_passages_below() {
        let reading = parse_rtf(&"ä".repeat(250_000), 2_000);
        assert_eq!((reading.passages[0].text.len(), reading.passages[1].section.len()), (500_000, MAX_HEADING_BYTES));
        let kept: usize = reading.passages.iter().map(|it| it.text.len() + it.section.len()).sum();
        assert!((MAX_TEXT_BYTES - 1_000..=MAX_TEXT_BYTES).contains(&kept), "{kept}");
        let told = format!("only the first {} passages of 2001 are kept", reading.passages.len());
        assert_eq!(reading.problems, [told]);
        assert_eq!(parse_rtf("Tides", 3).passages[3].section, "Tides");
    }

    #[test]
    fn passages_over_limit_are_dropped_and_reported() {
        let reading = parse_rtf("", MAX_PASSAGES + 1);
        assert_eq!(reading.passages.len(), MAX_PASSAGES);
        assert_eq!(reading.problems, ["only the first 50000 passages of 50001 are kept"]);
        assert!(parse_rtf("", 1_000).problems.is_empty());
    }
}
