//! Converts the cells of a sheet to table blocks that have a cell range such as `B2:D9`. All spreadsheet readers use it.

use crate::extract::Sink;
use crate::extract::table_text::{one_line, without_bars};
use crate::model::{Anchor, BlockKind};
use crate::secrets::MAX_GAP_BARS;

/// Number of rows per table block: small enough that a search hit points at a readable range of cells.
const ROWS_PER_BLOCK: u32 = 32;

/// Collects the cells of one sheet, which must be added row by row, from left to right.
pub(crate) struct SheetWriter<'s> {
    pub(crate) sink: &'s mut Sink,
    sheet: String,
    /// Finished rows of the open block: row number, first column, text.
    lines: Vec<(u32, u32, String)>,
    line: String,
    /// Column of the first cell in `line`.
    start: u32,
    /// Row and column of the cell added last, from 0.
    last_cell: (u32, u32),
    /// First row, leftmost column and rightmost column of the open block.
    block_area: Option<(u32, u32, u32)>,
}

impl<'s> SheetWriter<'s> {
    /// Begins a sheet: records its name and adds it as a heading.
    pub(crate) fn new(sheet: &str, sink: &'s mut Sink) -> SheetWriter<'s> {
        let anchor = Anchor { sheet: Some(sheet.to_string()), ..Anchor::default() };
        sink.record_name(sheet);
        sink.push(BlockKind::Heading(1), sheet, anchor);
        let (lines, line) = (Vec::new(), String::new());
        SheetWriter { sink, sheet: sheet.to_string(), lines, line, start: 0, last_cell: (0, 0), block_area: None }
    }

    /// Adds a cell (row and column from 0). Returns false once the limit on cells or on text is reached.
    pub(crate) fn push_cell(&mut self, row: u32, column: u32, text: &str) -> bool {
        let text = without_bars(one_line(text));
        if text.is_empty() {
            return true;
        }
        if row != self.last_cell.0 {
            self.end_row();
        }
        if let Some((first, left, _)) = self.block_area
            && row.saturating_sub(first) >= ROWS_PER_BLOCK
        {
            let goes_on = row.checked_sub(1) == Some(self.last_cell.0);
            self.flush_block();
            // Starts the next block of a table in the same column as the last one, so that its cells stay below their
            // column heads.
            self.block_area = goes_on.then(|| (row, left.min(column), column));
        }
        if self.line.is_empty() {
            self.start = column;
        } else {
            self.line.push_str(&separator(column.saturating_sub(self.last_cell.1)));
        }
        self.line.push_str(&text);
        self.last_cell = (row, column);
        self.block_area = Some(match self.block_area {
            Some((first, left, right)) => (first, left.min(column), right.max(column)),
            None => (row, column, column),
        });
        self.sink.count_cells(1) && !self.sink.is_full()
    }

    fn end_row(&mut self) {
        if !self.line.is_empty() {
            self.lines.push((self.last_cell.0, self.start, std::mem::take(&mut self.line)));
        }
    }

    fn flush_block(&mut self) {
        self.end_row();
        let lines = std::mem::take(&mut self.lines);
        let Some((first, left, right)) = self.block_area.take() else { return };
        let range = format!("{}:{}", cell_name(first, left), cell_name(self.last_cell.0, right));
        let numbers: Vec<u32> = lines.iter().map(|it| it.0.saturating_add(1)).collect();
        let gaps = row_gaps(lines.iter().map(|it| it.0));
        let lines = lines.into_iter().map(|(_, start, it)| separator(start.saturating_sub(left)) + &it);
        let anchor = Anchor { sheet: Some(self.sheet.clone()), cell: Some(range), gaps, ..Anchor::default() };
        let mark = self.sink.block_count();
        self.sink.push(BlockKind::Table, &lines.collect::<Vec<_>>().join("\n"), anchor);
        self.sink.number_rows(mark, &numbers);
    }

    /// Adds the text of a comment on a cell; `cell` is its name, e.g. `B2`.
    pub(crate) fn push_comment(&mut self, cell: &str, text: &str) {
        self.flush_block();
        self.push_paragraph(text, cell.to_string(), "comment");
    }

    /// Adds the text of a chart or shape on the sheet.
    pub(crate) fn push_graphic(&mut self, text: &str) {
        self.flush_block();
        self.push_paragraph(text, String::new(), "drawing");
    }

    fn push_paragraph(&mut self, text: &str, cell: String, part: &str) {
        let anchor = Anchor {
            sheet: Some(self.sheet.clone()),
            cell: Some(cell).filter(|it| !it.is_empty()),
            part: Some(part.to_string()),
            ..Anchor::default()
        };
        self.sink.push(BlockKind::Paragraph, text, anchor);
    }

    pub(crate) fn finish(mut self) {
        self.flush_block();
    }
}

/// Returns, for each line of a block whose row follows skipped rows, the index of the line and the number of skipped rows.
fn row_gaps(rows: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut next = None;
    let gap = |(line, row): (u32, u32)| {
        let left_out = next.map_or(0, |next| row.saturating_sub(next));
        next = Some(row.saturating_add(1));
        (left_out > 0).then_some((line, left_out))
    };
    (0..).zip(rows).filter_map(gap).collect()
}

/// Returns the separator between two cells that are `columns` apart: one bar per column, up to a maximum, because cells
/// with a wider gap belong to different tables. The secret scan counts the bars to match cells with column heads.
fn separator(columns: u32) -> String {
    " | ".repeat((columns as usize).min(MAX_GAP_BARS))
}

/// Returns the name of a cell, e.g. `AB12`, from its row and column, which count from 0.
pub(crate) fn cell_name(row: u32, column: u32) -> String {
    let mut letters = Vec::new();
    let mut rest = u64::from(column) + 1;
    while rest > 0 {
        letters.push(char::from(b'A' + ((rest - 1) % 26) as u8));
        rest = (rest - 1) / 26;
    }
    let letters: String = letters.into_iter().rev().collect();
    format!("{letters}{}", u64::from(row) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::zip_container::tests::format_blocks;
    use crate::model::ExtractLimits;

    #[test]
    fn cell_names_follow_a1_notation() {
        for (row, column, name) in [(0, 0, "A1"), (8, 25, "Z9"), (0, 26, "AA1"), (0, 701, "ZZ1"), (0, 16383, "XFD1")] {
            assert_eq!(cell_name(row, column), name);
        }
        cell_name(u32::MAX, u32::MAX);
    }

    #[test]
    fn block_anchors_hold_cell_ranges() {
        let mut sink = Sink::new(ExtractLimits::default());
        let mut writer = SheetWriter::new("S", &mut sink);
        writer.push_cell(1, 1, "a");
        writer.push_cell(1, 3, "b");
        writer.push_cell(2, 2, "c\nd");
        writer.push_cell(40, 0, "far");
        writer.push_cell(41, 9999, "wide");
        writer.finish();
        let document = sink.into_document();
        let cells: Vec<_> = document.blocks.iter().filter_map(|it| it.anchor.cell.as_deref()).collect();
        assert_eq!(cells, ["B2:D3", "A41:NTP42"]);
        assert_eq!(document.blocks[1].text, "a |  | b\n | c d".trim());
        assert!(format_blocks(&document).starts_with("1 S\nt a"));
        assert!(document.blocks[2].text.len() < 100);
        assert_eq!(document.blocks[1].rows, [0_u32; 0]);
    }

    #[test]
    fn row_numbers_are_stored_across_blank_rows() {
        let mut sink = Sink::new(ExtractLimits::default());
        let mut writer = SheetWriter::new("S", &mut sink);
        for row in [0, 1, 4] {
            writer.push_cell(row, 0, "x");
        }
        writer.finish();
        assert_eq!(sink.into_document().blocks[1].rows, [1, 2, 5]);
    }

    #[test]
    fn bar_inside_cell_is_replaced() {
        for (cell, shown) in [("a | b", "a ¦ b"), ("|\n| c |", "¦ ¦ c ¦"), ("a|b || |c", "a|b || |c"), ("|", "¦")]
        {
            let mut sink = Sink::new(ExtractLimits::default());
            let mut writer = SheetWriter::new("S", &mut sink);
            writer.push_cell(0, 0, cell);
            writer.push_cell(0, 1, "last");
            writer.finish();
            assert_eq!(sink.into_document().blocks[1].text, format!("{shown} | last"));
        }
    }

    #[test]
    fn split_table_keeps_its_start_column() {
        let mut sink = Sink::new(ExtractLimits::default());
        let mut writer = SheetWriter::new("S", &mut sink);
        // Leaves the first cell empty: the column of row numbers has no heading.
        writer.push_cell(0, 1, "name");
        writer.push_cell(0, 2, "token");
        for row in 1..32 {
            writer.push_cell(row, 0, "n");
        }
        writer.push_cell(32, 2, "x");
        writer.push_cell(99, 2, "another");
        writer.finish();
        let document = sink.into_document();
        let blocks: Vec<_> =
            document.blocks[1..].iter().map(|it| (it.anchor.cell.as_deref().unwrap(), it.text.as_str())).collect();
        assert!(blocks[0].1.starts_with("| name | token\nn\n"), "{blocks:?}");
        assert_eq!(blocks[0].0, "A1:C32");
        assert_eq!(blocks[1..], [("A33:C33", "|  | x"), ("C100:C100", "another")]);
    }

    #[test]
    fn sheet_stops_at_cell_limit() {
        let mut sink = Sink::new(ExtractLimits { cells: 2, ..ExtractLimits::default() });
        let mut writer = SheetWriter::new("S", &mut sink);
        assert!(writer.push_cell(0, 0, "a") && writer.push_cell(0, 1, "b") && !writer.push_cell(0, 2, "c"));
        writer.finish();
        assert!(sink.into_document().truncated);
    }
}
