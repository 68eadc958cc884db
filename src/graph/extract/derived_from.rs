//! Finds the source of a file: the document that a PDF or HTML file was made from, or the file that its header names.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use crate::graph::extract::part::{PartBuilder, path_alias};
use crate::graph::extract::relation;
use crate::graph::extract::source_text::SourceText;

/// Formats that are often made from another document.
const RENDERED_FORMATS: [&str; 4] = ["pdf", "html", "htm", "epub"];
/// Formats of documents from which other formats are made, most likely first.
const SOURCE_FORMATS: [&str; 12] =
    ["docx", "odt", "tex", "md", "markdown", "rst", "adoc", "org", "ipynb", "pptx", "odp", "rtf"];
/// Confidence of an edge to a source that was found by its name; low, because equal names are only a hint.
const NAME_CONFIDENCE: f32 = 0.7;
const HEADER_CONFIDENCE: f32 = 0.95;
/// Number of bytes at the start of a file that are searched for the name of its source.
const HEADER_BYTES: usize = 2_000;

/// `// source: api/v1/vic.proto`, `# Generated from grammar.g4 by ...`, `derived_from: data.csv`, with the path as a group.
static SOURCE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?im)^\W{0,6}(?:@?source:|(?:@?generated|derived|compiled)[ _]from(?: file)?:?)[ \t]+[`']?(?P<path>[\w./-]+\.\w{1,8})")
        .expect("a constant that a test compiles")
});

/// If the file has a rendered format, adds edges to files of a source format with the same name in the same folder.
pub(super) fn add_sources_by_name(maker: &mut PartBuilder<'_>) {
    let path = maker.reading.record.absolute();
    if RENDERED_FORMATS.contains(&maker.reading.record.extension.as_str()) {
        for written in SOURCE_FORMATS {
            let alias = path_alias(&path.with_extension(written));
            maker.add_edge_to_alias(&alias, relation::DERIVED_FROM, NAME_CONFIDENCE, maker.first_chunk());
        }
    }
}

/// Adds edges to the source that the header of a file names: a path relative to the folder of the file or to its root.
pub(super) fn add_source_from_header(text: &SourceText<'_>, maker: &mut PartBuilder<'_>) {
    let header = &text.text[..text.text.floor_char_boundary(HEADER_BYTES)];
    let is_first = text.anchor.byte_start.unwrap_or(0) == 0;
    let Some(path) = SOURCE.captures(header).filter(|_| is_first).and_then(|it| it.name("path")) else { return };
    let from_root = format!("/{}", path.as_str().trim_start_matches('/'));
    let evidence = text.evidence_at(path.range());
    for relative in [path.as_str(), from_root.as_str()] {
        if let Some(alias) = maker.relative_path_alias(relative).filter(|_| Path::new(relative).file_name().is_some()) {
            maker.add_edge_to_alias(&alias, relation::DERIVED_FROM, HEADER_CONFIDENCE, evidence.clone());
        }
    }
}
