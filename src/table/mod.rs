//! Tables of a document: rows by condition, groups, exact values and their evidence; pure.
//!
//! [`of_document`] gives the tables of a document, [`run`] answers a request about them, and [`answer::answer`] a question
//! in words of which it is sure. The steps, one file each: `read` puts the blocks together that readers cut, `head` tells
//! heads from rows, `column` what a column holds, with `number` and `date` for its cells, `condition` which rows meet a
//! filter, `aggregate` makes exact values, `query` has the order of all of that.
//!
//! A cell that is no number is counted and named in the answer, never taken as 0; a number that could be two, such as
//! `1,234`, is decided by the rest of its column or left out and named. Sums are exact decimal numbers.

mod aggregate;
pub mod answer;
mod column;
mod condition;
mod date;
mod grid;
mod head;
mod names;
mod number;
mod query;
mod read;
mod recognise;
mod words;
#[cfg(test)]
mod tests;

use crate::model::{Anchor, TableRow};
use crate::table::grid::Grid;

pub use query::run;
pub use read::of_document;
pub use recognise::{asks, recognise};

/// A table of a document, its heads told from its rows.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Name of its sheet, or the heading above it; may be empty.
    pub name: String,
    /// Whether it stands on a sheet.
    pub is_sheet: bool,
    /// Whether its numbers have a dot before decimals, as the values of most spreadsheets do. OpenDocument keeps them as they
    /// are shown.
    has_dots: bool,
    /// Which of the tables of its document it is, from 1.
    pub number: u32,
    /// Rows that are heads: 0, 1 or 2.
    pub head_rows: u32,
    /// Names of the columns.
    pub heads: Vec<String>,
    /// False where a limit cut the document short.
    pub is_whole: bool,
    /// All rows, with the heads and what stands above them.
    grid: Grid,
    /// Where each row stands.
    places: Vec<Place>,
    /// Blocks that the rows stand in.
    anchors: Vec<Anchor>,
    /// The first row below the heads.
    first: usize,
}

/// Where a row stands.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Index of the block.
    block: u32,
    /// Line of the file or row of the sheet, from 1; 0 where that is unknown.
    row: u32,
}

impl Table {
    /// Number of rows below the heads.
    pub fn len(&self) -> usize {
        self.grid.len() - self.first
    }

    /// Says whether there is no row below the heads.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.heads.len()
    }

    /// Bytes that it takes in memory, about.
    pub fn bytes(&self) -> usize {
        self.grid.bytes() + self.places.len() * size_of::<Place>() + self.anchors.len() * size_of::<Anchor>()
    }

    /// Returns a cell, row and column from 0; what a short row does not have is empty.
    pub fn cell(&self, row: usize, column: usize) -> &str {
        self.grid.cell(self.first + row, column)
    }

    /// Returns a row with its place.
    pub fn row(&self, row: usize) -> TableRow {
        let cells = (0..self.width()).map(|it| self.cell(row, it).to_string()).collect();
        let anchor = self.anchor(row);
        TableRow { place: self.place(row), anchor, cells }
    }

    /// Says where a row stands: `line 7`, `sheet Q1, B7:F7`, and of a format without either `table 2, row 5`.
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

    /// Returns the place of a row for programs.
    fn anchor(&self, row: usize) -> Anchor {
        let place = self.places[self.first + row];
        let block = self.anchors.get(place.block as usize).cloned().unwrap_or_default();
        let anchor = Anchor { byte_start: None, byte_end: None, gaps: Vec::new(), verbatim: false, ..block };
        if place.row == 0 {
            return anchor;
        }
        match anchor.cell.as_deref().map(read::columns) {
            Some((left, right)) => {
                let cell = |column: &str| format!("{column}{}", place.row);
                let cells = if left == right { cell(left) } else { format!("{}:{}", cell(left), cell(right)) };
                Anchor { cell: Some(cells), ..anchor }
            }
            None => Anchor { line_start: Some(place.row), line_end: Some(place.row), ..anchor },
        }
    }

    /// Rows that have fewer or more cells than there are heads.
    fn ragged(&self) -> usize {
        if self.head_rows == 0 || self.anchors.first().is_none_or(|it| it.line_start.is_none()) {
            // Readers of other formats write no empty cells at the end of a row.
            return 0;
        }
        let width = (0..self.first).map(|it| self.grid.width(it)).max().unwrap_or_default();
        (self.first..self.grid.len()).filter(|it| self.grid.width(*it) != width).count()
    }
}
