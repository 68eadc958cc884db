//! The storage format of passages: their kinds, their limits, and the version of the format.

use serde::{Deserialize, Serialize};

use crate::corpus::document::location::SourceLocation;
use crate::corpus::document::passages::{PassageRole, SourceDocument};

/// Version of the parser. Raise it with every change of the parser, so that cached documents are parsed again.
pub(crate) const PARSER_VERSION: u32 = 6;

/// Maximum bytes of text kept of one document, including the headings and locations that its passages repeat.
pub(super) const MAX_TEXT_BYTES: usize = 1 << 20;

/// Maximum number of passages kept of one document: each has a fixed overhead, and many hold a single word.
pub(super) const MAX_PASSAGES: usize = 50_000;

/// What a passage is in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PassageKind {
    Heading,
    Text,
    Item,
    Table,
    Code,
    Facts,
}

/// A passage in the form in which it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredPassage {
    pub(crate) part: PassageKind,
    pub(crate) text: String,
    /// The heading above the passage.
    pub(crate) section: String,
    pub(crate) place: SourceLocation,
}

/// Returns the passages of a document in stored form, up to the limits.
pub(super) fn stored_passages(source: &SourceDocument) -> Vec<StoredPassage> {
    let mut left = MAX_TEXT_BYTES;
    let mut kept = Vec::new();
    for passage in source.passages.iter().take(MAX_PASSAGES) {
        let (section, place) = (source.heading(passage), source.place_of(passage));
        let repeated = section.len() + place.part.as_ref().map_or(0, String::len);
        let Some(rest) = left.checked_sub(passage.text.len() + repeated) else { break };
        left = rest;
        let part = match passage.role {
            PassageRole::Heading(_) => PassageKind::Heading,
            PassageRole::Prose => PassageKind::Text,
            PassageRole::Item => PassageKind::Item,
            PassageRole::Table => PassageKind::Table,
            PassageRole::Code => PassageKind::Code,
            PassageRole::Facts => PassageKind::Facts,
        };
        let (text, section) = (passage.text.clone(), section.to_string());
        kept.push(StoredPassage { part, text, section, place });
    }
    kept
}
