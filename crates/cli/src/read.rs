//! `vic read`: the text of a file as the index knows it.

use std::path::PathBuf;

use crate::output::{Format, FormatArgs, Printer, note};
use crate::{text, values};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::{Document, Place};

/// Arguments of `vic read`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file, as vic prints it: also `archive.zip!/member`, below its root, and with its place, `lease.pdf, page 3`
    path: PathBuf,
    /// Only this page or slide, or these: `3`, `3-5`
    #[arg(long, value_name = "N|A-B")]
    page: Option<String>,
    /// Only these lines: `12`, `12-20`
    #[arg(long, value_name = "N|A-B")]
    lines: Option<String>,
    /// Only this sheet
    #[arg(long, value_name = "NAME")]
    sheet: Option<String>,
    /// Only this cell or range: `B2`, `B2:D9`
    #[arg(long, value_name = "RANGE")]
    cell: Option<String>,
    /// Only this part of a message or notebook, or this symbol: `body`, `attachment: plan.pdf`, `cell 7`
    #[arg(long, value_name = "NAME")]
    part: Option<String>,
    /// Only this member of an archive
    #[arg(long, value_name = "NAME")]
    member: Option<String>,
    #[command(flatten)]
    output: FormatArgs,
}

/// Reads, and prints.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    let (path, said) = values::named_place(&client, &args.path).await?;
    let Args { page, lines, sheet, cell, part, member, .. } = args;
    let document = client.read(&path, &Place { page, lines, sheet, cell, part, member }.or(said)).await?;
    match args.output.format {
        Format::Json => printer.json(&document),
        Format::Human => {
            printer.line(&shown(&document, printer.terminal))?;
            printer.flush()?;
            for problem in &document.problems {
                note(&format!("warning: {problem}"));
            }
            if document.truncated {
                note("warning: the text was cut at a limit");
            }
            Ok(())
        }
    }
}

/// The text: safe for a terminal, untouched for a pipe.
fn shown(document: &Document, terminal: bool) -> String {
    let whole = document.text();
    if terminal { text::visible_lines(&whole).into_owned() } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vic_protocol::model::samples;

    #[test]
    fn a_terminal_gets_safe_text_and_a_pipe_all_of_it() {
        assert_eq!(shown(&samples::document(), true), "Plan\n\nAda signs.\\u{1b}[2J");
        assert_eq!(shown(&samples::document(), false), "Plan\n\nAda signs.\u{1b}[2J");
    }
}
