//! What a file was made from: a document that was rendered from its source beside it, and code that says what generated it.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use crate::graph::extract::part::{Finding, Maker, path_alias};
use crate::graph::extract::{Text, relation};

/// Formats that documents are rendered to.
const RENDERED: [&str; 4] = ["pdf", "html", "htm", "epub"];
/// Formats that people write and render, the likeliest first.
const WRITTEN: [&str; 12] =
    ["docx", "odt", "tex", "md", "markdown", "rst", "adoc", "org", "ipynb", "pptx", "odp", "rtf"];
/// A name in common is a hint, no proof.
const BY_NAME: f32 = 0.7;
const BY_HEADER: f32 = 0.95;
/// Bytes at the beginning of a file in which a generator says so.
const HEADER: usize = 2_000;

/// `// source: api/v1/vic.proto`, `# Generated from grammar.g4 by ...`, `derived_from: data.csv`; the path is a group.
static SOURCE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?im)^\W{0,6}(?:@?source:|(?:@?generated|derived|compiled)[ _]from(?: file)?:?)[ \t]+[`']?(?P<path>[\w./-]+\.\w{1,8})")
        .expect("a constant that a test compiles")
});

/// The source of the same name in the same folder, if the file looks rendered.
pub(super) fn by_name(maker: &mut Maker<'_>, evidence: &Finding) {
    let path = maker.reading.record.absolute();
    if RENDERED.contains(&maker.reading.record.extension.as_str()) {
        for written in WRITTEN {
            let alias = path_alias(&path.with_extension(written));
            maker.points(&alias, relation::DERIVED_FROM, BY_NAME, evidence.clone());
        }
    }
}

/// The source that the header of a text names: a path from the file's folder, or from that of its root.
pub(super) fn by_header(text: &Text<'_>, maker: &mut Maker<'_>) {
    let header = &text.text[..text.text.floor_char_boundary(HEADER)];
    let is_first = text.anchor.byte_start.unwrap_or(0) == 0;
    let Some(path) = SOURCE.captures(header).filter(|_| is_first).and_then(|it| it.name("path")) else { return };
    let from_root = format!("/{}", path.as_str().trim_start_matches('/'));
    let evidence = text.found(path.range());
    for relative in [path.as_str(), from_root.as_str()] {
        if let Some(alias) = maker.beside(relative).filter(|_| Path::new(relative).file_name().is_some()) {
            maker.points(&alias, relation::DERIVED_FROM, BY_HEADER, evidence.clone());
        }
    }
}
