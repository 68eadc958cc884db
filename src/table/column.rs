//! What a column holds, and how its cells are read.

use std::collections::HashMap;

use bigdecimal::BigDecimal;

use crate::table::Table;
use crate::table::date::{Date, Order};
use crate::table::head::is_blank;
use crate::table::number::{self, Cell, Habit};

/// Rows that tell what a column holds when nothing is made of it.
const SAMPLE: usize = 1_000;
/// Units of a column that are told apart.
const MOST_UNITS: usize = 100;

/// What most cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Empty,
    Number,
    Date,
    Flag,
    Text,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Empty => "empty",
            Kind::Number => "number",
            Kind::Date => "date",
            Kind::Flag => "flag",
            Kind::Text => "text",
        }
    }
}

/// Why a cell is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Left {
    Empty,
    NoNumber,
    NoDate,
    Ambiguous,
    Unit,
    TooLong,
    Total,
}

impl Left {
    pub(super) fn name(self) -> &'static str {
        match self {
            Left::Empty => "empty",
            Left::NoNumber => "no number",
            Left::NoDate => "no date",
            Left::Ambiguous => "ambiguous",
            Left::Unit => "unit",
            Left::TooLong => "too long",
            Left::Total => "total",
        }
    }
}

/// A column whose cells were looked at.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) index: usize,
    pub(super) kind: Kind,
    habit: Habit,
    order: Order,
    /// The unit that most of its numbers have; empty where most have none.
    unit: String,
    /// The unit as it is shown: as most cells write it, or as the head names it.
    pub(super) shown_unit: Option<String>,
    /// Whether some numbers have that unit and some have none.
    pub(super) is_partly_bare: bool,
}

impl Column {
    /// Looks at all cells of a column.
    pub(super) fn read(table: &Table, index: usize, decimal: Option<char>) -> Column {
        Column::of(table, index, decimal, table.len())
    }

    /// Looks at the first cells of a column: enough to say what it holds.
    pub(super) fn glance(table: &Table, index: usize, decimal: Option<char>) -> Column {
        Column::of(table, index, decimal, SAMPLE)
    }

    fn of(table: &Table, index: usize, decimal: Option<char>, rows: usize) -> Column {
        let (mut habit, mut order) = (Habit::new(decimal, table.has_dots), Order::default());
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
                if units.len() < MOST_UNITS || units.contains_key(&unit) {
                    *units.entry(unit).or_default() += 1;
                }
            }
            if filled < SAMPLE {
                filled += 1;
                numbers += usize::from(unit.is_some());
                dates += usize::from(unit.is_none() && crate::table::date::is_date(text));
                flags += usize::from(flag(text).is_some());
            }
        }
        let most = |it: usize| it * 2 > filled;
        let kind = match filled {
            0 => Kind::Empty,
            _ if flags == filled => Kind::Flag,
            _ if most(numbers) => Kind::Number,
            _ if most(dates) => Kind::Date,
            _ => Kind::Text,
        };
        let (unit, is_partly_bare) = common_unit(units);
        let mut column = Column { index, kind, habit, order, unit, shown_unit: None, is_partly_bare };
        column.shown_unit = if kind == Kind::Number { column.find_unit(table) } else { None };
        column
    }

    /// Reads a cell as a number; numbers without a unit have that of the column.
    pub(super) fn number(&self, text: &str) -> Result<BigDecimal, Left> {
        if is_blank(text) {
            return Err(Left::Empty);
        }
        match self.habit.read(text) {
            Cell::Number(number, unit) if unit.is_empty() || number::unit_name(&unit) == self.unit => Ok(number),
            Cell::Number(..) => Err(Left::Unit),
            Cell::Ambiguous => Err(Left::Ambiguous),
            Cell::TooLong => Err(Left::TooLong),
            Cell::None => Err(Left::NoNumber),
        }
    }

    /// Reads a cell as a date.
    pub(super) fn date(&self, text: &str) -> Result<Date, Left> {
        if is_blank(text) {
            return Err(Left::Empty);
        }
        self.order.read(text).ok_or(Left::NoDate)
    }

    fn find_unit(&self, table: &Table) -> Option<String> {
        if !self.unit.is_empty() {
            let written = if number::is_currency(&self.unit) { self.unit.to_uppercase() } else { self.written(table) };
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

    /// The unit as the first cell that has it writes it.
    fn written(&self, table: &Table) -> String {
        let unit = |row: usize| match self.habit.read(table.cell(row, self.index)) {
            Cell::Number(_, unit) if number::unit_name(&unit) == self.unit => Some(unit),
            _ => None,
        };
        (0..table.len().min(SAMPLE)).find_map(unit).unwrap_or_else(|| self.unit.clone())
    }
}

/// The unit of a column, and whether some of its numbers have none. Where most have none, it has none, unless the others
/// all have the same currency: in accounts the first and the last show it.
fn common_unit(mut units: HashMap<String, usize>) -> (String, bool) {
    let bare = units.remove("").unwrap_or_default();
    let is_only = units.len() == 1;
    let most = units.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)));
    let fits = |it: &(String, usize)| bare <= it.1 || is_only && number::is_currency(&it.0);
    let unit = most.filter(fits).map(|it| it.0).unwrap_or_default();
    let is_partly_bare = bare > 0 && !unit.is_empty();
    (unit, is_partly_bare)
}

/// Reads a cell that says yes or no.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "yes" | "ja" | "wahr" | "oui" => Some(true),
        "false" | "no" | "nein" | "falsch" | "non" => Some(false),
        _ => None,
    }
}
