//! `vic table`: filters and groups the rows of a table, and computes exact values with the rows that prove them.

use std::path::PathBuf;

use crate::output::{Format, FormatArgs, Printer, print_note};
use crate::{text, value_parsers};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::{TableAggregate, TableFunction, TablePeriod, TableRequest, TableResponse, TableValue};

/// Maximum number of characters of a printed cell; the remaining ones are cut off.
const MAX_CELL_CHARS: usize = 40;

/// Arguments of `vic table`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Path of the file; `archive.zip!/member` for a file in an archive
    path: PathBuf,
    /// Use only tables of the sheet with this name
    #[arg(long)]
    sheet: Option<String>,
    /// Number of the table in the file, starting at 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    table: Option<u32>,
    /// Show only rows that match, e.g. `amount>100 AND (category=Travel OR NOT paid)`
    #[arg(long = "where", value_name = "EXPR")]
    filter: Option<String>,
    /// Group rows by this column
    #[arg(long, value_name = "COLUMN")]
    group_by: Option<String>,
    /// Group the dates of the column by year, quarter, month or day
    #[arg(long, value_name = "PERIOD", requires = "group_by")]
    per: Option<TablePeriod>,
    #[command(flatten)]
    asked: AggregateArgs,
    /// Show only the N rows or groups with the largest values
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    top: Option<u32>,
    /// The column that --top compares
    #[arg(long, value_name = "COLUMN", requires = "top")]
    by: Option<String>,
    /// With --top: show the rows or groups with the smallest values
    #[arg(long, requires = "top")]
    ascending: bool,
    /// Maximum number of rows to show
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Number of rows to skip before the rows that are shown
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["top", "group_by"])]
    offset: u32,
    /// Decimal separator of ambiguous numbers such as `1,234`
    #[arg(long, value_parser = [".", ","])]
    decimal: Option<String>,
    /// Number of heading rows [default: detected from the cells]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=2))]
    head_rows: Option<u32>,
    #[command(flatten)]
    output: FormatArgs,
}

/// Options for the values to compute.
#[derive(Debug, clap::Args)]
struct AggregateArgs {
    /// Exact sum of a column
    #[arg(long, value_name = "COLUMN")]
    sum: Vec<String>,
    /// Mean of a column
    #[arg(long, value_name = "COLUMN")]
    avg: Vec<String>,
    /// Minimum of a column of numbers or dates
    #[arg(long, value_name = "COLUMN")]
    min: Vec<String>,
    /// Maximum of a column of numbers or dates
    #[arg(long, value_name = "COLUMN")]
    max: Vec<String>,
    /// Number of non-empty cells of a column; without a column, number of rows
    #[arg(long, value_name = "COLUMN", num_args = 0..=1, default_missing_value = "")]
    count: Vec<String>,
}

impl AggregateArgs {
    fn aggregates(self) -> Vec<TableAggregate> {
        let AggregateArgs { sum, avg, min, max, count } = self;
        let all = [
            (TableFunction::Sum, sum),
            (TableFunction::Avg, avg),
            (TableFunction::Min, min),
            (TableFunction::Max, max),
            (TableFunction::Count, count),
        ];
        let one =
            |function, column: String| TableAggregate { function, column: Some(column).filter(|it| !it.is_empty()) };
        all.into_iter().flat_map(|(function, columns)| columns.into_iter().map(move |it| one(function, it))).collect()
    }
}

/// Sends the query to the daemon and prints the result.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let request = TableRequest {
        path: value_parsers::absolute_path(&args.path)?,
        sheet: args.sheet,
        table: args.table,
        filter: args.filter,
        group_by: args.group_by,
        per: args.per,
        aggregates: args.asked.aggregates(),
        top: args.top,
        by: args.by,
        ascending: args.ascending,
        limit: Some(args.limit),
        decimal: args.decimal,
        head_rows: args.head_rows,
        offset: args.offset,
    };
    let response = Client::connect_or_start(config).await?.table(request).await?;
    match args.output.format {
        Format::Json => printer.json(&response),
        Format::Human => {
            format_response(&response).iter().try_for_each(|it| printer.line(it))?;
            printer.flush()?;
            response_notes(&response).iter().for_each(|it| print_note(it));
            Ok(())
        }
    }
}

/// Formats values, groups and rows as text for people, one line each.
fn format_response(response: &TableResponse) -> Vec<String> {
    let mut lines: Vec<String> = response.result.iter().map(value_line).collect();
    if !response.groups.is_empty() {
        let mut rows = vec![["group", "rows"].map(String::from).to_vec()];
        rows[0].extend(response.groups[0].result.iter().map(value_title));
        for group in &response.groups {
            let mut row = vec![group.key.clone(), group.rows.to_string()];
            row.extend(group.result.iter().map(format_amount));
            rows.push(row);
        }
        push_table(&mut lines, &rows);
    }
    if !response.rows.is_empty() {
        let mut rows = vec![vec!["place".to_string()]];
        rows[0].extend(response.columns.iter().map(|it| it.name.clone()));
        for row in &response.rows {
            rows.push([vec![row.place.clone()], row.cells.clone()].concat());
        }
        push_table(&mut lines, &rows);
    }
    lines
}

fn push_table(lines: &mut Vec<String>, rows: &[Vec<String>]) {
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.extend(align_columns(rows));
}

/// Aligns the cells in columns. Control characters are escaped, and long cells are cut.
fn align_columns(rows: &[Vec<String>]) -> Vec<String> {
    let cell = |it: &String| {
        let safe = text::escape_controls(it).into_owned();
        match safe.char_indices().nth(MAX_CELL_CHARS) {
            Some((end, _)) => format!("{}…", &safe[..end]),
            None => safe,
        }
    };
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter().filter_map(|it| it.get(column)).map(|it| it.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(it, width)| format!("{it:<width$}")).collect();
        cells.join("  ").trim_end().to_string()
    };
    rows.iter().map(line).collect()
}

/// Returns the title of a value, e.g. `sum of amount`.
fn value_title(value: &TableValue) -> String {
    match &value.column {
        Some(column) => format!("{} of {column}", value.function),
        None => value.function.clone(),
    }
}

fn format_amount(value: &TableValue) -> String {
    let number = value.value.as_deref().unwrap_or("none");
    let about = if value.exact { "" } else { "≈ " };
    match &value.unit {
        Some(unit) => format!("{about}{number} {unit}"),
        None => format!("{about}{number}"),
    }
}

fn value_line(value: &TableValue) -> String {
    let mut left: Vec<String> = value.left_out.iter().map(|it| format!("{} {}", it.cells, it.reason)).collect();
    if !left.is_empty() {
        left[0] = format!("; left out: {}", left[0]);
    }
    let line = format!(
        "{}: {} ({}{})",
        value_title(value),
        format_amount(value),
        text::plural(value.rows, "row"),
        left.join(", ")
    );
    text::escape_controls(&line).into_owned()
}

fn response_notes(response: &TableResponse) -> Vec<String> {
    let mut notes: Vec<String> = response.warnings.iter().map(|it| format!("warning: {it}")).collect();
    let name = if response.name.is_empty() { String::new() } else { format!(" ({})", response.name) };
    let heads = match response.head_rows {
        0 => "no head".to_string(),
        rows => text::plural(rows.into(), "head row"),
    };
    let cut = if response.truncated { "; not all is shown, --limit shows more" } else { "" };
    notes.push(format!(
        "table {} of {}{name}, {heads}: {} of {} match{cut}",
        response.table,
        response.tables,
        text::group_digits(response.matched_rows),
        text::plural(response.total_rows, "row"),
    ));
    notes
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use vic_protocol::model::samples;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn aggregate_options_take_columns() {
        let line = Line::try_parse_from(["vic", "a.csv", "--sum", "x", "--sum", "y", "--count", "--max", "z"]).unwrap();
        let asked: Vec<String> = line
            .args
            .asked
            .aggregates()
            .iter()
            .map(|it| format!("{} {}", it.function.name(), it.column.as_deref().unwrap_or("*")))
            .collect();
        assert_eq!(asked, ["sum x", "sum y", "max z", "count *"]);
        for wrong in [vec!["--by", "x"], vec!["--per", "month"], vec!["--top", "0"], vec!["--decimal", ";"]] {
            assert!(Line::try_parse_from(["vic", "a.csv"].into_iter().chain(wrong.clone())).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn table_is_aligned_and_escaped() {
        let response = samples::table("/w/a.csv");
        assert_eq!(
            format_response(&response),
            [
                "sum of amount: 0.3 EUR (2 rows; left out: 1 no number)",
                "",
                "group  rows  sum of amount",
                "paper  2     0.3 EUR",
                "",
                "place   what            amount",
                "line 2  pa\\u{1b}[2Jper  0.1",
            ]
        );
        let told = response_notes(&response);
        assert_eq!(told, ["warning: 1 cell is no number", "table 1 of 2 (Q1), 1 head row: 2 of 3 rows match"]);
    }
}
