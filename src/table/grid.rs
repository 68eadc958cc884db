//! A table of a document: its cells, its heads, and the place of each row.
//!
//! The cells are stored in one string: a hundred thousand rows take a few allocations.

use crate::model::{Anchor, TableRow};
use crate::table::cell_range::column_letters_of_range;

/// Rows of cells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grid {
    text: String,
    /// End offset of each cell in `text`.
    ends: Vec<u32>,
    /// Index of the first cell of each row.
    starts: Vec<u32>,
    max_width: usize,
}

impl Grid {
    /// Adds a row. Drops text beyond 4 GiB, which no document has.
    pub(crate) fn push<'t>(&mut self, cells: impl Iterator<Item = &'t str>) {
        let Ok(start) = u32::try_from(self.ends.len()) else { return };
        self.starts.push(start);
        for cell in cells {
            let Ok(end) = u32::try_from(self.text.len() + cell.len()) else { return };
            self.text.push_str(cell);
            self.ends.push(end);
        }
        self.max_width = self.max_width.max(self.ends.len() - start as usize);
    }

    /// Approximate memory use in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + (self.ends.len() + self.starts.len()) * size_of::<u32>()
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Number of cells of a row.
    pub(crate) fn width(&self, row: usize) -> usize {
        let (start, end) = self.range(row);
        end - start
    }

    /// Number of cells of the longest row.
    pub(crate) fn max_width(&self) -> usize {
        self.max_width
    }

    /// Returns a cell; empty if out of range.
    pub(crate) fn cell(&self, row: usize, column: usize) -> &str {
        let (start, end) = self.range(row);
        let at = start + column;
        if at >= end {
            return "";
        }
        let from = at.checked_sub(1).map_or(0, |it| self.ends[it] as usize);
        &self.text[from..self.ends[at] as usize]
    }

    fn range(&self, row: usize) -> (usize, usize) {
        let start = self.starts.get(row).map_or(self.ends.len(), |it| *it as usize);
        (start, self.starts.get(row + 1).map_or(self.ends.len(), |it| *it as usize))
    }
}

/// A table of a document, with detected heads.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Name of its sheet, or the heading above it; may be empty.
    pub name: String,
    /// Whether it is on a sheet.
    pub is_sheet: bool,
    /// Whether its numbers have a decimal point, as in most spreadsheets. OpenDocument stores them as displayed.
    pub(super) has_dots: bool,
    /// Its number in the document, from 1.
    pub number: u32,
    /// Number of head rows: 0, 1 or 2.
    pub head_rows: u32,
    /// Names of the columns.
    pub heads: Vec<String>,
    /// False if a limit truncated the document.
    pub is_whole: bool,
    /// All rows, including heads and rows above them.
    pub(super) grid: Grid,
    /// Place of each row.
    pub(super) places: Vec<Place>,
    /// Anchors of the blocks that hold the rows.
    pub(super) anchors: Vec<Anchor>,
    /// The first row below the heads.
    pub(super) first: usize,
}

/// Place of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// Index of the block.
    pub(super) block: u32,
    /// Line of the file or row of the sheet, from 1; 0 where that is unknown.
    pub(super) row: u32,
}

impl Table {
    /// Number of rows below the heads.
    pub fn len(&self) -> usize {
        self.grid.len() - self.first
    }

    /// Whether there are no rows below the heads.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.heads.len()
    }

    /// Approximate memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.grid.bytes() + self.places.len() * size_of::<Place>() + self.anchors.len() * size_of::<Anchor>()
    }

    /// Returns a cell, row and column from 0; empty beyond the end of a short row.
    pub fn cell(&self, row: usize, column: usize) -> &str {
        self.grid.cell(self.first + row, column)
    }

    /// Returns a row with its place.
    pub fn row(&self, row: usize) -> TableRow {
        let cells = (0..self.width()).map(|it| self.cell(row, it).to_string()).collect();
        let anchor = self.anchor(row);
        TableRow { place: self.place(row), anchor, cells }
    }

    /// Describes the place of a row: `line 7`, `sheet Q1, B7:F7`, or `table 2, row 5` in formats without either.
    pub fn place(&self, row: usize) -> String {
        let anchor = self.anchor(row);
        let place = self.places[self.first + row];
        let above = anchor.place();
        if place.row > 0 {
            return above;
        }
        let own = format!("table {}, row {}", self.number, row + 1);
        if above.is_empty() { own } else { format!("{above}, {own}") }
    }

    /// Returns the machine-readable place of a row.
    fn anchor(&self, row: usize) -> Anchor {
        let place = self.places[self.first + row];
        let block = self.anchors.get(place.block as usize).cloned().unwrap_or_default();
        let anchor = Anchor { byte_start: None, byte_end: None, gaps: Vec::new(), verbatim: false, ..block };
        if place.row == 0 {
            return anchor;
        }
        match anchor.cell.as_deref().map(column_letters_of_range) {
            Some((left, right)) => {
                let cell = |column: &str| format!("{column}{}", place.row);
                let cells = if left == right { cell(left) } else { format!("{}:{}", cell(left), cell(right)) };
                Anchor { cell: Some(cells), ..anchor }
            }
            None => Anchor { line_start: Some(place.row), line_end: Some(place.row), ..anchor },
        }
    }

    /// Rows with fewer or more cells than heads.
    pub(super) fn ragged(&self) -> usize {
        if self.head_rows == 0 || self.anchors.first().is_none_or(|it| it.line_start.is_none()) {
            // Readers of other formats omit empty cells at the end of a row.
            return 0;
        }
        let width = (0..self.first).map(|it| self.grid.width(it)).max().unwrap_or_default();
        (self.first..self.grid.len()).filter(|it| self.grid.width(*it) != width).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_round_trip_and_missing_cell_is_empty() {
        let mut grid = Grid::default();
        grid.push(["a", "", "é"].into_iter());
        grid.push([].into_iter());
        grid.push(["b"].into_iter());
        assert_eq!((grid.len(), grid.max_width(), grid.width(1)), (3, 3, 0));
        let cells =
            [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (9, 0)].map(|(row, column)| grid.cell(row, column));
        assert_eq!(cells, ["a", "", "é", "", "", "b", ""]);
    }
}
