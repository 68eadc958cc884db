//! Detects the type of a file, to select its reader: by content, or by name where the content is ambiguous.

use crate::extract::encoding::{decode, is_utf32};
use crate::extract::formats::{Format, FormatEntry, by_media_type, by_name};

/// The detected type of a file.
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

/// Number of bytes at the start of a file that are checked for text.
const SAMPLE_BYTES: usize = 8 << 10;

const UNSUPPORTED: Detected = Detected { format: Format::Unsupported, media_type: "application/octet-stream" };

/// Detects the type of a file.
pub(crate) fn detect(bytes: &[u8], name: &str) -> Detected {
    let named = by_name(name).map(Detected::from);
    by_content(bytes, name, named).unwrap_or_else(|| by_text(bytes, named))
}

fn detected_media_type(media_type: &'static str) -> Detected {
    by_media_type(media_type).map_or(Detected { format: Format::Unsupported, media_type }, Detected::from)
}

/// Detects binary types by magic bytes. The name matters only where these are ambiguous, e.g. for a zip container.
fn by_content(bytes: &[u8], name: &str, named: Option<Detected>) -> Option<Detected> {
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        return Some(detect_zip(bytes, named));
    }
    if bytes.starts_with(&[0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1]) {
        return Some(detect_compound(bytes, named));
    }
    if bytes.starts_with(b"{\\rtf") {
        return Some(detected_media_type("application/rtf"));
    }
    if has_pdf_header(bytes, named) {
        return Some(detected_media_type("application/pdf"));
    }
    if named.is_some_and(|it| it.format == Format::Pdf) && has_pdf_objects(bytes) {
        return Some(detected_media_type("application/pdf"));
    }
    // A magic number of two bytes can also begin a text. Content that looks like text is therefore accepted only as PNG,
    // JPEG, TIFF or WebP, or as a known type that is not an image, e.g. a compressed file.
    let found = infer::get(bytes)?;
    match found.mime_type() {
        "application/pdf" | "text/html" | "text/xml" | "text/x-shellscript" => None,
        "application/gzip" if name.to_ascii_lowercase().ends_with(".svgz") => {
            Some(detected_media_type("application/gzip"))
        }
        "image/heif" | "image/avif" => Some(detected_media_type("image/heif")),
        // Accepted even if the content looks like text: text cannot begin with these bytes, but an uncompressed image may
        // hold only letters.
        media_type @ ("image/tiff" | "image/png" | "image/jpeg" | "image/webp") => {
            Some(detected_media_type(media_type))
        }
        // Rejected if the content looks like text, because `GIF` and `BM` can also begin a word.
        media_type if media_type.starts_with("image/") && !looks_binary(bytes) => None,
        media_type => Some(match by_media_type(media_type) {
            Some(entry) => Detected::from(entry),
            None if looks_binary(bytes) => Detected { format: Format::Unsupported, media_type },
            None => return None,
        }),
    }
}

/// Returns whether a file has a PDF header: `%PDF-` anywhere in the first kilobyte. If the file name is of a text type,
/// the file must also begin with the header or be binary, because a text may mention `%PDF-`.
fn has_pdf_header(bytes: &[u8], named: Option<Detected>) -> bool {
    const SEARCHED_BYTES: usize = 1024;
    let head = &bytes[..bytes.len().min(SEARCHED_BYTES)];
    let spoken_of = named.is_some_and(|it| is_text(it.format)) && !head.trim_ascii_start().starts_with(b"%PDF-");
    contains(head, b"%PDF-") && (!spoken_of || looks_binary(bytes))
}

/// Returns whether a file has PDF syntax: the start of an object (`1 0 obj`) or the keyword `startxref`. If so, a file named
/// `.pdf` is read as a PDF even without a PDF header, because PDF readers can repair it.
fn has_pdf_objects(bytes: &[u8]) -> bool {
    const SEARCHED_BYTES: usize = 1 << 20;
    let head = &bytes[..bytes.len().min(SEARCHED_BYTES)];
    contains(head, b" obj") && (contains(head, b"endobj") || contains(head, b"<<")) || contains(head, b"startxref")
}

/// Detects the type of a zip container: by the `mimetype` member that EPUB and OpenDocument put first, or by OOXML parts.
fn detect_zip(bytes: &[u8], named: Option<Detected>) -> Detected {
    // Skips the local file header (30 bytes), which is followed by the name and the uncompressed content of the first
    // member.
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
            return detected_media_type(media_type);
        }
    }
    // Searches both ends of the file for member names: the central directory at the end holds all names, uncompressed.
    const TAIL: usize = 64 << 10;
    let tail = &bytes[bytes.len().saturating_sub(TAIL)..];
    let head = &bytes[..bytes.len().min(TAIL)];
    let has = |part: &[u8]| contains(tail, part) || contains(head, part);
    if has(b"[Content_Types].xml") || has(b"_rels/.rels") {
        if has(b"xl/workbook.bin") {
            return detected_media_type("application/vnd.ms-excel.sheet.binary.macroenabled.12");
        }
        for (part, extension) in
            [(&b"word/document"[..], "a.docx"), (b"ppt/presentation", "a.pptx"), (b"xl/workbook", "a.xlsx")]
        {
            if has(part) {
                return by_name(extension).map_or(UNSUPPORTED, Detected::from);
            }
        }
        // Uses the type of the file name, because the main part of an OOXML package may have any name.
        let office = named.filter(|it| matches!(it.format, Format::Docx | Format::Pptx | Format::Spreadsheet));
        if let Some(office) = office {
            return office;
        }
        if has(b"visio/") {
            return by_name("a.vsdx").map_or(UNSUPPORTED, Detected::from);
        }
    }
    if has(b"META-INF/container.xml") && has(b".opf") {
        return detected_media_type("application/epub+zip");
    }
    if has(b"content.xml") && has(b"META-INF/manifest.xml") {
        let odf = named.filter(|it| it.media_type.starts_with("application/vnd.oasis"));
        return odf.unwrap_or(detected_media_type("application/vnd.oasis.opendocument.text"));
    }
    if has(b"Index/Document.iwa") || has(b"Index.zip") {
        return named.filter(|it| it.format == Format::Unsupported).unwrap_or(UNSUPPORTED);
    }
    detected_media_type("application/zip")
}

/// Detects the type of a compound file by the names of its streams, which its directory stores in UTF-16.
fn detect_compound(bytes: &[u8], named: Option<Detected>) -> Detected {
    let wide = |name: &str| name.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let has = |name: &str| contains(bytes, &wide(name));
    // Checks for an Outlook message first, because an encrypted document may be attached to it.
    if has("__substg1.0_") {
        return detected_media_type("application/vnd.ms-outlook");
    }
    if has("EncryptedPackage") {
        // Returns the Office type of the file name, or Word if the name is of another type. Any Office type will do,
        // because every Office reader reports that the file is encrypted.
        return named.filter(|it| is_office(it.format)).unwrap_or(detected_media_type("application/msword"));
    }
    if has("WordDocument") {
        return detected_media_type("application/msword");
    }
    if has("PowerPoint Document") {
        return detected_media_type("application/vnd.ms-powerpoint");
    }
    if has("Workbook") || has("Book") {
        return detected_media_type("application/vnd.ms-excel");
    }
    named.filter(|it| it.format == Format::Legacy).unwrap_or(UNSUPPORTED)
}

fn is_office(format: Format) -> bool {
    matches!(format, Format::Docx | Format::Pptx | Format::Spreadsheet | Format::Legacy)
}

/// Detects the type of a file without magic bytes: if the content is text, the name decides which type of text.
fn by_text(bytes: &[u8], named: Option<Detected>) -> Detected {
    if looks_binary(bytes) {
        // Takes the type of the file name only if it is a binary format: its reader then reports that the file is damaged.
        // A text format cannot have binary content.
        return named
            .filter(|it| matches!(it.format, Format::Legacy | Format::Image | Format::Pdf | Format::Archive))
            .unwrap_or_else(|| named.filter(|it| it.format == Format::Unsupported).unwrap_or(UNSUPPORTED));
    }
    let marked = by_markup(bytes, named);
    match (marked, named) {
        (Some(marked), None) => marked,
        (Some(marked), Some(named)) if takes_precedence(marked, named) => marked,
        (_, Some(named)) if is_text(named.format) => named,
        _ => detected_media_type("text/plain"),
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

/// Returns whether the type detected from the content (`marked`) takes precedence over the type of the file name.
fn takes_precedence(marked: Detected, named: Detected) -> bool {
    match marked.format {
        Format::Fb2 => named.format == Format::Xml || !is_text(named.format),
        // Here and in the arms below, the name takes precedence if it is of another text type, because many kinds of text
        // begin with `<`, and many notes contain mail headers.
        Format::Html | Format::Xml => matches!(named.format, Format::Html | Format::Xml) || !is_text(named.format),
        Format::Mbox => named.format == Format::Eml || !is_text(named.format),
        _ => !is_text(named.format),
    }
}

/// Detects the type of a text by its first lines, e.g. an XML declaration or mail headers.
fn by_markup(bytes: &[u8], named: Option<Detected>) -> Option<Detected> {
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let head = String::from_utf8_lossy(sample);
    let head = head.trim_start_matches('\u{FEFF}').trim_start();
    let lower = head.to_ascii_lowercase();
    if lower.starts_with("<!doctype html") || lower.starts_with("<html") {
        return Some(detected_media_type("text/html"));
    }
    if lower.starts_with("<?xml") || lower.starts_with("<!doctype") || lower.starts_with("<svg") {
        if lower.contains("<fictionbook") {
            return Some(detected_media_type("application/x-fictionbook+xml"));
        }
        if lower.contains("<svg") && !lower.contains("<html") {
            return Some(detected_media_type("image/svg+xml"));
        }
        if lower.contains("<html") {
            return Some(detected_media_type("text/html"));
        }
        return named.filter(|it| it.format == Format::Xml).or(Some(detected_media_type("application/xml")));
    }
    if lower.contains("<html") && lower.contains("<body") && lower.starts_with('<') {
        return Some(detected_media_type("text/html"));
    }
    if lower.starts_with("webvtt") {
        return Some(detected_media_type("text/vtt"));
    }
    if head.starts_with("From ") && head.lines().nth(1).is_some_and(is_header) {
        return Some(detected_media_type("application/mbox"));
    }
    let headers = head.lines().take(12).take_while(|it| !it.trim().is_empty());
    let known = headers.filter(|it| is_mail_header(it)).count();
    (known >= 3 && head.lines().next().is_some_and(is_header)).then(|| detected_media_type("message/rfc822"))
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
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let utf16 = sample.starts_with(b"\xFF\xFE") || sample.starts_with(b"\xFE\xFF");
    if utf16 && !is_utf32(sample) {
        return false;
    }
    let decoded = decode(sample, None);
    let control = |it: &char| it.is_control() && !matches!(it, '\n' | '\r' | '\t' | '\u{C}' | '\u{1B}' | '\u{8}');
    let odd = decoded.text.chars().filter(|it| control(it) || *it == '\u{FFFD}').count();
    // Binary if more than a tenth of the characters are control characters or invalid. Fewer are tolerated, because a log
    // may contain some NULs.
    odd * 10 > decoded.text.chars().count()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    memchr::memmem::find(haystack, needle).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_format(bytes: &[u8], name: &str, expected: Format) {
        assert_eq!(detect(bytes, name).format, expected, "{name}");
    }

    #[test]
    fn content_takes_precedence_over_name() {
        assert_format(b"%PDF-1.4\n...", "notes.txt", Format::Pdf);
        assert_format(b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR", "photo.jpg", Format::Image);
        assert_format(b"{\\rtf1 x}", "letter.doc", Format::Rtf);
        assert_format(&[b"II*\0".as_slice(), &[b'\xFF'; 10_000]].concat(), "fax.tiff", Format::Image);
        assert_format(b"just words, no document", "report.pdf", Format::Text);
        assert_format(b"<html><body>x</body></html>", "table.xls", Format::Html);
    }

    #[test]
    fn text_with_magic_words_is_text() {
        assert_format(b"GIF is an old format", "notes", Format::Text);
        assert_format(b"A PDF begins with `%PDF-1.4`.", "notes.md", Format::Markdown);
    }

    #[test]
    fn name_decides_among_text_formats() {
        assert_format(b"# x", "a.md", Format::Markdown);
        assert_format(b"# x", "a.py", Format::Code);
        assert_format(b"From: a\nTo: b\nSubject: c\n\nx", "notes.txt", Format::Text);
        assert_format(b"words", "LICENSE", Format::Text);
        assert_format(b"words", "a.unknown", Format::Text);
        assert_format(b"From: a\nTo: b\nSubject: c\n\nx", "saved", Format::Eml);
    }

    #[test]
    fn noise_is_not_text() {
        let noise: Vec<u8> = (0..4000_u32).map(|it| (it.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert_format(&noise, "a.txt", Format::Unsupported);
        assert_format(&noise, "noise", Format::Unsupported);
        assert_format(&[0; 100], "zeros", Format::Unsupported);
    }

    #[test]
    fn text_in_any_encoding_is_detected() {
        let utf16: Vec<u8> = "Some words\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_format(&utf16, "a", Format::Text);
        let utf32: Vec<u8> = "\u{FEFF}Some words\r\n".chars().flat_map(|it| u32::from(it).to_le_bytes()).collect();
        assert_format(&utf32, "a", Format::Text);
        assert_format(&[b"\xFF\xFE\0\0".as_slice(), &[0xEE; 200]].concat(), "a", Format::Unsupported);
        assert_format(b"caf\xE9 cr\xE8me", "a", Format::Text);
        assert_format(b"log line\0\0 and more of it, as happens after a crash", "a.log", Format::Text);
    }

    // Case C11
    #[test]
    fn encrypted_document_is_detected_under_any_name() {
        let wide = |name: &str| name.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let compound = b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1".as_slice();
        let encrypted = [compound, &wide("EncryptedPackage")].concat();
        for name in ["notes.txt", "notes.md", "notes.csv", "notes", "a.pdf", "a.doc"] {
            assert_format(&encrypted, name, Format::Legacy);
        }
        assert_format(&encrypted, "a.docx", Format::Docx);
        assert_format(&encrypted, "a.xlsx", Format::Spreadsheet);
        let mail = [compound, &wide("__substg1.0_37010102"), &wide("EncryptedPackage")].concat();
        assert_format(&mail, "a.msg", Format::Msg);
    }

    #[test]
    fn containers_are_detected_by_parts() {
        let mut ods = b"PK\x03\x04".to_vec();
        ods.resize(30, 0);
        ods.extend(b"mimetypeapplication/vnd.oasis.opendocument.spreadsheetPK");
        assert_format(&ods, "a.zip", Format::Spreadsheet);
        let docx = [b"PK\x03\x04".as_slice(), &[0; 26], b"[Content_Types].xml....word/document.xml"].concat();
        assert_format(&docx, "a.bin", Format::Docx);
        assert_format(b"PK\x03\x04 something else", "a.docx", Format::Archive);
        let wide: Vec<u8> = "WordDocument".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_format(&[b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1".as_slice(), &wide].concat(), "a.xls", Format::Legacy);
    }
}
