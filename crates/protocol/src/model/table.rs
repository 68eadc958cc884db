//! Questions about the tables of a file, and their answers.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::Anchor;

/// What is made of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TableFunction {
    /// Their exact sum.
    Sum,
    /// Their mean.
    Avg,
    /// The least of them: of numbers, or of dates.
    Min,
    /// The largest of them: of numbers, or of dates.
    Max,
    /// How many of them are not empty; without a column, how many rows there are.
    Count,
}

impl TableFunction {
    /// Every function.
    pub const ALL: [TableFunction; 5] =
        [TableFunction::Sum, TableFunction::Avg, TableFunction::Min, TableFunction::Max, TableFunction::Count];

    /// Returns the name, as requests and answers have it.
    pub fn name(self) -> &'static str {
        match self {
            TableFunction::Sum => "sum",
            TableFunction::Avg => "avg",
            TableFunction::Min => "min",
            TableFunction::Max => "max",
            TableFunction::Count => "count",
        }
    }
}

impl FromStr for TableFunction {
    type Err = Error;

    fn from_str(name: &str) -> Result<TableFunction, Error> {
        let found = TableFunction::ALL.into_iter().find(|it| it.name() == name);
        found.ok_or_else(|| {
            Error::invalid(format!("there is no function `{name}`")).hint("use sum, avg, min, max or count")
        })
    }
}

/// The time that one group of dates spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TablePeriod {
    /// A year.
    Year,
    /// A quarter of a year.
    Quarter,
    /// A month.
    Month,
    /// A day.
    Day,
}

impl TablePeriod {
    /// Every period.
    pub const ALL: [TablePeriod; 4] = [TablePeriod::Year, TablePeriod::Quarter, TablePeriod::Month, TablePeriod::Day];

    /// Returns the name, as requests have it.
    pub fn name(self) -> &'static str {
        match self {
            TablePeriod::Year => "year",
            TablePeriod::Quarter => "quarter",
            TablePeriod::Month => "month",
            TablePeriod::Day => "day",
        }
    }
}

impl FromStr for TablePeriod {
    type Err = Error;

    fn from_str(name: &str) -> Result<TablePeriod, Error> {
        let found = TablePeriod::ALL.into_iter().find(|it| it.name() == name);
        found.ok_or_else(|| {
            Error::invalid(format!("there is no period `{name}`")).hint("use year, quarter, month or day")
        })
    }
}

/// One value that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableAggregate {
    /// What is made of the cells.
    pub function: TableFunction,
    /// Their column; only `count` does without.
    #[serde(default)]
    pub column: Option<String>,
}

/// A question about one table of a file. Columns are named in any case, by a unique beginning of their name, or by their
/// letter where the table has no heads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TableRequest {
    /// Absolute path of an indexed file; `archive.zip!/member` for a file in an archive.
    pub path: String,
    /// Only tables of the sheet of this name.
    pub sheet: Option<String>,
    /// Which of the tables, from 1; the first when absent.
    #[schemars(range(min = 1))]
    pub table: Option<u32>,
    /// Which rows, in the grammar of QUERY, e.g. `amount>100 AND NOT category=Travel`. Names with spaces stand in quotes.
    pub filter: Option<String>,
    /// The column whose equal cells make one group.
    pub group_by: Option<String>,
    /// For groups of dates: the time that one of them spans.
    pub per: Option<TablePeriod>,
    /// The values asked for; none lists rows.
    pub aggregates: Vec<TableAggregate>,
    /// Only so many groups or rows, those with the largest values.
    #[schemars(range(min = 1, max = 1000))]
    pub top: Option<u32>,
    /// The column whose values `top` compares; of groups, the one of an aggregate.
    pub by: Option<String>,
    /// Whether `top` takes the smallest values.
    pub ascending: bool,
    /// Most rows that are shown, 1 to 1000; 20 when absent.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// The decimal sign, `.` or `,`, for numbers such as `1,234` where the rest of the column does not tell it.
    pub decimal: Option<String>,
    /// How many rows are heads, 0 to 2; absent looks at the rows.
    #[schemars(range(max = 2))]
    pub head_rows: Option<u32>,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableColumn {
    /// Its head, two rows of heads joined by ` / `; its letter where there is none.
    pub name: String,
    /// What most of its cells are: `number`, `date`, `flag`, `text` or `empty`.
    pub kind: String,
}

/// A row of a table, as it stands in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableRow {
    /// Where it stands, in words: `line 7`, `sheet Q1, B7:F7`, `table 2, row 5`.
    pub place: String,
    /// Where it stands, for programs.
    pub anchor: Anchor,
    /// Its cells, by column.
    pub cells: Vec<String>,
}

/// A cell that was not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableCell {
    /// Where its row stands.
    pub place: String,
    /// What stands in it.
    pub text: String,
}

/// Cells that were left out for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableLeftOut {
    /// Why: `empty`, `no number`, `no date`, `ambiguous`, `unit` (it has another one), `too long` or `total` (the row is one).
    pub reason: String,
    /// How many.
    pub cells: u64,
    /// The first of them.
    pub examples: Vec<TableCell>,
}

/// A value that was made of the cells of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableValue {
    /// What was made of them: `sum`, `avg`, `min`, `max` or `count`.
    pub function: String,
    /// Their column; null for the number of rows.
    pub column: Option<String>,
    /// The value, a decimal number as text so that it stays exact, or a date; null when no cell was counted.
    pub value: Option<String>,
    /// The unit or currency that the cells or the head have.
    pub unit: Option<String>,
    /// False for a mean that was rounded.
    pub exact: bool,
    /// Rows that were counted.
    pub rows: u64,
    /// Cells that were not, by reason.
    pub left_out: Vec<TableLeftOut>,
    /// Where the rows stand that prove it, the first of them: of `min` and `max` those that have the value.
    pub evidence: Vec<String>,
}

/// Rows with the same cell in the column that groups them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableGroup {
    /// That cell, or the period of it: `2025`, `2025-Q1`, `2025-03`.
    pub key: String,
    /// How many rows.
    pub rows: u64,
    /// The values asked for.
    pub result: Vec<TableValue>,
}

/// What a table answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableResponse {
    /// The file, as it was asked for.
    pub path: String,
    /// How many tables it has; of the sheet that was asked for, if one was.
    pub tables: u32,
    /// Which one this is, from 1.
    pub table: u32,
    /// Name of its sheet, or the heading above it; may be empty.
    pub name: String,
    /// How many rows are heads: 0, 1 or 2. Without any, columns are named A, B, C.
    pub head_rows: u32,
    /// Its columns.
    pub columns: Vec<TableColumn>,
    /// Rows below the heads.
    pub total_rows: u64,
    /// Rows that meet the filter.
    pub matched_rows: u64,
    /// Rows that meet the filter; with a value asked for, the rows that prove it; with `top` of groups, those of the first.
    pub rows: Vec<TableRow>,
    /// Groups, in the order of the table or by value.
    pub groups: Vec<TableGroup>,
    /// How many groups there are.
    pub total_groups: u64,
    /// The values asked for, over all rows that meet the filter.
    pub result: Vec<TableValue>,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// True when not all rows or groups are shown, or not all of the file was read.
    pub truncated: bool,
}
