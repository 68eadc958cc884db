//! Passages as they are stored: their kinds, their limits, and the version of the stored form.

use serde::{Deserialize, Serialize};

use crate::corpus::document::location::SourceLocation;
use crate::corpus::document::passages::{PassageRole, SourceDocument};

/// Version of the parsed form. Raise it with every change of the parser: older cached documents are parsed again.
pub(crate) const PARSER_VERSION: u32 = 6;

/// Most bytes of text kept of one document, including the headings and places that its passages repeat.
pub(super) const MAX_TEXT_BYTES: usize = 1 << 20;

/// Most passages kept of one document: a passage has a fixed overhead, and many hold a single word.
pub(super) const MAX_PASSAGES: usize = 50_000;

/// The kind of a passage.
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

/// A passage as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredPassage {
    pub(crate) part: PassageKind,
    pub(crate) text: String,
    /// The heading above it.
    pub(crate) section: String,
    pub(crate) place: SourceLocation,
}

/// The passages of a document, up to the limits.
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
