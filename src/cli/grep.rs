//! `vic grep`: lines of the indexed text, as ripgrep prints them.

use std::fmt::Write;
use std::path::PathBuf;

use crate::cli::filter::FilterArgs;
use crate::cli::output::{Format, FormatArgs, Printer, note};
use crate::cli::{text, values};
use crate::client::Client;
use crate::config::Config;
use crate::error::Result;
use crate::model::{GrepMatch, GrepRequest, GrepResponse};

/// Arguments of `vic grep`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Regular expression, matched line by line
    pattern: String,
    /// Fold case
    #[arg(short = 'i', long)]
    ignore_case: bool,
    /// The pattern is plain text
    #[arg(short = 'F', long)]
    fixed_strings: bool,
    /// Only below this folder
    #[arg(long)]
    root: Option<PathBuf>,
    /// Most lines
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    output: FormatArgs,
}

/// Asks, and prints.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let request = GrepRequest {
        pattern: args.pattern,
        ignore_case: args.ignore_case,
        fixed: args.fixed_strings,
        warehouse_root: args.root.as_deref().map(values::absolute).transpose()?,
        limit: Some(args.limit),
        filters: args.filter.l0(),
    };
    let response = Client::connect_or_start(config).await?.grep(request).await?;
    match args.output.format {
        Format::Json => printer.json(&response),
        Format::Human => {
            response.matches.iter().try_for_each(|hit| printer.line(&line(hit, printer.styled)))?;
            printer.flush()?;
            notes(&response).iter().for_each(|it| note(it));
            Ok(())
        }
    }
}

/// `path:line: text`, with the page or the sheet where there are no lines.
fn line(hit: &GrepMatch, styled: bool) -> String {
    let mut out = text::visible(&hit.path).into_owned();
    let place = match hit.anchor.line_start {
        Some(line) if hit.anchor.page.is_none() => line.to_string(),
        Some(_) | None => hit.anchor.place(),
    };
    if !place.is_empty() {
        let _ = write!(out, ":{}", text::visible(&place));
    }
    let (start, end) = (hit.start as usize, hit.end as usize);
    match (styled, hit.line.get(..start), hit.line.get(start..end), hit.line.get(end..)) {
        (true, Some(before), Some(found), Some(after)) => {
            let [before, found, after] = [before, found, after].map(text::visible_lines);
            let _ = write!(out, ": {before}\u{1b}[1m{found}\u{1b}[0m{after}");
        }
        _ => {
            let _ = write!(out, ": {}", text::visible_lines(&hit.line));
        }
    }
    out
}

fn notes(response: &GrepResponse) -> Vec<String> {
    let mut notes: Vec<String> = response.warnings.iter().map(|it| format!("warning: {it}")).collect();
    let lines = text::plural(response.matches.len() as u64, "line");
    let cut = if response.truncated { "; there are more, --limit shows them" } else { "" };
    notes.push(format!("{lines} in {} searched{cut}", text::plural(response.files_searched, "file")));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Anchor;

    fn hit(anchor: Anchor) -> GrepMatch {
        let line = "The \u{1b}[2Jhive weighed 31 kg".to_string();
        let start = line.find("hive").unwrap() as u32;
        let (path, absolute_path) = ("notes/bees.md".into(), "/w/notes/bees.md".into());
        GrepMatch { path, absolute_path, anchor, line, start, end: start + 4 }
    }

    #[test]
    fn a_line_reads_like_ripgreps_and_cannot_write_to_the_terminal() {
        let anchor = Anchor { line_start: Some(7), line_end: Some(7), ..Anchor::default() };
        assert_eq!(line(&hit(anchor.clone()), false), "notes/bees.md:7: The \\u{1b}[2Jhive weighed 31 kg");
        assert_eq!(line(&hit(anchor), true), "notes/bees.md:7: The \\u{1b}[2J\u{1b}[1mhive\u{1b}[0m weighed 31 kg");
    }

    #[test]
    fn where_there_are_no_lines_the_page_is_told() {
        let anchor = Anchor { page: Some(2), ..Anchor::default() };
        assert!(line(&hit(anchor), false).starts_with("notes/bees.md:page 2: The"));
        assert!(line(&hit(Anchor::default()), false).starts_with("notes/bees.md: The"));
    }

    #[test]
    fn a_mark_that_does_not_fit_the_line_is_left_out() {
        let hit = GrepMatch { start: 900, end: 950, ..hit(Anchor::default()) };
        assert!(!line(&hit, true).contains("\u{1b}[1m"));
    }
}
