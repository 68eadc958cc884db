//! `vic roots`: the folders that are indexed and watched.

use std::path::PathBuf;

use crate::cli::output::{Format, FormatArgs, Printer};
use crate::cli::{status, values};
use crate::client::Client;
use crate::config::Config;
use crate::error::Result;
use crate::model::Root;

/// Arguments of `vic roots`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    output: FormatArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Lists them (the default)
    List {
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Adds a folder; it is watched from then on
    Add {
        /// The folder
        path: PathBuf,
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Forgets a folder and what the index knows of it; the files stay
    Remove {
        /// The folder
        path: PathBuf,
    },
}

/// Asks, and prints.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    match args.command.unwrap_or(Command::List { output: args.output }) {
        Command::List { output } => {
            let roots = client.roots().await?;
            match output.format {
                Format::Json => printer.json(&roots.into_iter().map(Root::printable).collect::<Vec<_>>()),
                Format::Human if roots.is_empty() => printer.line("no roots yet; `vic index FOLDER` adds one"),
                Format::Human => roots.iter().try_for_each(|root| printer.line(&status::root_line(root))),
            }
        }
        Command::Add { path, output } => {
            let root = client.add_root(&values::absolute(&path)?).await?;
            match output.format {
                Format::Json => printer.json(&root.printable()),
                Format::Human => printer.line(&format!("added {}", status::root_line(&root))),
            }
        }
        Command::Remove { path } => {
            let path = values::absolute(&path)?;
            client.remove_root(&path).await?;
            printer.line(&format!("removed {}", crate::cli::text::visible(&path)))
        }
    }
}
