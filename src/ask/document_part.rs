//! Cuts out the part of a document at a given location: member, part, sheet, cells, pages or lines.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::ask::asker::Asker;
use crate::error::{Error, Result};
use crate::model::{Anchor, Block, BlockKind, Document, Place, Redaction, parse_cells, parse_span};
use crate::secrets::{REDACTED, Redactor};

/// Maximum number of existing names or cell ranges that an error lists.
const MAX_LISTED_NAMES: usize = 20;

/// Separator between the cells of a row in the text of a table.
const CELL_SEPARATOR: &str = " | ";

impl Asker {
    /// Cuts out a part of a document and redacts its secrets as configured, see [`cut_document`].
    ///
    /// # Errors
    /// See [`cut_document`].
    pub fn cut_part(&self, document: Document, place: &Place, raw: Option<&str>, name: &str) -> Result<Document> {
        cut_document(document, place, raw, self.redaction, name)
    }
}

/// Cuts out the part of a document at `place`. `raw` is the text of the file with its blank lines and markup, which the
/// document lacks; `None` if the anchors do not count the lines of this text. `name` is the name of the file for messages.
///
/// # Errors
/// `NotFound` if the document has no such part (the message lists existing ones); `InvalidArgument` if `place` is invalid.
fn cut_document(
    document: Document,
    place: &Place,
    raw: Option<&str>,
    redaction: Redaction,
    name: &str,
) -> Result<Document> {
    let mut window = DocumentCutter { document, name };
    if let Some(member) = &place.member {
        window.keep_matching("member", member, |it| it.member.as_ref() == Some(member), |it| it.member.clone())?;
    }
    // If lines are given and the part is unknown, uses the lines only, because the part may be a symbol that was renamed.
    let is_part_known =
        || window.document.blocks.iter().any(|it| place.part.as_ref().is_some_and(|part| it.anchor.is_part(part)));
    if let Some(part) = &place.part
        && (place.lines.is_none() || is_part_known())
    {
        window.keep_matching("part", part, |it| it.is_part(part), |it| it.part.clone().or(it.symbol.clone()))?;
    }
    if let Some(sheet) = &place.sheet {
        let is_it = |it: &Anchor| it.sheet.as_ref().is_some_and(|it| it.to_lowercase() == sheet.to_lowercase());
        window.keep_matching("sheet", sheet, is_it, |it| it.sheet.clone())?;
    }
    if let Some(cell) = &place.cell {
        window.keep_cells(cell)?;
    }
    if let Some(pages) = &place.page {
        window.keep_pages(parse_span("page", pages)?)?;
    }
    if let Some(lines) = &place.lines {
        let raw = raw.filter(|_| place.member.is_none());
        window.keep_lines(parse_span("lines", lines)?, raw, redaction)?;
    }
    Ok(window.document)
}

struct DocumentCutter<'n> {
    document: Document,
    name: &'n str,
}

impl DocumentCutter<'_> {
    /// Keeps the blocks whose anchor matches. If no block matches, the error lists the existing names of this `kind`.
    fn keep_matching(
        &mut self,
        kind: &str,
        wanted: &str,
        is_it: impl Fn(&Anchor) -> bool,
        name: impl Fn(&Anchor) -> Option<String>,
    ) -> Result<()> {
        if !self.document.blocks.iter().any(|it| is_it(&it.anchor)) {
            let names: BTreeSet<String> = self.document.blocks.iter().filter_map(|it| name(&it.anchor)).collect();
            let more = names.len().saturating_sub(MAX_LISTED_NAMES);
            let mut told: Vec<String> = names.into_iter().take(MAX_LISTED_NAMES).map(|it| format!("`{it}`")).collect();
            told.extend((more > 0).then(|| format!("{more} more")));
            let there = if told.is_empty() {
                format!("the file has no {kind}s")
            } else {
                format!("there are {}", told.join(", "))
            };
            return Err(
                Error::not_found(format!("`{}` has no text at {kind} `{wanted}`: {there}", self.name)).field(kind)
            );
        }
        self.document.blocks.retain(|it| is_it(&it.anchor));
        Ok(())
    }

    fn keep_pages(&mut self, (first, last): (u32, u32)) -> Result<()> {
        let blocks = &mut self.document.blocks;
        let most = blocks.iter().filter_map(|it| it.anchor.page).chain(self.document.pages).max();
        ensure_in_range(self.name, "page", first, most)?;
        blocks.retain(|it| it.anchor.page.is_some_and(|page| (first..=last).contains(&page)));
        self.document.pages_without_text.retain(|it| (first..=last).contains(it));
        if blocks.is_empty() {
            let pages =
                if first == last { format!("page {first} holds") } else { format!("pages {first}-{last} hold") };
            self.document.problems.push(format!("{pages} no text"));
        }
        Ok(())
    }

    fn keep_cells(&mut self, wanted: &str) -> Result<()> {
        let wrong = || Error::invalid(format!("`{wanted}` is not a cell or range: use `B2` or `B2:D9`")).field("cell");
        let area = parse_cells(wanted).ok_or_else(wrong)?;
        let place = |it: &Block| it.anchor.cell.as_deref().and_then(parse_cells);
        let ranges: Vec<String> =
            self.document.blocks.iter().filter(|it| place(it).is_some()).filter_map(describe_cells).collect();
        let (mut kept, mut blurred) = (Vec::new(), Vec::new());
        for mut block in std::mem::take(&mut self.document.blocks) {
            let Some(both) = place(&block).and_then(|it| intersection(it, area)) else { continue };
            match place(&block).and_then(|own| cut_cells(&block.text, own, both)) {
                Some(text) => {
                    block.text = text;
                    block.anchor.cell = Some(range_name(both));
                }
                None => blurred.extend(block.anchor.cell.clone()),
            }
            if !block.text.is_empty() {
                kept.push(block);
            }
        }
        if kept.is_empty() {
            let shown = ranges.iter().take(MAX_LISTED_NAMES).cloned().collect::<Vec<_>>().join(", ");
            let there =
                if ranges.is_empty() { "the file has no cells".to_string() } else { format!("there are {shown}") };
            let text = format!("`{}` has no text at cell `{wanted}`: {there}", self.name);
            return Err(Error::not_found(text).field("cell"));
        }
        if !blurred.is_empty() {
            let text = format!("cannot separate the cells of {}: the whole range is shown", blurred.join(", "));
            self.document.problems.push(text);
        }
        self.document.blocks = kept;
        Ok(())
    }

    fn keep_lines(&mut self, (first, last): (u32, u32), raw: Option<&str>, redaction: Redaction) -> Result<()> {
        let blocks = self.document.blocks.iter().filter(|it| it.anchor.line_start.is_some());
        let known = blocks.filter_map(|it| it.anchor.line_end).max();
        let raw: Option<Vec<&str>> = raw.filter(|_| known.is_some()).map(|it| it.split_inclusive('\n').collect());
        let most = raw.as_ref().map(|it| u32::try_from(it.len()).unwrap_or(u32::MAX)).or(known);
        ensure_in_range(self.name, "line", first, most)?;
        let last = last.min(most.unwrap_or(last));
        let mut shown = match &raw {
            Some(raw) => redacted_lines(raw, first as usize - 1..last as usize, redaction),
            None => vec![None; (last - first + 1) as usize],
        };
        for block in &self.document.blocks {
            // Takes redacted lines from the document instead of the raw text, which may still show the secret.
            if raw.is_none() || block.text.contains(REDACTED) {
                overlay_block(block, first, &mut shown);
            }
        }
        let text = shown.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join("\n");
        let member = self.document.blocks.first().and_then(|it| it.anchor.member.clone());
        let anchor = Anchor { line_start: Some(first), line_end: Some(last), member, ..Anchor::default() };
        self.document.blocks = vec![Block { kind: BlockKind::Code, text, anchor, rows: Vec::new() }];
        Ok(())
    }
}

/// Returns an error unless the document has a page or line `first`; `most` is its last page or line.
fn ensure_in_range(name: &str, kind: &str, first: u32, most: Option<u32>) -> Result<()> {
    let there = match most {
        Some(most) if first <= most => return Ok(()),
        Some(most) => format!("has no {kind} {first}: it has {kind}s 1-{most}"),
        None => format!("has no {kind}s"),
    };
    Err(Error::not_found(format!("`{name}` {there}")).field(kind))
}

/// Returns a range of the lines of a file, with secrets redacted.
pub(super) fn redacted_lines(lines: &[&str], range: Range<usize>, redaction: Redaction) -> Vec<Option<String>> {
    let text = lines.concat();
    let places = Redactor::new(redaction).secret_ranges(&text);
    let mut start: usize = lines[..range.start].iter().map(|it| it.len()).sum();
    let mut shown = Vec::with_capacity(range.len());
    for line in &lines[range] {
        let (from, end) = (start, start + line.trim_end_matches(['\n', '\r']).len());
        start += line.len();
        let (mut clean, mut at) = (String::new(), from);
        let first = places.partition_point(|it| it.end <= from);
        for place in places[first..].iter().take_while(|it| it.start < end) {
            clean.push_str(&text[at..place.start.max(at)]);
            clean.push_str(REDACTED);
            at = place.end.min(end);
        }
        clean.push_str(&text[at..end]);
        shown.push(Some(clean));
    }
    shown
}

/// Replaces the lines in `shown` by those of a block. Lines beyond the block's line range are appended to its last line.
fn overlay_block(block: &Block, first: u32, shown: &mut [Option<String>]) {
    let (Some(start), Some(end)) = (block.anchor.line_start, block.anchor.line_end) else { return };
    let index = |line: u32| line.checked_sub(first).map(|it| it as usize).filter(|it| *it < shown.len());
    let (from, to) = (start.max(first), end.min(first.saturating_add(shown.len() as u32).saturating_sub(1)));
    let mut lines: Vec<Option<String>> = Vec::new();
    let here: Vec<usize> = (from..=to).filter_map(index).collect();
    lines.resize(here.len(), None);
    for (number, text) in block.text.split('\n').enumerate() {
        let line = start.saturating_add(number as u32).min(end);
        let Some(at) = (from <= line && line <= to).then(|| (line - from) as usize) else { continue };
        match &mut lines[at] {
            Some(known) => known.push_str(&format!("\n{text}")),
            empty => *empty = Some(text.trim_end_matches('\r').to_string()),
        }
    }
    here.into_iter().zip(lines).for_each(|(at, line)| shown[at] = line);
}

type Cell = (u32, u32);

/// Returns the intersection of two cell ranges, each given by its first and last cell.
fn intersection((a, b): (Cell, Cell), (c, d): (Cell, Cell)) -> Option<(Cell, Cell)> {
    let (first, last) = ((a.0.max(c.0), a.1.max(c.1)), (b.0.min(d.0), b.1.min(d.1)));
    (first.0 <= last.0 && first.1 <= last.1).then_some((first, last))
}

/// Returns the cells of the range `both` from the text of a table that covers the range `own`. Returns `None` if the rows or
/// columns of the text are ambiguous, because the text omits blank rows and shortens wide gaps.
fn cut_cells(text: &str, own: (Cell, Cell), both: (Cell, Cell)) -> Option<String> {
    if own == both {
        return Some(text.to_string());
    }
    let (height, width) = (own.1.0 - own.0.0 + 1, own.1.1 - own.0.1 + 1);
    let rows: Vec<&str> = text.split('\n').collect();
    if rows.len() != height as usize || width as usize > crate::secrets::MAX_GAP_BARS {
        return None;
    }
    let mut shown = Vec::new();
    for row in &rows[(both.0.0 - own.0.0) as usize..=(both.1.0 - own.0.0) as usize] {
        // Restores the space that was trimmed before an empty first cell.
        let row = if row.starts_with("| ") { format!(" {row}") } else { row.to_string() };
        let cells: Vec<&str> = row.split(CELL_SEPARATOR).collect();
        if cells.len() > width as usize {
            return None;
        }
        let end = ((both.1.1 - own.0.1) as usize + 1).min(cells.len());
        let start = ((both.0.1 - own.0.1) as usize).min(end);
        shown.push(cells[start..end].join(CELL_SEPARATOR));
    }
    Some(shown.join("\n"))
}

/// Returns the range of a block of cells and its sheet, for messages.
fn describe_cells(block: &Block) -> Option<String> {
    let cell = block.anchor.cell.as_ref()?;
    Some(block.anchor.sheet.as_ref().map_or_else(|| cell.clone(), |sheet| format!("{cell} of sheet {sheet}")))
}

fn range_name((first, last): (Cell, Cell)) -> String {
    let name = |(row, column): Cell| {
        let (mut letters, mut rest) = (Vec::new(), column + 1);
        while rest > 0 {
            letters.insert(0, char::from(b'A' + ((rest - 1) % 26) as u8));
            rest = (rest - 1) / 26;
        }
        format!("{}{}", letters.into_iter().collect::<String>(), row + 1)
    };
    if first == last { name(first) } else { format!("{}:{}", name(first), name(last)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    fn block(text: &str, anchor: Anchor) -> Block {
        Block { kind: BlockKind::Paragraph, text: text.into(), anchor, rows: Vec::new() }
    }

    fn lines(text: &str, start: u32, end: u32) -> Block {
        block(text, Anchor { line_start: Some(start), line_end: Some(end), ..Anchor::default() })
    }

    fn cut(blocks: &[Block], said: &str, raw: Option<&str>) -> Result<Document> {
        let document = Document { blocks: blocks.to_vec(), ..Document::default() };
        cut_document(document, &Place::parse(said).unwrap(), raw, Redaction::Keys, "f")
    }

    #[test]
    fn lines_come_from_raw_text_and_keep_their_numbers() {
        let raw = "# Plan\r\n\nAda signs.\nBen reads.\n\n```\nx\n```";
        let blocks = [lines("Plan", 1, 1), lines("Ada signs.\nBen reads.", 3, 4), lines("x", 7, 7)];
        for (said, text, numbers) in [
            ("lines 1-3", "# Plan\n\nAda signs.", (1, 3)),
            ("line 4", "Ben reads.", (4, 4)),
            ("lines 6-99", "```\nx\n```", (6, 8)),
        ] {
            let found = cut(&blocks, said, Some(raw)).unwrap();
            assert_eq!(found.text(), text, "{said}");
            let anchor = &found.blocks[0].anchor;
            assert_eq!((anchor.line_start, anchor.line_end), (Some(numbers.0), Some(numbers.1)));
        }
        let error = cut(&blocks, "line 9", Some(raw)).unwrap_err();
        assert_eq!(error.code, ErrorCode::NotFound);
        assert!(error.message.contains("no line 9: it has lines 1-8"), "{error}");
        assert_eq!(cut(&blocks, "lines 2-7", None).unwrap().text(), "\nAda signs.\nBen reads.\n\n\nx");
        let error = cut(&[block("x", Anchor::default())], "line 1", None).unwrap_err();
        assert!(error.message.contains("has no lines"), "{error}");
    }

    // Case E13
    #[test]
    fn lines_are_redacted() {
        let raw = "a\nkey ghp_16C7e42F292c6912E7710c838347Ae178B4a b\nname;hunter2\n";
        let blocks = [lines("a", 1, 1), lines("name;[redacted]", 3, 3)];
        assert_eq!(cut(&blocks, "lines 1-3", Some(raw)).unwrap().text(), "a\nkey [redacted] b\nname;[redacted]");
        let key = format!("x\n-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\ny\n", "MIIEvQ".repeat(9));
        assert_eq!(cut(&blocks, "lines 2-5", Some(&key)).unwrap().text(), "[redacted]\nname;[redacted]\n[redacted]\ny");
    }

    #[test]
    fn pages_and_parts_are_cut_and_errors_list_existing_ones() {
        let page = |it| block(&format!("p{it}"), Anchor { page: Some(it), ..Anchor::default() });
        let document = Document { blocks: vec![page(1), page(2), page(4)], pages: Some(5), ..Document::default() };
        let of = |said: &str| cut_document(document.clone(), &Place::parse(said).unwrap(), None, Redaction::Keys, "f");
        assert_eq!(of("pages 2-4").unwrap().text(), "p2\n\np4");
        assert_eq!(of("page 3").unwrap().problems, ["page 3 holds no text"]);
        assert!(of("page 6").unwrap_err().message.contains("no page 6: it has pages 1-5"));
        let part = |it: &str| block(it, Anchor { part: Some(it.into()), ..Anchor::default() });
        let mail = [part("body"), part("attachment: a.pdf")];
        assert_eq!(cut(&mail, "attachment: a.pdf", None).unwrap().text(), "attachment: a.pdf");
        let error = cut(&mail, "attachment: b.pdf", None).unwrap_err();
        assert!(error.message.ends_with("there are `attachment: a.pdf`, `body`"), "{error}");
        assert!(cut(&mail, "page 1", None).unwrap_err().message.contains("has no pages"));
    }

    #[test]
    fn cells_are_cut_exactly_or_returned_whole_with_a_problem() {
        let cells = |range: &str, text: &str| {
            block(text, Anchor { sheet: Some("Q1".into()), cell: Some(range.into()), ..Anchor::default() })
        };
        let sheet = [cells("B2:D4", "| b | c\na |  | c\na | b"), cells("B9:C11", "x | y\nz")];
        for (said, text) in
            [("sheet q1, C2:D3", "b | c\n | c"), ("B3", "a"), ("C4:Z4", "b"), ("A1:D4", "| b | c\na |  | c\na | b")]
        {
            assert_eq!(cut(&sheet, said, None).unwrap().text(), text, "{said}");
        }
        assert_eq!(cut(&sheet, "C4:Z4", None).unwrap().blocks[0].anchor.cell.as_deref(), Some("C4:D4"));
        let blurred = cut(&sheet, "B10", None).unwrap();
        assert!(blurred.text() == "x | y\nz" && blurred.problems[0].contains("B9:C11"), "{blurred:?}");
        let error = cut(&sheet, "F7", None).unwrap_err();
        assert!(error.message.ends_with("there are B2:D4 of sheet Q1, B9:C11 of sheet Q1"), "{error}");
        assert!(cut(&sheet, "sheet Q2", None).unwrap_err().message.ends_with("there are `Q1`"));
    }
}
