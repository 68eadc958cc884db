//! Prints the report of a benchmark: as a table, as JSON, as an HTML page, and compared with an earlier report.

use std::fmt::Write;
use std::path::PathBuf;

use crate::bench::compare::judge_ratio;
use crate::bench::figures::{CPU_PERCENT, Direction};
use crate::bench::{EarlierReport, Report, html};
use crate::config::Config;
use crate::error::{IoContext, Result};
use vic_cli::output::{Format, FormatArgs, Printer, print_note};
use vic_cli::text::escape_controls;

/// Output options that all benchmarks have.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputArgs {
    #[command(flatten)]
    pub(crate) output: FormatArgs,
    /// Also write an HTML page with plots to this file; it can be opened offline
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Show ratios to the report of an earlier run, which was written with `--format json`
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
}

impl OutputArgs {
    /// Reads the earlier report for `--compare`. Call this before measuring, so that a wrong file name does not cost
    /// minutes.
    ///
    /// # Errors
    /// The file does not exist, or is not a benchmark report.
    pub(crate) fn earlier(&self) -> Result<Option<EarlierReport>> {
        self.compare.as_deref().map(EarlierReport::read).transpose()
    }
}

/// Prints the report; fails if nothing was measured.
///
/// # Errors
/// The HTML page cannot be written, the earlier report is of another benchmark, or all rows failed.
pub(crate) fn print_report(
    mut report: Report,
    args: &OutputArgs,
    earlier: Option<&EarlierReport>,
    config: &Config,
    printer: &mut Printer,
) -> Result<()> {
    if let Some(error) = report.failure() {
        return Err(error.clone());
    }
    if let Some(earlier) = earlier {
        earlier.compare(&mut report)?;
    }
    report.warnings.extend(slowdown_warning(config));
    if let Some(path) = &args.html {
        std::fs::write(path, html::render_page(&report)).io_context("write", path)?;
    }
    match args.output.format {
        Format::Json => printer.json(&report.to_json())?,
        Format::Human => printer.raw(&table(&report))?,
    }
    // Prints warnings to standard error, because programs read the result from standard output.
    report.warnings.iter().for_each(|it| print_note(&format!("warning: {it}")));
    for row in &report.rows {
        if let Some(error) = &row.error {
            print_note(&format!("warning: `{}` was not measured: {error}", row.label));
            error.hint.iter().for_each(|hint| print_note(&format!("hint: {hint}")));
        }
    }
    args.html.iter().for_each(|path| print_note(&format!("the HTML page is in `{}`", path.display())));
    Ok(())
}

/// Returns a warning if the settings slow down what is measured.
fn slowdown_warning(config: &Config) -> Option<String> {
    let percent = config.background.cpu_percent;
    (percent < 100)
        .then(|| format!("VIC_CPU_PERCENT is {percent}: a daemon indexes with at most this share of the CPU"))
}

/// Maximum rows of a report that is printed with one column per row; a longer report would be wider than a page.
const MAX_ROWS_AS_COLUMNS: usize = 3;

fn table(report: &Report) -> String {
    let mut columns = report.columns();
    if report.rows.len() > MAX_ROWS_AS_COLUMNS {
        // Drops figures that only describe the measurement, because a line has no space for them.
        columns.retain(|it| it.better != Direction::Neither || it.key == CPU_PERCENT.key);
    }
    let mut lines: Vec<Vec<String>> =
        vec![std::iter::once(String::new()).chain(columns.iter().map(|it| it.title.to_string())).collect()];
    for row in &report.rows {
        let cells = columns.iter().map(|figure| match (&row.error, row.get(**figure)) {
            (Some(_), _) => "failed".to_string(),
            (None, value) => value.map(|it| figure.show(it)).unwrap_or_default(),
        });
        lines.push(std::iter::once(escape_controls(&row.label).into_owned()).chain(cells).collect());
    }
    let mut text = aligned(&lines);
    let machine = &report.machine;
    let _ = writeln!(
        text,
        "\n{}, {} cores, {} MiB, {}{}",
        escape_controls(&machine.cpu),
        machine.cores,
        machine.memory_mib,
        machine.os,
        machine.load.map(|it| format!(", load before {it:.1}")).unwrap_or_default(),
    );
    if let Some(peak) = report.main_row().and_then(|it| it.settings.get("peak")) {
        let int8 =
            peak["int8_gops"].as_f64().map_or("no int8 instructions".to_string(), |it| format!("int8 {it:.0} Gop/s"));
        let _ = writeln!(
            text,
            "matrix-multiply peak, measured in this run: fp32 {:.0} GFLOP/s, {int8}",
            peak["fp32_gflops"].as_f64().unwrap_or(0.0)
        );
    }
    text.push_str(&comparison(report));
    text
}

/// Aligns the columns of a table: the first to the left, the others to the right.
fn aligned(lines: &[Vec<String>]) -> String {
    let lines = if lines.len() <= MAX_ROWS_AS_COLUMNS + 1 { transposed(lines) } else { lines.to_vec() };
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|it| it[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cell = |(place, cell): (usize, &String)| {
            let width = widths[place];
            if place == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        };
        let cells: Vec<String> = line.iter().enumerate().map(cell).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn transposed(lines: &[Vec<String>]) -> Vec<Vec<String>> {
    let columns = lines.first().map_or(0, Vec::len);
    (0..columns).map(|column| lines.iter().map(|line| line[column].clone()).collect()).collect()
}

fn comparison(report: &Report) -> String {
    let Some(compared) = &report.compared else { return String::new() };
    let mut text =
        format!("\nratio of this run to `{}`:\n", escape_controls(compared["with"].as_str().unwrap_or_default()));
    for row in compared["rows"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "{}", escape_controls(row["label"].as_str().unwrap_or_default()));
        for (key, ratio) in row["ratios"].as_object().into_iter().flatten() {
            let ratio = ratio.as_f64().unwrap_or(0.0);
            let _ = writeln!(text, "  {key:<20} {ratio:>7.2}  {}", judge_ratio(key, ratio));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Row;
    use crate::bench::figures::{P50_MS, TOKENS_PER_SECOND};

    fn report(rows: &[(&str, f64)]) -> Report {
        let mut report = Report::new("embed", Some(TOKENS_PER_SECOND));
        for (label, speed) in rows {
            let mut row = Row::new(*label);
            row.set(TOKENS_PER_SECOND, *speed);
            row.set(P50_MS, 2.5);
            report.rows.push(row);
        }
        report
    }

    #[test]
    fn one_row_prints_vertically_and_many_horizontally() {
        let one = table(&report(&[("model int8", 12_345.0)]));
        assert!(one.starts_with("          model int8\ntokens/s      12,345\np50 ms          2.50\n"), "{one}");
        let many = table(&report(&[("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0)]));
        assert!(many.starts_with("   tokens/s  p50 ms\na         1    2.50\n"), "{many}");
    }

    #[test]
    fn labels_cannot_inject_terminal_codes() {
        let shown = table(&report(&[("\u{1b}[2J", 1.0)]));
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }
}
