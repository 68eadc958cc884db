//! Tables of a document: filters, groups, exact aggregates and their evidence. Pure.
//!
//! [`tables_of_document`] returns the tables of a document, [`run_request`] executes a request on them, and [`answer::answer`] answers
//! a question in words if it is certain. One file per step: `from_document` joins the blocks into which readers split tables,
//! `header` detects the heads, `column` the type of a column, `number` and `date` parse cells, `row_filter` filters rows,
//! `aggregate` computes exact values, and `query` combines the steps.
//!
//! A cell that is not a number is counted and reported, never taken as 0. An ambiguous number such as `1,234` is
//! decided by the rest of its column, or excluded and reported. Sums are exact decimal numbers.

mod aggregate;
pub mod answer;
mod column;
mod row_filter;
mod date;
mod grid;
mod header;
mod column_names;
mod number;
mod query;
mod from_document;
mod question;
mod question_words;
#[cfg(test)]
mod tests;

use crate::model::{Anchor, TableRow};
use crate::table::grid::Grid;

pub use crate::table::from_document::tables_of_document;
pub use crate::table::question::{may_ask_table, parse_request};
pub use query::run_request;

/// A table of a document, with detected heads.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Name of its sheet, or the heading above it; may be empty.
    pub name: String,
    /// Whether it is on a sheet.
    pub is_sheet: bool,
    /// Whether its numbers have a decimal point, as in most spreadsheets. OpenDocument stores them as displayed.
    has_dots: bool,
    /// Its number in the document, from 1.
    pub number: u32,
    /// Number of head rows: 0, 1 or 2.
    pub head_rows: u32,
    /// Names of the columns.
    pub heads: Vec<String>,
    /// False if a limit truncated the document.
    pub is_whole: bool,
    /// All rows, including heads and rows above them.
    grid: Grid,
    /// Place of each row.
    places: Vec<Place>,
    /// Anchors of the blocks that hold the rows.
    anchors: Vec<Anchor>,
    /// The first row below the heads.
    first: usize,
}

/// Place of a row.
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
        match anchor.cell.as_deref().map(from_document::column_letters_of_range) {
            Some((left, right)) => {
                let cell = |column: &str| format!("{column}{}", place.row);
                let cells = if left == right { cell(left) } else { format!("{}:{}", cell(left), cell(right)) };
                Anchor { cell: Some(cells), ..anchor }
            }
            None => Anchor { line_start: Some(place.row), line_end: Some(place.row), ..anchor },
        }
    }

    /// Rows with fewer or more cells than heads.
    fn ragged(&self) -> usize {
        if self.head_rows == 0 || self.anchors.first().is_none_or(|it| it.line_start.is_none()) {
            // Readers of other formats omit empty cells at the end of a row.
            return 0;
        }
        let width = (0..self.first).map(|it| self.grid.width(it)).max().unwrap_or_default();
        (self.first..self.grid.len()).filter(|it| self.grid.width(*it) != width).count()
    }
}
