//! Row filters of tables, in the grammar of [`crate::filter`]. The type of a column decides how its values compare.

use std::cmp::Ordering;

use bigdecimal::BigDecimal;
use globset::{GlobBuilder, GlobMatcher};

use crate::error::{Error, Result};
use crate::filter::{self, Comparison, Mistake, Node, Operator, same_text};
use crate::model::MAX_GLOB;
use crate::table::column::{Column, Kind, flag};
use crate::table::date::Order;
use crate::table::{Table, names, number};

/// Upper limit of comparisons in one filter.
const MOST_COMPARISONS: usize = 100;

/// The test of one comparison.
enum Test {
    /// The cell is empty.
    Empty,
    Number(BigDecimal),
    /// A range in seconds: start inclusive, end exclusive.
    Moment(i64, i64),
    /// A month of any year.
    Month(u32),
    Flag(bool),
    Text(String),
    Glob(GlobMatcher),
}

/// A comparison of the cells of a column.
pub(super) struct Compare {
    column: usize,
    operator: Operator,
    test: Test,
}

/// A filter over the rows of a table.
pub(super) struct Condition {
    root: Node<Compare>,
    columns: Vec<Column>,
}

/// The rows that match a filter.
#[derive(Debug, Default)]
pub(super) struct Matched {
    pub(super) rows: Vec<usize>,
    /// Rows for which the filter is undefined: a cell is empty or of another type.
    pub(super) open: usize,
}

impl From<Mistake> for Error {
    fn from(mistake: Mistake) -> Error {
        let example = "write e.g. amount>100 AND (category=Travel OR NOT paid); quote names with spaces";
        Error::invalid(format!("cannot understand the filter: {}", mistake.0)).hint(example).field("filter")
    }
}

impl Condition {
    /// Compiles a filter for a table.
    ///
    /// # Errors
    /// The text is not a filter, a column does not exist, or a value does not fit its column.
    pub(super) fn parse(text: &str, table: &Table, decimal: Option<char>) -> Result<Condition> {
        let mut columns: Vec<Column> = Vec::new();
        let mut count = 0;
        let root = filter::parse(text, &mut |comparison| {
            count += 1;
            if count > MOST_COMPARISONS {
                return Err(Mistake(format!("it has more than {MOST_COMPARISONS} comparisons")).into());
            }
            let index = names::resolve(table, &comparison.field, "filter")?;
            let at = columns.iter().position(|it| it.index == index).unwrap_or_else(|| {
                columns.push(Column::read(table, index, decimal));
                columns.len() - 1
            });
            compile(comparison, at, &columns[at], &table.heads[index])
        })?;
        Ok(Condition { root, columns })
    }

    /// Finds the matching rows.
    pub(super) fn matched(&self, table: &Table) -> Matched {
        let mut matched = Matched::default();
        for row in 0..table.len() {
            match self.root.evaluate(&|it| self.holds(table, row, it)) {
                Some(true) => matched.rows.push(row),
                Some(false) => {}
                None => matched.open += 1,
            }
        }
        matched
    }

    fn holds(&self, table: &Table, row: usize, compare: &Compare) -> Option<bool> {
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
            Test::Number(wanted) => Some(compare.operator.holds(column.number(text).ok()?.cmp(wanted))),
            Test::Moment(start, end) => {
                let moment = column.date(text).ok()?.start()?;
                Some(compare.operator.holds(within(moment, *start, *end)))
            }
            Test::Month(month) => Some(is_equal(column.date(text).ok()?.month? == *month)),
            Test::Flag(wanted) => Some(is_equal(flag(text)? == *wanted)),
            Test::Text(wanted) => Some(is_equal(same_text(text, wanted))),
            Test::Glob(glob) => Some(is_equal(glob.is_match(text))),
        }
    }
}

/// Compares a moment with a range; a moment inside is equal to it.
fn within(moment: i64, start: i64, end: i64) -> Ordering {
    match moment {
        it if it < start => Ordering::Less,
        it if it >= end => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

fn compile(comparison: Comparison, at: usize, column: &Column, head: &str) -> Result<Compare> {
    let (operator, value) = match comparison.wanted {
        Some(wanted) => wanted,
        None if column.kind == Kind::Flag => (Operator::Equal, "true".to_string()),
        None => return Err(Mistake(format!("`{head}` needs an operator and a value")).into()),
    };
    let wrong = |what: &str| {
        let text = format!("`{head}` is compared with {what}, not `{}`", value.chars().take(60).collect::<String>());
        Error::invalid(text).hint(format!("compare `{head}` with {what}")).field("filter")
    };
    let test = match column.kind {
        _ if value.is_empty() && operator.is_equality() => Test::Empty,
        Kind::Number if value.contains('*') => text(&value)?,
        Kind::Number => Test::Number(
            column.number(&value).ok().or_else(|| number::written(&value)).ok_or_else(|| wrong("a number"))?,
        ),
        Kind::Date => date(&value, operator).ok_or_else(|| wrong("a date such as 2025-03-31, 2025-03 or 2025"))?,
        Kind::Flag => Test::Flag(flag(&value).ok_or_else(|| wrong("true or false"))?),
        Kind::Text | Kind::Empty => text(&value)?,
    };
    if !operator.is_equality() && !matches!(test, Test::Number(_) | Test::Moment(..)) {
        let text = format!("most cells of `{head}` are neither numbers nor dates, so they have no order");
        return Err(Error::invalid(text).hint("use = or !=").field("filter"));
    }
    Ok(Compare { column: at, operator, test })
}

fn text(value: &str) -> Result<Test> {
    if !value.contains('*') {
        return Ok(Test::Text(value.to_string()));
    }
    // The matcher panics on globs that are too large.
    if value.len() > MAX_GLOB {
        return Err(Mistake(format!("a value with `*` has {} bytes; the limit is {MAX_GLOB}", value.len())).into());
    }
    let glob = GlobBuilder::new(value).case_insensitive(true).build();
    glob.map(|it| Test::Glob(it.compile_matcher())).map_err(|error| Mistake(error.to_string()).into())
}

fn date(value: &str, operator: Operator) -> Option<Test> {
    if number::is_year(value) {
        return Some(Test::Moment(year_start(value)?, year_start(&(value.parse::<i32>().ok()? + 1).to_string())?));
    }
    let date = Order::default().read(value)?;
    match (date.start(), date.end()) {
        (Some(start), Some(end)) => Some(Test::Moment(start, end)),
        _ => date.month.filter(|_| operator.is_equality()).map(Test::Month),
    }
}

fn year_start(year: &str) -> Option<i64> {
    Order::default().read(&format!("{year}-01"))?.start()
}
