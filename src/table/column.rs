//! Detects the type of a table column, and parses its cells as numbers or dates.

use std::collections::HashMap;

use bigdecimal::BigDecimal;

use crate::table::date::{CellDate, DayMonthOrder};
use crate::table::grid::Table;
use crate::table::header::is_blank;
use crate::table::number::{self, CellNumber, NumberFormat};

/// Number of rows at the start of a table that `sample` reads to detect the type of a column.
const SAMPLE_ROWS: usize = 1_000;
/// Maximum number of distinct units counted in a column; further units are ignored.
const MAX_UNITS: usize = 100;

/// The type of the majority of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnType {
    Empty,
    Number,
    Date,
    Flag,
    Text,
}

impl ColumnType {
    pub(super) fn name(self) -> &'static str {
        match self {
            ColumnType::Empty => "empty",
            ColumnType::Number => "number",
            ColumnType::Date => "date",
            ColumnType::Flag => "flag",
            ColumnType::Text => "text",
        }
    }
}

/// Why a cell is excluded from an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ExclusionReason {
    Empty,
    NoNumber,
    NoDate,
    Ambiguous,
    Unit,
    TooLong,
    Total,
}

impl ExclusionReason {
    pub(super) fn name(self) -> &'static str {
        match self {
            ExclusionReason::Empty => "empty",
            ExclusionReason::NoNumber => "no number",
            ExclusionReason::NoDate => "no date",
            ExclusionReason::Ambiguous => "ambiguous",
            ExclusionReason::Unit => "unit",
            ExclusionReason::TooLong => "too long",
            ExclusionReason::Total => "total",
        }
    }
}

/// A column of a table with its detected type and formats.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) index: usize,
    pub(super) kind: ColumnType,
    number_format: NumberFormat,
    date_order: DayMonthOrder,
    /// The unit of most numbers in the column; empty if most have no unit.
    unit: String,
    /// The unit to show in answers, as a cell writes it or the column header names it.
    pub(super) shown_unit: Option<String>,
    /// Whether some numbers of the column have that unit and others have no unit.
    pub(super) is_partly_bare: bool,
}

impl Column {
    /// Detects the type and formats of a column from all its cells.
    pub(super) fn analyze(table: &Table, index: usize, decimal: Option<char>) -> Column {
        Column::analyze_rows(table, index, decimal, table.len())
    }

    /// Detects the type of a column from its first cells only.
    pub(super) fn sample(table: &Table, index: usize, decimal: Option<char>) -> Column {
        Column::analyze_rows(table, index, decimal, SAMPLE_ROWS)
    }

    fn analyze_rows(table: &Table, index: usize, decimal: Option<char>, rows: usize) -> Column {
        let (mut habit, mut order) = (NumberFormat::new(decimal, table.has_dots), DayMonthOrder::default());
        let (mut filled, mut numbers, mut dates, mut flags) = (0, 0, 0, 0);
        let mut units: HashMap<String, usize> = HashMap::new();
        for row in 0..table.len().min(rows) {
            let text = table.cell(row, index);
            if is_blank(text) {
                continue;
            }
            order.learn(text);
            let unit = habit.learn(text);
            if let Some(unit) = unit {
                let unit = number::unit_name(unit);
                if units.len() < MAX_UNITS || units.contains_key(&unit) {
                    *units.entry(unit).or_default() += 1;
                }
            }
            if filled < SAMPLE_ROWS {
                filled += 1;
                numbers += usize::from(unit.is_some());
                dates += usize::from(unit.is_none() && crate::table::date::is_date(text));
                flags += usize::from(parse_flag(text).is_some());
            }
        }
        let most = |it: usize| it * 2 > filled;
        let kind = match filled {
            0 => ColumnType::Empty,
            _ if flags == filled => ColumnType::Flag,
            _ if most(numbers) => ColumnType::Number,
            _ if most(dates) => ColumnType::Date,
            _ => ColumnType::Text,
        };
        let (unit, is_partly_bare) = common_unit(units);
        let mut column =
            Column { index, kind, number_format: habit, date_order: order, unit, shown_unit: None, is_partly_bare };
        column.shown_unit = if kind == ColumnType::Number { column.unit_label(table) } else { None };
        column
    }

    /// Parses a cell as a number. A number without a unit is taken to have the unit of the column.
    pub(super) fn parse_number(&self, text: &str) -> Result<BigDecimal, ExclusionReason> {
        if is_blank(text) {
            return Err(ExclusionReason::Empty);
        }
        match self.number_format.parse(text) {
            CellNumber::Number(number, unit) if unit.is_empty() || number::unit_name(&unit) == self.unit => Ok(number),
            CellNumber::Number(..) => Err(ExclusionReason::Unit),
            CellNumber::Ambiguous => Err(ExclusionReason::Ambiguous),
            CellNumber::TooLong => Err(ExclusionReason::TooLong),
            CellNumber::None => Err(ExclusionReason::NoNumber),
        }
    }

    /// Parses a cell as a date.
    pub(super) fn parse_date(&self, text: &str) -> Result<CellDate, ExclusionReason> {
        if is_blank(text) {
            return Err(ExclusionReason::Empty);
        }
        self.date_order.parse(text).ok_or(ExclusionReason::NoDate)
    }

    fn unit_label(&self, table: &Table) -> Option<String> {
        if !self.unit.is_empty() {
            let written =
                if number::is_currency(&self.unit) { self.unit.to_uppercase() } else { self.unit_as_written(table) };
            return Some(written);
        }
        let head = table.heads.get(self.index)?;
        let in_brackets = head.trim_end().strip_suffix([')', ']']).and_then(|it| it.rsplit_once(['(', '[']));
        if let Some((_, unit)) = in_brackets {
            return Some(unit.trim().to_string()).filter(|it| !it.is_empty() && it.chars().count() <= 12);
        }
        let (before, last) = head.rsplit_once(|it: char| it.is_whitespace() || matches!(it, '_' | '/'))?;
        let unit = if number::is_currency(last) { last.to_uppercase() } else { last.to_string() };
        (!before.is_empty() && number::is_known_unit(last)).then_some(unit)
    }

    /// Returns the unit of the column as the first cell with that unit writes it.
    fn unit_as_written(&self, table: &Table) -> String {
        let unit = |row: usize| match self.number_format.parse(table.cell(row, self.index)) {
            CellNumber::Number(_, unit) if number::unit_name(&unit) == self.unit => Some(unit),
            _ => None,
        };
        (0..table.len().min(SAMPLE_ROWS)).find_map(unit).unwrap_or_else(|| self.unit.clone())
    }
}

/// Returns the unit of a column, and whether some of its numbers have no unit. If most numbers have no unit, the column has
/// none, unless all other numbers share one currency, because accounts show the currency only in the first and last row.
fn common_unit(mut units: HashMap<String, usize>) -> (String, bool) {
    let bare = units.remove("").unwrap_or_default();
    let is_only = units.len() == 1;
    let most = units.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)));
    let fits = |it: &(String, usize)| bare <= it.1 || is_only && number::is_currency(&it.0);
    let unit = most.filter(fits).map(|it| it.0).unwrap_or_default();
    let is_partly_bare = bare > 0 && !unit.is_empty();
    (unit, is_partly_bare)
}

/// Parses a cell with yes or no, true or false, in English, German or French.
pub(super) fn parse_flag(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "yes" | "ja" | "wahr" | "oui" => Some(true),
        "false" | "no" | "nein" | "falsch" | "non" => Some(false),
        _ => None,
    }
}
