//! Calls the reader for the detected type of a file; this is the only file that names all readers. Archive and mail readers
//! get the function that reads a member as an argument, so that no reader depends on this file.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::extract::detect::detect;
use crate::extract::ebooks::{epub, fb2};
use crate::extract::email::{mime, outlook};
use crate::extract::formats::Format;
use crate::extract::office::{docx, legacy, odf, pptx, rtf, spreadsheet};
use crate::extract::text_formats::{code, csv, light_markup, markdown, notebook, plain, structured, subtitle};
use crate::extract::text_prefix::text_prefix;
use crate::extract::{
    Input, ReadResult, Sink, Tools, archive, html, image, new_failure, panic_location, pdf, redact, xml,
};
use crate::model::{BlockKind, Document, ExtractFailure, ExtractLimits, Reason};
use crate::secrets::{self, PathVerdict};

/// Extracts the text of a file in the calling process, without protection against stack overflows, endless loops and native
/// crashes. Use [`crate::extract::WorkerPool`] for untrusted files.
///
/// A document without blocks means that the file was read but holds no text (record it as [`Reason::NoText`]); its media
/// type and [`Document::pages_without_text`] are set. An error means that the file could not be read at all.
pub fn extract_bytes(
    bytes: &[u8],
    name: &str,
    limits: &ExtractLimits,
    tools: &Tools,
) -> Result<Document, ExtractFailure> {
    if bytes.is_empty() {
        return Err(new_failure(Reason::Empty, ""));
    }
    let document = read_whole(bytes, name, limits, tools)?;
    redact(document, limits.redaction)
}

fn read_whole(bytes: &[u8], name: &str, limits: &ExtractLimits, tools: &Tools) -> Result<Document, ExtractFailure> {
    let mut sink = Sink::new(limits.clone());
    // Catches panics of readers on unexpected data. The sink stays valid, because every block in it is complete.
    match catch_unwind(AssertUnwindSafe(|| read(Input { bytes, name }, &mut sink, tools))) {
        Ok(Ok(())) => Ok(sink.into_document()),
        Ok(Err(failed)) if failed.reason == Reason::NoText => Ok(sink.into_document()),
        Ok(Err(failed)) => keep_partial_document(sink, failed),
        Err(_) => keep_partial_document(
            sink,
            new_failure(Reason::Damaged, format!("the file's reader panicked{}", panic_location::take_location())),
        ),
    }
}

/// Returns the document read before a failure, marked as truncated, if it has text; otherwise returns the failure.
fn keep_partial_document(mut sink: Sink, failed: ExtractFailure) -> Result<Document, ExtractFailure> {
    let has_text = sink.document().blocks.iter().any(|it| it.kind != BlockKind::Metadata);
    if !has_text {
        return Err(failed);
    }
    sink.record_problem(format!("the rest of the file was not read: {} {}", failed.reason.name(), failed.detail));
    sink.mark_truncated();
    Ok(sink.into_document())
}

/// Returns whether a file is of a plain text type, whose line-based readers are safe to run without a jail.
pub(crate) fn is_plain_text(bytes: &[u8], name: &str) -> bool {
    use Format::{Csv, Markdown, Markup, Structured, Subtitle, Text};
    matches!(detect(bytes, name).format, Text | Markdown | Markup | Csv | Structured | Subtitle)
}

/// Reads a file or archive member by its detected type. Fails for members whose name marks a secret, e.g. `.env`.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink, tools: &Tools) -> ReadResult {
    if input.bytes.is_empty() {
        return Err(new_failure(Reason::Empty, ""));
    }
    if is_secret_member(input, sink) {
        return Err(new_failure(Reason::Secret, ""));
    }
    let found = detect(input.bytes, input.name);
    if !sink.in_member() {
        sink.document().media_type = found.media_type.to_string();
    }
    read_format(found.format, input, sink, tools)
}

/// Returns whether a file is an archive member or attachment whose name marks a secret.
pub(crate) fn is_secret_member(input: Input<'_>, sink: &Sink) -> bool {
    let Some(member) = sink.member_name() else { return false };
    // Replaces backslashes, because Windows programs write them between the folders of a member name.
    match secrets::judge_path(Path::new(&member.replace('\\', "/"))) {
        PathVerdict::Plain => false,
        PathVerdict::Secret => true,
        PathVerdict::SecretUnlessZip => !input.bytes.starts_with(b"PK\x03\x04"),
    }
}

fn read_format(format: Format, input: Input<'_>, sink: &mut Sink, tools: &Tools) -> ReadResult {
    let mut read_member = |input: Input<'_>, sink: &mut Sink| read(input, sink, tools);
    match format {
        Format::Text => plain::read(text_prefix(input, sink), sink),
        Format::Markdown => markdown::read(text_prefix(input, sink), sink),
        Format::Markup => light_markup::read(text_prefix(input, sink), sink),
        Format::Code => code::read(text_prefix(input, sink), sink),
        Format::Csv => csv::read(text_prefix(input, sink), sink),
        Format::Structured => structured::read(text_prefix(input, sink), sink),
        Format::Subtitle => subtitle::read(text_prefix(input, sink), sink),
        Format::Html => html::read(input, sink),
        Format::Xml => xml::read(input, sink),
        Format::Notebook => notebook::read(input, sink).or_else(|failed| {
            sink.record_problem(failed.detail);
            structured::read(text_prefix(input, sink), sink)
        }),
        Format::Eml => mime::read_eml(input, sink, &mut read_member),
        Format::Mbox => mime::read_mbox(input, sink, &mut read_member),
        Format::Image => image::read(input, sink),
        Format::Pdf => pdf::read(input, sink, tools),
        Format::Msg => outlook::read(input, sink, &mut read_member),
        Format::Docx => docx::read(input, sink),
        Format::Pptx => pptx::read(input, sink),
        Format::Spreadsheet => spreadsheet::read(input, sink),
        Format::Odf => odf::read(input, sink),
        Format::Epub => epub::read(input, sink),
        Format::Fb2 => fb2::read(input, sink),
        Format::Rtf => rtf::read(input, sink),
        Format::Legacy => legacy::read(input, sink),
        Format::Archive => archive::read(input, sink, &mut read_member),
        Format::Unsupported => Err(new_failure(Reason::UnsupportedType, "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extract(bytes: &[u8], name: &str) -> Result<Document, ExtractFailure> {
        extract_bytes(bytes, name, &ExtractLimits::default(), &Tools::default())
    }

    #[test]
    fn detected_type_selects_reader() {
        let document = extract(b"<html><title>T</title><p>Text", "notes.pdf").unwrap();
        assert_eq!((document.media_type.as_str(), document.title.as_deref()), ("text/html", Some("T")));
    }

    #[test]
    fn empty_and_binary_files_report_reasons() {
        assert_eq!(extract(b"", "a.txt").unwrap_err().reason, Reason::Empty);
        assert_eq!(extract(&[7; 500], "a.txt").unwrap_err().reason, Reason::UnsupportedType);
    }

    #[test]
    fn blank_file_has_no_blocks() {
        let document = extract(b" \n\n ", "a.txt").unwrap();
        assert!(document.blocks.is_empty());
        assert_eq!(document.media_type, "text/plain");
    }

    #[test]
    fn log_over_text_limit_is_truncated() {
        let limits = ExtractLimits { text_bytes: 1_000, ..ExtractLimits::default() };
        let document = extract_bytes(&b"some words\n".repeat(10_000), "a.log", &limits, &Tools::default()).unwrap();
        assert!(document.truncated && document.text().len() <= 2_000);
    }

    #[test]
    fn attachment_is_read_by_its_own_type() {
        let mail = "Subject: s\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=\"a.csv\"\r\n\r\nx,y\r\n1,2\r\n--b--\r\n";
        let document = extract(mail.as_bytes(), "a.eml").unwrap();
        let table = document.blocks.iter().find(|it| it.kind == BlockKind::Table).unwrap();
        assert_eq!(table.text, "x | y\n1 | 2");
        assert_eq!(table.anchor.part.as_deref(), Some("attachment: a.csv"));
        assert_eq!(document.media_type, "message/rfc822");
    }

    // Case E13
    #[test]
    fn secret_members_of_archive_are_skipped() {
        let members =
            [("home/.ssh/config", "xylophone"), (".env", "xylophone"), ("server.key", "xylophone"), ("a.txt", "words")];
        let document = extract(&crate::extract::zip_container::tests::zipped(&members), "a.zip").unwrap();
        assert_eq!(document.text(), "words");
        assert_eq!(document.problems, Vec::<String>::new());
    }

    // Case E13
    #[test]
    fn secret_members_with_windows_paths_are_skipped() {
        let members = [
            ("home\\.ssh\\config", "xylophone"),
            ("u\\.pgpass", "xylophone"),
            ("C:\\app\\.env", "xylophone"),
            ("u\\a.txt", "words"),
        ];
        let document = extract(&crate::extract::zip_container::tests::zipped(&members), "a.zip").unwrap();
        assert_eq!(document.text(), "words");
        let mail = "Subject: s\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment; filename*=utf-8''u%5C.pgpass\r\n\r\nxylophone\r\n--b--\r\n";
        assert!(!extract(mail.as_bytes(), "a.eml").unwrap().text().contains("xylophone"));
    }

    #[test]
    fn corrupt_notebook_is_read_as_text() {
        let document = extract(b"{\"cells\": [ \"unfinished", "a.ipynb").unwrap();
        assert!(document.text().contains("unfinished"));
        assert_eq!(document.problems.len(), 1);
    }
}
