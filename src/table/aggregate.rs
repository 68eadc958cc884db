//! Computes exact sums, means, counts and extremes of a column, with the rows that prove them and the excluded cells.

use std::collections::{BTreeMap, HashSet};

use bigdecimal::{BigDecimal, RoundingMode, Zero};

use crate::error::{Error, Result};
use crate::model::{TableCell, TableFunction, TableLeftOut, TableValue};
use crate::table::column::{Column, ColumnType, ExclusionReason};
use crate::table::date::CellDate;
use crate::table::grid::Table;

/// Maximum number of excluded cells that are reported as examples for each reason.
const MAX_EXAMPLES: usize = 5;
/// Maximum bytes of an example cell; a longer one is cut.
const MAX_EXAMPLE_BYTES: usize = 200;
/// A mean is rounded to this many more decimals than the sum has.
const EXTRA_MEAN_DECIMALS: i64 = 6;

/// A row is a row of totals if its first cell is one of these words.
const TOTAL_WORDS: &[&str] = &[
    "total",
    "totals",
    "grand total",
    "subtotal",
    "sub-total",
    "sum",
    "summe",
    "gesamt",
    "gesamtsumme",
    "zwischensumme",
    "insgesamt",
    "somme",
    "total général",
    "totaal",
    "totale",
    "suma",
];

/// The number of excluded cells and some examples, by reason.
#[derive(Default)]
struct ExcludedCells(BTreeMap<ExclusionReason, (u64, Vec<TableCell>)>);

impl ExcludedCells {
    fn add(&mut self, why: ExclusionReason, table: &Table, row: usize, text: &str) {
        let (count, examples) = self.0.entry(why).or_default();
        *count += 1;
        if examples.len() < MAX_EXAMPLES {
            let text = text[..text.floor_char_boundary(MAX_EXAMPLE_BYTES)].to_string();
            examples.push(TableCell { place: table.place(row), text });
        }
    }

    fn into_report(self) -> Vec<TableLeftOut> {
        let told = |(why, (cells, examples)): (ExclusionReason, _)| TableLeftOut {
            reason: why.name().into(),
            cells,
            examples,
        };
        self.0.into_iter().map(told).collect()
    }
}

/// Returns the rows of totals among `rows`, to exclude them, because they would count the other rows twice. Empty if all
/// rows are totals.
pub(super) fn total_rows(table: &Table, rows: &[usize]) -> HashSet<usize> {
    let found: HashSet<usize> = rows.iter().copied().filter(|it| is_total(table, *it)).collect();
    if found.len() == rows.len() { HashSet::new() } else { found }
}

fn is_total(table: &Table, row: usize) -> bool {
    let Some(first) = (0..table.width()).map(|it| table.cell(row, it)).find(|it| !it.is_empty()) else { return false };
    // Skips long cells early: no word in `TOTAL_WORDS` has so many bytes.
    first.len() < 24 && TOTAL_WORDS.contains(&first.trim_end_matches([':', '.', ' ']).to_lowercase().as_str())
}

/// Input that all aggregates of one query share.
pub(super) struct Aggregation<'t> {
    pub(super) table: &'t Table,
    /// Rows of totals, which are excluded.
    pub(super) totals: &'t HashSet<usize>,
    /// Maximum number of proving rows reported per value.
    pub(super) max_evidence: usize,
}

/// The value of an aggregate and the rows that prove it.
pub(super) struct AggregateResult {
    pub(super) value: TableValue,
    /// Indexes of the proving rows, at most `max_evidence`.
    pub(super) rows: Vec<usize>,
    /// The value in a form that can be compared, to sort groups.
    pub(super) sort_value: Option<SortValue>,
}

/// A value that can be compared with others of its column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SortValue {
    Number(BigDecimal),
    Date(CellDate),
}

/// Parses a cell as a date in a date column, else as a number.
pub(super) fn sort_value(column: &Column, text: &str) -> Result<SortValue, ExclusionReason> {
    match column.kind {
        ColumnType::Date => column.parse_date(text).map(SortValue::Date),
        _ => column.parse_number(text).map(SortValue::Number),
    }
}

impl Aggregation<'_> {
    /// Computes an aggregate of a column over `rows`; without a column only `count` is possible.
    ///
    /// # Errors
    /// `sum` and `avg` need numbers; `min` and `max` need numbers or dates.
    pub(super) fn aggregate(
        &self,
        function: TableFunction,
        column: Option<&Column>,
        rows: &[usize],
    ) -> Result<AggregateResult> {
        let Some(column) = column else {
            return match function {
                TableFunction::Count => Ok(self.count_rows(rows)),
                _ => Err(Error::invalid(format!("`{}` needs a column", function.name())).field("aggregates")),
            };
        };
        let head = &self.table.heads[column.index];
        let is_dated = column.kind == ColumnType::Date && matches!(function, TableFunction::Min | TableFunction::Max);
        if function == TableFunction::Count {
            return Ok(self.count_cells(column, rows));
        }
        if !is_dated && column.kind != ColumnType::Number {
            let what = if matches!(function, TableFunction::Min | TableFunction::Max) {
                "numbers or dates"
            } else {
                "numbers"
            };
            let text = format!(
                "`{}` needs {what}, but most cells of `{head}` are {}",
                function.name(),
                kind_description(column.kind)
            );
            return Err(Error::invalid(text).hint("`count` takes any column").field("aggregates"));
        }
        let mut left = ExcludedCells::default();
        let mut counted: Vec<(usize, SortValue)> = Vec::new();
        for row in rows.iter().copied() {
            let text = self.table.cell(row, column.index);
            match sort_value(column, text) {
                _ if self.totals.contains(&row) => left.add(ExclusionReason::Total, self.table, row, text),
                Ok(value) => counted.push((row, value)),
                Err(why) => left.add(why, self.table, row, text),
            }
        }
        Ok(self.finish_aggregate(function, column, counted, left))
    }

    fn finish_aggregate(
        &self,
        function: TableFunction,
        column: &Column,
        counted: Vec<(usize, SortValue)>,
        left: ExcludedCells,
    ) -> AggregateResult {
        let rows = counted.len() as u64;
        let order = match function {
            TableFunction::Min => counted.iter().map(|it| &it.1).min().cloned(),
            TableFunction::Max => counted.iter().map(|it| &it.1).max().cloned(),
            _ => (!counted.is_empty()).then(|| SortValue::Number(sum(&counted))),
        };
        let is_extreme = matches!(function, TableFunction::Min | TableFunction::Max);
        let proves = |it: &&(usize, SortValue)| !is_extreme || Some(&it.1) == order.as_ref();
        let proof: Vec<usize> = counted.iter().filter(proves).map(|it| it.0).take(self.max_evidence).collect();
        let (order, exact) = match (function, order) {
            (TableFunction::Avg, Some(SortValue::Number(sum))) => {
                let (mean, exact) = mean(&sum, rows);
                (Some(SortValue::Number(mean)), exact)
            }
            (_, order) => (order, true),
        };
        let text = match &order {
            Some(SortValue::Number(number)) => Some(number.to_plain_string()),
            // Shows a date as the cell writes it, because that has the right precision.
            Some(SortValue::Date(_)) => proof.first().map(|it| self.table.cell(*it, column.index).to_string()),
            None => None,
        };
        let value = TableValue {
            function: function.name().into(),
            column: Some(self.table.heads[column.index].clone()),
            value: text,
            unit: column.shown_unit.clone(),
            exact,
            rows,
            left_out: left.into_report(),
            evidence: proof.iter().map(|it| self.table.place(*it)).collect(),
        };
        AggregateResult { value, rows: proof, sort_value: order }
    }

    /// Counts the non-empty cells of a column; empty cells and totals are reported as excluded.
    fn count_cells(&self, column: &Column, rows: &[usize]) -> AggregateResult {
        let mut left = ExcludedCells::default();
        let mut counted = Vec::new();
        for row in rows.iter().copied() {
            let text = self.table.cell(row, column.index);
            match (self.totals.contains(&row), text.is_empty()) {
                (true, _) => left.add(ExclusionReason::Total, self.table, row, text),
                (_, true) => left.add(ExclusionReason::Empty, self.table, row, text),
                _ => counted.push(row),
            }
        }
        self.count_result(Some(column), &counted, left)
    }

    fn count_rows(&self, rows: &[usize]) -> AggregateResult {
        let mut left = ExcludedCells::default();
        let (totals, counted): (Vec<usize>, Vec<usize>) = rows.iter().partition(|it| self.totals.contains(it));
        totals.iter().for_each(|it| left.add(ExclusionReason::Total, self.table, *it, self.table.cell(*it, 0)));
        self.count_result(None, &counted, left)
    }

    fn count_result(&self, column: Option<&Column>, rows: &[usize], left: ExcludedCells) -> AggregateResult {
        let proof: Vec<usize> = rows.iter().copied().take(self.max_evidence).collect();
        let value = TableValue {
            function: TableFunction::Count.name().into(),
            column: column.map(|it| self.table.heads[it.index].clone()),
            value: Some(rows.len().to_string()),
            unit: None,
            exact: true,
            rows: rows.len() as u64,
            left_out: left.into_report(),
            evidence: proof.iter().map(|it| self.table.place(*it)).collect(),
        };
        AggregateResult { value, rows: proof, sort_value: Some(SortValue::Number(BigDecimal::from(rows.len() as u64))) }
    }
}

fn kind_description(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::Empty => "empty",
        ColumnType::Number => "numbers",
        ColumnType::Date => "dates",
        ColumnType::Flag => "yes or no",
        ColumnType::Text => "texts",
    }
}

/// Returns the exact sum, with as many decimals as the most precise number.
fn sum(counted: &[(usize, SortValue)]) -> BigDecimal {
    let (sum, decimals) = counted.iter().fold((BigDecimal::zero(), 0), |(sum, decimals), it| match &it.1 {
        SortValue::Number(number) => (sum + number, decimals.max(number.fractional_digit_count())),
        SortValue::Date(_) => (sum, decimals),
    });
    sum.with_scale(decimals)
}

/// Returns the mean, and whether it is exact; one third, for example, is rounded.
fn mean(sum: &BigDecimal, rows: u64) -> (BigDecimal, bool) {
    let count = BigDecimal::from(rows);
    let (_, decimals) = sum.as_bigint_and_exponent();
    let mean = (sum / &count).with_scale_round(decimals + EXTRA_MEAN_DECIMALS, RoundingMode::HalfEven);
    let exact = &mean * &count == *sum;
    let short = mean.normalized();
    let (_, scale) = short.as_bigint_and_exponent();
    (if scale < decimals { mean.with_scale(decimals) } else { short }, exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_reports_whether_it_is_exact() {
        let check = |sum: &str, rows: u64| {
            let (mean, exact) = mean(&sum.parse().unwrap(), rows);
            (mean.to_plain_string(), exact)
        };
        assert_eq!(check("0.30", 2), ("0.15".into(), true));
        assert_eq!(check("6.00", 3), ("2.00".into(), true));
        assert_eq!(check("1", 8), ("0.125".into(), true));
        assert_eq!(check("10", 3), ("3.333333".into(), false));
        assert_eq!(check("-2", 3), ("-0.666667".into(), false));
        assert_eq!(check("600", 3), ("200".into(), true));
    }
}
