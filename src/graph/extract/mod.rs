//! Extracts the graph part of one file: its place, its headings and passages, and the references in its text.
//!
//! Pure: the input is the passages of the index and, for formats that are cheap to parse again, the document itself. Edges
//! found in text name their chunk and a confidence.

mod code;
mod derived_from;
mod links;
mod part;
mod people;
mod proto;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use crate::graph::extract::part::{Finding, PartBuilder};
use crate::model::{Document, FileKind, FileRecord, StoredChunk};

pub(crate) use part::{FOLDERS_ATTRIBUTE, FolderMatch, file_key, folder_match, is_name_alias};

/// Version of the extraction. Raise it with every change here, so that every file is read again.
pub(crate) const VERSION: u32 = 3;

/// Relations of the warehouse.
pub(crate) mod relation {
    /// Folder to folder and file, file to section, section to chunk.
    pub(crate) const CONTAINS: &str = "contains";
    /// File to file and to URL.
    pub(crate) const LINKS_TO: &str = "links_to";
    /// File to paper.
    pub(crate) const CITES: &str = "cites";
    /// File to person.
    pub(crate) const MENTIONS: &str = "mentions";
    /// File to symbol, service and message.
    pub(crate) const DEFINES: &str = "defines";
    /// File to module and file.
    pub(crate) const IMPORTS: &str = "imports";
    /// File to person.
    pub(crate) const AUTHORED_BY: &str = "authored_by";
    /// File to tag.
    pub(crate) const TAGGED: &str = "tagged";
    /// File to a file with the same content.
    pub(crate) const DUPLICATE_OF: &str = "duplicate_of";
    /// File to its source file.
    pub(crate) const DERIVED_FROM: &str = "derived_from";
    /// Service to RPC.
    pub(crate) const HAS_RPC: &str = "has_rpc";
    /// RPC to its request message.
    pub(crate) const TAKES: &str = "takes";
    /// RPC to its response message.
    pub(crate) const RETURNS: &str = "returns";
}

/// The input of the extraction of one file.
pub(crate) struct ExtractInput<'a> {
    pub(crate) record: &'a FileRecord,
    /// Its passages, by ordinal.
    pub(crate) chunks: &'a [StoredChunk],
    /// The document, if it was read again.
    pub(crate) document: Option<&'a Document>,
}

/// Returns whether files of this kind are read again: formats that are cheap to parse and not fully covered by passages.
pub(crate) fn is_reread(kind: FileKind) -> bool {
    matches!(kind, FileKind::Text | FileKind::Markup | FileKind::Web | FileKind::Code | FileKind::Data | FileKind::Mail)
}

/// Returns the graph part of a file.
pub(crate) fn extract_part(reading: &ExtractInput<'_>) -> crate::model::GraphPart {
    let mut maker = PartBuilder::new(reading);
    maker.add_file();
    maker.add_outline();
    let texts = maker.texts();
    let kind = reading.record.kind;
    let is_proto = reading.record.extension == "proto";
    if let Some(first) = texts.first() {
        derived_from::add_source_from_header(first, &mut maker);
    }
    for text in &texts {
        if kind == FileKind::Code || is_proto {
            code::read_code(text, &mut maker);
        } else {
            people::read_people(text, &mut maker);
        }
        links::read_links(text, &mut maker);
    }
    if is_proto {
        proto::read_proto(&texts, &mut maker);
    }
    if let Some(document) = reading.document {
        links::read_document_links(document, &mut maker);
    }
    maker.finish()
}

/// Returns the graph part of a folder: the folder itself and its parent.
pub(crate) fn folder_part(path: &Path, root: &Path) -> crate::model::GraphPart {
    let shown = path.to_string_lossy();
    let name = path.file_name().map_or_else(|| shown.clone().into_owned(), |it| it.to_string_lossy().into_owned());
    let mut part = crate::model::GraphPart::default();
    part.nodes.push(crate::model::GraphNode {
        key: part::folder_key(path),
        entity_type: "Folder".into(),
        name,
        attributes: vec![("path".into(), shown.into_owned())],
        ..crate::model::GraphNode::default()
    });
    if let Some(parent) = path.parent().filter(|_| path != root) {
        part.edges.push(crate::model::GraphEdge {
            relation: relation::CONTAINS.into(),
            source: part::folder_key(parent),
            target: part::folder_key(path),
            confidence: 1.0,
            ..crate::model::GraphEdge::default()
        });
    }
    part
}

/// A text of a file, with its place.
pub(crate) struct SourceText<'a> {
    pub(crate) text: &'a str,
    pub(crate) kind: Option<crate::model::BlockKind>,
    pub(crate) anchor: &'a crate::model::Anchor,
    /// The chunk that contains it.
    pub(crate) chunk: Option<&'a StoredChunk>,
}

impl SourceText<'_> {
    /// Returns the evidence for these bytes of the text.
    fn evidence_at(&self, range: std::ops::Range<usize>) -> Finding {
        part::evidence_of(self, range)
    }

    /// Returns the `key: value` lines of the file's metadata.
    fn metadata_lines(&self) -> BTreeMap<String, (String, std::ops::Range<usize>)> {
        let mut facts = BTreeMap::new();
        let mut at = 0;
        for line in self.text.split_inclusive('\n') {
            if let Some((key, value)) = line.split_once(':') {
                let key = key.trim().to_lowercase();
                let known = !key.is_empty() && key.len() <= 40 && !key.contains(char::is_whitespace);
                if known && !value.trim().is_empty() {
                    facts.entry(key).or_insert((value.trim().to_string(), at..at + line.trim_end().len()));
                }
            }
            at += line.len();
        }
        facts
    }
}
