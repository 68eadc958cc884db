//! Queries about tables of a file, and their results.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::Anchor;

/// Aggregate function over the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TableFunction {
    /// Exact sum.
    Sum,
    /// Mean.
    Avg,
    /// Smallest number or date.
    Min,
    /// Largest number or date.
    Max,
    /// Number of cells that are not empty; without a column, number of rows.
    Count,
}

impl TableFunction {
    /// Every function.
    pub const ALL: [TableFunction; 5] =
        [TableFunction::Sum, TableFunction::Avg, TableFunction::Min, TableFunction::Max, TableFunction::Count];

    /// Returns the name used in requests and results.
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

/// Period for grouping dates.
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

    /// Returns the name used in requests.
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

/// One requested value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableAggregate {
    /// The function.
    pub function: TableFunction,
    /// The column of the cells; optional for `count` only.
    #[serde(default)]
    pub column: Option<String>,
}

/// A query about one table of a file. Columns are given in any case by name, by a unique prefix of the name, or by letter
/// if the table has no heads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TableRequest {
    /// Absolute path of an indexed file; `archive.zip!/member` for a file in an archive.
    pub path: String,
    /// Only tables of the sheet of this name.
    pub sheet: Option<String>,
    /// Number of the table, from 1; the first when absent.
    #[schemars(range(min = 1))]
    pub table: Option<u32>,
    /// Row filter in the grammar of QUERY, e.g. `amount>100 AND NOT category=Travel`. Names with spaces are quoted.
    pub filter: Option<String>,
    /// Group rows by this column.
    pub group_by: Option<String>,
    /// Period for groups of dates.
    pub per: Option<TablePeriod>,
    /// The requested values; none lists rows.
    pub aggregates: Vec<TableAggregate>,
    /// Only this many groups or rows, those with the largest values.
    #[schemars(range(min = 1, max = 1000))]
    pub top: Option<u32>,
    /// The column that `top` compares; for groups, the column of an aggregate.
    pub by: Option<String>,
    /// Whether `top` takes the smallest values.
    pub ascending: bool,
    /// Maximum number of rows shown, 1 to 1000; 20 when absent.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// The decimal sign, `.` or `,`, for numbers such as `1,234` if the column leaves it ambiguous.
    pub decimal: Option<String>,
    /// Number of head rows, 0 to 2; detected when absent.
    #[schemars(range(max = 2))]
    pub head_rows: Option<u32>,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableColumn {
    /// Its head, two head rows joined by ` / `; its letter if there is none.
    pub name: String,
    /// Type of most of its cells: `number`, `date`, `flag`, `text` or `empty`.
    pub kind: String,
}

/// A row of a table, as in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableRow {
    /// Its place, as text: `line 7`, `sheet Q1, B7:F7`, `table 2, row 5`.
    pub place: String,
    /// Its place, for programs.
    pub anchor: Anchor,
    /// Its cells, by column.
    pub cells: Vec<String>,
}

/// A cell that was not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableCell {
    /// Place of its row.
    pub place: String,
    /// Its text.
    pub text: String,
}

/// Cells left out for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableLeftOut {
    /// The reason: `empty`, `no number`, `no date`, `ambiguous`, `unit` (another one), `too long` or `total` (total row).
    pub reason: String,
    /// Number of cells.
    pub cells: u64,
    /// The first of them.
    pub examples: Vec<TableCell>,
}

/// A value computed from the cells of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableValue {
    /// The function: `sum`, `avg`, `min`, `max` or `count`.
    pub function: String,
    /// The column; null for the number of rows.
    pub column: Option<String>,
    /// The value: an exact decimal number as text, or a date; null when no cell was counted.
    pub value: Option<String>,
    /// The unit or currency of the cells or the head.
    pub unit: Option<String>,
    /// False for a mean that was rounded.
    pub exact: bool,
    /// Rows that were counted.
    pub rows: u64,
    /// Cells not counted, by reason.
    pub left_out: Vec<TableLeftOut>,
    /// Places of the first rows behind the value; for `min` and `max`, of the rows that have it.
    pub evidence: Vec<String>,
}

/// Rows with equal cells in the grouping column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableGroup {
    /// The cell, or its period: `2025`, `2025-Q1`, `2025-03`.
    pub key: String,
    /// Number of rows.
    pub rows: u64,
    /// The requested values.
    pub result: Vec<TableValue>,
}

/// Result of a table query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableResponse {
    /// The file, as requested.
    pub path: String,
    /// Number of tables in the file, or in the requested sheet.
    pub tables: u32,
    /// Number of this table, from 1.
    pub table: u32,
    /// Name of its sheet, or the heading above it; may be empty.
    pub name: String,
    /// Number of head rows: 0, 1 or 2. Without heads, columns are named A, B, C.
    pub head_rows: u32,
    /// Its columns.
    pub columns: Vec<TableColumn>,
    /// Rows below the heads.
    pub total_rows: u64,
    /// Rows that match the filter.
    pub matched_rows: u64,
    /// Rows that match the filter. With aggregates, the rows behind the values; with `top` of groups, of the first one.
    pub rows: Vec<TableRow>,
    /// Groups, in the order of the table or by value.
    pub groups: Vec<TableGroup>,
    /// Number of groups.
    pub total_groups: u64,
    /// The requested values over all rows that match the filter.
    pub result: Vec<TableValue>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// True when rows or groups are left out, or only a part of the file was read.
    pub truncated: bool,
}
