//! Builds the tables of a document from its blocks: file parsers split one table into several blocks, and one sheet may
//! hold several tables.

use std::borrow::Cow;

use crate::model::{Anchor, Block, BlockKind, Document};
use crate::table::cell_range::{column_letters_of_range, column_number, rows_of_cells};
use crate::table::grid::{Grid, Place, Table};
use crate::table::header;

/// Minimum rows of a block whose table may continue in the next block. Parsers of text and web pages split a table after 30
/// rows, and one of these may be the line below the header of a Markdown table, which is not a row here.
const FULL_BLOCK_ROWS: usize = 29;
/// Maximum number of tables per document; further ones are ignored, because some documents draw thousands of frames as
/// tables.
const MAX_TABLES: usize = 1_000;
/// Maximum number of columns; further cells of a row are dropped, because the type of each column must be detected.
const MAX_COLUMNS: usize = 1_000;

/// Rows of one table, or of a part of a table, collected from blocks.
#[derive(Default)]
struct TablePart {
    name: String,
    grid: Grid,
    places: Vec<Place>,
    anchors: Vec<Anchor>,
    /// Number of rows in the last block, or in all last blocks that have the same anchor.
    rows_of_last: usize,
}

/// Returns the tables of a document in order. Tables with a single column are left out if any table has more columns.
pub fn tables_of_document(document: &Document) -> Vec<Table> {
    let mut parts: Vec<TablePart> = Vec::new();
    let (mut heading, mut is_open) = (String::new(), false);
    for block in &document.blocks {
        if block.kind != BlockKind::Table {
            if let BlockKind::Heading(_) = block.kind {
                heading.clone_from(&block.text);
            }
            is_open = false;
            continue;
        }
        let goes_on = is_open && parts.last().is_some_and(|it| it.continues_with(block, &document.media_type));
        if !goes_on {
            if parts.len() >= MAX_TABLES {
                break;
            }
            let name = block.anchor.sheet.clone().unwrap_or_else(|| heading.clone());
            parts.push(TablePart { name, ..TablePart::default() });
        }
        add_block(block, &mut parts);
        is_open = true;
    }
    let mut tables: Vec<Table> = Vec::new();
    for part in parts {
        finish_part(part, document, &mut tables);
    }
    if tables.iter().any(|it| it.width() > 1) {
        tables.retain(|it| it.width() > 1);
    }
    for (table, number) in tables.iter_mut().zip(1..) {
        table.number = number;
    }
    tables
}

/// Returns the line number in the file, or the row number on the sheet, of each line of a block; empty if unknown.
fn row_numbers(block: &Block, lines: usize) -> Vec<u32> {
    if block.rows.len() == lines {
        return block.rows.clone();
    }
    let range = match (&block.anchor.cell, block.anchor.line_start, block.anchor.line_end) {
        (Some(cells), ..) => rows_of_cells(cells),
        (None, Some(first), Some(last)) => Some((first, last)),
        _ => None,
    };
    match range {
        Some((first, last)) if block.rows.is_empty() && (last.saturating_sub(first)) as usize + 1 == lines => {
            (first..=last).collect()
        }
        _ => Vec::new(),
    }
}

impl TablePart {
    /// Whether a block continues this table.
    fn continues_with(&self, block: &Block, media_type: &str) -> bool {
        let Some(last) = self.anchors.last() else { return false };
        let anchor = &block.anchor;
        let of = |it: &Anchor| (it.member.clone(), it.part.clone(), it.sheet.clone(), it.page);
        if of(last) != of(anchor) {
            return false;
        }
        let is_placed = anchor.line_start.is_some() || anchor.cell.is_some();
        if is_placed && last == anchor {
            return true;
        }
        if let Some(cells) = &anchor.cell {
            let above = last.cell.as_deref().and_then(rows_of_cells);
            let left =
                |it: &Anchor| it.cell.as_deref().map_or(0, |cells| column_number(column_letters_of_range(cells).0));
            let is_left = self.anchors.first().is_some_and(|it| left(it) > left(anchor));
            let follows = |(above, own): ((u32, u32), (u32, u32))| above.1.checked_add(1) == Some(own.0);
            return !is_left && above.zip(rows_of_cells(cells)).is_some_and(follows);
        }
        if anchor.line_start.is_some() {
            return self.rows_of_last >= FULL_BLOCK_ROWS;
        }
        // Of the formats without line and cell numbers, only HTML tables are split into blocks.
        let widest =
            block.text.lines().map(|it| split_cells(&restore_outer_spaces(it)).count()).max().unwrap_or_default();
        media_type.contains("html") && self.rows_of_last > FULL_BLOCK_ROWS && widest <= self.grid.max_width()
    }

    fn push(&mut self, pad: usize, line: &str, block: u32, row: u32) {
        let padded = std::iter::repeat_n("", pad);
        let line = restore_outer_spaces(line);
        let cells = padded.chain(split_cells(&line)).take(MAX_COLUMNS);
        self.grid.push(cells);
        self.places.push(Place { block, row });
    }
}

/// Adds the rows of a block to the last part. A gap of blank rows on a sheet starts a new part.
fn add_block(block: &Block, parts: &mut Vec<TablePart>) {
    let lines = block.text.split('\n').count();
    let rows = row_numbers(block, lines);
    let Some(part) = parts.last_mut() else { return };
    let left = |it: &Anchor| it.cell.as_deref().map_or(0, |cells| column_number(column_letters_of_range(cells).0));
    // Pads the rows with empty cells if their block starts further right on the sheet than the table does.
    let mut pad = left(&block.anchor).saturating_sub(part.anchors.first().map_or(usize::MAX, left));
    let is_same = part.anchors.last() == Some(&block.anchor);
    part.rows_of_last = lines + if is_same { part.rows_of_last } else { 0 };
    if !is_same {
        part.anchors.push(block.anchor.clone());
    }
    let mut last = None;
    for (index, line) in block.text.split('\n').enumerate() {
        let row = rows.get(index).copied().unwrap_or_default();
        let is_apart = block.anchor.cell.is_some() && last.is_some_and(|it: u32| row > it.saturating_add(1));
        last = Some(row).filter(|it| *it > 0);
        if is_apart && parts.len() < MAX_TABLES {
            pad = 0;
            let name = block.anchor.sheet.clone().unwrap_or_default();
            parts.push(TablePart {
                name,
                anchors: vec![block.anchor.clone()],
                rows_of_last: lines,
                ..TablePart::default()
            });
        }
        let Some(part) = parts.last_mut() else { return };
        let block = u32::try_from(part.anchors.len() - 1).unwrap_or(u32::MAX);
        part.push(pad, line, block, row);
    }
}

/// Restores the spaces around the separators of empty cells at the ends of a line, which the file parser trimmed.
fn restore_outer_spaces(line: &str) -> Cow<'_, str> {
    let is_cut = line.starts_with('|') || line.ends_with('|');
    if is_cut { Cow::Owned(format!(" {line} ")) } else { Cow::Borrowed(line) }
}

/// Splits a line from [`restore_outer_spaces`] into its cells.
fn split_cells(line: &str) -> impl Iterator<Item = &str> {
    line.split(" | ").map(str::trim)
}

/// Detects the header rows of a part and adds the part as a new table, or as more rows of the last table if the part has no
/// header row and is on the same sheet.
fn finish_part(part: TablePart, document: &Document, tables: &mut Vec<Table>) {
    let found = header::detect_header(&part.grid, None);
    let sheet = |it: &[Anchor]| it.first().and_then(|it| it.sheet.clone());
    if let Some(above) = tables.last_mut()
        && found.rows == 0
        && above.head_rows > 0
        && sheet(&part.anchors).is_some()
        && sheet(&above.anchors) == sheet(&part.anchors)
        && above.anchors.first().map(|it| &it.member) == part.anchors.first().map(|it| &it.member)
        && part.grid.max_width() > 1
        && part.grid.max_width() <= above.width()
    {
        return append_rows(part, above);
    }
    if part.grid.len() < 2 {
        return;
    }
    let left = part
        .anchors
        .first()
        .and_then(|it| it.cell.as_deref())
        .map_or(0, |it| column_number(column_letters_of_range(it).0));
    let heads = header::column_names(&part.grid, &found, left);
    let is_sheet = part.anchors.first().is_some_and(|it| it.sheet.is_some());
    tables.push(Table {
        name: part.name,
        is_sheet,
        has_dots: is_sheet && !document.media_type.contains("opendocument"),
        number: 0,
        head_rows: found.rows,
        heads,
        is_whole: !document.truncated,
        first: found.skip + found.rows as usize,
        grid: part.grid,
        places: part.places,
        anchors: part.anchors,
    });
}

fn append_rows(part: TablePart, above: &mut Table) {
    let offset = u32::try_from(above.anchors.len()).unwrap_or(u32::MAX);
    above.anchors.extend(part.anchors);
    for (row, place) in part.places.iter().enumerate() {
        above.grid.push((0..part.grid.width(row)).map(|it| part.grid.cell(row, it)));
        above.places.push(Place { block: place.block.saturating_add(offset), row: place.row });
    }
}

impl Table {
    /// Returns the same table with `rows` header rows, instead of the detected number.
    pub(super) fn with_heads(&self, rows: u32) -> Table {
        let found = header::detect_header(&self.grid, Some(rows));
        let left = self
            .anchors
            .first()
            .and_then(|it| it.cell.as_deref())
            .map_or(0, |it| column_number(column_letters_of_range(it).0));
        let heads = header::column_names(&self.grid, &found, left);
        Table { head_rows: found.rows, heads, first: found.skip + found.rows as usize, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_cells_at_line_ends_are_kept() {
        for (line, expected) in [
            ("a | b", vec!["a", "b"]),
            ("| b", vec!["", "b"]),
            ("a |", vec!["a", ""]),
            ("|  | b", vec!["", "", "b"]),
            (" |  | b", vec!["", "", "b"]),
            ("a |  |", vec!["a", "", ""]),
            ("a |  | ", vec!["a", "", ""]),
            ("a |  | b", vec!["a", "", "b"]),
            ("|", vec!["", ""]),
            ("a", vec!["a"]),
            ("", vec![""]),
            ("|a|b|", vec!["|a|b|"]),
        ] {
            assert_eq!(split_cells(&restore_outer_spaces(line)).collect::<Vec<_>>(), expected, "{line:?}");
        }
    }
}
