//! Reader of Office files of 1997 to 2003 (doc, ppt, and xls as a fallback), with the `undoc` library.
//!
//! Errors and panics of `undoc` become failures of the file.

use std::panic::{AssertUnwindSafe, catch_unwind};

use undoc::model::RevisionType;
use undoc::{Block, Document, Error, FormatType, Paragraph, Section, Table};

use crate::extract::office::ooxml::push_metadata;
use crate::extract::table_text::{one_line, table_row};
use crate::extract::zip_container::{COMPOUND_FILE, is_encrypted_package};
use crate::extract::{Input, ReadResult, Sink, new_failure};
use crate::model::{Anchor, BlockKind, Reason};

/// Maximum depth of nested tables; deeper ones are skipped.
const MAX_DEPTH: usize = 64;

/// Adds the text of a binary Office file to the sink; its type is detected by content.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    if !input.bytes.starts_with(&COMPOUND_FILE) {
        return Err(new_failure(Reason::Damaged, "the file is not a compound file (OLE)"));
    }
    if is_encrypted_package(input.bytes) {
        return Err(new_failure(Reason::Encrypted, "needs a password"));
    }
    let parsed = catch_unwind(AssertUnwindSafe(|| undoc::parse_bytes(input.bytes)));
    let document = match parsed {
        Ok(Ok(document)) => document,
        Ok(Err(Error::Encrypted)) => return Err(new_failure(Reason::Encrypted, "needs a password")),
        Ok(Err(Error::UnknownFormat | Error::UnsupportedFormat(_))) => {
            return Err(new_failure(Reason::UnsupportedType, "the file is not a Word, Excel or PowerPoint file"));
        }
        Ok(Err(error)) => return Err(new_failure(Reason::Damaged, error.to_string().to_lowercase())),
        Err(_) => return Err(new_failure(Reason::Damaged, "the Office reader panicked")),
    };
    write_document(document, sink);
    Ok(())
}

fn write_document(document: Document, sink: &mut Sink) {
    let metadata = document.metadata;
    push_metadata(
        &[
            ("title", metadata.title.unwrap_or_default()),
            ("subject", metadata.subject.unwrap_or_default()),
            ("author", metadata.author.unwrap_or_default()),
            ("keywords", metadata.keywords.join(", ")),
            ("description", metadata.description.unwrap_or_default()),
        ],
        sink,
    );
    let slides = document.format == FormatType::Ppt;
    if slides {
        sink.document().pages = Some(document.sections.len() as u32);
    }
    for section in &document.sections {
        if sink.is_full() {
            sink.mark_truncated();
            return;
        }
        let page = slides.then_some(section.index as u32 + 1);
        let sheet = (document.format == FormatType::Xls).then(|| section.name.clone()).flatten();
        Writer { sink, anchor: Anchor { page, sheet, ..Anchor::default() } }.push_section(section);
    }
}

struct Writer<'s> {
    sink: &'s mut Sink,
    anchor: Anchor,
}

impl Writer<'_> {
    fn push(&mut self, kind: BlockKind, text: &str, part: Option<&str>) {
        self.sink.push(kind, text, Anchor { part: part.map(str::to_string), ..self.anchor.clone() });
    }

    fn push_section(&mut self, section: &Section) {
        // Slides get no heading, because the name of a slide is only its number, which the anchor already has as the page.
        if let Some(name) = section.name.as_ref().filter(|_| self.anchor.page.is_none()) {
            self.push(BlockKind::Heading(1), name, None);
        }
        for block in &section.content {
            match block {
                Block::Paragraph(paragraph) => self.push_paragraph(paragraph),
                Block::Table(table) => self.push_table(table, 0),
                Block::Note { content, .. } => self.push_paragraphs(content, "footnote"),
                // Adds the description of an image. A single word is skipped, because it is a file name.
                Block::Image { alt_text: Some(text), .. } if text.trim().contains(' ') => {
                    self.push(BlockKind::Paragraph, text, Some("picture"));
                }
                _ => {}
            }
        }
        for (part, paragraphs) in [("notes", &section.notes), ("header", &section.header), ("footer", &section.footer)]
        {
            self.push_paragraphs(paragraphs.as_deref().unwrap_or_default(), part);
        }
    }

    fn push_paragraph(&mut self, paragraph: &Paragraph) {
        let text = paragraph_text(paragraph);
        match (paragraph.heading.level(), &paragraph.list_info) {
            (0, None) => self.push(BlockKind::Paragraph, &text, None),
            (0, Some(_)) => self.push(BlockKind::ListItem, &text, None),
            (level, _) => {
                let text = one_line(&text);
                if level == 1 {
                    self.sink.set_title(&text);
                }
                self.push(BlockKind::Heading(level), &text, None);
            }
        }
    }

    fn push_paragraphs(&mut self, paragraphs: &[Paragraph], part: &str) {
        let text = paragraphs.iter().map(paragraph_text).collect::<Vec<_>>().join("\n");
        self.push(BlockKind::Paragraph, &text, Some(part));
    }

    fn push_table(&mut self, table: &Table, depth: usize) {
        let cell = |paragraphs: &[Paragraph]| paragraphs.iter().map(paragraph_text).collect::<Vec<_>>().join(" ");
        let rows = table
            .rows
            .iter()
            .filter_map(|row| table_row(&row.cells.iter().map(|it| cell(&it.content)).collect::<Vec<_>>()));
        self.push(BlockKind::Table, &rows.collect::<Vec<_>>().join("\n"), None);
        if depth < MAX_DEPTH {
            let cells = table.rows.iter().flat_map(|row| &row.cells);
            cells.flat_map(|it| &it.nested_tables).for_each(|nested| self.push_table(nested, depth + 1));
        }
    }
}

/// Returns the text of a paragraph without text that is marked as deleted.
fn paragraph_text(paragraph: &Paragraph) -> String {
    let mut text = String::new();
    for run in paragraph.runs.iter().filter(|it| it.revision != RevisionType::Deleted) {
        text.push_str(&run.text);
        if run.line_break {
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::zip_container::tests::format_blocks;
    use crate::model::ExtractLimits;
    use undoc::model::{Cell, Row};
    use undoc::{HeadingLevel, TextRun};

    #[test]
    fn unreadable_file_reports_reason() {
        let reason = |bytes: &[u8]| {
            read(Input { bytes, name: "a.doc" }, &mut Sink::new(ExtractLimits::default())).unwrap_err().reason
        };
        assert_eq!(reason(b"text"), Reason::Damaged);
        let mut bytes = COMPOUND_FILE.to_vec();
        bytes.resize(512, 0xFF);
        assert!(matches!(reason(&bytes), Reason::Damaged | Reason::UnsupportedType));
        bytes.extend("EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes));
        assert_eq!(reason(&bytes), Reason::Encrypted);
    }

    #[test]
    fn blocks_keep_kind_slide_and_order() {
        let mut slide = Section::with_name(1, "Slide");
        slide.add_paragraph(Paragraph::heading(HeadingLevel::H2, "Head"));
        let deleted = TextRun { revision: RevisionType::Deleted, ..TextRun::plain("gone") };
        slide.add_paragraph(Paragraph { runs: vec![TextRun::plain("text"), deleted], ..Paragraph::default() });
        let row = Row { cells: vec![Cell::with_text("a"), Cell::with_text("b")], ..Row::default() };
        slide.add_table(Table { rows: vec![row], ..Table::default() });
        let document = Document { format: FormatType::Ppt, sections: vec![slide], ..Document::default() };
        let mut sink = Sink::new(ExtractLimits::default());
        write_document(document, &mut sink);
        let document = sink.into_document();
        assert_eq!(format_blocks(&document), "2 Head\np text\nt a | b");
        assert!(document.blocks.iter().all(|it| it.anchor.page == Some(2)));
    }
}
