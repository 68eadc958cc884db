//! Executes a table request: selects the table, filters rows, groups them and computes values.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use crate::error::{Error, Result};
use crate::model::{
    TableAggregate, TableColumn, TableFunction, TableGroup, TablePeriod, TableRequest, TableResponse, TableValue,
};
use crate::table::aggregate::{self, AggregateResult, Aggregation, SortValue, total_rows};
use crate::table::column::{Column, ColumnType};
use crate::table::column_names;
use crate::table::grid::Table;
use crate::table::row_filter::{MatchedRows, RowFilter};

/// Default maximum number of rows in a response.
const DEFAULT_ROWS: u32 = 20;
/// Maximum value of the fields `limit` and `top` of a request; a larger value is an error.
const MAX_LIMIT: u32 = 1_000;
/// Default maximum number of groups in a response.
const DEFAULT_GROUPS: usize = 100;
/// Maximum number of proving rows that are reported for each value of a group.
const MAX_GROUP_EVIDENCE: usize = 5;
/// Maximum number of aggregates in one request; more are an error.
const MAX_VALUES: usize = 20;

/// A group of rows: the cell or period that they share, and their indexes.
type RowGroup = (String, Vec<usize>);

/// A request with its table, and the columns that it names.
struct Query<'q> {
    table: &'q Table,
    request: &'q TableRequest,
    decimal: Option<char>,
    limit: usize,
    aggregates: Vec<(TableFunction, Option<Column>)>,
}

/// Answers a request about the tables of a document.
///
/// # Errors
/// The table, sheet or column does not exist; the filter is invalid; or an aggregate does not fit the type of its column.
pub fn run_request(tables: &[Table], request: &TableRequest) -> Result<TableResponse> {
    let (table, count) = select_table(tables, request)?;
    let headed;
    let table = match request.head_rows {
        Some(rows @ 0..=2) if rows != table.head_rows => {
            headed = table.with_heads(rows);
            &headed
        }
        None | Some(0..=2) => table,
        Some(_) => return Err(Error::invalid("`head_rows` is not between 0 and 2").field("head_rows")),
    };
    let query = Query::new(table, request)?;
    let matched = match request.filter.as_deref() {
        Some(filter) => RowFilter::parse(filter, table, query.decimal)?.match_rows(table),
        None => MatchedRows { rows: (0..table.len()).collect(), undefined: 0 },
    };
    let mut response = TableResponse {
        path: request.path.clone(),
        tables: count,
        table: table.number,
        name: table.name.clone(),
        head_rows: table.head_rows,
        columns: query.columns(),
        total_rows: table.len() as u64,
        matched_rows: matched.rows.len() as u64,
        truncated: !table.is_whole,
        sheets: sheet_names(tables),
        ..TableResponse::default()
    };
    response.warnings = query.warnings(&matched);
    match &request.group_by {
        Some(name) => query.group_rows(name, &matched.rows, &mut response)?,
        None if request.aggregates.is_empty() => query.list_rows(matched.rows, &mut response)?,
        None => query.aggregate_all(&matched.rows, &mut response)?,
    }
    Ok(response)
}

/// Returns the names of the sheets that have a table, in order.
fn sheet_names(tables: &[Table]) -> Vec<String> {
    let mut names: Vec<String> = tables.iter().filter(|it| it.is_sheet).map(|it| it.name.clone()).collect();
    names.dedup();
    names
}

/// Returns the requested table, and the number of tables in the document or on the requested sheet.
fn select_table<'t>(tables: &'t [Table], request: &TableRequest) -> Result<(&'t Table, u32)> {
    let fits = |it: &&Table| {
        request
            .sheet
            .as_ref()
            .is_none_or(|sheet| it.is_sheet && column_names::normalize(&it.name) == column_names::normalize(sheet))
    };
    let found: Vec<&Table> = tables.iter().filter(fits).collect();
    if let (Some(sheet), true) = (&request.sheet, found.is_empty()) {
        let sheets = sheet_names(tables);
        let hint = match sheets.is_empty() {
            true => "the file has no sheets with a table".to_string(),
            false => format!("its sheets are: {}", sheets.join(", ")),
        };
        return Err(Error::not_found(format!("`{}` has no table on a sheet `{sheet}`", request.path))
            .hint(hint)
            .field("sheet"));
    }
    if found.is_empty() {
        return Err(
            Error::not_found(format!("`{}` contains no table", request.path)).hint("`vic read` shows its content")
        );
    }
    let number = request.table.unwrap_or(1);
    let table = (number as usize).checked_sub(1).and_then(|it| found.get(it));
    let table = table.ok_or_else(|| {
        Error::not_found(format!("`{}` has no table {number}", request.path))
            .hint(format!("it has {} tables, counted from 1", found.len()))
            .field("table")
    })?;
    Ok((table, u32::try_from(found.len()).unwrap_or(u32::MAX)))
}

/// Returns the value of a field, or its default. Fails if the value is not between 1 and `MAX_LIMIT`.
fn checked_limit(field: &'static str, value: Option<u32>, default: u32) -> Result<usize> {
    match value.unwrap_or(default) {
        value @ 1..=MAX_LIMIT => Ok(value as usize),
        other => Err(Error::invalid(format!("`{field}` {other} is not between 1 and {MAX_LIMIT}")).field(field)),
    }
}

impl<'q> Query<'q> {
    fn new(table: &'q Table, request: &'q TableRequest) -> Result<Query<'q>> {
        let decimal = match request.decimal.as_deref() {
            None => None,
            Some(".") => Some('.'),
            Some(",") => Some(','),
            Some(other) => {
                let text = format!("`{}` is not a decimal separator", other.chars().take(20).collect::<String>());
                return Err(Error::invalid(text).hint("use . or ,").field("decimal"));
            }
        };
        if request.aggregates.len() > MAX_VALUES {
            return Err(Error::invalid(format!("a request has at most {MAX_VALUES} aggregates")).field("aggregates"));
        }
        let column = |it: &TableAggregate| {
            let found =
                it.column.as_ref().map(|name| column_names::resolve_column(table, name, "aggregates")).transpose()?;
            Ok((it.function, found.map(|it| Column::analyze(table, it, decimal))))
        };
        let aggregates = request.aggregates.iter().map(column).collect::<Result<_>>()?;
        if request.per.is_some() && request.group_by.is_none() {
            return Err(Error::invalid("`per` needs `group_by`: a column of dates").field("per"));
        }
        if request.by.is_some() && request.top.is_none() {
            return Err(Error::invalid("`by` needs `top`: the maximum number of rows or groups").field("by"));
        }
        request.top.map(|it| checked_limit("top", Some(it), 1)).transpose()?;
        Ok(Query { table, request, decimal, limit: checked_limit("limit", request.limit, DEFAULT_ROWS)?, aggregates })
    }

    fn column(&self, name: &str, field: &'static str) -> Result<Column> {
        Ok(Column::analyze(self.table, column_names::resolve_column(self.table, name, field)?, self.decimal))
    }

    fn columns(&self) -> Vec<TableColumn> {
        let kind = |it: usize| Column::sample(self.table, it, self.decimal).kind.name().to_string();
        (0..self.table.width()).map(|it| TableColumn { name: self.table.heads[it].clone(), kind: kind(it) }).collect()
    }

    fn warnings(&self, matched: &MatchedRows) -> Vec<String> {
        let mut warnings = Vec::new();
        let ragged = self.table.ragged();
        if ragged > 0 {
            warnings.push(format!("{ragged} rows have fewer or more cells than the header"));
        }
        if self.table.head_rows == 0 {
            warnings.push("no header row was detected, so the columns are named by letters".into());
        }
        if matched.undefined > 0 {
            warnings.push(format!(
                "{} rows are excluded: a cell that the filter compares is empty or not of its column's type",
                matched.undefined
            ));
        }
        for (_, column) in &self.aggregates {
            if let Some(column) = column.as_ref().filter(|it| it.is_partly_bare)
                && let Some(unit) = &column.shown_unit
            {
                warnings.push(format!(
                    "numbers of `{}` without a unit are taken as {unit}",
                    self.table.heads[column.index]
                ));
            }
        }
        if !self.table.is_whole {
            warnings.push("the text of the file was cut at a limit: later rows are not counted".into());
        }
        warnings
    }

    /// Lists rows in the order of the table, or, if `top` is set, the rows with the largest values in the column `by`.
    fn list_rows(&self, rows: Vec<usize>, response: &mut TableResponse) -> Result<()> {
        let Some(top) = self.request.top else {
            let rows = rows.get(self.request.offset as usize..).unwrap_or_default();
            response.truncated |= rows.len() > self.limit;
            response.rows = rows.iter().take(self.limit).map(|it| self.table.row(*it)).collect();
            return Ok(());
        };
        let by = self.request.by.as_deref().ok_or_else(|| Error::invalid("`top` needs `by`: a column").field("by"))?;
        let column = self.column(by, "by")?;
        if !matches!(column.kind, ColumnType::Number | ColumnType::Date) {
            let text = format!(
                "cannot sort by `{}`: most of its cells are neither numbers nor dates",
                self.table.heads[column.index]
            );
            return Err(Error::invalid(text).field("by"));
        }
        let totals = total_rows(self.table, &rows);
        let mut left = 0;
        let mut ordered: Vec<(SortValue, usize)> = Vec::new();
        for row in rows.into_iter().filter(|it| !totals.contains(it)) {
            match aggregate::sort_value(&column, self.table.cell(row, column.index)) {
                Ok(order) => ordered.push((order, row)),
                Err(_) => left += 1,
            }
        }
        ordered.sort_by(|one, other| self.compare(&one.0, &other.0).then(one.1.cmp(&other.1)));
        if left > 0 {
            let head = &self.table.heads[column.index];
            response.warnings.push(format!("{left} rows have no comparable value in `{head}` and are left out"));
        }
        warn_of_totals(totals.len(), &mut response.warnings);
        response.truncated |= ordered.len() > top as usize;
        response.rows = ordered.iter().take(top as usize).map(|it| self.table.row(it.1)).collect();
        Ok(())
    }

    /// Compares values for the order of the response: largest first unless `ascending` is set.
    fn compare(&self, one: &SortValue, other: &SortValue) -> Ordering {
        if self.request.ascending { one.cmp(other) } else { other.cmp(one) }
    }

    /// Computes the aggregates over all given rows, and lists the rows that prove them.
    fn aggregate_all(&self, rows: &[usize], response: &mut TableResponse) -> Result<()> {
        let totals = total_rows(self.table, rows);
        let task = Aggregation { table: self.table, totals: &totals, max_evidence: self.limit };
        let mut proof: Vec<usize> = Vec::new();
        for made in self.compute_values(&task, rows)? {
            proof.extend(made.rows);
            response.truncated |= made.value.rows as usize > made.value.evidence.len() && !is_extreme(&made.value);
            response.result.push(made.value);
        }
        proof.sort_unstable();
        proof.dedup();
        response.rows = proof.iter().take(self.limit).map(|it| self.table.row(*it)).collect();
        warn_of_totals(totals.len(), &mut response.warnings);
        warn_of_left_out(&response.result, &mut response.warnings);
        Ok(())
    }

    fn compute_values(&self, task: &Aggregation<'_>, rows: &[usize]) -> Result<Vec<AggregateResult>> {
        self.aggregates.iter().map(|(function, column)| task.aggregate(*function, column.as_ref(), rows)).collect()
    }

    /// Groups rows by the cells of a column, and computes the aggregates of each group.
    fn group_rows(&self, name: &str, rows: &[usize], response: &mut TableResponse) -> Result<()> {
        let column = self.column(name, "group_by")?;
        if self.request.per.is_some() && column.kind != ColumnType::Date {
            let text = format!("most cells of `{}` are not dates, which `per` needs", self.table.heads[column.index]);
            return Err(Error::invalid(text).field("per"));
        }
        let totals = total_rows(self.table, rows);
        let counted: Vec<usize> = rows.iter().copied().filter(|it| !totals.contains(it)).collect();
        let (groups, keyless) = rows_by_key(self.table, &column, self.request.per, &counted);
        if keyless > 0 {
            let head = &self.table.heads[column.index];
            response.warnings.push(format!("{keyless} rows have no date in `{head}` and belong to no group"));
        }
        warn_of_totals(totals.len(), &mut response.warnings);
        let none = HashSet::new();
        let task = Aggregation { table: self.table, totals: &none, max_evidence: MAX_GROUP_EVIDENCE };
        let shown = self.request.top.map_or(DEFAULT_GROUPS.max(self.limit), |it| it as usize);
        response.total_groups = groups.len() as u64;
        response.truncated |= groups.len() > shown;
        let groups = self.sort_groups(groups)?;
        if let (Some(_), Some((_, best))) = (self.request.top, groups.first()) {
            response.rows = best.iter().take(self.limit).map(|it| self.table.row(*it)).collect();
        }
        for (key, rows) in groups.into_iter().take(shown) {
            let result = self.compute_values(&task, &rows)?.into_iter().map(|it| it.value).collect();
            response.groups.push(TableGroup { key, rows: rows.len() as u64, result });
        }
        if !self.aggregates.is_empty() {
            let task = Aggregation { table: self.table, totals: &totals, max_evidence: self.limit };
            response.result = self.compute_values(&task, rows)?.into_iter().map(|it| it.value).collect();
            warn_of_left_out(&response.result, &mut response.warnings);
        }
        Ok(())
    }

    /// Sorts groups by the aggregate that `by` names, if `top` is set; groups without a value come last.
    fn sort_groups(&self, groups: Vec<RowGroup>) -> Result<Vec<RowGroup>> {
        if self.request.top.is_none() {
            return Ok(groups);
        }
        let (function, column) = &self.aggregates[self.sort_value_index()?];
        let none = HashSet::new();
        let task = Aggregation { table: self.table, totals: &none, max_evidence: 0 };
        let made = |it: RowGroup| Ok((task.aggregate(*function, column.as_ref(), &it.1)?.sort_value, it));
        let mut made: Vec<(Option<SortValue>, RowGroup)> = groups.into_iter().map(made).collect::<Result<_>>()?;
        made.sort_by(|one, other| match (&one.0, &other.0) {
            (Some(one), Some(other)) => self.compare(one, other),
            (one, other) => other.is_some().cmp(&one.is_some()),
        });
        Ok(made.into_iter().map(|it| it.1).collect())
    }

    /// Returns the index of the aggregate that groups are sorted by.
    fn sort_value_index(&self) -> Result<usize> {
        if self.request.top.is_some() && self.aggregates.is_empty() {
            return Err(Error::invalid("`top` needs an aggregate to sort groups by, e.g. a sum").field("aggregates"));
        }
        let Some(name) = &self.request.by else { return Ok(0) };
        let column = column_names::resolve_column(self.table, name, "by")?;
        let found = self.aggregates.iter().position(|it| it.1.as_ref().is_some_and(|it| it.index == column));
        let head = &self.table.heads[column];
        found.ok_or_else(|| {
            Error::invalid(format!("no aggregate of `{head}` to sort by")).hint("add e.g. its sum").field("by")
        })
    }
}

fn is_extreme(value: &TableValue) -> bool {
    value.function == TableFunction::Min.name() || value.function == TableFunction::Max.name()
}

/// Groups rows by a cell, or by the period of its date. Returns the groups in the order of the table, and the number of
/// rows without a period.
fn rows_by_key(table: &Table, column: &Column, per: Option<TablePeriod>, rows: &[usize]) -> (Vec<RowGroup>, usize) {
    let mut groups: Vec<RowGroup> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut keyless = 0;
    for row in rows.iter().copied() {
        let text = table.cell(row, column.index);
        let key = match per {
            None => Some(text.to_string()),
            Some(per) => column.parse_date(text).ok().and_then(|it| it.period_name(per)),
        };
        let Some(key) = key else {
            keyless += 1;
            continue;
        };
        let at = *known.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(row);
    }
    (groups, keyless)
}

fn warn_of_totals(count: usize, warnings: &mut Vec<String>) {
    match count {
        0 => {}
        1 => warnings.push("1 row of totals is left out: it would count other rows twice".into()),
        _ => warnings.push(format!("{count} rows of totals are left out: they would count other rows twice")),
    }
}

/// Adds a warning for excluded cells of each value, except empty cells and totals.
fn warn_of_left_out(values: &[TableValue], warnings: &mut Vec<String>) {
    for value in values {
        for left in &value.left_out {
            let why = match left.reason.as_str() {
                "no number" => "are not numbers",
                "no date" => "are not dates",
                "ambiguous" => {
                    "are ambiguous (the other cells do not show which sign is the decimal separator: specify it)"
                }
                "unit" => "have a different unit than the column",
                "too long" => "have too many digits",
                _ => continue,
            };
            let head = value.column.as_deref().unwrap_or_default();
            let named: Vec<String> = left.examples.iter().map(|it| format!("`{}` ({})", it.text, it.place)).collect();
            let more = if left.cells as usize > named.len() { ", …" } else { "" };
            let text = format!("{} cells of `{head}` {why} and are left out: {}{more}", left.cells, named.join(", "));
            if !warnings.contains(&text) {
                warnings.push(text);
            }
        }
    }
}
