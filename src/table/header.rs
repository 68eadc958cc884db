//! Detects whether a table has zero, one or two header rows, from the types of their cells and of the cells below.

use std::collections::HashSet;

use crate::table::cell_range::column_letters;
use crate::table::grid::Grid;
use crate::table::{date, number};

/// Number of rows below the header rows whose cells decide the type of a column.
const SAMPLE_ROWS: usize = 20;
/// In a table of only text, the first row is a header only if its cells do not recur in this many rows.
const NON_REPEATING_ROWS: usize = 50;
/// Maximum number of title rows that are skipped above the header rows.
const MAX_TITLE_ROWS: usize = 3;
/// Maximum bytes of a column name; a longer one is cut.
const MAX_NAME_BYTES: usize = 200;

/// Where the header rows of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeaderRows {
    /// Number of title rows above the header rows.
    pub(super) skip: usize,
    /// Number of header rows: 0, 1 or 2.
    pub(super) rows: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellKind {
    Empty,
    Text,
    Year,
    Date,
    Number,
}

/// Returns the type of a cell by its text.
fn cell_kind(text: &str) -> CellKind {
    match text {
        it if is_blank(it) => CellKind::Empty,
        it if number::is_year(it) => CellKind::Year,
        it if number::is_number(it) => CellKind::Number,
        it if date::is_date(it) => CellKind::Date,
        _ => CellKind::Text,
    }
}

/// Whether a cell is empty or a placeholder such as `n/a`.
pub(super) fn is_blank(text: &str) -> bool {
    matches!(text.trim(), "" | "-" | "–" | "—" | "n/a" | "N/A" | "n.a." | "NA" | "null" | "NULL" | "…" | "?")
}

/// Detects the header rows of a table; `wanted` overrides their detected number.
pub(super) fn detect_header(grid: &Grid, wanted: Option<u32>) -> HeaderRows {
    let skip = title_rows(grid);
    let left = grid.len().saturating_sub(skip);
    let rows = match wanted {
        Some(rows) => rows.min(2),
        None if has_double_header(grid, skip) => 2,
        None => u32::from(has_single_header(grid, skip)),
    };
    HeaderRows { skip, rows: rows.min(u32::try_from(left).unwrap_or(2)) }
}

/// Counts the title rows at the top of a table: rows with text in the first cell only.
fn title_rows(grid: &Grid) -> usize {
    let is_title = |row: &usize| {
        let filled = (0..grid.width(*row)).filter(|it| !grid.cell(*row, *it).is_empty()).count();
        filled <= 1 && !grid.cell(*row, 0).is_empty() && grid.max_width() > 2
    };
    (0..grid.len().min(MAX_TITLE_ROWS)).take_while(is_title).count()
}

/// Returns the type of most cells of a column from row `first` on; `None` if no type has a majority.
fn kind_below(grid: &Grid, first: usize, column: usize) -> Option<CellKind> {
    let kinds: Vec<CellKind> = (first..grid.len().min(first + SAMPLE_ROWS))
        .map(|row| cell_kind(grid.cell(row, column)))
        .filter(|it| *it != CellKind::Empty)
        .collect();
    let most = |wanted: CellKind| kinds.iter().filter(|it| **it == wanted).count() * 2 > kinds.len();
    [CellKind::Number, CellKind::Date, CellKind::Year, CellKind::Text].into_iter().find(|it| most(*it))
}

/// Whether a row can be the header of the rows from `first` on: its cells are words, or years or dates above numbers.
fn can_be_header(grid: &Grid, row: usize, first: usize) -> bool {
    let filled = (0..grid.max_width()).filter(|it| !is_blank(grid.cell(row, *it))).count();
    let fits = |column: usize| match cell_kind(grid.cell(row, column)) {
        CellKind::Empty | CellKind::Text => true,
        CellKind::Year | CellKind::Date => kind_below(grid, first, column) == Some(CellKind::Number),
        CellKind::Number => false,
    };
    filled > 0 && (0..grid.max_width()).all(fits)
}

/// Counts the columns in which most cells below `row` are numbers, dates or years, but the cell in `row` is of another type.
fn typed_columns(grid: &Grid, row: usize, first: usize) -> usize {
    let is_telling = |column: &usize| {
        let own = cell_kind(grid.cell(row, *column));
        let below = kind_below(grid, first, *column);
        own != CellKind::Empty && below.is_some_and(|it| it != CellKind::Text && it != own)
    };
    (0..grid.max_width()).filter(is_telling).count()
}

fn has_single_header(grid: &Grid, row: usize) -> bool {
    if !can_be_header(grid, row, row + 1) {
        return false;
    }
    if typed_columns(grid, row, row + 1) > 0 {
        return true;
    }
    // In a table of only text, the cells of a header row are distinct and do not recur below.
    let names: Vec<&str> = (0..grid.max_width()).map(|it| grid.cell(row, it)).collect();
    let differ = names.iter().collect::<HashSet<_>>().len() == names.len() && names.iter().all(|it| !it.is_empty());
    let repeats = |column: usize| {
        (row + 1..grid.len().min(row + NON_REPEATING_ROWS)).any(|it| grid.cell(it, column) == names[column])
    };
    let has_typed = (0..grid.max_width())
        .any(|it| matches!(kind_below(grid, row + 1, it), Some(CellKind::Number | CellKind::Date | CellKind::Year)));
    differ && !has_typed && !(0..names.len()).any(repeats)
}

/// Whether both of the first two rows are header rows: the upper one has cells that span columns, or the lower one has
/// words, such as units, above numbers.
fn has_double_header(grid: &Grid, row: usize) -> bool {
    if grid.len() < row + 3 || !can_be_header(grid, row, row + 2) || !can_be_header(grid, row + 1, row + 2) {
        return false;
    }
    let typed = (0..grid.max_width())
        .filter(|it| kind_below(grid, row + 2, *it).is_some_and(|it| it != CellKind::Text))
        .count();
    let told = typed_columns(grid, row + 1, row + 2);
    let cells: Vec<&str> = (0..grid.max_width()).map(|it| grid.cell(row, it)).collect();
    let filled: Vec<&str> = cells.iter().copied().filter(|it| !it.is_empty()).collect();
    let spans = filled.len() > 1
        && (filled.iter().collect::<HashSet<_>>().len() < filled.len()
            || cells.iter().skip_while(|it| it.is_empty()).any(|it| it.is_empty())
            || cells.len() > 1 && cells[0].is_empty() && filled.len() < cells.len() - 1);
    let lower = (0..grid.max_width()).filter(|it| !grid.cell(row + 1, *it).is_empty()).count();
    told > 0 && (spans && lower > 1 || told == typed && typed > 1 && told * 2 >= grid.max_width())
}

/// Returns unique column names. The names in two header rows are joined; a column without a name is named by its letters,
/// such as `C`. `left` is the number of the table's first column on the sheet.
pub(super) fn column_names(grid: &Grid, found: &HeaderRows, left: usize) -> Vec<String> {
    let letters = |column: usize| column_letters(left + column);
    let mut names: Vec<String> = Vec::new();
    let (mut upper, mut taken) = (String::new(), HashSet::new());
    for column in 0..grid.max_width() {
        let name = match found.rows {
            0 => String::new(),
            1 => grid.cell(found.skip, column).to_string(),
            _ => {
                let (above, own) = (grid.cell(found.skip, column), grid.cell(found.skip + 1, column));
                if !above.is_empty() {
                    upper = above.to_string();
                }
                match (own.is_empty(), upper.is_empty() || upper == own) {
                    (true, _) => above.to_string(),
                    (false, true) => own.to_string(),
                    (false, false) => format!("{upper} / {own}"),
                }
            }
        };
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        let name = name[..name.floor_char_boundary(MAX_NAME_BYTES)].to_string();
        let name = if name.is_empty() { letters(column) } else { name };
        let name = if taken.insert(name.to_lowercase()) { name } else { format!("{name} ({})", letters(column)) };
        taken.insert(name.to_lowercase());
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rows: &[&str], expected: (usize, u32), heads: &[&str]) {
        let mut grid = Grid::default();
        rows.iter().for_each(|it| grid.push(it.split(',')));
        let found = detect_header(&grid, None);
        assert_eq!((found.skip, found.rows), expected, "{rows:?}");
        assert_eq!(column_names(&grid, &found, 0), heads, "{rows:?}");
    }

    #[test]
    fn single_head_row_is_detected_from_body() {
        check(&["date,what,sum", "2025-01-02,a,5", "2025-01-03,b,6"], (0, 1), &["date", "what", "sum"]);
        check(&["name,town", "Ada,York", "Bram,Hull"], (0, 1), &["name", "town"]);
        check(&["item,2024,2025", "a,5,6", "b,7,8"], (0, 1), &["item", "2024", "2025"]);
        check(&["item,2025-01,2025-02", "a,5,6", "b,7,8"], (0, 1), &["item", "2025-01", "2025-02"]);
        check(&[",Q1,Q2", "a,5,6", "b,7,8"], (0, 1), &["A", "Q1", "Q2"]);
        check(&["a,b,", "1,2,3", "1,2,"], (0, 1), &["a", "b", "C"]);
        check(&["sum,sum,Sum", "1,2,3"], (0, 1), &["sum", "sum (B)", "Sum (C)"]);
        check(&["remark,sum", "-,n/a", "x,5", "y,6"], (0, 1), &["remark", "sum"]);
    }

    #[test]
    fn two_head_rows_are_joined() {
        let quarters = ["Region,2025,,2026,", ",Q1,Q2,Q1,Q2", "North,1,2,3,4", "South,5,6,7,8"];
        check(&quarters, (0, 2), &["Region", "2025 / Q1", "2025 / Q2", "2026 / Q1", "2026 / Q2"]);
        let repeated = ["Region,2025,2025,Total", "Region,Q1,Q2,Total", "North,1,2,3"];
        check(&repeated, (0, 2), &["Region", "2025 / Q1", "2025 / Q2", "Total"]);
        let units = ["time,level,wind", "UTC,mm,m/s", "2025-01-01,1,2", "2025-01-02,3,4"];
        check(&units, (0, 2), &["time / UTC", "level / mm", "wind / m/s"]);
    }

    #[test]
    fn columns_without_heads_use_letters() {
        check(&["2025-01-02,a,5", "2025-01-03,b,6"], (0, 0), &["A", "B", "C"]);
        check(&["a,5", "b,6"], (0, 0), &["A", "B"]);
        check(&["Ada,York", "Bram,York", "Ada,Hull"], (0, 0), &["A", "B"]);
        check(&["2024,1", "2025,2"], (0, 0), &["A", "B"]);
    }

    #[test]
    fn title_above_heads_is_skipped() {
        check(&["Expenses of the year", "date,what,sum", "2025-01-02,a,5"], (1, 1), &["date", "what", "sum"]);
    }

    #[test]
    fn requested_head_rows_override_detection() {
        let mut grid = Grid::default();
        ["a,b", "c,d", "e,f"].iter().for_each(|it| grid.push(it.split(',')));
        for rows in 0..3 {
            assert_eq!(detect_header(&grid, Some(rows)).rows, rows);
        }
    }
}
