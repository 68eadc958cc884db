//! Queries about tables in files (e.g. spreadsheets and CSV), and their results.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::Anchor;

/// Aggregate function over the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TableFunction {
    /// Exact sum of the numbers.
    Sum,
    /// Mean of the numbers.
    Avg,
    /// Smallest number, or earliest date.
    Min,
    /// Largest number, or latest date.
    Max,
    /// Number of cells that are not empty; without a column, number of rows.
    Count,
}

impl TableFunction {
    /// Every aggregate function.
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

/// A value to compute: an aggregate function and its column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableAggregate {
    /// The aggregate function.
    pub function: TableFunction,
    /// The column whose cells are aggregated; optional for `count` only.
    #[serde(default)]
    pub column: Option<String>,
}

/// A query about one table of a file. Columns are given, in any case, by name, by a unique prefix of the name, or by letter
/// if the table has no heading rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TableRequest {
    /// Absolute path of an indexed file; `archive.zip!/member` for a file in an archive.
    pub path: String,
    /// Only tables of the sheet with this name.
    pub sheet: Option<String>,
    /// Number of the table in the file or sheet, from 1; the first table if absent.
    #[schemars(range(min = 1))]
    pub table: Option<u32>,
    /// Row filter in the grammar of the verb QUERY, e.g. `amount>100 AND NOT category=Travel`. Names with spaces are quoted.
    pub filter: Option<String>,
    /// Column whose equal cells form a group of rows.
    pub group_by: Option<String>,
    /// Period into which the dates of `group_by` are grouped.
    pub per: Option<TablePeriod>,
    /// The values to compute; if empty, the rows are listed instead.
    pub aggregates: Vec<TableAggregate>,
    /// Only this many groups or rows: those with the largest values.
    #[schemars(range(min = 1, max = 1000))]
    pub top: Option<u32>,
    /// The column whose values `top` compares; for groups, the column of an aggregate.
    pub by: Option<String>,
    /// Whether `top` takes the groups or rows with the smallest values instead.
    pub ascending: bool,
    /// Maximum number of rows shown, 1 to 1000; 20 if absent.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// The decimal separator, `.` or `,`, for numbers such as `1,234` that the column leaves ambiguous.
    pub decimal: Option<String>,
    /// Number of heading rows of the table, 0 to 2; detected if absent.
    #[schemars(range(max = 2))]
    pub head_rows: Option<u32>,
    /// Number of rows to skip if rows are listed in the order of the table.
    pub offset: u32,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableColumn {
    /// Heading of the column, two heading rows joined by ` / `; the column's letter if there is no heading.
    pub name: String,
    /// Type of most cells of the column: `number`, `date`, `flag`, `text` or `empty`.
    pub kind: String,
}

/// A row of a table, with its cells as in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableRow {
    /// Location of the row as text: `line 7`, `sheet Q1, B7:F7`, `table 2, row 5`.
    pub place: String,
    /// Location of the row in fields that programs can read: lines, sheet and cells, or table and row.
    pub anchor: Anchor,
    /// Cells of the row, in the order of the columns.
    pub cells: Vec<String>,
}

/// A cell that was left out of an aggregate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableCell {
    /// Location of the cell's row.
    pub place: String,
    /// Text of the cell.
    pub text: String,
}

/// The cells that were left out of an aggregate for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableLeftOut {
    /// The reason: `empty`, `no number`, `no date`, `ambiguous`, `unit` (another unit), `too long` or `total` (total row).
    pub reason: String,
    /// Number of cells left out.
    pub cells: u64,
    /// The first of the cells left out.
    pub examples: Vec<TableCell>,
}

/// A value that was computed from the cells of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableValue {
    /// The aggregate function: `sum`, `avg`, `min`, `max` or `count`.
    pub function: String,
    /// Name of the column; null for the number of rows.
    pub column: Option<String>,
    /// The value: an exact decimal number as text, or a date; null if no cell was counted.
    pub value: Option<String>,
    /// Unit or currency, from the cells or the column's heading.
    pub unit: Option<String>,
    /// False if the value is a mean that was rounded.
    pub exact: bool,
    /// Number of rows that were counted.
    pub rows: u64,
    /// Cells that were not counted, by reason.
    pub left_out: Vec<TableLeftOut>,
    /// Locations of the first rows that were counted; for `min` and `max`, of the rows with this value.
    pub evidence: Vec<String>,
}

/// Rows that have equal cells in the grouping column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableGroup {
    /// The common cell of the rows, or its period: `2025`, `2025-Q1`, `2025-03`.
    pub key: String,
    /// Number of rows in the group.
    pub rows: u64,
    /// The requested values over the rows of the group.
    pub result: Vec<TableValue>,
}

/// Result of a table query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableResponse {
    /// Path of the file, as requested.
    pub path: String,
    /// Number of tables in the file, or in the requested sheet.
    pub tables: u32,
    /// Number of the queried table, from 1.
    pub table: u32,
    /// Name of the table's sheet, or the heading above the table; may be empty.
    pub name: String,
    /// Number of heading rows: 0, 1 or 2. Without heading rows, columns are named A, B, C.
    pub head_rows: u32,
    /// Columns of the table.
    pub columns: Vec<TableColumn>,
    /// Number of rows below the heading rows.
    pub total_rows: u64,
    /// Number of rows that match the filter.
    pub matched_rows: u64,
    /// Rows that match the filter. With aggregates, the counted rows; with `top` of groups, the rows of the first group.
    pub rows: Vec<TableRow>,
    /// Groups, in the order of the table, or sorted by value for `top`.
    pub groups: Vec<TableGroup>,
    /// Number of groups before `top` and the limit apply.
    pub total_groups: u64,
    /// The requested values over all rows that match the filter.
    pub result: Vec<TableValue>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// True if rows or groups were omitted, or if only a part of the file was read.
    pub truncated: bool,
    /// Names of the sheets of the file that have a table, in order; empty if it has no sheets.
    pub sheets: Vec<String>,
}
