//! Small generated files of every supported format. The sample files lack the rarer formats, and a mutant of a known file is
//! easier to debug when it kills a worker.

mod compound;
mod pictures;
mod texts;
mod zipped;

pub(crate) use crate::support::seeds::zipped::office;
pub(crate) use crate::support::seeds::zipped::open_document;
pub(crate) use crate::support::seeds::zipped::relations;
pub(crate) use crate::support::seeds::zipped::zip;

/// A well-formed file.
pub(crate) struct Seed {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    /// Words in its text. Empty if the format has no place for words.
    pub(crate) expected_text: &'static str,
}

/// The text of most seeds.
const SENTENCE: &str = "The heron stands in the reeds.";

/// A file with the text [`SENTENCE`].
fn seed(name: &'static str, bytes: impl Into<Vec<u8>>) -> Seed {
    Seed { name, bytes: bytes.into(), expected_text: SENTENCE }
}

/// Returns all seeds.
pub(crate) fn seeds() -> Vec<Seed> {
    [texts::texts(), zipped::zipped(), compound::compound(), pictures::pictures()].into_iter().flatten().collect()
}

/// A format with a reader.
pub(crate) struct Format {
    pub(crate) media_type: &'static str,
    pub(crate) extensions: Vec<&'static str>,
}

/// Returns every format with a reader, parsed from the table of readers, so that none is missed.
pub(crate) fn formats() -> Vec<Format> {
    let (_, table) = include_str!("../../../src/extract/formats.rs").split_once("static FORMATS").unwrap();
    let entries: Vec<&str> = table.split("\n];").next().unwrap().split("entry(").skip(1).collect();
    let formats: Vec<Format> = entries.iter().filter_map(|it| parse_format(it)).collect();
    assert!(
        formats.len() > 40 && entries.iter().all(|it| it.trim_start().starts_with("Format::")),
        "{}",
        formats.len()
    );
    formats
}

/// Parses `Format::Csv, "text/csv", &["csv", "psv"]),`, or source code with its own list. None for formats without a reader.
fn parse_format(entry: &'static str) -> Option<Format> {
    let quoted = |text: &'static str| text.split('"').skip(1).step_by(2).collect::<Vec<_>>();
    let is_read = !entry.trim_start().starts_with("Format::Unread,");
    let mut extensions = quoted(entry);
    let media_type = extensions.remove(0);
    if entry.contains("CODE") {
        let (_, code) =
            include_str!("../../../crates/protocol/src/model/file_kind.rs").split_once("const CODE").unwrap();
        extensions = quoted(code.split("];").next().unwrap());
    }
    is_read.then_some(Format { media_type, extensions })
}
