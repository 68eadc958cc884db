//! Detects a file's type: by content, by name where content is ambiguous, and whether it is text at all.

use crate::extract::encoding::{decode, is_utf32};
use crate::extract::formats::{Format, FormatEntry, by_media_type, by_name};

/// A file's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Detected {
    /// The format, which selects the reader.
    pub(crate) format: Format,
    pub(crate) media_type: &'static str,
}

impl From<&'static FormatEntry> for Detected {
    fn from(entry: &'static FormatEntry) -> Detected {
        Detected { format: entry.format, media_type: entry.media_type }
    }
}

/// Number of bytes checked for signs of text.
const SAMPLE: usize = 8 << 10;

const UNREAD: Detected = Detected { format: Format::Unread, media_type: "application/octet-stream" };

/// Detects the type of a file.
pub(crate) fn detect(bytes: &[u8], name: &str) -> Detected {
    let named = by_name(name).map(Detected::from);
    by_content(bytes, name, named).unwrap_or_else(|| by_text(bytes, named))
}

fn media(media_type: &'static str) -> Detected {
    by_media_type(media_type).map_or(Detected { format: Format::Unread, media_type }, Detected::from)
}

/// Detects types by magic bytes; the name of the file does not count.
fn by_content(bytes: &[u8], name: &str, named: Option<Detected>) -> Option<Detected> {
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        return Some(zip(bytes, named));
    }
    if bytes.starts_with(&[0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1]) {
        return Some(compound(bytes, named));
    }
    if bytes.starts_with(b"{\\rtf") {
        return Some(media("application/rtf"));
    }
    if has_pdf_header(bytes, named) {
        return Some(media("application/pdf"));
    }
    if named.is_some_and(|it| it.format == Format::Pdf) && has_pdf_objects(bytes) {
        return Some(media("application/pdf"));
    }
    // A magic number of two bytes can begin a text, so only compressed files and images are accepted here.
    let found = infer::get(bytes)?;
    match found.mime_type() {
        "application/pdf" | "text/html" | "text/xml" | "text/x-shellscript" => None,
        "application/gzip" if name.to_ascii_lowercase().ends_with(".svgz") => Some(media("application/gzip")),
        "image/heif" | "image/avif" => Some(media("image/heif")),
        // Text cannot begin with these bytes, while an uncompressed picture may otherwise hold only letters.
        media_type @ ("image/tiff" | "image/png" | "image/jpeg" | "image/webp") => Some(media(media_type)),
        // `GIF` and `BM` begin words too.
        media_type if media_type.starts_with("image/") && !looks_binary(bytes) => None,
        media_type => Some(match by_media_type(media_type) {
            Some(entry) => Detected::from(entry),
            None if looks_binary(bytes) => Detected { format: Format::Unread, media_type },
            None => return None,
        }),
    }
}

/// Returns whether a file has a PDF header. PDF readers accept one anywhere in the first kilobyte, but a text that only
/// mentions it stays text.
fn has_pdf_header(bytes: &[u8], named: Option<Detected>) -> bool {
    const LOOKED_AT: usize = 1024;
    let head = &bytes[..bytes.len().min(LOOKED_AT)];
    let spoken_of = named.is_some_and(|it| is_text(it.format)) && !head.trim_ascii_start().starts_with(b"%PDF-");
    contains(head, b"%PDF-") && (!spoken_of || looks_binary(bytes))
}

/// Returns whether a file without a PDF header has PDF objects: readers can repair it.
fn has_pdf_objects(bytes: &[u8]) -> bool {
    const LOOKED_AT: usize = 1 << 20;
    let head = &bytes[..bytes.len().min(LOOKED_AT)];
    contains(head, b" obj") && (contains(head, b"endobj") || contains(head, b"<<")) || contains(head, b"startxref")
}

/// Detects the type of a zip container: by the `mimetype` member that EPUB and OpenDocument put first, or by OOXML parts.
fn zip(bytes: &[u8], named: Option<Detected>) -> Detected {
    // The local header has 30 bytes; the name and the stored content of the first member follow.
    if bytes.get(30..38) == Some(b"mimetype") {
        let head = &bytes[38..bytes.len().min(38 + 200)];
        let known = ["application/epub+zip", "application/vnd.oasis.opendocument.text"]
            .into_iter()
            .chain(["spreadsheet", "presentation", "graphics"].map(|it| match it {
                "spreadsheet" => "application/vnd.oasis.opendocument.spreadsheet",
                "presentation" => "application/vnd.oasis.opendocument.presentation",
                _ => "application/vnd.oasis.opendocument.graphics",
            }))
            .find(|it| contains(head, it.as_bytes()));
        if let Some(media_type) = known {
            return media(media_type);
        }
    }
    // Member names are uncompressed in the central directory at the end, and at the front of small files.
    const TAIL: usize = 64 << 10;
    let tail = &bytes[bytes.len().saturating_sub(TAIL)..];
    let head = &bytes[..bytes.len().min(TAIL)];
    let has = |part: &[u8]| contains(tail, part) || contains(head, part);
    if has(b"[Content_Types].xml") || has(b"_rels/.rels") {
        if has(b"xl/workbook.bin") {
            return media("application/vnd.ms-excel.sheet.binary.macroenabled.12");
        }
        for (part, extension) in
            [(&b"word/document"[..], "a.docx"), (b"ppt/presentation", "a.pptx"), (b"xl/workbook", "a.xlsx")]
        {
            if has(part) {
                return by_name(extension).map_or(UNREAD, Detected::from);
            }
        }
        // The main part may have any name; then the file name decides.
        let office = named.filter(|it| matches!(it.format, Format::Docx | Format::Pptx | Format::Spreadsheet));
        if let Some(office) = office {
            return office;
        }
        if has(b"visio/") {
            return by_name("a.vsdx").map_or(UNREAD, Detected::from);
        }
    }
    if has(b"META-INF/container.xml") && has(b".opf") {
        return media("application/epub+zip");
    }
    if has(b"content.xml") && has(b"META-INF/manifest.xml") {
        let odf = named.filter(|it| it.media_type.starts_with("application/vnd.oasis"));
        return odf.unwrap_or(media("application/vnd.oasis.opendocument.text"));
    }
    if has(b"Index/Document.iwa") || has(b"Index.zip") {
        return named.filter(|it| it.format == Format::Unread).unwrap_or(UNREAD);
    }
    media("application/zip")
}

/// Detects the type of a compound file by its stream names, which are UTF-16 in the directory.
fn compound(bytes: &[u8], named: Option<Detected>) -> Detected {
    let wide = |name: &str| name.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let has = |name: &str| contains(bytes, &wide(name));
    // Mail is checked first: an encrypted document may be attached to it.
    if has("__substg1.0_") {
        return media("application/vnd.ms-outlook");
    }
    if has("EncryptedPackage") {
        // The readers of Office formats report the encryption; any other file name is wrong.
        return named.filter(|it| is_office(it.format)).unwrap_or(media("application/msword"));
    }
    if has("WordDocument") {
        return media("application/msword");
    }
    if has("PowerPoint Document") {
        return media("application/vnd.ms-powerpoint");
    }
    if has("Workbook") || has("Book") {
        return media("application/vnd.ms-excel");
    }
    named.filter(|it| it.format == Format::Legacy).unwrap_or(UNREAD)
}

fn is_office(format: Format) -> bool {
    matches!(format, Format::Docx | Format::Pptx | Format::Spreadsheet | Format::Legacy)
}

/// Detects types of text: the name decides among them, if the content is text at all.
fn by_text(bytes: &[u8], named: Option<Detected>) -> Detected {
    if looks_binary(bytes) {
        // A name of a binary format selects its reader, which reports the damage; a name of a text format is wrong.
        return named
            .filter(|it| matches!(it.format, Format::Legacy | Format::Image | Format::Pdf | Format::Archive))
            .unwrap_or_else(|| named.filter(|it| it.format == Format::Unread).unwrap_or(UNREAD));
    }
    let marked = by_markup(bytes, named);
    match (marked, named) {
        (Some(marked), None) => marked,
        (Some(marked), Some(named)) if outweighs(marked, named) => marked,
        (_, Some(named)) if is_text(named.format) => named,
        _ => media("text/plain"),
    }
}

fn is_text(format: Format) -> bool {
    matches!(
        format,
        Format::Text
            | Format::Markdown
            | Format::Markup
            | Format::Html
            | Format::Xml
            | Format::Code
            | Format::Csv
            | Format::Structured
            | Format::Notebook
            | Format::Subtitle
            | Format::Eml
            | Format::Mbox
            | Format::Fb2
    )
}

/// Returns whether the type detected from markup takes precedence over the type from the name.
fn outweighs(marked: Detected, named: Detected) -> bool {
    match marked.format {
        Format::Fb2 => named.format == Format::Xml || !is_text(named.format),
        // Many kinds of text begin with `<`, and many notes contain mail headers.
        Format::Html | Format::Xml => matches!(named.format, Format::Html | Format::Xml) || !is_text(named.format),
        Format::Mbox => named.format == Format::Eml || !is_text(named.format),
        _ => !is_text(named.format),
    }
}

/// Detects types of text by their first lines.
fn by_markup(bytes: &[u8], named: Option<Detected>) -> Option<Detected> {
    let sample = &bytes[..bytes.len().min(SAMPLE)];
    let head = String::from_utf8_lossy(sample);
    let head = head.trim_start_matches('\u{FEFF}').trim_start();
    let lower = head.to_ascii_lowercase();
    if lower.starts_with("<!doctype html") || lower.starts_with("<html") {
        return Some(media("text/html"));
    }
    if lower.starts_with("<?xml") || lower.starts_with("<!doctype") || lower.starts_with("<svg") {
        if lower.contains("<fictionbook") {
            return Some(media("application/x-fictionbook+xml"));
        }
        if lower.contains("<svg") && !lower.contains("<html") {
            return Some(media("image/svg+xml"));
        }
        if lower.contains("<html") {
            return Some(media("text/html"));
        }
        return named.filter(|it| it.format == Format::Xml).or(Some(media("application/xml")));
    }
    if lower.contains("<html") && lower.contains("<body") && lower.starts_with('<') {
        return Some(media("text/html"));
    }
    if lower.starts_with("webvtt") {
        return Some(media("text/vtt"));
    }
    if head.starts_with("From ") && head.lines().nth(1).is_some_and(is_header) {
        return Some(media("application/mbox"));
    }
    let headers = head.lines().take(12).take_while(|it| !it.trim().is_empty());
    let known = headers.filter(|it| is_mail_header(it)).count();
    (known >= 3 && head.lines().next().is_some_and(is_header)).then(|| media("message/rfc822"))
}

fn is_header(line: &str) -> bool {
    line.split_once(':').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-' || it == b'_')
    })
}

fn is_mail_header(line: &str) -> bool {
    const NAMES: [&str; 11] = [
        "received",
        "from",
        "to",
        "message-id",
        "mime-version",
        "return-path",
        "date",
        "subject",
        "delivered-to",
        "content-type",
        "dkim-signature",
    ];
    line.split_once(':').is_some_and(|(name, _)| NAMES.contains(&name.to_ascii_lowercase().as_str()))
}

/// Returns whether bytes are not text in any encoding: many control characters, or NULs that are not part of UTF-16.
fn looks_binary(bytes: &[u8]) -> bool {
    let sample = &bytes[..bytes.len().min(SAMPLE)];
    let utf16 = sample.starts_with(b"\xFF\xFE") || sample.starts_with(b"\xFE\xFF");
    if utf16 && !is_utf32(sample) {
        return false;
    }
    let decoded = decode(sample, None);
    let control = |it: &char| it.is_control() && !matches!(it, '\n' | '\r' | '\t' | '\u{C}' | '\u{1B}' | '\u{8}');
    let odd = decoded.text.chars().filter(|it| control(it) || *it == '\u{FFFD}').count();
    // A log may hold a few NULs, but text never has a tenth of odd characters.
    odd * 10 > decoded.text.chars().count()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    memchr::memmem::find(haystack, needle).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], name: &str, expected: Format) {
        assert_eq!(detect(bytes, name).format, expected, "{name}");
    }

    #[test]
    fn content_takes_precedence_over_name() {
        check(b"%PDF-1.4\n...", "notes.txt", Format::Pdf);
        check(b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR", "photo.jpg", Format::Image);
        check(b"{\\rtf1 x}", "letter.doc", Format::Rtf);
        check(&[b"II*\0".as_slice(), &[b'\xFF'; 10_000]].concat(), "fax.tiff", Format::Image);
        check(b"just words, no document", "report.pdf", Format::Text);
        check(b"<html><body>x</body></html>", "table.xls", Format::Html);
    }

    #[test]
    fn text_with_magic_words_is_text() {
        check(b"GIF is an old format", "notes", Format::Text);
        check(b"A PDF begins with `%PDF-1.4`.", "notes.md", Format::Markdown);
    }

    #[test]
    fn name_decides_among_text_formats() {
        check(b"# x", "a.md", Format::Markdown);
        check(b"# x", "a.py", Format::Code);
        check(b"From: a\nTo: b\nSubject: c\n\nx", "notes.txt", Format::Text);
        check(b"words", "LICENSE", Format::Text);
        check(b"words", "a.unknown", Format::Text);
        check(b"From: a\nTo: b\nSubject: c\n\nx", "saved", Format::Eml);
    }

    #[test]
    fn noise_is_not_text() {
        let noise: Vec<u8> = (0..4000_u32).map(|it| (it.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        check(&noise, "a.txt", Format::Unread);
        check(&noise, "noise", Format::Unread);
        check(&[0; 100], "zeros", Format::Unread);
    }

    #[test]
    fn text_in_any_encoding_is_detected() {
        let utf16: Vec<u8> = "Some words\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        check(&utf16, "a", Format::Text);
        let utf32: Vec<u8> = "\u{FEFF}Some words\r\n".chars().flat_map(|it| u32::from(it).to_le_bytes()).collect();
        check(&utf32, "a", Format::Text);
        check(&[b"\xFF\xFE\0\0".as_slice(), &[0xEE; 200]].concat(), "a", Format::Unread);
        check(b"caf\xE9 cr\xE8me", "a", Format::Text);
        check(b"log line\0\0 and more of it, as happens after a crash", "a.log", Format::Text);
    }

    #[test]
    fn encrypted_document_is_detected_under_any_name() {
        let wide = |name: &str| name.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let compound = b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1".as_slice();
        let encrypted = [compound, &wide("EncryptedPackage")].concat();
        for name in ["notes.txt", "notes.md", "notes.csv", "notes", "a.pdf", "a.doc"] {
            check(&encrypted, name, Format::Legacy);
        }
        check(&encrypted, "a.docx", Format::Docx);
        check(&encrypted, "a.xlsx", Format::Spreadsheet);
        let mail = [compound, &wide("__substg1.0_37010102"), &wide("EncryptedPackage")].concat();
        check(&mail, "a.msg", Format::Msg);
    }

    #[test]
    fn containers_are_detected_by_parts() {
        let mut ods = b"PK\x03\x04".to_vec();
        ods.resize(30, 0);
        ods.extend(b"mimetypeapplication/vnd.oasis.opendocument.spreadsheetPK");
        check(&ods, "a.zip", Format::Spreadsheet);
        let docx = [b"PK\x03\x04".as_slice(), &[0; 26], b"[Content_Types].xml....word/document.xml"].concat();
        check(&docx, "a.bin", Format::Docx);
        check(b"PK\x03\x04 something else", "a.docx", Format::Archive);
        let wide: Vec<u8> = "WordDocument".encode_utf16().flat_map(u16::to_le_bytes).collect();
        check(&[b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1".as_slice(), &wide].concat(), "a.xls", Format::Legacy);
    }
}
