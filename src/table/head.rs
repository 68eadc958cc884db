//! Heads or rows: none, one or two rows of heads, told by what stands in them and below.

use std::collections::HashSet;

use crate::table::grid::Grid;
use crate::table::read::column_letters;
use crate::table::{date, number};

/// Rows that are looked at below the heads.
const SAMPLE: usize = 20;
/// Rows of a table of nothing but texts in which its heads may not stand once more.
const UNLIKE: usize = 50;
/// Rows above the heads, such as a title, that are passed over.
const MOST_ABOVE: usize = 3;
/// Bytes of the longest name of a column.
const LONGEST_NAME: usize = 200;

/// How a table begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Rows above the heads.
    pub(super) skip: usize,
    /// Rows of heads.
    pub(super) rows: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Empty,
    Text,
    Year,
    Date,
    Number,
}

/// What stands in a cell.
fn kind(text: &str) -> Kind {
    match text {
        it if is_blank(it) => Kind::Empty,
        it if number::is_year(it) => Kind::Year,
        it if number::is_number(it) => Kind::Number,
        it if date::is_date(it) => Kind::Date,
        _ => Kind::Text,
    }
}

/// Says whether a cell is empty, or says that there is nothing.
pub(super) fn is_blank(text: &str) -> bool {
    matches!(text.trim(), "" | "-" | "–" | "—" | "n/a" | "N/A" | "n.a." | "NA" | "null" | "NULL" | "…" | "?")
}

/// Tells the heads of a table, or takes so many.
pub(super) fn detect(grid: &Grid, wanted: Option<u32>) -> Found {
    let skip = above(grid);
    let left = grid.len().saturating_sub(skip);
    let rows = match wanted {
        Some(rows) => rows.min(2),
        None if is_double(grid, skip) => 2,
        None => u32::from(is_single(grid, skip)),
    };
    Found { skip, rows: rows.min(u32::try_from(left).unwrap_or(2)) }
}

/// Rows above the heads: a title in the first cell.
fn above(grid: &Grid) -> usize {
    let is_title = |row: &usize| {
        let filled = (0..grid.width(*row)).filter(|it| !grid.cell(*row, *it).is_empty()).count();
        filled <= 1 && !grid.cell(*row, 0).is_empty() && grid.widest() > 2
    };
    (0..grid.len().min(MOST_ABOVE)).take_while(is_title).count()
}

/// What most cells of a column are, below some rows; none where they are empty.
fn below(grid: &Grid, first: usize, column: usize) -> Option<Kind> {
    let kinds: Vec<Kind> = (first..grid.len().min(first + SAMPLE))
        .map(|row| kind(grid.cell(row, column)))
        .filter(|it| *it != Kind::Empty)
        .collect();
    let most = |wanted: Kind| kinds.iter().filter(|it| **it == wanted).count() * 2 > kinds.len();
    [Kind::Number, Kind::Date, Kind::Year, Kind::Text].into_iter().find(|it| most(*it))
}

/// Says whether a row can be heads over the rows from `first` on: words, and years or months over numbers.
fn is_like_heads(grid: &Grid, row: usize, first: usize) -> bool {
    let filled = (0..grid.widest()).filter(|it| !is_blank(grid.cell(row, *it))).count();
    let fits = |column: usize| match kind(grid.cell(row, column)) {
        Kind::Empty | Kind::Text => true,
        Kind::Year | Kind::Date => below(grid, first, column) == Some(Kind::Number),
        Kind::Number => false,
    };
    filled > 0 && (0..grid.widest()).all(fits)
}

/// Columns that hold something else than words below, though a word stands above.
fn telling(grid: &Grid, row: usize, first: usize) -> usize {
    let is_telling = |column: &usize| {
        let own = kind(grid.cell(row, *column));
        let below = below(grid, first, *column);
        own != Kind::Empty && below.is_some_and(|it| it != Kind::Text && it != own)
    };
    (0..grid.widest()).filter(is_telling).count()
}

fn is_single(grid: &Grid, row: usize) -> bool {
    if !is_like_heads(grid, row, row + 1) {
        return false;
    }
    if telling(grid, row, row + 1) > 0 {
        return true;
    }
    // Nothing but words: heads differ from each other, and from what stands below.
    let names: Vec<&str> = (0..grid.widest()).map(|it| grid.cell(row, it)).collect();
    let differ = names.iter().collect::<HashSet<_>>().len() == names.len() && names.iter().all(|it| !it.is_empty());
    let repeats =
        |column: usize| (row + 1..grid.len().min(row + UNLIKE)).any(|it| grid.cell(it, column) == names[column]);
    let has_typed =
        (0..grid.widest()).any(|it| matches!(below(grid, row + 1, it), Some(Kind::Number | Kind::Date | Kind::Year)));
    differ && !has_typed && !(0..names.len()).any(repeats)
}

/// Says whether two rows are heads: the upper spans several columns, or the lower has words, such as units, over numbers.
fn is_double(grid: &Grid, row: usize) -> bool {
    if grid.len() < row + 3 || !is_like_heads(grid, row, row + 2) || !is_like_heads(grid, row + 1, row + 2) {
        return false;
    }
    let typed = (0..grid.widest()).filter(|it| below(grid, row + 2, *it).is_some_and(|it| it != Kind::Text)).count();
    let told = telling(grid, row + 1, row + 2);
    let cells: Vec<&str> = (0..grid.widest()).map(|it| grid.cell(row, it)).collect();
    let filled: Vec<&str> = cells.iter().copied().filter(|it| !it.is_empty()).collect();
    let spans = filled.len() > 1
        && (filled.iter().collect::<HashSet<_>>().len() < filled.len()
            || cells.iter().skip_while(|it| it.is_empty()).any(|it| it.is_empty())
            || cells.len() > 1 && cells[0].is_empty() && filled.len() < cells.len() - 1);
    let lower = (0..grid.widest()).filter(|it| !grid.cell(row + 1, *it).is_empty()).count();
    told > 0 && (spans && lower > 1 || told == typed && typed > 1 && told * 2 >= grid.widest())
}

/// Names of the columns: those of two rows joined, those without a name by their letter; `left` is the column of the sheet
/// that the table begins in. No two are the same.
pub(super) fn names(grid: &Grid, found: &Found, left: usize) -> Vec<String> {
    let letters = |column: usize| column_letters(left + column);
    let mut names: Vec<String> = Vec::new();
    let (mut upper, mut taken) = (String::new(), HashSet::new());
    for column in 0..grid.widest() {
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
        let name = name[..name.floor_char_boundary(LONGEST_NAME)].to_string();
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
        let found = detect(&grid, None);
        assert_eq!((found.skip, found.rows), expected, "{rows:?}");
        assert_eq!(names(&grid, &found, 0), heads, "{rows:?}");
    }

    #[test]
    fn one_row_of_heads_is_told_by_what_stands_below() {
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
    fn two_rows_of_heads_are_joined() {
        let quarters = ["Region,2025,,2026,", ",Q1,Q2,Q1,Q2", "North,1,2,3,4", "South,5,6,7,8"];
        check(&quarters, (0, 2), &["Region", "2025 / Q1", "2025 / Q2", "2026 / Q1", "2026 / Q2"]);
        let repeated = ["Region,2025,2025,Total", "Region,Q1,Q2,Total", "North,1,2,3"];
        check(&repeated, (0, 2), &["Region", "2025 / Q1", "2025 / Q2", "Total"]);
        let units = ["time,level,wind", "UTC,mm,m/s", "2025-01-01,1,2", "2025-01-02,3,4"];
        check(&units, (0, 2), &["time / UTC", "level / mm", "wind / m/s"]);
    }

    #[test]
    fn rows_without_heads_have_letters() {
        check(&["2025-01-02,a,5", "2025-01-03,b,6"], (0, 0), &["A", "B", "C"]);
        check(&["a,5", "b,6"], (0, 0), &["A", "B"]);
        check(&["Ada,York", "Bram,York", "Ada,Hull"], (0, 0), &["A", "B"]);
        check(&["2024,1", "2025,2"], (0, 0), &["A", "B"]);
    }

    #[test]
    fn a_title_above_the_heads_is_passed_over() {
        check(&["Expenses of the year", "date,what,sum", "2025-01-02,a,5"], (1, 1), &["date", "what", "sum"]);
    }

    #[test]
    fn so_many_heads_as_are_asked_for_are_taken() {
        let mut grid = Grid::default();
        ["a,b", "c,d", "e,f"].iter().for_each(|it| grid.push(it.split(',')));
        for rows in 0..3 {
            assert_eq!(detect(&grid, Some(rows)).rows, rows);
        }
    }
}
