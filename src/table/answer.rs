//! Answers a question in words, such as `which month cost most?`, from tables, only where the answer is certain.

use bigdecimal::BigDecimal;

use crate::model::{TableFunction, TablePeriod, TableRequest, TableResponse, TableRow, TableValue};
use crate::table::column::Column;
use crate::table::grid::Table;
use crate::table::query;
use crate::table::question::{Intent, Label, MONTHS, ParsedQuestion, parse_question};

/// Maximum number of proving rows that an answer shows.
const MAX_PROVING_ROWS: u32 = 20;

/// The answer of a table to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct TableAnswer {
    /// One sentence: `March 2025: 412.50 EUR (sum of amount over 7 rows)`.
    pub text: String,
    /// The value alone, as a decimal number without unit.
    pub value: String,
    /// Unit or currency, if the cells or the column header name one.
    pub unit: Option<String>,
    /// Index into the tables passed to `answer_question`.
    pub table: usize,
    /// The rows that prove the value, with their locations; at most 20.
    pub rows: Vec<TableRow>,
    /// Number of rows that prove the value, including those that `rows` leaves out.
    pub total_rows: u64,
    /// Confidence, 0 to 1: 0.9 if every word names a column or a value, less if a rule chose the column.
    pub confidence: f32,
    /// The table request that computes the same value.
    pub request: TableRequest,
}

/// Answers a question from tables. Returns `None` if no table answers with certainty, or if two answers differ.
///
/// The tables come from [`crate::table::tables_of_document`]. The caller may set the `name` of a table to the path of its
/// file, so that a year in the path counts as the year of the rows. The question is parsed before any cell is read, so
/// questions that are not about tables cost almost nothing. Tables of more than half a million cells are skipped.
pub fn answer_question(question: &str, tables: &[Table]) -> Option<TableAnswer> {
    let mut found: Option<TableAnswer> = None;
    for (index, table) in tables.iter().enumerate() {
        let Some(own) = answer_from_table(question, table, index) else { continue };
        match &found {
            Some(other) if other.text != own.text => return None,
            Some(_) => {}
            None => found = Some(own),
        }
    }
    found
}

fn answer_from_table(question: &str, table: &Table, index: usize) -> Option<TableAnswer> {
    let asked = parse_question(question, table)?;
    if asked.of_any_year.is_some_and(|it| !is_of_one_year(table, it)) {
        return None;
    }
    let request = TableRequest { limit: Some(MAX_PROVING_ROWS), ..asked.request.clone() };
    let response = query::run_request(std::slice::from_ref(table), &without_selection(&request)).ok()?;
    let (text, value, rows, total_rows) = match asked.label {
        Label::Row => single_value(&asked, response)?,
        _ => best_group(&asked, table, response)?,
    };
    let is_doubtful = |it: &str| matches!(it, "ambiguous" | "unit" | "too long" | "no date");
    if value.left_out.iter().any(|it| is_doubtful(&it.reason)) {
        return None;
    }
    let unread: u64 = value.left_out.iter().filter(|it| it.reason == "no number").map(|it| it.cells).sum();
    let (text, less) = match unread {
        0 => (text, 0.0),
        1 => (format!("{text}; 1 cell is not a number"), 0.1),
        _ => (format!("{text}; {unread} cells are not numbers"), 0.1),
    };
    Some(TableAnswer {
        text,
        unit: value.unit,
        value: value.value?,
        table: index,
        rows,
        total_rows,
        confidence: asked.confidence - less,
        request,
    })
}

/// Returns the request without the choice of a table, to run it on one given table.
fn without_selection(request: &TableRequest) -> TableRequest {
    TableRequest { table: None, sheet: None, ..request.clone() }
}

fn is_of_one_year(table: &Table, column: usize) -> bool {
    let column = Column::analyze(table, column, None);
    let mut years = (0..table.len()).filter_map(|it| column.parse_date(table.cell(it, column.index)).ok()?.year);
    let first = years.next();
    years.all(|it| Some(it) == first)
}

/// Whether every non-empty cell of a date column is precise enough for this kind of period.
fn all_dated(table: &Table, column: usize, period: TablePeriod) -> bool {
    let column = Column::analyze(table, column, None);
    let is_dated = |row: usize| match table.cell(row, column.index) {
        "" => true,
        text => column.parse_date(text).ok().and_then(|it| it.period_name(period)).is_some(),
    };
    (0..table.len()).all(is_dated)
}

type AnswerParts = (String, TableValue, Vec<TableRow>, u64);

/// Answers with one value over all rows that match the filter.
fn single_value(asked: &ParsedQuestion, response: TableResponse) -> Option<AnswerParts> {
    let value = response.result.first()?.clone();
    if value.rows == 0 {
        return None;
    }
    let column = value.column.clone().unwrap_or_default();
    let about = if asked.subject.is_empty() { String::new() } else { format!("{}: ", asked.subject.join(", ")) };
    let amount = format_amount(&value)?;
    let text = match asked.intent {
        Intent::Most | Intent::Least => {
            let row = response.rows.first()?;
            let more = response.rows.len() - 1;
            let also = if more > 0 { format!(", and {more} more") } else { String::new() };
            format!(
                "{}: {amount} ({} of {column}, {}{also})",
                row_label(row, asked),
                extreme_word(asked.intent),
                row.place
            )
        }
        Intent::Count if asked.measure.is_none() => {
            format!("{about}{amount} {}", if value.rows == 1 { "row" } else { "rows" })
        }
        Intent::Mean => format!(
            "{about}{amount} (mean of {column} over {}{})",
            format_rows(value.rows),
            if value.exact { "" } else { ", rounded" }
        ),
        Intent::Sum | Intent::Count => format!("{about}{amount} (sum of {column} over {})", format_rows(value.rows)),
    };
    let total =
        if matches!(asked.intent, Intent::Most | Intent::Least) { response.rows.len() as u64 } else { value.rows };
    Some((text, value, response.rows.clone(), total))
}

/// Answers with the group that has the largest or smallest value, or with both groups if two are equal.
fn best_group(asked: &ParsedQuestion, table: &Table, response: TableResponse) -> Option<AnswerParts> {
    let first = response.groups.first()?;
    let value = first.result.first()?.clone();
    let amount = format_amount(&value)?;
    let ties: Vec<&str> = response
        .groups
        .iter()
        .filter(|it| it.result.first().is_some_and(|it| is_equal_value(it, &value)))
        .map(|it| it.key.as_str())
        .collect();
    // There is no certain answer if a row has no period, or a cell was excluded: either could change the best group.
    let is_open = match asked.label {
        Label::Period(column, period) => !all_dated(table, column, period),
        _ => false,
    };
    let is_counted =
        |it: &TableValue| it.left_out.iter().all(|it| matches!(it.reason.as_str(), "empty" | "total" | "no number"));
    if ties.len() > 2 || is_open || !response.result.iter().all(is_counted) {
        return None;
    }
    let keys: Vec<String> = ties.iter().map(|it| format_key(it, asked)).collect();
    let each = if keys.len() > 1 { " each" } else { "" };
    let column = value.column.clone().unwrap_or_default();
    let about = if asked.subject.is_empty() { String::new() } else { format!(" in {}", asked.subject.join(", ")) };
    let how = if value.function == TableFunction::Sum.name() { "sum" } else { "value" };
    let text =
        format!("{}: {amount}{each} ({how} of {column}{about} over {})", keys.join(" and "), format_rows(value.rows));
    Some((text, value.clone(), response.rows.clone(), value.rows))
}

/// Whether two values are the same number, so that `1.5` equals `1.50`.
fn is_equal_value(one: &TableValue, other: &TableValue) -> bool {
    let number = |it: &TableValue| it.value.as_deref()?.parse::<BigDecimal>().ok();
    number(one) == number(other)
}

fn format_amount(value: &TableValue) -> Option<String> {
    let number = value.value.clone()?;
    Some(match value.unit.as_deref() {
        Some(unit @ ("%" | "‰")) => format!("{number}{unit}"),
        Some(unit) => format!("{number} {unit}"),
        None => number,
    })
}

fn format_rows(count: u64) -> String {
    if count == 1 { "1 row".into() } else { format!("{count} rows") }
}

fn extreme_word(intent: Intent) -> &'static str {
    if intent == Intent::Least { "least" } else { "largest" }
}

/// Names a row in the answer by its first four cells with text.
fn row_label(row: &TableRow, asked: &ParsedQuestion) -> String {
    let is_told = |(at, cell): &(usize, &String)| {
        Some(*at) != asked.measure && !cell.is_empty() && !crate::table::number::is_number(cell)
    };
    let cells: Vec<&str> = row.cells.iter().enumerate().filter(is_told).map(|it| it.1.as_str()).take(4).collect();
    if cells.is_empty() { row.place.clone() } else { cells.join(", ") }
}

/// Formats the key of a group for the answer; a month `2025-03` becomes `March 2025`, any other key stays the same.
fn format_key(key: &str, asked: &ParsedQuestion) -> String {
    let Label::Period(_, TablePeriod::Month) = asked.label else { return key.to_string() };
    let Some((year, month)) = key.rsplit_once('-') else { return key.to_string() };
    let name = month.parse::<usize>().ok().and_then(|it| MONTHS.get(it.checked_sub(1)?)).copied().unwrap_or(month);
    if year.trim_matches('-').is_empty() { name.to_string() } else { format!("{name} {year}") }
}
