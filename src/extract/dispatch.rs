//! From a file's type to its reader: the one place that knows all of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::extract::detect::detect;
use crate::extract::formats::Format;
use crate::extract::head::head;
use crate::extract::{
    Input, ReadResult, Sink, archive, code, csv, docx, epub, failure, fb2, html, image, ipynb, json, legacy, mail,
    markdown, markup, msg, odf, panics, pdf, pptx, redact, rtf, spreadsheet, subtitle, text, xml,
};
use crate::model::{BlockKind, Document, ExtractFailure, ExtractLimits, Reason};
use crate::secrets::{self, Verdict};

/// Libraries outside the program that readers can use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tools {
    /// Path of `libpdfium.so`; without it PDFs are read by a weaker reader.
    pub pdfium: Option<PathBuf>,
    /// What skills need to read pictures of text.
    pub ocr: Option<OcrTools>,
}

/// The parts that read pictures of text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OcrTools {
    /// Path of the ONNX Runtime library.
    pub runtime: PathBuf,
    /// Folder of the models.
    pub models: PathBuf,
    /// Threads of one worker.
    pub threads: usize,
}

/// Extracts the text of a file within this process, with no protection against what only a process boundary contains:
/// stack overflow, endless loops, crashes in native code. [`crate::extract::WorkerPool`] is for files of unknown origin.
///
/// A document without blocks is a file that was read and holds no text (record it as [`Reason::NoText`]); its media
/// type and [`Document::pages_without_text`] are known all the same. A failure is for what could not be read at all.
pub fn extract_bytes(
    bytes: &[u8],
    name: &str,
    limits: &ExtractLimits,
    tools: &Tools,
) -> Result<Document, ExtractFailure> {
    if bytes.is_empty() {
        return Err(failure(Reason::Empty, ""));
    }
    let document = read_whole(bytes, name, limits, tools)?;
    redact(document, limits.redaction)
}

fn read_whole(bytes: &[u8], name: &str, limits: &ExtractLimits, tools: &Tools) -> Result<Document, ExtractFailure> {
    let mut sink = Sink::new(limits.clone());
    // A reader that panics has met data it did not expect. The sink is sound at every moment: blocks are whole or absent.
    match catch_unwind(AssertUnwindSafe(|| read(Input { bytes, name }, &mut sink, tools))) {
        Ok(Ok(())) => Ok(sink.finish()),
        Ok(Err(failed)) if failed.reason == Reason::NoText => Ok(sink.finish()),
        Ok(Err(failed)) => keep_what_was_read(sink, failed),
        Err(_) => keep_what_was_read(sink, failure(Reason::Damaged, format!("its reader gave up{}", panics::place()))),
    }
}

/// A document that broke off after pages of text is worth more than its failure.
fn keep_what_was_read(mut sink: Sink, failed: ExtractFailure) -> Result<Document, ExtractFailure> {
    let has_text = sink.document().blocks.iter().any(|it| it.kind != BlockKind::Metadata);
    if !has_text {
        return Err(failed);
    }
    sink.problem(format!("the rest was not read: {} {}", failed.reason.name(), failed.detail));
    sink.truncate();
    Ok(sink.finish())
}

/// Says whether only readers in safe code, which walk along lines, have to do with a file.
pub(crate) fn is_plain_text(bytes: &[u8], name: &str) -> bool {
    use Format::{Csv, Markdown, Markup, Structured, Subtitle, Text};
    matches!(detect(bytes, name).format, Text | Markdown | Markup | Csv | Structured | Subtitle)
}

/// Reads a file or member by what it is. Members that are secrets by their names are not read.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink, tools: &Tools) -> ReadResult {
    if input.bytes.is_empty() {
        return Err(failure(Reason::Empty, ""));
    }
    if let Some(member) = sink.member() {
        // Archives and mails made on Windows part folders by backslashes, which are letters of a name here.
        let secret = match secrets::judge(Path::new(&member.replace('\\', "/"))) {
            Verdict::Plain => false,
            Verdict::Secret => true,
            Verdict::SecretUnlessZip => !input.bytes.starts_with(b"PK\x03\x04"),
        };
        if secret {
            return Err(failure(Reason::Secret, ""));
        }
    }
    let found = detect(input.bytes, input.name);
    if !sink.in_member() {
        sink.document().media_type = found.media_type.to_string();
    }
    read_as(found.format, input, sink, tools)
}

fn read_as(format: Format, input: Input<'_>, sink: &mut Sink, tools: &Tools) -> ReadResult {
    let mut read_member = |input: Input<'_>, sink: &mut Sink| read(input, sink, tools);
    match format {
        Format::Text => text::read(head(input, sink), sink),
        Format::Markdown => markdown::read(head(input, sink), sink),
        Format::Markup => markup::read(head(input, sink), sink),
        Format::Code => code::read(head(input, sink), sink),
        Format::Csv => csv::read(head(input, sink), sink),
        Format::Structured => json::read(head(input, sink), sink),
        Format::Subtitle => subtitle::read(head(input, sink), sink),
        Format::Html => html::read(input, sink),
        Format::Xml => xml::read(input, sink),
        Format::Notebook => ipynb::read(input, sink).or_else(|failed| {
            sink.problem(failed.detail);
            json::read(head(input, sink), sink)
        }),
        Format::Eml => mail::read_eml(input, sink, &mut read_member),
        Format::Mbox => mail::read_mbox(input, sink, &mut read_member),
        Format::Image => image::read(input, sink),
        Format::Pdf => pdf::read(input, sink, tools),
        Format::Msg => msg::read(input, sink, &mut read_member),
        Format::Docx => docx::read(input, sink),
        Format::Pptx => pptx::read(input, sink),
        Format::Spreadsheet => spreadsheet::read(input, sink),
        Format::Odf => odf::read(input, sink),
        Format::Epub => epub::read(input, sink),
        Format::Fb2 => fb2::read(input, sink),
        Format::Rtf => rtf::read(input, sink),
        Format::Legacy => legacy::read(input, sink),
        Format::Archive => archive::read(input, sink, &mut read_member),
        Format::Unread => Err(failure(Reason::UnsupportedType, "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extract(bytes: &[u8], name: &str) -> Result<Document, ExtractFailure> {
        extract_bytes(bytes, name, &ExtractLimits::default(), &Tools::default())
    }

    #[test]
    fn a_file_is_read_as_what_it_is() {
        let document = extract(b"<html><title>T</title><p>Text", "notes.pdf").unwrap();
        assert_eq!((document.media_type.as_str(), document.title.as_deref()), ("text/html", Some("T")));
    }

    #[test]
    fn nothing_is_empty_and_noise_is_unsupported() {
        assert_eq!(extract(b"", "a.txt").unwrap_err().reason, Reason::Empty);
        assert_eq!(extract(&[7; 500], "a.txt").unwrap_err().reason, Reason::UnsupportedType);
    }

    #[test]
    fn blanks_are_read_and_hold_no_text() {
        let document = extract(b" \n\n ", "a.txt").unwrap();
        assert!(document.blocks.is_empty());
        assert_eq!(document.media_type, "text/plain");
    }

    #[test]
    fn a_log_is_cut_at_the_text_limit_and_says_so() {
        let limits = ExtractLimits { text_bytes: 1_000, ..ExtractLimits::default() };
        let document = extract_bytes(&b"some words\n".repeat(10_000), "a.log", &limits, &Tools::default()).unwrap();
        assert!(document.truncated && document.text().len() <= 2_000);
    }

    #[test]
    fn an_attachment_is_read_by_its_own_type() {
        let mail = "Subject: s\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=\"a.csv\"\r\n\r\nx,y\r\n1,2\r\n--b--\r\n";
        let document = extract(mail.as_bytes(), "a.eml").unwrap();
        let table = document.blocks.iter().find(|it| it.kind == BlockKind::Table).unwrap();
        assert_eq!(table.text, "x | y\n1 | 2");
        assert_eq!(table.anchor.part.as_deref(), Some("attachment: a.csv"));
        assert_eq!(document.media_type, "message/rfc822");
    }

    #[test]
    fn secrets_inside_an_archive_are_not_read() {
        let members =
            [("home/.ssh/config", "xylophone"), (".env", "xylophone"), ("server.key", "xylophone"), ("a.txt", "words")];
        let document = extract(&crate::extract::package::tests::zipped(&members), "a.zip").unwrap();
        assert_eq!(document.text(), "words");
        assert_eq!(document.problems, Vec::<String>::new());
    }

    #[test]
    fn secrets_below_folders_of_windows_are_not_read() {
        let members = [
            ("home\\.ssh\\config", "xylophone"),
            ("u\\.pgpass", "xylophone"),
            ("C:\\app\\.env", "xylophone"),
            ("u\\a.txt", "words"),
        ];
        let document = extract(&crate::extract::package::tests::zipped(&members), "a.zip").unwrap();
        assert_eq!(document.text(), "words");
        let mail = "Subject: s\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment; filename*=utf-8''u%5C.pgpass\r\n\r\nxylophone\r\n--b--\r\n";
        assert!(!extract(mail.as_bytes(), "a.eml").unwrap().text().contains("xylophone"));
    }

    #[test]
    fn a_notebook_that_is_broken_is_still_text() {
        let document = extract(b"{\"cells\": [ \"unfinished", "a.ipynb").unwrap();
        assert!(document.text().contains("unfinished"));
        assert_eq!(document.problems.len(), 1);
    }
}
