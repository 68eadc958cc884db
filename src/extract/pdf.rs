//! Reader of PDFs: PDFium extracts the text of every page; a pure Rust library is the fallback if PDFium is missing or
//! fails.
//!
//! Pages are not rendered, and no OCR is done here: pages that hold only images are listed for the OCR skill.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;

use pdfium_render::prelude::*;

use crate::extract::hyphenation::join_cut_words;
use crate::extract::pdf_paragraphs::{Line, clean_text, group_paragraphs};
use crate::extract::{Input, ReadResult, Sink, Tools, new_failure};
use crate::model::{Anchor, BlockKind, ExtractFailure, Reason};

/// Adds the text of a PDF to the sink, and joins words that were hyphenated at line ends.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink, tools: &Tools) -> ReadResult {
    let mark = sink.block_count();
    let outcome = read_pages(input, sink, tools, mark);
    join_cut_words(sink.document().blocks.iter_mut().skip(mark).map(|it| &mut it.text));
    outcome
}

fn read_pages(input: Input<'_>, sink: &mut Sink, tools: &Tools, mark: usize) -> ReadResult {
    let first = match tools.pdfium.as_deref().and_then(load_pdfium) {
        Some(pdfium) => read_with_pdfium(pdfium, input, sink),
        None => Err(new_failure(Reason::Damaged, "the PDF library is not installed; run `vic models pull pdfium`")),
    };
    let nothing_found = sink.block_count() == mark && sink.document().pages_without_text.is_empty();
    match first {
        Err(failed) if failed.reason == Reason::Encrypted => Err(failed),
        Ok(()) if !nothing_found => Ok(()),
        outcome => read_with_fallback(input, sink).or(outcome),
    }
}

/// Returns PDFium, which is loaded at the first call, as a process can load it only once; `None` if it cannot be loaded.
pub(crate) fn load_pdfium(path: &Path) -> Option<&'static Pdfium> {
    static PDFIUM: OnceLock<Option<Pdfium>> = OnceLock::new();
    PDFIUM.get_or_init(|| Pdfium::bind_to_library(path).ok().map(Pdfium::new)).as_ref()
}

/// Loads the PDF library before the first file, because later the limits of the worker forbid it. Returns whether it was
/// loaded.
pub(crate) fn preload(tools: &Tools) -> bool {
    tools.pdfium.as_deref().and_then(load_pdfium).is_some()
}

/// Opens a PDF.
///
/// # Errors
/// The PDF needs a password, is damaged, or is no PDF.
pub(crate) fn open_pdf<'a>(pdfium: &'a Pdfium, bytes: &'a [u8]) -> Result<PdfDocument<'a>, ExtractFailure> {
    pdfium.load_pdf_from_byte_slice(bytes, None).map_err(|error| match error {
        PdfiumError::PdfiumLibraryInternalError(
            PdfiumInternalError::PasswordError | PdfiumInternalError::SecurityError,
        ) => new_failure(Reason::Encrypted, "needs a password"),
        PdfiumError::PdfiumLibraryInternalError(PdfiumInternalError::FormatError) => {
            new_failure(Reason::Damaged, "it is no PDF, or its structure is broken")
        }
        error => new_failure(Reason::Damaged, format!("the PDF cannot be opened: {error}")),
    })
}

fn read_with_pdfium(pdfium: &Pdfium, input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let document = open_pdf(pdfium, input.bytes)?;
    push_metadata(&document, sink);
    let pages = u32::try_from(document.pages().len()).unwrap_or(0);
    if !sink.in_member() {
        sink.document().pages = Some(pages);
    }
    let limit = sink.limits().pages;
    let mut unreadable = 0;
    for number in 1..=pages.min(limit) {
        // PDFium counts pages from 0, as `i32`. The cast cannot overflow, because the page count came from PDFium.
        match document.pages().get(number as i32 - 1) {
            Ok(page) => read_page(&page, number, sink),
            Err(_) => unreadable += 1,
        }
        if sink.is_full() {
            sink.mark_truncated();
            break;
        }
    }
    if unreadable == pages {
        return Err(new_failure(Reason::Damaged, format!("none of the {pages} pages can be read")));
    }
    if unreadable > 0 {
        sink.record_problem(format!("{unreadable} of the {pages} pages cannot be read"));
    }
    if pages > limit {
        sink.mark_truncated();
    }
    Ok(())
}

fn push_metadata(document: &PdfDocument<'_>, sink: &mut Sink) {
    use PdfDocumentMetadataTagType::{Author, Keywords, Subject, Title};
    let mut lines = Vec::new();
    for (key, tag) in [("title", Title), ("author", Author), ("subject", Subject), ("keywords", Keywords)] {
        let value =
            document.metadata().get(tag).map(|it| clean_text(it.value()).trim().to_string()).unwrap_or_default();
        if key == "title" {
            sink.set_title(&value);
        }
        if !value.is_empty() {
            lines.push(format!("{key}: {value}"));
        }
    }
    sink.push(BlockKind::Metadata, &lines.join("\n"), Anchor::default());
}

fn read_page(page: &PdfPage<'_>, number: u32, sink: &mut Sink) {
    let anchor = Anchor { page: Some(number), ..Anchor::default() };
    let lines = page.text().map(|text| page_lines(&text)).unwrap_or_default();
    let mut found = group_paragraphs(&lines);
    found.extend(annotation_text(page));
    if found.is_empty() {
        if has_picture(page) && !sink.in_member() {
            sink.document().pages_without_text.push(number);
        }
        return;
    }
    for text in found {
        sink.push(BlockKind::Paragraph, &text, anchor.clone());
    }
}

/// Returns the values of form fields and the texts of comments on a page, one per line; `None` if there are none.
fn annotation_text(page: &PdfPage<'_>) -> Option<String> {
    // Maximum number of annotations read per page, because a malicious page may have a million.
    const MAX_ANNOTATIONS: usize = 2_000;
    let mut lines = Vec::new();
    for annotation in page.annotations().iter().take(MAX_ANNOTATIONS) {
        let text = match annotation.as_form_field() {
            Some(field) => {
                let text = field.as_text_field().and_then(|it| it.value());
                text.or_else(|| field.as_combo_box_field().and_then(|it| it.value()))
            }
            // Skips popups, which repeat the text of their note, and links, whose text is part of the page.
            None if matches!(
                annotation.annotation_type(),
                PdfPageAnnotationType::Popup | PdfPageAnnotationType::Link
            ) =>
            {
                None
            }
            None => annotation.contents(),
        };
        lines.extend(text.map(|it| clean_text(&it)).filter(|it| !it.trim().is_empty()));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Returns whether a page shows an image, or a form object (XObject) that may hold one.
fn has_picture(page: &PdfPage<'_>) -> bool {
    // Number of objects searched per page. A map can have a million paths; in a scan the image is one of the first objects.
    const SEARCHED_OBJECTS: usize = 200;
    page.objects()
        .iter()
        .take(SEARCHED_OBJECTS)
        .any(|it| matches!(it.object_type(), PdfPageObjectType::Image | PdfPageObjectType::XObjectForm))
}

/// Returns the lines of a page in PDFium's reading order, with their vertical positions and font sizes.
fn page_lines(text: &PdfPageText<'_>) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut line = Line::default();
    for char in text.chars().iter() {
        let Some(value) = char.unicode_char() else { continue };
        if matches!(value, '\r' | '\n') {
            if value == '\n' {
                lines.push(std::mem::take(&mut line));
            }
            continue;
        }
        if line.y.is_none() && !value.is_whitespace() {
            line.y = char.origin_y().ok().map(|it| it.value);
            line.size = char.scaled_font_size().value;
        }
        line.text.push(value);
    }
    lines.push(line);
    lines
}

/// Reads a PDF with the fallback library, which is slower and weaker but can read some files that PDFium cannot.
fn read_with_fallback(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let pages = catch_unwind(AssertUnwindSafe(|| pdf_extract::extract_text_from_mem_by_pages(input.bytes)))
        .map_err(|_| new_failure(Reason::Damaged, "the PDF cannot be read"))?
        .map_err(|error| new_failure(Reason::Damaged, format!("the PDF cannot be read: {error}")))?;
    let limit = sink.limits().pages as usize;
    let mark = sink.block_count();
    for (number, page) in (1..).zip(pages.iter().take(limit)) {
        let lines: Vec<Line> = page.lines().map(|text| Line { text: text.to_string(), ..Line::default() }).collect();
        for text in group_paragraphs(&lines) {
            sink.push(BlockKind::Paragraph, &text, Anchor { page: Some(number), ..Anchor::default() });
        }
    }
    if sink.block_count() == mark {
        return Err(new_failure(Reason::NoText, "the PDF has no text"));
    }
    if !sink.in_member() {
        sink.document().pages = sink.document().pages.or(u32::try_from(pages.len()).ok());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Document, ExtractLimits};

    /// Makes a PDF that has one page for each content stream in `pages`.
    fn pdf(pages: &[&str]) -> Vec<u8> {
        let kids: Vec<String> = (0..pages.len()).map(|it| format!("{} 0 R", 5 + 2 * it)).collect();
        let mut objects = vec![
            "<</Type/Catalog/Pages 2 0 R>>".to_string(),
            format!("<</Type/Pages/Count {}/Kids[{}]>>", pages.len(), kids.join(" ")),
            "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_string(),
            "<</Title(A plan)/Author(Ann)>>".to_string(),
        ];
        for (number, content) in pages.iter().enumerate() {
            objects.push(format!(
                "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</Font<</F 3 0 R>>>>/Contents {} 0 R>>",
                6 + 2 * number
            ));
            objects.push(format!("<</Length {}>>stream\n{content}\nendstream", content.len()));
        }
        let mut bytes = b"%PDF-1.4\n".to_vec();
        let mut offsets = Vec::new();
        for (number, object) in (1..).zip(&objects) {
            offsets.push(bytes.len());
            bytes.extend(format!("{number} 0 obj\n{object}\nendobj\n").bytes());
        }
        let start = bytes.len();
        bytes.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
        bytes.extend(offsets.iter().flat_map(|it| format!("{it:010} 00000 n \n").into_bytes()));
        let size = objects.len() + 1;
        bytes.extend(format!("trailer<</Size {size}/Root 1 0 R/Info 4 0 R>>\nstartxref\n{start}\n%%EOF").bytes());
        bytes
    }

    fn installed_tools() -> Tools {
        let pdfium = concat!(env!("CARGO_MANIFEST_DIR"), "/models/cache/lib/libpdfium.so");
        Tools { pdfium: Some(pdfium.into()), ocr: None }
    }

    fn extract(bytes: &[u8], tools: &Tools, limits: ExtractLimits) -> ReadResult<Document> {
        let mut sink = Sink::new(limits);
        read(Input { bytes, name: "a.pdf" }, &mut sink, tools)?;
        Ok(sink.into_document())
    }

    fn text_stream(text: &str) -> String {
        format!("BT /F 12 Tf 50 700 Td ({text}) Tj ET")
    }

    #[test]
    fn pdf_library_is_installed() {
        assert!(preload(&installed_tools()), "`make models` fetches models/cache/lib/libpdfium.so");
    }

    #[test]
    fn text_has_page_number_and_metadata_comes_first() {
        let bytes = pdf(&[&text_stream("First page"), &text_stream("Second page")]);
        let document = extract(&bytes, &installed_tools(), ExtractLimits::default()).unwrap();
        let found: Vec<_> = document.blocks.iter().map(|it| (it.anchor.page, it.text.as_str())).collect();
        assert_eq!(found, [(None, "title: A plan\nauthor: Ann"), (Some(1), "First page"), (Some(2), "Second page")]);
        assert_eq!((document.title.as_deref(), document.pages), (Some("A plan"), Some(2)));
    }

    #[test]
    fn wide_gap_separates_paragraphs() {
        let content =
            "BT /F 12 Tf 14 TL 50 700 Td (One line) Tj T* (and its next) Tj T* (and third) Tj 0 -60 Td (Apart) Tj ET";
        let document = extract(&pdf(&[content]), &installed_tools(), ExtractLimits::default()).unwrap();
        let found: Vec<_> = document.blocks.iter().skip(1).map(|it| it.text.as_str()).collect();
        assert_eq!(found, ["One line\nand its next\nand third", "Apart"]);
    }

    #[test]
    fn hyphenated_words_join_and_compounds_keep_hyphen() {
        let lines = ["all acous-", "tical measurements of", "the mini-", "mization, and the non-", "fork list"];
        let lines: Vec<String> = lines.iter().map(|it| format!("({it}) Tj T*")).collect();
        let first = format!("BT /F 12 Tf 14 TL 50 700 Td {} ET", lines.join(" "));
        let bytes = pdf(&[&first, &text_stream("It is acoustical, and a non-fork.")]);
        for tools in [installed_tools(), Tools::default()] {
            let text = extract(&bytes, &tools, ExtractLimits::default()).unwrap().text();
            let words: Vec<&str> = text.split_whitespace().collect();
            for word in ["acoustical", "minimization,", "non-fork"] {
                assert!(words.contains(&word), "{word}: {text}");
            }
        }
    }

    // Case C6
    #[test]
    fn pages_over_limit_are_dropped_and_marked_truncated() {
        let bytes = pdf(&[&text_stream("One"), &text_stream("Two")]);
        let document =
            extract(&bytes, &installed_tools(), ExtractLimits { pages: 1, ..ExtractLimits::default() }).unwrap();
        assert!(document.truncated && !document.text().contains("Two"));
    }

    #[test]
    fn missing_library_uses_fallback_reader() {
        let document =
            extract(&pdf(&[&text_stream("First page")]), &Tools::default(), ExtractLimits::default()).unwrap();
        assert!(document.text().contains("First page"));
    }

    #[test]
    fn noise_after_pdf_header_is_damaged() {
        let failed = extract(b"%PDF-1.7\nnoise", &installed_tools(), ExtractLimits::default()).unwrap_err();
        assert_eq!(failed.reason, Reason::Damaged);
    }
}
