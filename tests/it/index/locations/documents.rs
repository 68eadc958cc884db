//! Generates documents of each format, with the known location of each sentence.

use std::io::Cursor;
use std::ops::Range;

use image::{GrayImage, Luma};
use pdfium_render::prelude::{PdfRenderConfig, Pdfium};

use crate::index::locations::ExpectedLocation;
use crate::index::locations::TestDocument;
use crate::index::locations::pdfium_path;
use crate::index::locations::sentence;
use crate::support::seeds::office;
use crate::support::seeds::open_document;
use crate::support::seeds::relations;
use crate::support::seeds::zip;

/// Returns the sentence numbers of each page, given the number of sentences per page.
fn sentence_ranges(sizes: &[usize]) -> Vec<Range<usize>> {
    let start = |page: usize| sizes[..page].iter().sum::<usize>();
    (0..sizes.len()).map(|page| start(page)..start(page) + sizes[page]).collect()
}

/// Returns a document of pages that `write` builds from the sentences of each page. `truth` returns the location of a
/// sentence, given its page (from 1) and its index on the page (from 0).
fn paged_document(
    name: &'static str,
    sizes: &[usize],
    truth: impl Fn(u64, usize) -> ExpectedLocation,
    write: impl Fn(&[Vec<String>]) -> Vec<u8>,
) -> TestDocument {
    let pages: Vec<Vec<String>> = sentence_ranges(sizes).into_iter().map(|it| it.map(sentence).collect()).collect();
    let place = |(page, sentences): (u64, &Vec<String>)| {
        sentences.iter().enumerate().map(|(at, it)| (it.clone(), truth(page, at))).collect::<Vec<_>>()
    };
    let sentences = (1..).zip(&pages).flat_map(place).collect();
    TestDocument { name, bytes: write(&pages), sentences, headings: Vec::new() }
}

/// Makes the first sentence of each page of the document a heading.
fn with_titles(made: TestDocument, sizes: &[usize]) -> TestDocument {
    let headings = sentence_ranges(sizes).into_iter().filter_map(|mut it| it.next().map(sentence)).collect();
    TestDocument { headings, ..made }
}

fn page_location(page: u64, _: usize) -> ExpectedLocation {
    ExpectedLocation { page: Some(page), ..ExpectedLocation::default() }
}

/// Returns a PDF with each sentence on its own line, in small print so that long pages fit.
pub(crate) fn pdf(name: &'static str, sizes: &[usize]) -> TestDocument {
    paged_document(name, sizes, page_location, |pages| pdf_of(pages, 5))
}

fn pdf_of(pages: &[Vec<String>], size: usize) -> Vec<u8> {
    let kids: Vec<String> = (0..pages.len()).map(|it| format!("{} 0 R", 4 + 2 * it)).collect();
    let mut objects = vec![
        "<</Type/Catalog/Pages 2 0 R>>".to_string(),
        format!("<</Type/Pages/Count {}/Kids[{}]>>", pages.len(), kids.join(" ")),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_string(),
    ];
    for (number, lines) in pages.iter().enumerate() {
        let shown: String = lines.iter().map(|it| format!("({it}) Tj T* ")).collect();
        let content = format!("BT /F {size} Tf {} TL 30 780 Td {shown}ET", size + size / 2);
        objects.push(format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</Font<</F 3 0 R>>>>/Contents {} 0 R>>",
            5 + 2 * number
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
    bytes.extend(format!("trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF").bytes());
    bytes
}

/// Returns a presentation. The first sentence of each slide is its title.
pub(crate) fn pptx(name: &'static str, sizes: &[usize]) -> TestDocument {
    let made = paged_document(name, sizes, page_location, |slides| {
        let number = slides.len();
        let ids: String = (1..=number).map(|it| format!("<p:sldId id=\"{}\" r:id=\"rId{it}\"/>", 255 + it)).collect();
        let list =
            format!("<p:presentation xmlns:p=\"p\" xmlns:r=\"r\"><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>");
        let names: Vec<String> = (1..=number).map(|it| format!("slides/slide{it}.xml")).collect();
        let beside = relations(&names.iter().map(|it| ("slide", it.as_str())).collect::<Vec<_>>());
        let written: Vec<(String, String)> =
            names.iter().zip(slides).map(|(name, it)| (format!("ppt/{name}"), slide(it))).collect();
        let mut parts =
            vec![("ppt/presentation.xml", list.as_bytes()), ("ppt/_rels/presentation.xml.rels", beside.as_bytes())];
        parts.extend(written.iter().map(|(name, xml)| (name.as_str(), xml.as_bytes())));
        let kind = "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml";
        office("ppt/presentation.xml", kind, &parts)
    });
    with_titles(made, sizes)
}

fn slide(sentences: &[String]) -> String {
    let paragraph = |it: &String| format!("<a:p><a:r><a:t>{it}</a:t></a:r></a:p>");
    let body: String = sentences[1..].iter().map(paragraph).collect();
    format!(
        "<p:sld xmlns:p=\"p\" xmlns:a=\"a\"><p:cSld><p:spTree><p:sp><p:nvSpPr><p:nvPr><p:ph type=\"title\"/></p:nvPr></p:nvSpPr><p:txBody>{}</p:txBody></p:sp><p:sp><p:txBody>{body}</p:txBody></p:sp></p:spTree></p:cSld></p:sld>",
        paragraph(&sentences[0])
    )
}

pub(crate) fn odp(name: &'static str, sizes: &[usize]) -> TestDocument {
    let made = paged_document(name, sizes, page_location, |slides| {
        let frame = |class: &str, all: &[String]| {
            let text: String = all.iter().map(|it| format!("<text:p>{it}</text:p>")).collect();
            format!("<draw:frame{class}><draw:text-box>{text}</draw:text-box></draw:frame>")
        };
        let title = |it: &[String]| frame(" presentation:class=\"title\"", it);
        let page = |it: &Vec<String>| format!("<draw:page>{}{}</draw:page>", title(&it[..1]), frame("", &it[1..]));
        open_document("presentation", &slides.iter().map(page).collect::<String>())
    });
    with_titles(made, sizes)
}

/// Returns the row (from 1) of the sentence with this index. A blank row follows every third sentence.
fn sheet_row(at: usize) -> usize {
    2 + at + at / 3
}

fn sheet_location(number: u64, at: usize) -> ExpectedLocation {
    ExpectedLocation {
        sheet: Some(format!("Sheet {number}")),
        row: Some(sheet_row(at) as u64),
        ..ExpectedLocation::default()
    }
}

pub(crate) fn xlsx(name: &'static str, sizes: &[usize]) -> TestDocument {
    paged_document(name, sizes, sheet_location, |sheets| {
        let number = sheets.len();
        let list: String =
            (1..=number).map(|it| format!("<sheet name=\"Sheet {it}\" sheetId=\"{it}\" r:id=\"rId{it}\"/>")).collect();
        let book = format!(
            "<workbook xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\"><sheets>{list}</sheets></workbook>"
        );
        let names: Vec<String> = (1..=number).map(|it| format!("worksheets/sheet{it}.xml")).collect();
        let beside = relations(&names.iter().map(|it| ("worksheet", it.as_str())).collect::<Vec<_>>());
        let cells = |(at, it): (usize, &String)| {
            let row = sheet_row(at);
            format!(
                "<row r=\"{row}\"><c r=\"A{row}\" t=\"inlineStr\"><is><t>{it}</t></is></c><c r=\"B{row}\"><v>{row}</v></c></row>"
            )
        };
        let sheet = |it: &Vec<String>| {
            let rows: String = it.iter().enumerate().map(cells).collect();
            format!(
                "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"><sheetData>{rows}</sheetData></worksheet>"
            )
        };
        let written: Vec<(String, String)> =
            names.iter().zip(sheets).map(|(name, it)| (format!("xl/{name}"), sheet(it))).collect();
        let mut parts = vec![("xl/workbook.xml", book.as_bytes()), ("xl/_rels/workbook.xml.rels", beside.as_bytes())];
        parts.extend(written.iter().map(|(name, xml)| (name.as_str(), xml.as_bytes())));
        office("xl/workbook.xml", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml", &parts)
    })
}

pub(crate) fn ods(name: &'static str, sizes: &[usize]) -> TestDocument {
    paged_document(name, sizes, sheet_location, |sheets| {
        let cell = |text: &str| format!("<table:table-cell><text:p>{text}</text:p></table:table-cell>");
        let empty = "<table:table-row><table:table-cell/></table:table-row>";
        let row_of = |(at, it): (usize, &String)| {
            let before = if at == 0 { 1 } else { sheet_row(at) - sheet_row(at - 1) - 1 };
            format!("{}<table:table-row>{}{}</table:table-row>", empty.repeat(before), cell(it), cell(&at.to_string()))
        };
        let sheet = |(number, it): (usize, &Vec<String>)| {
            let rows: String = it.iter().enumerate().map(row_of).collect();
            format!("<table:table table:name=\"Sheet {number}\">{rows}</table:table>")
        };
        open_document("spreadsheet", &(1..).zip(sheets).map(sheet).collect::<String>())
    })
}

pub(crate) fn epub(name: &'static str, sizes: &[usize]) -> TestDocument {
    let chapter = |number: u64, _: usize| ExpectedLocation {
        part: Some(format!("chapter {number}")),
        ..ExpectedLocation::default()
    };
    let made = paged_document(name, sizes, chapter, |chapters| {
        let names: Vec<String> = (1..=chapters.len()).map(|it| format!("{it}.xhtml")).collect();
        let items: String = names
            .iter()
            .map(|it| format!("<item id=\"c{it}\" href=\"{it}\" media-type=\"application/xhtml+xml\"/>"))
            .collect();
        let spine: String = names.iter().map(|it| format!("<itemref idref=\"c{it}\"/>")).collect();
        let book = format!("<package><manifest>{items}</manifest><spine>{spine}</spine></package>");
        let container = "<container><rootfiles><rootfile full-path=\"book.opf\" media-type=\"application/oebps-package+xml\"/></rootfiles></container>";
        let page = |it: &Vec<String>| {
            let text: String = it[1..].iter().map(|it| format!("<p>{it}</p>")).collect();
            format!("<html xmlns=\"http://www.w3.org/1999/xhtml\"><body><h1>{}</h1>{text}</body></html>", it[0])
        };
        let written: Vec<String> = chapters.iter().map(page).collect();
        let mut parts = vec![
            ("mimetype", &b"application/epub+zip"[..]),
            ("META-INF/container.xml", container.as_bytes()),
            ("book.opf", book.as_bytes()),
        ];
        parts.extend(names.iter().zip(&written).map(|(name, it)| (name.as_str(), it.as_bytes())));
        zip(&parts)
    });
    with_titles(made, sizes)
}

/// Returns a multi-page TIFF with the rendered pages of a PDF.
pub(crate) fn tiff(name: &'static str, sizes: &[usize]) -> TestDocument {
    paged_document(name, sizes, page_location, |pages| {
        let drawn = render_pages(&pdf_of(pages, 20));
        let mut bytes = Cursor::new(Vec::new());
        let mut encoder = tiff::encoder::TiffEncoder::new(&mut bytes).unwrap();
        for page in &drawn {
            encoder.write_image::<tiff::encoder::colortype::Gray8>(page.width(), page.height(), page.as_raw()).unwrap();
        }
        bytes.into_inner()
    })
}

/// Renders the upper third of each page of a PDF, which contains all text.
fn render_pages(pdf: &[u8]) -> Vec<GrayImage> {
    let pdfium = Pdfium::new(Pdfium::bind_to_library(pdfium_path()).unwrap());
    let document = pdfium.load_pdf_from_byte_slice(pdf, None).unwrap();
    let render = PdfRenderConfig::new().set_target_width(1_200);
    let page = |it: pdfium_render::prelude::PdfPage<'_>| {
        let bitmap = it.render_with_config(&render).unwrap();
        let (width, height, bytes) = (bitmap.width() as u32, bitmap.height() as u32, bitmap.as_rgba_bytes());
        GrayImage::from_fn(width, height / 3, |x, y| Luma([bytes[((y * width + x) * 4) as usize]]))
    };
    document.pages().iter().map(page).collect()
}

/// Returns a text file. `wrap` turns a sentence into lines; the line of each sentence is recorded as its known location.
fn line_document(name: &'static str, wrap: impl Fn(usize, &str) -> String) -> TestDocument {
    let (mut text, mut sentences) = (String::new(), Vec::new());
    for number in 0..200 {
        let said = sentence(number);
        let wrapped = wrap(number, &said);
        let before = wrapped[..wrapped.find(&said).unwrap()].matches('\n').count();
        let line = 1 + text.matches('\n').count() + before;
        sentences.push((said, ExpectedLocation { line: Some(line as u64), ..ExpectedLocation::default() }));
        text.push_str(&wrapped);
    }
    TestDocument { name, bytes: text.into_bytes(), sentences, headings: Vec::new() }
}

/// Returns Markdown with headings, lists, quotes, tables and paragraphs, with different gaps between them.
pub(crate) fn markdown() -> TestDocument {
    let made = line_document("notes.md", |number, said| match number % 10 {
        0 => format!("\n## {said}\n\n"),
        1 | 2 => format!("- {said}\n"),
        3 => format!("\n| letter | number |\n|---|---|\n| {said} | {number} |\n"),
        4 | 5 => format!("| {said} | {number} |\n"),
        6 => format!("\n> \n> {said}\n"),
        7 => format!("> {said}\n\n\n"),
        _ => format!("Note {number}. {said}\n"),
    });
    TestDocument { headings: (0..200).step_by(10).map(sentence).collect(), ..made }
}

pub(crate) fn text() -> TestDocument {
    line_document("notes.txt", |number, said| match number % 4 {
        0 => format!("\r\n\r\n{said}\r\n"),
        1 => format!("Of {number}: {said}\n"),
        2 => format!("{said}\n\n\n"),
        _ => format!("    {said}\n"),
    })
}

/// Returns a table in which some cells have several lines and some lines are blank.
pub(crate) fn csv() -> TestDocument {
    line_document("table.csv", |number, said| match number % 7 {
        0 => format!("{number},{said},\"one\ntwo\nthree\"\n"),
        3 => format!("\n{number},{said},x\n"),
        _ => format!("{number},{said},y\n"),
    })
}

pub(crate) fn subtitles() -> TestDocument {
    line_document("film.srt", |number, said| {
        format!("{number}\n00:00:{:02},000 --> 00:00:{:02},500\n{said}\n\n", number % 60, number % 60)
    })
}

/// Returns a document of sentences 0 to 99, each in its own part.
fn part_document(name: &'static str, truth: impl Fn(usize) -> ExpectedLocation, bytes: Vec<u8>) -> TestDocument {
    let sentences = (0..100).map(|it| (sentence(it), truth(it))).collect();
    TestDocument { name, bytes, sentences, headings: Vec::new() }
}

pub(crate) fn notebook() -> TestDocument {
    let cell = |number: usize| serde_json::json!({"cell_type": "markdown", "source": sentence(number)});
    let book = serde_json::json!({"nbformat": 4, "cells": (0..100).map(cell).collect::<Vec<_>>()});
    let truth = |it: usize| ExpectedLocation { part: Some(format!("cell {}", it + 1)), ..ExpectedLocation::default() };
    part_document("book.ipynb", truth, book.to_string().into_bytes())
}

pub(crate) fn mail() -> TestDocument {
    let message = |number: usize| {
        format!(
            "From ann@example.org Mon Mar  2 10:00:00 2026\nFrom: ann@example.org\nSubject: Note {number}\n\n{}\n\n",
            sentence(number)
        )
    };
    let truth =
        |it: usize| ExpectedLocation { part: Some(format!("message {}, body", it + 1)), ..ExpectedLocation::default() };
    part_document("box.mbox", truth, (0..100).map(message).collect::<String>().into_bytes())
}

pub(crate) fn archive() -> TestDocument {
    let names: Vec<String> = (0..100).map(|it| format!("notes/{it}.txt")).collect();
    let texts: Vec<String> = (0..100).map(|it| format!("{}{}\n", "\n".repeat(it), sentence(it))).collect();
    let members: Vec<(&str, &[u8])> =
        names.iter().zip(&texts).map(|(name, it)| (name.as_str(), it.as_bytes())).collect();
    let truth = |it: usize| ExpectedLocation {
        member: Some(format!("notes/{it}.txt")),
        line: Some(it as u64 + 1),
        ..ExpectedLocation::default()
    };
    part_document("pack.zip", truth, zip(&members))
}
