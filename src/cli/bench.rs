//! `vic bench`: measures parts of vic on this machine.

use crate::cli::output::Printer;
use crate::config::Config;
use crate::error::{Error, ErrorCode, Result};

/// Arguments of `vic bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Measures how many tokens are embedded a second
    Embed,
}

/// Does what was asked.
#[expect(clippy::unused_async, reason = "embedding is asynchronous")]
pub(crate) async fn run(args: Args, _config: &Config, _printer: &mut Printer) -> Result<()> {
    match args.command {
        Command::Embed => Err(Error::new(ErrorCode::FailedPrecondition, "embedding is not measured yet")),
    }
}
