use std::io::Write;

use super::*;
use crate::extract::zip_container::tests::zipped;
use crate::model::{Anchor, BlockKind, Document, ExtractLimits};

/// Reads a member by its name: archives with this module, `.bad` as damaged, `.png` as unsupported, everything else as
/// text.
fn dispatch(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    if input.bytes.starts_with(b"PK") || input.bytes.starts_with(&[0x1f, 0x8b]) || is_tar(input.bytes) {
        return read(input, sink, &mut dispatch);
    }
    match input.name.rsplit('.').next() {
        Some("bad") => return Err(new_failure(Reason::Damaged, "bad")),
        Some("png") => return Err(new_failure(Reason::UnsupportedType, "")),
        _ => {}
    }
    sink.push(BlockKind::Paragraph, &String::from_utf8_lossy(input.bytes), Anchor::default());
    Ok(())
}

fn try_read(bytes: &[u8], name: &str, limits: ExtractLimits) -> (ReadResult, Document) {
    let mut sink = Sink::new(limits);
    let result = read(Input { bytes, name }, &mut sink, &mut dispatch);
    (result, sink.into_document())
}

/// Checks that the blocks of an archive, each formatted as `member: text`, are the expected ones.
fn assert_members(bytes: &[u8], name: &str, expected: &[&str]) -> Document {
    let (result, document) = try_read(bytes, name, ExtractLimits::default());
    result.unwrap();
    let found: Vec<String> = document
        .blocks
        .iter()
        .map(|it| format!("{}: {}", it.anchor.member.as_deref().unwrap_or(""), it.text))
        .collect();
    assert_eq!(found, expected);
    document
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn tarred(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_entry_type(tar::EntryType::Regular);
        builder.append_data(&mut header, name, *bytes).unwrap();
    }
    let mut link = tar::Header::new_ustar();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    builder.append_link(&mut link, "link", "/etc/passwd").unwrap();
    builder.into_inner().unwrap()
}

/// Makes a zip archive with one uncompressed member.
fn stored_zip(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap().into_inner()
}

// Case C16
#[test]
fn member_path_names_all_nesting_levels() {
    let inner = stored_zip("docs/note.txt", b"deep");
    assert_members(&stored_zip("in.zip", &inner), "out.zip", &["in.zip!/docs/note.txt: deep"]);
    assert_members(&tarred(&[("a/b.txt", b"tar")]), "x.tar", &["a/b.txt: tar"]);
    assert_members(&gzipped(&tarred(&[("a", b"tgz")])), "x.tgz", &["a: tgz"]);
    assert_members(&gzipped(b"single"), "notes.txt.gz", &["notes.txt: single"]);
}

// Case C16
#[test]
fn member_name_with_dot_dot_is_only_a_label() {
    assert_members(&zipped(&[("../../etc/passwd", "x"), ("__MACOSX/._a", "junk")]), "a.zip", &["../../etc/passwd: x"]);
}

#[test]
fn damaged_member_does_not_affect_others() {
    let document =
        assert_members(&zipped(&[("a.bad", "x"), ("p.png", "x"), ("b.txt", "good")]), "a.zip", &["b.txt: good"]);
    assert_eq!(document.problems, ["member `a.bad`: bad"]);
}

#[test]
fn unreadable_archive_reports_reason() {
    let reason = |bytes: &[u8], limits| try_read(bytes, "a.zip", limits).0.unwrap_err().reason;
    assert_eq!(reason(&zipped(&[("a.bad", "x"), ("b.bad", "x")]), ExtractLimits::default()), Reason::Damaged);
    let nested = stored_zip("1.zip", &stored_zip("2.zip", &stored_zip("3.zip", b"x")));
    assert_eq!(reason(&nested, ExtractLimits { depth: 2, ..ExtractLimits::default() }), Reason::TooDeep);
    assert_eq!(reason(b"PK\x03\x04 cut off", ExtractLimits::default()), Reason::Damaged);
}

#[test]
fn encrypted_archive_is_reported() {
    let mut bytes = zipped(&[("a.txt", "secret")]);
    // Sets the lowest bit of the flags, which means encrypted, at byte 6 of the local header and at byte 8 of the central
    // one.
    let central = bytes.windows(4).position(|it| it == b"PK\x01\x02").unwrap();
    bytes[6] |= 1;
    bytes[central + 8] |= 1;
    let (result, document) = try_read(&bytes, "a.zip", ExtractLimits::default());
    assert_eq!(result.unwrap_err().reason, Reason::Encrypted);
    assert_eq!(document.problems.len(), 1);
}

#[test]
fn zip_bomb_stops_archive_and_keeps_earlier_members() {
    let zeros = "0".repeat(1 << 20);
    let limits = ExtractLimits { inflated_bytes: 1 << 16, ..ExtractLimits::default() };
    let (result, document) =
        try_read(&zipped(&[("a", "first"), ("b", &zeros), ("c", "never")]), "a.zip", limits.clone());
    assert!(result.is_ok() && document.truncated);
    assert_eq!(document.text(), "first");
    let (result, _) = try_read(&gzipped(zeros.as_bytes()), "a.gz", limits.clone());
    assert_eq!(result.unwrap_err().reason, Reason::DecompressionLimit);
    let (result, _) = try_read(&stored_zip("in.zip", &zipped(&[("b", &zeros)])), "a.zip", limits);
    assert_eq!(result.unwrap_err().reason, Reason::DecompressionLimit);
}

// Case C2
#[test]
fn member_limit_truncates_archive() {
    let limits = ExtractLimits { members: 2, ..ExtractLimits::default() };
    let (result, document) = try_read(&zipped(&[("a", "1"), ("b", "2"), ("c", "3")]), "a.zip", limits);
    assert!(result.is_ok() && document.truncated);
    assert_eq!(document.blocks.len(), 2);
}

#[test]
fn unsupported_compression_is_reported_per_member() {
    let packed_by_zstd = |mut bytes: Vec<u8>| {
        let central = memchr::memmem::find(&bytes, b"PK\x01\x02").unwrap();
        // Overwrites the compression method in the local and in the central header.
        for place in [8, central + 10] {
            bytes[place..place + 2].copy_from_slice(&93u16.to_le_bytes());
        }
        bytes
    };
    let (result, _) = try_read(&packed_by_zstd(stored_zip("a.txt", b"text")), "a.zip", ExtractLimits::default());
    assert_eq!(result.unwrap_err().reason, Reason::UnsupportedType);
    let both = packed_by_zstd(zipped(&[("a.txt", "text"), ("b.txt", "other text")]));
    let document = assert_members(&both, "a.zip", &["b.txt: other text"]);
    assert!(document.problems.iter().any(|it| it.contains("a.txt")), "{:?}", document.problems);
}
