//! `vic read`: prints the extracted text of a file, which the index searches.

use std::path::PathBuf;

use crate::output::{Format, FormatArgs, Printer, print_note};
use crate::{text, value_parsers};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::{Document, Place};

/// Arguments of `vic read`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Path of the file as vic prints it: relative to its root, as `archive.zip!/member`, or with a location as in
    /// `lease.pdf, page 3`
    path: PathBuf,
    /// Only this page or slide, `3`, or range of pages, `3-5`
    #[arg(long, value_name = "N|A-B")]
    page: Option<String>,
    /// Only this line, `12`, or range of lines, `12-20`
    #[arg(long, value_name = "N|A-B")]
    lines: Option<String>,
    /// Only the spreadsheet's sheet of this name
    #[arg(long, value_name = "NAME")]
    sheet: Option<String>,
    /// Only this cell, `B2`, or range of cells, `B2:D9`
    #[arg(long, value_name = "RANGE")]
    cell: Option<String>,
    /// Only this part of a message or notebook, or this symbol of source code: `body`, `attachment: plan.pdf`, `cell 7`
    #[arg(long, value_name = "NAME")]
    part: Option<String>,
    /// Only this member of an archive
    #[arg(long, value_name = "NAME")]
    member: Option<String>,
    #[command(flatten)]
    output: FormatArgs,
}

/// Reads the text from the daemon and prints it.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    let (path, said) = value_parsers::resolve_place(&client, &args.path).await?;
    let Args { page, lines, sheet, cell, part, member, .. } = args;
    let document = client.read(&path, &Place { page, lines, sheet, cell, part, member }.or(said)).await?;
    match args.output.format {
        Format::Json => printer.json(&document),
        Format::Human => {
            printer.line(&printable_text(&document, printer.terminal))?;
            printer.flush()?;
            for problem in &document.problems {
                print_note(&format!("warning: {problem}"));
            }
            if document.truncated {
                print_note("warning: the text is incomplete: it was cut at a size limit");
            }
            Ok(())
        }
    }
}

/// Returns the text for output: with control characters escaped for a terminal, unchanged for a pipe.
fn printable_text(document: &Document, terminal: bool) -> String {
    let whole = document.text();
    if terminal { text::escape_controls_in_lines(&whole).into_owned() } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vic_protocol::model::samples;

    #[test]
    fn text_is_escaped_on_terminal_only() {
        assert_eq!(printable_text(&samples::document(), true), "Plan\n\nAda signs.\\u{1b}[2J");
        assert_eq!(printable_text(&samples::document(), false), "Plan\n\nAda signs.\u{1b}[2J");
    }
}
