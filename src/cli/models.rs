//! `vic models`: the embedding models on this machine.

use crate::cli::output::Printer;
use crate::config::Config;
use crate::error::{Error, ErrorCode, Result};

/// Arguments of `vic models`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Lists the models of the catalog and which of them are here
    List,
    /// Fetches a model and checks its files
    Pull {
        /// Its name; without it the configured one
        name: Option<String>,
    },
    /// Checks the files of a model against their checksums
    Verify {
        /// Its name; without it the configured one
        name: Option<String>,
    },
}

/// Does what was asked.
#[expect(clippy::unused_async, reason = "fetching a model waits for the network")]
pub(crate) async fn run(args: Args, config: &Config, _printer: &mut Printer) -> Result<()> {
    let name = match &args.command {
        Command::List => None,
        Command::Pull { name } | Command::Verify { name } => Some(name.as_ref().unwrap_or(&config.embed.model)),
    };
    Err(Error::new(ErrorCode::FailedPrecondition, format!("models are not managed yet: {name:?}")))
}
