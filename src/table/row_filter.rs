//! Filters the rows of a table, with filters in the grammar of [`crate::filter`]. The type of a column decides how its cells
//! are compared.

use std::cmp::Ordering;

use bigdecimal::BigDecimal;
use globset::{GlobBuilder, GlobMatcher};

use crate::error::{Error, Result};
use crate::filter::{self, Comparison, FilterError, Node, Operator, equals_ignoring_case};
use crate::model::MAX_GLOB;
use crate::table::column::{Column, ColumnType, parse_flag};
use crate::table::date::DayMonthOrder;
use crate::table::grid::Table;
use crate::table::{column_names, number};

/// Maximum number of comparisons in one filter; more are an error.
const MAX_COMPARISONS: usize = 100;

/// What one comparison compares a cell with.
enum Test {
    /// Whether the cell is empty.
    Empty,
    Number(BigDecimal),
    /// A period: inclusive start and exclusive end, in seconds since the Unix epoch.
    Moment(i64, i64),
    /// A month, from 1, in any year.
    Month(u32),
    Flag(bool),
    Text(String),
    Glob(GlobMatcher),
}

/// A comparison of the cells of one column with a value.
pub(super) struct ColumnComparison {
    column: usize,
    operator: Operator,
    test: Test,
}

/// A filter over the rows of a table.
pub(super) struct RowFilter {
    root: Node<ColumnComparison>,
    columns: Vec<Column>,
}

/// The rows that match a filter.
#[derive(Debug, Default)]
pub(super) struct MatchedRows {
    pub(super) rows: Vec<usize>,
    /// Number of rows for which the filter is undefined, because a compared cell is empty or of another type.
    pub(super) undefined: usize,
}

impl From<FilterError> for Error {
    fn from(mistake: FilterError) -> Error {
        let example = "write e.g. amount>100 AND (category=Travel OR NOT paid); quote names with spaces";
        Error::invalid(format!("cannot parse the filter: {}", mistake.0)).hint(example).field("filter")
    }
}

impl RowFilter {
    /// Parses a filter for a table.
    ///
    /// # Errors
    /// The text is not a filter, a column does not exist, or a value does not fit its column.
    pub(super) fn parse(text: &str, table: &Table, decimal: Option<char>) -> Result<RowFilter> {
        let mut columns: Vec<Column> = Vec::new();
        let mut count = 0;
        let root = filter::parse_filter(text, &mut |comparison| {
            count += 1;
            if count > MAX_COMPARISONS {
                return Err(FilterError(format!("it has more than {MAX_COMPARISONS} comparisons")).into());
            }
            let index = column_names::resolve_column(table, &comparison.field, "filter")?;
            let at = columns.iter().position(|it| it.index == index).unwrap_or_else(|| {
                columns.push(Column::analyze(table, index, decimal));
                columns.len() - 1
            });
            compile_comparison(comparison, at, &columns[at], &table.heads[index])
        })?;
        Ok(RowFilter { root, columns })
    }

    /// Returns the indexes of the rows that match the filter.
    pub(super) fn match_rows(&self, table: &Table) -> MatchedRows {
        let mut matched = MatchedRows::default();
        for row in 0..table.len() {
            match self.root.evaluate(&|it| self.evaluate_row(table, row, it)) {
                Some(true) => matched.rows.push(row),
                Some(false) => {}
                None => matched.undefined += 1,
            }
        }
        matched
    }

    fn evaluate_row(&self, table: &Table, row: usize, compare: &ColumnComparison) -> Option<bool> {
        let column = &self.columns[compare.column];
        let text = table.cell(row, column.index);
        let is_equal = |it: bool| it == (compare.operator == Operator::Equal);
        if let Test::Empty = compare.test {
            return Some(is_equal(text.is_empty()));
        }
        if text.is_empty() {
            return None;
        }
        match &compare.test {
            Test::Empty => None,
            Test::Number(wanted) => Some(compare.operator.accepts(column.parse_number(text).ok()?.cmp(wanted))),
            Test::Moment(start, end) => {
                let moment = column.parse_date(text).ok()?.start()?;
                Some(compare.operator.accepts(compare_to_range(moment, *start, *end)))
            }
            Test::Month(month) => Some(is_equal(column.parse_date(text).ok()?.month? == *month)),
            Test::Flag(wanted) => Some(is_equal(parse_flag(text)? == *wanted)),
            Test::Text(wanted) => Some(is_equal(equals_ignoring_case(text, wanted))),
            Test::Glob(glob) => Some(is_equal(glob.is_match(text))),
        }
    }
}

/// Compares a time with a period; a time inside the period counts as equal.
fn compare_to_range(moment: i64, start: i64, end: i64) -> Ordering {
    match moment {
        it if it < start => Ordering::Less,
        it if it >= end => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

fn compile_comparison(comparison: Comparison, at: usize, column: &Column, head: &str) -> Result<ColumnComparison> {
    let (operator, value) = match comparison.condition {
        Some(wanted) => wanted,
        None if column.kind == ColumnType::Flag => (Operator::Equal, "true".to_string()),
        None => return Err(FilterError(format!("`{head}` needs an operator and a value")).into()),
    };
    let wrong = |what: &str| {
        let text = format!("`{head}` needs {what}, not `{}`", value.chars().take(60).collect::<String>());
        Error::invalid(text).hint(format!("compare `{head}` with {what}")).field("filter")
    };
    let test = match column.kind {
        _ if value.is_empty() && operator.is_equality() => Test::Empty,
        ColumnType::Number if value.contains('*') => compile_text(&value)?,
        ColumnType::Number => Test::Number(
            column
                .parse_number(&value)
                .ok()
                .or_else(|| number::parse_typed(&value))
                .ok_or_else(|| wrong("a number"))?,
        ),
        ColumnType::Date => {
            compile_date(&value, operator).ok_or_else(|| wrong("a date such as 2025-03-31, 2025-03 or 2025"))?
        }
        ColumnType::Flag => Test::Flag(parse_flag(&value).ok_or_else(|| wrong("true or false"))?),
        ColumnType::Text | ColumnType::Empty => compile_text(&value)?,
    };
    if !operator.is_equality() && !matches!(test, Test::Number(_) | Test::Moment(..)) {
        let text = format!("most cells of `{head}` are neither numbers nor dates, so they have no order");
        return Err(Error::invalid(text).hint("use = or !=").field("filter"));
    }
    Ok(ColumnComparison { column: at, operator, test })
}

fn compile_text(value: &str) -> Result<Test> {
    if !value.contains('*') {
        return Ok(Test::Text(value.to_string()));
    }
    // Rejects a long value before building its glob, because the glob matcher panics on globs that are too large.
    if value.len() > MAX_GLOB {
        return Err(FilterError(format!("a value with `*` has {} bytes; the limit is {MAX_GLOB}", value.len())).into());
    }
    let glob = GlobBuilder::new(value).case_insensitive(true).build();
    glob.map(|it| Test::Glob(it.compile_matcher())).map_err(|error| FilterError(error.to_string()).into())
}

fn compile_date(value: &str, operator: Operator) -> Option<Test> {
    if number::is_year(value) {
        return Some(Test::Moment(year_start(value)?, year_start(&(value.parse::<i32>().ok()? + 1).to_string())?));
    }
    let date = DayMonthOrder::default().parse(value)?;
    match (date.start(), date.end()) {
        (Some(start), Some(end)) => Some(Test::Moment(start, end)),
        _ => date.month.filter(|_| operator.is_equality()).map(Test::Month),
    }
}

fn year_start(year: &str) -> Option<i64> {
    DayMonthOrder::default().parse(&format!("{year}-01"))?.start()
}
