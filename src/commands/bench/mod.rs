//! `vic bench`: measures vic on this machine. Only `search` asks the running daemon; the others measure in this process, or
//! with a daemon of their own.

mod embed;
mod output;
mod search;
mod stages;

use crate::config::Config;
use crate::error::Result;
use vic_cli::output::Printer;

/// Arguments of `vic bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Measures how many tokens are embedded a second, and finds the fastest setting
    Embed(Box<embed::EmbedArgs>),
    /// Measures the walk over a folder: alone, with the catalog, and again when nothing changed
    Walk(stages::WalkArgs),
    /// Measures how fast the text of files is read, in the jailed worker processes
    Extract(stages::ReadArgs),
    /// Measures how fast the text in pictures and scanned pages is read
    Ocr(stages::ReadArgs),
    /// Measures indexing a folder from nothing and again, by a daemon of its own
    Index(stages::IndexArgs),
    /// Measures questions to the running daemon, at a rate that does not wait for answers
    Search(search::SearchArgs),
}

/// Does what was asked.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    match args.command {
        Command::Embed(args) => embed::run(&args, config, printer).await,
        Command::Walk(args) => stages::walk(&args, config, printer),
        Command::Extract(args) => stages::extract(&args, config, printer).await,
        Command::Ocr(args) => stages::ocr(&args, config, printer).await,
        Command::Index(args) => stages::index(&args, config, printer).await,
        Command::Search(args) => search::run(&args, config, printer).await,
    }
}
