//! `vic bench`: measures parts of vic on this machine. `search` measures the running daemon; the other benchmarks run in
//! this process or start a private daemon.

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
    /// Measures tokens embedded per second, and finds the fastest setting
    Embed(Box<embed::EmbedArgs>),
    /// Measures scanning a folder: alone, together with the catalog, and again without changes
    Walk(stages::WalkArgs),
    /// Measures text extraction in the sandboxed worker processes
    Extract(stages::ReadArgs),
    /// Measures OCR of images and scanned pages
    Ocr(stages::ReadArgs),
    /// Measures indexing a folder from scratch and again, with a private daemon
    Index(stages::IndexArgs),
    /// Measures the running daemon's answers to questions, sent at a rate that does not depend on the answers
    Search(search::SearchArgs),
}

/// Runs the selected benchmark.
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
