//! Generates a small file of every supported format, for the mutation tests. The sample files lack the rarer formats, and a
//! mutant of a known small file is easier to debug when it kills a worker.

mod compound;
mod pictures;
mod texts;
mod zipped;

pub(crate) use crate::support::seeds::zipped::office;
pub(crate) use crate::support::seeds::zipped::open_document;
pub(crate) use crate::support::seeds::zipped::relations;
pub(crate) use crate::support::seeds::zipped::zip;

/// A well-formed generated file of one format.
pub(crate) struct Seed {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    /// Words that extraction must find in the file. Empty if the format cannot contain text.
    pub(crate) expected_text: &'static str,
}

/// The text that most seeds contain.
const SENTENCE: &str = "The heron stands in the reeds.";

/// Returns a seed with the text [`SENTENCE`].
fn seed(name: &'static str, bytes: impl Into<Vec<u8>>) -> Seed {
    Seed { name, bytes: bytes.into(), expected_text: SENTENCE }
}

/// Returns the seeds of all formats.
pub(crate) fn seeds() -> Vec<Seed> {
    [texts::texts(), zipped::zipped(), compound::compound(), pictures::pictures()].into_iter().flatten().collect()
}

/// A document format that vic can extract.
pub(crate) struct Format {
    pub(crate) media_type: &'static str,
    pub(crate) extensions: Vec<&'static str>,
}

/// Returns every format that vic can extract, parsed from the table in the source, so that a new format is tested as well.
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

/// Parses a table row such as `Format::Csv, "text/csv", &["csv", "psv"]),`. Returns None for a format that vic cannot
/// extract.
fn parse_format(entry: &'static str) -> Option<Format> {
    let quoted = |text: &'static str| text.split('"').skip(1).step_by(2).collect::<Vec<_>>();
    let is_read = !entry.trim_start().starts_with("Format::Unsupported,");
    let mut extensions = quoted(entry);
    let media_type = extensions.remove(0);
    if entry.contains("CODE") {
        let (_, code) =
            include_str!("../../../crates/protocol/src/model/file_kind.rs").split_once("const CODE").unwrap();
        extensions = quoted(code.split("];").next().unwrap());
    }
    is_read.then_some(Format { media_type, extensions })
}
