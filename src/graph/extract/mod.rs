//! Extracts the graph part of one file: its folder, its headings and passages, and the references in its text.
//!
//! Pure functions: the input is the passages of the index and, for formats that are cheap to parse again, the whole
//! document. Edges that were found in text have the chunk as evidence and a confidence.

mod code;
mod derived_from;
mod links;
mod part;
mod people;
mod proto;
mod relation;
mod source_text;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::graph::extract::part::PartBuilder;
use crate::model::FileKind;

pub(crate) use part::{FOLDERS_ATTRIBUTE, FolderMatch, file_key, folder_match, is_name_alias};
pub(crate) use source_text::ExtractInput;

/// Version of the extraction. Must be raised with every change of its results, so that all files are extracted again.
pub(crate) const VERSION: u32 = 5;

/// Returns whether the graph parses files of this kind again, because that is cheap and their passages are incomplete.
pub(crate) fn is_reread(kind: FileKind) -> bool {
    matches!(kind, FileKind::Text | FileKind::Markup | FileKind::Web | FileKind::Code | FileKind::Data | FileKind::Mail)
}

/// Returns the nodes and edges of a file.
pub(crate) fn extract_part(reading: &ExtractInput<'_>) -> crate::model::GraphPart {
    let mut maker = PartBuilder::new(reading);
    maker.add_file();
    derived_from::add_sources_by_name(&mut maker);
    maker.add_duplicates();
    maker.add_outline();
    let texts = reading.texts();
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

/// Returns the node of a folder, and the edge from its parent unless the folder is a root.
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
