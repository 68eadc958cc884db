use std::io::Write;

use crate::extract::email::outlook::*;
use crate::model::{Document, ExtractLimits};

/// Builds an Outlook message from (path, content) pairs of streams.
fn message(streams: &[(&str, &[u8])]) -> Vec<u8> {
    let mut file = CompoundFile::create(Cursor::new(Vec::new())).unwrap();
    for (path, bytes) in streams {
        if let Some((parent, _)) = path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
            file.create_storage_all(parent).unwrap();
        }
        file.create_stream(path).unwrap().write_all(bytes).unwrap();
    }
    file.flush().unwrap();
    file.into_inner().into_inner()
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn read_all(bytes: &[u8]) -> Document {
    let mut sink = Sink::new(ExtractLimits::default());
    let mut member = |input: Input<'_>, sink: &mut Sink| {
        sink.push(BlockKind::Paragraph, &String::from_utf8_lossy(input.bytes), Anchor::default());
        Ok(())
    };
    read(Input { bytes, name: "a.msg" }, &mut sink, &mut member).unwrap();
    sink.into_document()
}

/// Returns a stream of fixed-size properties with the code page 1251 and the submit time 2020-01-01.
fn properties() -> Vec<u8> {
    let ticks = (1_577_836_800u64 + 11_644_473_600) * 10_000_000;
    records(&[(CODE_PAGE, 1251), (SUBMIT_TIME, ticks)])
}

fn records(properties: &[(u16, u64)]) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    for (number, value) in properties {
        bytes.extend([3, 0]);
        bytes.extend(number.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(value.to_le_bytes());
    }
    bytes
}

#[test]
fn message_yields_metadata_body_and_attachments() {
    let inner = "/__attach_version1.0_#00000001/__substg1.0_3701000D";
    let bytes = message(&[
        ("/__properties_version1.0", &properties()),
        ("/__substg1.0_0037001F", &utf16("Plan")),
        ("/__substg1.0_0C1A001E", b"\xc0\xed\xed\xe0"),
        ("/__substg1.0_0C1F001F", &utf16("ann@example.org")),
        ("/__substg1.0_1000001F", &utf16("one\r\n\r\ntwo")),
        ("/__attach_version1.0_#00000000/__substg1.0_3707001F", &utf16("a.txt")),
        ("/__attach_version1.0_#00000000/__substg1.0_37010102", b"attached"),
        (&format!("{inner}/__properties_version1.0"), &[]),
        (&format!("{inner}/__substg1.0_0037001F"), &utf16("Inner")),
    ]);
    let document = read_all(&bytes);
    let blocks: Vec<_> = document.blocks.iter().map(|it| (it.anchor.member.as_deref(), it.text.as_str())).collect();
    assert_eq!(
        blocks,
        [
            (None, "from: Анна <ann@example.org>\ndate: 2020-01-01 00:00 UTC\nsubject: Plan"),
            (None, "one"),
            (None, "two"),
            (None, "attachments: a.txt"),
            (Some("a.txt"), "attached"),
            (Some("message.msg"), "subject: Inner"),
        ]
    );
    assert_eq!(document.title.as_deref(), Some("Plan"));
    assert_eq!(
        (document.names.as_slice(), document.sent),
        (["a.txt".to_string()].as_slice(), Some((1_577_836_800, 1_577_836_800)))
    );
}

#[test]
fn html_body_is_read_without_plain_text() {
    let bytes = message(&[
        ("/__properties_version1.0", &[]),
        ("/__substg1.0_10130102", b"<html><body><p>hi</p><ul><li>x</ul>"),
    ]);
    assert_eq!(read_all(&bytes).text(), "hi\n\nx");
}

#[test]
fn attachments_are_read_despite_damaged_body() {
    let page = format!("<p>Dear<br>{}Ann", "<br>".repeat(300));
    for (stream, body, text) in [
        ("/__substg1.0_10130102", page.as_bytes(), "Ann"),
        ("/__substg1.0_1013001F", &utf16(&page), "Ann"),
        ("/__substg1.0_10090102", b"\x01no RTF", "attached"),
    ] {
        let bytes = message(&[
            ("/__properties_version1.0", &[]),
            (stream, body),
            ("/__attach_version1.0_#00000000/__substg1.0_3707001F", &utf16("a.txt")),
            ("/__attach_version1.0_#00000000/__substg1.0_37010102", b"attached"),
        ]);
        let document = read_all(&bytes);
        assert!(document.text().contains(text), "{stream}: {}", document.text());
        assert!(document.text().ends_with("attached"), "{stream}: {}", document.text());
    }
}

#[test]
fn html_body_uses_message_code_page() {
    for (page, body, text) in [
        (50220, &b"<p>\x1b$B$3$s$K$A$O\x1b(B</p>"[..], "こんにちは"),
        (20866, b"<p>\xf0\xd2\xc9\xd7\xc5\xd4</p>", "Привет"),
        (28592, b"<p>\xb3\xf3d\xbc</p>", "łódź"),
        (51932, b"<p>\xc6\xfc\xcb\xdc</p>", "日本"),
    ] {
        let properties = records(&[(INTERNET_CODE_PAGE, page)]);
        let bytes = message(&[("/__properties_version1.0", &properties), ("/__substg1.0_10130102", body)]);
        assert_eq!(read_all(&bytes).text(), text, "{page}");
    }
}

#[test]
fn other_compound_file_is_unsupported() {
    let bytes = message(&[("/WordDocument", b"x")]);
    let mut member = |_: Input<'_>, _: &mut Sink| Ok(());
    let failed =
        read(Input { bytes: &bytes, name: "a" }, &mut Sink::new(ExtractLimits::default()), &mut member).unwrap_err();
    assert_eq!(failed.reason, Reason::UnsupportedType);
}
