//! Finds the source of a file: the source document beside a rendered one, and the path in the header of generated code.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use crate::graph::extract::part::{PartBuilder, path_alias};
use crate::graph::extract::relation;
use crate::graph::extract::source_text::SourceText;

/// Formats of rendered documents.
const RENDERED_FORMATS: [&str; 4] = ["pdf", "html", "htm", "epub"];
/// Source formats of documents, most likely first.
const SOURCE_FORMATS: [&str; 12] =
    ["docx", "odt", "tex", "md", "markdown", "rst", "adoc", "org", "ipynb", "pptx", "odp", "rtf"];
/// A common name is only a hint.
const NAME_CONFIDENCE: f32 = 0.7;
const HEADER_CONFIDENCE: f32 = 0.95;
/// Length of the file header, in bytes, that is searched for a generator's notice.
const HEADER_BYTES: usize = 2_000;

/// `// source: api/v1/vic.proto`, `# Generated from grammar.g4 by ...`, `derived_from: data.csv`; the path is a group.
static SOURCE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?im)^\W{0,6}(?:@?source:|(?:@?generated|derived|compiled)[ _]from(?: file)?:?)[ \t]+[`']?(?P<path>[\w./-]+\.\w{1,8})")
        .expect("a constant that a test compiles")
});

/// Adds possible sources with the same name in the same folder, if the file looks rendered.
pub(super) fn add_sources_by_name(maker: &mut PartBuilder<'_>) {
    let path = maker.reading.record.absolute();
    if RENDERED_FORMATS.contains(&maker.reading.record.extension.as_str()) {
        for written in SOURCE_FORMATS {
            let alias = path_alias(&path.with_extension(written));
            maker.add_edge_to_alias(&alias, relation::DERIVED_FROM, NAME_CONFIDENCE, maker.first_chunk());
        }
    }
}

/// Adds the source that the header of a text names: a path relative to the file's folder or to its root.
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
