//! Splits the result of a skill (e.g. OCR) into documents that can each answer a question on their own. Does no I/O.

use crate::model::{Block, BlockKind, Document};

/// The headings above the current block, outermost first, and whether the last heading already has a part below it.
#[derive(Default)]
struct Headings {
    open: Vec<Block>,
    used: bool,
}

/// Splits a document into documents that each hold one table, one list of facts, one code block, or consecutive text, with
/// the title and the headings above it. A heading without content becomes a document too.
pub(super) fn split_document(document: &Document) -> Vec<Document> {
    let mut parts = Vec::new();
    let mut headings = Headings::default();
    let mut text: Vec<Block> = Vec::new();
    for block in &document.blocks {
        match block.kind {
            BlockKind::Heading(level) => {
                close_text_run(document, &mut headings, &mut text, &mut parts);
                headings.open_heading(document, level, block, &mut parts);
            }
            BlockKind::Paragraph | BlockKind::ListItem => text.push(block.clone()),
            BlockKind::Table | BlockKind::Metadata | BlockKind::Code => {
                close_text_run(document, &mut headings, &mut text, &mut parts);
                parts.push(headings.new_part(document, vec![block.clone()]));
            }
        }
    }
    close_text_run(document, &mut headings, &mut text, &mut parts);
    headings.add_unused_heading(document, &mut parts);
    parts
}

fn close_text_run(document: &Document, headings: &mut Headings, text: &mut Vec<Block>, parts: &mut Vec<Document>) {
    if !text.is_empty() {
        parts.push(headings.new_part(document, std::mem::take(text)));
    }
}

impl Headings {
    fn open_heading(&mut self, document: &Document, level: u8, block: &Block, parts: &mut Vec<Document>) {
        let deeper = |it: &Block| matches!(it.kind, BlockKind::Heading(above) if above < level);
        if self.open.last().is_some_and(|last| !deeper(last)) {
            self.add_unused_heading(document, parts);
        }
        let kept = self.open.iter().take_while(|it| deeper(it)).count();
        self.open.truncate(kept);
        self.open.push(block.clone());
        self.used = false;
    }

    /// Adds the last heading as a part of its own if no part followed it. Otherwise its text would be lost.
    fn add_unused_heading(&mut self, document: &Document, parts: &mut Vec<Document>) {
        if !self.used
            && let Some(last) = self.open.pop()
        {
            parts.push(self.new_part(document, vec![Block { kind: BlockKind::Paragraph, ..last }]));
        }
    }

    fn new_part(&mut self, document: &Document, body: Vec<Block>) -> Document {
        self.used = true;
        let blocks = self.open.iter().cloned().chain(body).collect();
        Document { title: document.title.clone(), blocks, ..Document::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Anchor;
    use BlockKind::{Heading, Metadata, Paragraph, Table};

    fn assert_parts(blocks: &[(BlockKind, &str)], expected: &[&[&str]]) {
        let block = |(kind, text): &(BlockKind, &str)| Block {
            kind: *kind,
            text: (*text).to_string(),
            anchor: Anchor::default(),
            rows: Vec::new(),
        };
        let document = Document { blocks: blocks.iter().map(block).collect(), ..Document::default() };
        let parts = split_document(&document);
        let found: Vec<Vec<&str>> =
            parts.iter().map(|part| part.blocks.iter().map(|it| it.text.as_str()).collect()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn split_puts_tables_and_facts_in_own_parts() {
        assert_parts(
            &[
                (Heading(1), "A"),
                (Paragraph, "p"),
                (Paragraph, "q"),
                (Table, "t"),
                (Heading(2), "B"),
                (Metadata, "m"),
                (Metadata, "n"),
                (Heading(1), "C"),
                (Table, "u"),
            ],
            &[&["A", "p", "q"], &["A", "t"], &["A", "B", "m"], &["A", "B", "n"], &["C", "u"]],
        );
    }

    #[test]
    fn split_keeps_heading_without_body() {
        assert_parts(
            &[(Heading(1), "A"), (Heading(1), "B"), (Table, "t"), (Heading(2), "C")],
            &[&["A"], &["B", "t"], &["B", "C"]],
        );
    }

    #[test]
    fn split_of_empty_document_is_empty() {
        assert_parts(&[], &[]);
    }
}
