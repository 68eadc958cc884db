//! `vic grep`: prints the lines of the indexed text that match a regular expression, in the style of ripgrep.

use std::fmt::Write;
use std::path::PathBuf;

use crate::filter_args::FilterArgs;
use crate::output::{Format, FormatArgs, Printer, print_note};
use crate::{text, value_parsers};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::{GrepMatch, GrepRequest, GrepResponse};

/// Arguments of `vic grep`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Regular expression, matched line by line
    pattern: String,
    /// Ignore case
    #[arg(short = 'i', long)]
    ignore_case: bool,
    /// Treat the pattern as literal text, not as a regular expression
    #[arg(short = 'F', long)]
    fixed_strings: bool,
    /// Ignore case, accents and width: `resume` matches `Résumé`
    #[arg(long)]
    fold: bool,
    /// Search only below this folder
    #[arg(long)]
    root: Option<PathBuf>,
    /// Print N lines after each match, at most 50
    #[arg(short = 'A', long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=50))]
    after_context: Option<u32>,
    /// Print N lines before each match, at most 50
    #[arg(short = 'B', long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=50))]
    before_context: Option<u32>,
    /// Print N lines before and after each match, at most 50
    #[arg(short = 'C', long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=50))]
    context: u32,
    /// Maximum number of matching lines
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    output: FormatArgs,
}

/// Searches the lines and prints them.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    let request = GrepRequest {
        pattern: args.pattern,
        ignore_case: args.ignore_case,
        fixed: args.fixed_strings,
        fold: args.fold,
        warehouse_root: value_parsers::resolve_root(&client, args.root.as_deref()).await?,
        limit: Some(args.limit),
        before: args.before_context.unwrap_or(args.context),
        after: args.after_context.unwrap_or(args.context),
        filters: args.filter.l0(),
    };
    let has_context = request.before + request.after > 0;
    let response = client.grep(request).await?;
    match args.output.format {
        Format::Json => printer.json(&response),
        Format::Human => {
            let look = LineStyle { heading: printer.terminal, styled: printer.styled, has_context };
            format_matches(&response.matches, look).iter().try_for_each(|row| printer.line(row))?;
            printer.flush()?;
            response_notes(&response).iter().for_each(|it| print_note(it));
            Ok(())
        }
    }
}

/// Style in which lines are printed.
#[derive(Clone, Copy)]
struct LineStyle {
    /// Whether the path of a file is printed once above its lines, instead of before each line.
    heading: bool,
    styled: bool,
    /// Whether context lines were requested.
    has_context: bool,
}

/// A line to print: a matching line or a context line.
struct Line<'m> {
    /// Number of the line in its file. A context line has one only if its match has one.
    number: Option<u32>,
    /// The match that this line is, or that this context line belongs to.
    hit: &'m GrepMatch,
    text: &'m str,
    is_found: bool,
}

/// Formats matches as `path:line: text` and context lines as `path-line- text`, without the path if it is printed as a
/// heading. A line `--` separates lines that are not consecutive.
fn format_matches(matches: &[GrepMatch], look: LineStyle) -> Vec<String> {
    let mut rows = Vec::new();
    for file in matches.chunk_by(|a, b| (&a.path, &a.absolute_path) == (&b.path, &b.absolute_path)) {
        if look.heading {
            rows.extend((!rows.is_empty()).then(String::new));
            let path = text::escape_controls(&file[0].path);
            rows.push(if look.styled { format!("\u{1b}[1m{path}\u{1b}[0m") } else { path.into_owned() });
        }
        for (index, group) in group_lines(file).iter().enumerate() {
            if look.has_context && (index > 0 || (!look.heading && !rows.is_empty())) {
                rows.push("--".into());
            }
            rows.extend(group.iter().map(|it| format_line(it, look)));
        }
    }
    rows
}

/// Groups the lines of a file into runs of consecutive lines, which contain each line once.
fn group_lines(file: &[GrepMatch]) -> Vec<Vec<Line<'_>>> {
    let mut groups: Vec<Vec<Line<'_>>> = Vec::new();
    for hit in file {
        let number = hit.anchor.line_start.filter(|_| hit.anchor.page.is_none());
        let first = number.map(|it| it.saturating_sub(hit.before.len() as u32));
        let texts = hit.before.iter().chain([&hit.line]).chain(&hit.after);
        let lines = texts.enumerate().map(|(index, text)| Line {
            number: first.map(|it| it + index as u32),
            hit,
            text,
            is_found: index == hit.before.len(),
        });
        let last = groups.last().and_then(|it| it.last()).and_then(|it| it.number);
        match (groups.last_mut(), first, last) {
            (Some(group), Some(first), Some(last))
                if hit.anchor.member == group[0].hit.anchor.member && first <= last + 1 =>
            {
                for line in lines {
                    let known = if line.number > Some(last) {
                        None
                    } else {
                        group.iter().rposition(|it| it.number == line.number)
                    };
                    match known {
                        Some(at) if line.is_found && !group[at].is_found => group[at] = line,
                        Some(_) if !line.is_found => {}
                        // Keeps also a match on a line that is already known: parts of a long line may match separately.
                        Some(_) | None => group.push(line),
                    }
                }
            }
            _ => groups.push(lines.collect()),
        }
    }
    groups
}

fn format_line(line: &Line<'_>, look: LineStyle) -> String {
    let mark = if line.is_found { ':' } else { '-' };
    let mut out = if look.heading { String::new() } else { text::escape_controls(&line.hit.path).into_owned() };
    let place = line.number.map_or_else(|| line.hit.anchor.place(), |it| it.to_string());
    if !place.is_empty() {
        let mark = if look.heading { String::new() } else { mark.to_string() };
        let _ = write!(out, "{mark}{}", text::escape_controls(&place));
    }
    if !out.is_empty() {
        let _ = write!(out, "{mark} ");
    }
    let (start, end) = (line.hit.start as usize, line.hit.end as usize);
    let cut = || Some((line.text.get(..start)?, line.text.get(start..end)?, line.text.get(end..)?));
    match cut().filter(|_| look.styled && line.is_found) {
        Some((before, found, after)) => {
            let [before, found, after] = [before, found, after].map(text::escape_controls_in_lines);
            let _ = write!(out, "{before}\u{1b}[1m{found}\u{1b}[0m{after}");
        }
        None => out.push_str(&text::escape_controls_in_lines(line.text)),
    }
    out
}

fn response_notes(response: &GrepResponse) -> Vec<String> {
    let mut notes: Vec<String> = response.warnings.iter().map(|it| format!("warning: {it}")).collect();
    let lines = text::plural(response.matches.len() as u64, "line");
    let cut = if response.truncated { "; there are more, --limit shows them" } else { "" };
    notes.push(format!("{lines} in {} searched{cut}", text::plural(response.files_searched, "file")));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use vic_protocol::model::Anchor;

    const PIPE: LineStyle = LineStyle { heading: false, styled: false, has_context: false };

    fn hit(anchor: Anchor) -> GrepMatch {
        let line = "The \u{1b}[2Jhive weighed 31 kg".to_string();
        let start = line.find("hive").unwrap() as u32;
        let (path, absolute_path) = ("notes/bees.md".into(), "/w/notes/bees.md".into());
        let (before, after) = (Vec::new(), Vec::new());
        GrepMatch { path, absolute_path, anchor, line, start, end: start + 4, before, after }
    }

    fn at(line: u32) -> Anchor {
        Anchor { line_start: Some(line), line_end: Some(line), ..Anchor::default() }
    }

    fn around(path: &str, line: u32, [before, text, after]: [&str; 3]) -> GrepMatch {
        let [before, after] = [before, after].map(|it| it.split_terminator('|').map(String::from).collect());
        GrepMatch { path: path.into(), line: text.into(), start: 0, end: 1, before, after, ..hit(at(line)) }
    }

    #[test]
    fn row_looks_like_ripgrep_and_is_escaped() {
        assert_eq!(format_matches(&[hit(at(7))], PIPE), ["notes/bees.md:7: The \\u{1b}[2Jhive weighed 31 kg"]);
        let styled = LineStyle { styled: true, ..PIPE };
        assert_eq!(
            format_matches(&[hit(at(7))], styled),
            ["notes/bees.md:7: The \\u{1b}[2J\u{1b}[1mhive\u{1b}[0m weighed 31 kg"]
        );
    }

    #[test]
    fn row_shows_page_without_line_numbers() {
        let anchor = Anchor { page: Some(2), line_start: Some(3), ..Anchor::default() };
        assert!(format_matches(&[hit(anchor)], PIPE)[0].starts_with("notes/bees.md:page 2, line 3: The"));
        assert!(format_matches(&[hit(Anchor::default())], PIPE)[0].starts_with("notes/bees.md: The"));
    }

    #[test]
    fn highlight_outside_the_line_is_omitted() {
        let hit = GrepMatch { start: 900, end: 950, ..hit(Anchor::default()) };
        assert!(!format_matches(&[hit], LineStyle { styled: true, ..PIPE })[0].contains("\u{1b}[1m"));
    }

    #[test]
    fn context_lines_print_once_and_runs_are_separated() {
        let found = [
            around("a.md", 3, ["one|two", "three", "four|five"]),
            around("a.md", 5, ["three|four", "five", "six"]),
            around("a.md", 20, ["", "twenty", ""]),
            around("b.md", 1, ["", "first", "second"]),
        ];
        let look = LineStyle { has_context: true, ..PIPE };
        let lines = [
            "a.md-1- one",
            "a.md-2- two",
            "a.md:3: three",
            "a.md-4- four",
            "a.md:5: five",
            "a.md-6- six",
            "--",
            "a.md:20: twenty",
            "--",
            "b.md:1: first",
            "b.md-2- second",
        ];
        assert_eq!(format_matches(&found, look), lines);
        let headed = [
            "a.md",
            "1- one",
            "2- two",
            "3: three",
            "4- four",
            "5: five",
            "6- six",
            "--",
            "20: twenty",
            "",
            "b.md",
            "1: first",
            "2- second",
        ];
        assert_eq!(format_matches(&found, LineStyle { heading: true, ..look }), headed);
        let plain = ["a.md", "20: twenty", "", "b.md", "1: first", "2- second"];
        assert_eq!(format_matches(&found[2..], LineStyle { heading: true, ..PIPE }), plain);
    }
}
