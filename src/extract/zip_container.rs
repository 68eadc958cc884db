//! Access to a zip container with XML parts, the base of the OOXML, OpenDocument and EPUB readers.
//!
//! All data are inflated through the sink, which limits the total. This module knows no specific document format.

use std::collections::HashMap;
use std::io::Cursor;

use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::extract::xml_tree::{self, Flaw};
use crate::extract::{ReadResult, Sink, new_failure};
use crate::model::{Block, ExtractFailure, Reason};

/// First bytes of a compound file (OLE), the container of the binary Office formats before 2007.
pub(crate) const COMPOUND_FILE: [u8; 8] = [0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1];

/// An open zip container.
pub(crate) struct Package<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    /// Index of each part in the zip, by its lowercase name without leading slash: names in the XML may differ in case.
    index: HashMap<String, usize>,
    /// The failure of the first part that was found damaged.
    damage: Option<ExtractFailure>,
}

impl<'a> Package<'a> {
    /// Opens a zip container. Fails for a compound file, with a failure that tells whether the file is an encrypted
    /// document.
    pub(crate) fn open(bytes: &'a [u8], sink: &Sink) -> ReadResult<Package<'a>> {
        if bytes.starts_with(&COMPOUND_FILE) {
            return Err(match is_encrypted_package(bytes) {
                true => new_failure(Reason::Encrypted, "needs a password"),
                false => new_failure(Reason::Damaged, "the file is a compound file instead of a zip container"),
            });
        }
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| zip_failure(&error))?;
        let most = sink.limits().parts;
        if archive.len() > most as usize {
            return Err(new_failure(
                Reason::DecompressionLimit,
                format!("the zip container has more than {most} parts"),
            ));
        }
        let mut index = HashMap::new();
        for place in 0..archive.len() {
            if let Some(Ok(name)) = archive.name_for_index(place) {
                // Replaces backslashes, which some programs write in part names.
                index.entry(part_key(&name.replace('\\', "/"))).or_insert(place);
            }
        }
        Ok(Package { archive, index, damage: None })
    }

    /// Returns whether the container has a part of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.index.contains_key(&part_key(name))
    }

    /// Returns the names of all parts in their original case, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |place: &usize| Some(self.archive.name_for_index(*place)?.ok()?.replace('\\', "/"));
        let mut names: Vec<String> = self.index.values().filter_map(name).collect();
        names.sort_unstable();
        names
    }

    /// Inflates a part; returns `None` if it is missing or damaged. Damage is recorded as a problem. Fails if a limit is
    /// exceeded.
    pub(crate) fn read_part(&mut self, name: &str, sink: &mut Sink) -> ReadResult<Option<Vec<u8>>> {
        let Some(&place) = self.index.get(&part_key(name)) else { return Ok(None) };
        let read = match self.archive.by_index(place) {
            Ok(file) => {
                let compressed = file.compressed_size();
                check_method(file.compression()).and_then(|()| sink.inflate_entry(file, compressed))
            }
            Err(error) => Err(zip_failure(&error)),
        };
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(failure) if failure.reason == Reason::Damaged => {
                let detail = format!("part `{name}`: {}", failure.detail);
                sink.record_problem(detail.clone());
                self.damage.get_or_insert(ExtractFailure { detail, ..failure });
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Fails if a part was damaged and no block added since `mark` is text. Otherwise the file would count as read,
    /// although only e.g. its title was.
    pub(crate) fn check_damage(&self, mark: usize, is_text: fn(&Block) -> bool, sink: &mut Sink) -> ReadResult {
        match &self.damage {
            Some(damage) if !sink.document().blocks.iter().skip(mark).any(is_text) => Err(damage.clone()),
            _ => Ok(()),
        }
    }

    /// Inflates a part and decodes it to text; returns `None` in the same cases as [`Package::read_part`].
    pub(crate) fn read_xml(&mut self, name: &str, sink: &mut Sink) -> ReadResult<Option<String>> {
        let bytes = self.read_part(name, sink)?;
        Ok(bytes.map(|bytes| match String::from_utf8(bytes) {
            Ok(text) => text.strip_prefix('\u{feff}').map(str::to_string).unwrap_or(text),
            Err(error) => xml_tree::decode_xml(error.as_bytes()).into_owned(),
        }))
    }
}

/// Records a flaw in the XML of a part as a problem. Fails if the flaw is `Flaw::TooDeep`.
pub(crate) fn check_flaw(flaw: Option<&Flaw>, part: &str, sink: &mut Sink) -> ReadResult {
    match flaw {
        None => {}
        Some(Flaw::TooDeep) => {
            return Err(new_failure(Reason::TooDeep, format!("elements of `{part}` are nested too deep")));
        }
        Some(Flaw::TooMany) => {
            sink.mark_truncated();
            sink.record_problem(format!("`{part}` has too many elements; the rest is skipped"));
        }
        Some(Flaw::Malformed(what)) => sink.record_problem(format!("`{part}` is damaged: {what}")),
    }
    Ok(())
}

/// Resolves a target relative to the part that refers to it: `word/document.xml` and `../a.xml` give `a.xml`.
pub(crate) fn resolve_part(base: &str, target: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    if !target.starts_with('/') {
        segments.extend(base.split('/'));
        segments.pop();
    }
    for segment in target.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    segments.join("/")
}

/// Fails for an unsupported compression method, which would otherwise be reported as damage.
pub(crate) fn check_method(method: CompressionMethod) -> ReadResult {
    match method {
        CompressionMethod::Stored | CompressionMethod::Deflated => Ok(()),
        other => Err(new_failure(Reason::UnsupportedType, format!("unsupported compression method {other}"))),
    }
}

/// Converts an error of the zip crate to the failure to record for the file.
pub(crate) fn zip_failure(error: &ZipError) -> ExtractFailure {
    match error {
        ZipError::UnsupportedArchive(what) if *what == ZipError::PASSWORD_REQUIRED => {
            new_failure(Reason::Encrypted, "needs a password")
        }
        ZipError::InvalidPassword => new_failure(Reason::Encrypted, "needs a password"),
        // Reports an unsupported type, because the file is intact: vic only lacks its compression method.
        ZipError::UnsupportedArchive(_) | ZipError::CompressionMethodNotSupported(_) => {
            new_failure(Reason::UnsupportedType, format!("zip container: {error}"))
        }
        error => new_failure(Reason::Damaged, format!("zip container: {error}")),
    }
}

/// Returns whether a compound file holds an encrypted OOXML document: a stream named `EncryptedPackage`, in UTF-16.
pub(crate) fn is_encrypted_package(bytes: &[u8]) -> bool {
    let name: Vec<u8> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
    // Searches the directory entries, which are 128 bytes each, aligned, and begin with the stream name.
    bytes.chunks(128).any(|entry| entry.starts_with(&name))
}

fn part_key(name: &str) -> String {
    name.trim_start_matches('/').to_lowercase()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;
    use crate::extract::Input;
    use crate::model::{BlockKind, Document, ExtractLimits};

    /// Makes a zip archive of (name, text) pairs, for the tests of all container formats.
    pub(crate) fn zipped(parts: &[(&str, &str)]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in parts {
            writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            writer.write_all(text.as_bytes()).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    /// Flips a bit in the compressed data of a part.
    pub(crate) fn with_damaged_part(mut bytes: Vec<u8>, part: &str) -> Vec<u8> {
        let middle = {
            let mut archive = ZipArchive::new(Cursor::new(bytes.as_slice())).unwrap();
            let place = archive.index_for_name(part).unwrap();
            let file = archive.by_index(place).unwrap();
            file.data_start().unwrap() + file.compressed_size() / 2
        };
        bytes[middle as usize] ^= 1;
        bytes
    }

    /// Runs a reader that must fail on `bytes`, and returns the reason.
    pub(crate) fn failure_reason(read: fn(Input<'_>, &mut Sink) -> ReadResult, bytes: &[u8]) -> Reason {
        let mut sink = Sink::new(ExtractLimits::default());
        read(Input { bytes, name: "test" }, &mut sink).unwrap_err().reason
    }

    /// Runs a reader with default limits, and returns the document.
    pub(crate) fn read_document(read: fn(Input<'_>, &mut Sink) -> ReadResult, bytes: &[u8]) -> Document {
        let mut sink = Sink::new(ExtractLimits::default());
        read(Input { bytes, name: "test" }, &mut sink).unwrap();
        sink.into_document()
    }

    /// Formats each block as one line that begins with a letter for its kind: `1 Title`, `p text`, `- item`, `t a | b`.
    pub(crate) fn format_blocks(document: &Document) -> String {
        let lines: Vec<String> = document
            .blocks
            .iter()
            .map(|block| {
                let kind = match block.kind {
                    BlockKind::Heading(level) => level.to_string(),
                    BlockKind::Paragraph => "p".to_string(),
                    BlockKind::ListItem => "-".to_string(),
                    BlockKind::Table => "t".to_string(),
                    BlockKind::Code => "c".to_string(),
                    BlockKind::Metadata => "m".to_string(),
                };
                format!("{kind} {}", block.text.replace('\n', " / "))
            })
            .collect();
        lines.join("\n")
    }

    #[test]
    fn resolve_handles_relative_and_absolute_targets() {
        for (base, target, part) in [
            ("word/document.xml", "footnotes.xml", "word/footnotes.xml"),
            ("ppt/slides/slide1.xml", "../notes/n1.xml", "ppt/notes/n1.xml"),
            ("word/document.xml", "/word/x.xml", "word/x.xml"),
            ("a", "../../../etc/passwd", "etc/passwd"),
        ] {
            assert_eq!(resolve_part(base, target), part);
        }
    }

    #[test]
    fn parts_are_found_in_any_case() {
        let bytes = zipped(&[("Word\\Document.xml", "x")]);
        let mut sink = Sink::new(ExtractLimits::default());
        let mut package = Package::open(&bytes, &sink).unwrap();
        assert_eq!(package.read_xml("/word/document.XML", &mut sink).unwrap().as_deref(), Some("x"));
        assert_eq!(package.read_xml("missing", &mut sink).unwrap(), None);
    }

    // Case C11
    #[test]
    fn unsupported_compression_is_not_damage() {
        for method in [9u16, 12, 14, 93] {
            let mut bytes = zipped(&[("a", "some text")]);
            let central = memchr::memmem::rfind(&bytes, b"PK\x01\x02").unwrap();
            // Overwrites the compression method in the local and in the central header.
            for place in [8, central + 10] {
                bytes[place..place + 2].copy_from_slice(&method.to_le_bytes());
            }
            let mut sink = Sink::new(ExtractLimits::default());
            let mut package = Package::open(&bytes, &sink).unwrap();
            assert_eq!(package.read_part("a", &mut sink).unwrap_err().reason, Reason::UnsupportedType, "{method}");
        }
    }

    #[test]
    fn encrypted_package_is_not_damage() {
        let sink = Sink::new(ExtractLimits::default());
        let mut bytes = COMPOUND_FILE.to_vec();
        bytes.resize(1024, 0);
        assert_eq!(Package::open(&bytes, &sink).err().unwrap().reason, Reason::Damaged);
        bytes.extend("EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes));
        assert_eq!(Package::open(&bytes, &sink).err().unwrap().reason, Reason::Encrypted);
    }

    #[test]
    fn container_over_part_limit_is_rejected_on_open() {
        let sink = Sink::new(ExtractLimits { parts: 2, ..ExtractLimits::default() });
        assert!(Package::open(&zipped(&[("a", ""), ("b", "")]), &sink).is_ok());
        let failed = Package::open(&zipped(&[("a", ""), ("b", ""), ("c", "")]), &sink).err().unwrap();
        assert_eq!(failed.reason, Reason::DecompressionLimit);
    }
}
