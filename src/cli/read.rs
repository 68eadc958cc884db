//! `vic read`: the text of a file as the index knows it.

use std::path::PathBuf;

use crate::cli::output::{Format, FormatArgs, Printer, note};
use crate::cli::{text, values};
use crate::client::Client;
use crate::config::Config;
use crate::error::Result;
use crate::model::Document;

/// Arguments of `vic read`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file; `archive.zip!/member` for a file in an archive
    path: PathBuf,
    #[command(flatten)]
    output: FormatArgs,
}

/// Reads, and prints.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let path = values::absolute(&args.path)?;
    let document = Client::connect_or_start(config).await?.read(&path).await?;
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
    use crate::serve::fake;

    #[test]
    fn a_terminal_gets_safe_text_and_a_pipe_all_of_it() {
        assert_eq!(shown(&fake::document(), true), "Plan\n\nAda signs.\\u{1b}[2J");
        assert_eq!(shown(&fake::document(), false), "Plan\n\nAda signs.\u{1b}[2J");
    }
}
