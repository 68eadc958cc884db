//! `Table`: the cells of one table of a document, its column names, and the location of each row.
//!
//! All cells are stored in one string, so that a hundred thousand rows need only a few allocations.

use crate::model::{Anchor, TableRow};
use crate::table::cell_range::column_letters_of_range;

/// Rows of cells, stored in one string.
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
    /// Adds a row. Drops cells beyond 4 GiB of text, because offsets have 32 bits; no document has that much.
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

    /// Approximate memory use of the grid in bytes.
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

/// A table of a document, with detected header rows.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Name of the sheet, or the heading above the table; may be empty.
    pub name: String,
    /// Whether the table is on a sheet of a spreadsheet.
    pub is_sheet: bool,
    /// Whether a dot in numbers is always a decimal point, as in most spreadsheet formats. OpenDocument stores numbers as
    /// they are displayed.
    pub(super) has_dots: bool,
    /// Number of the table in the document, from 1.
    pub number: u32,
    /// Number of header rows: 0, 1 or 2.
    pub head_rows: u32,
    /// Names of the columns: from the header rows, or letters.
    pub heads: Vec<String>,
    /// False if a limit truncated the document, so that rows may be missing.
    pub is_whole: bool,
    /// All rows, including header rows and title rows above them.
    pub(super) grid: Grid,
    /// Location of each row of the grid.
    pub(super) places: Vec<Place>,
    /// Anchors of the blocks that hold the rows.
    pub(super) anchors: Vec<Anchor>,
    /// Index in the grid of the first row below the header rows.
    pub(super) first: usize,
}

/// Location of a row in its document.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// Index into the table's `anchors`.
    pub(super) block: u32,
    /// Line of the file or row of the sheet, from 1; 0 if unknown.
    pub(super) row: u32,
}

impl Table {
    /// Number of rows below the header rows.
    pub fn len(&self) -> usize {
        self.grid.len() - self.first
    }

    /// Whether there are no rows below the header rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.heads.len()
    }

    /// Approximate memory use of the table in bytes.
    pub fn bytes(&self) -> usize {
        self.grid.bytes() + self.places.len() * size_of::<Place>() + self.anchors.len() * size_of::<Anchor>()
    }

    /// Returns a cell; `row` (below the header rows) and `column` count from 0. Empty beyond the end of a short row.
    pub fn cell(&self, row: usize, column: usize) -> &str {
        self.grid.cell(self.first + row, column)
    }

    /// Returns the cells of a row and its location in the document.
    pub fn row(&self, row: usize) -> TableRow {
        let cells = (0..self.width()).map(|it| self.cell(row, it).to_string()).collect();
        let anchor = self.anchor(row);
        TableRow { place: self.place(row), anchor, cells }
    }

    /// Describes the location of a row: `line 7`, `sheet Q1, B7:F7`, or `table 2, row 5` in formats without lines and cells.
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

    /// Returns the location of a row as an anchor.
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

    /// Returns the number of rows with fewer or more cells than the header rows.
    pub(super) fn ragged(&self) -> usize {
        if self.head_rows == 0 || self.anchors.first().is_none_or(|it| it.line_start.is_none()) {
            // Not counted in formats without line numbers, because their parsers omit empty cells at the end of a row.
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
