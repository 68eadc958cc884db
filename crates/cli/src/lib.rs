//! The command line `vic`.
//!
//! One file per subcommand, with its arguments and a `run` function; only [`output`] prints. All work is done by `vicd`,
//! which [`vic_protocol::client`] starts if none runs. Models and store are not opened here, so that a command starts in
//! milliseconds. `vicd_command` runs the commands that need them, such as `vic bench`, in the process `vicd command`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

use vic_protocol::config::Config;
use vic_protocol::error::{Error, Result};

mod ask;
mod audit;
mod bridge;
mod command;
mod config;
mod corpus;
mod corpus_input;
pub mod daemon;
mod demo;
mod doctor;
mod vicd_command;
mod files;
mod filter_args;
pub mod graph;
mod grep;
pub mod index;
mod jobs;
mod keys;
pub mod llm;
mod mcp;
pub mod output;
mod pause;
mod progress;
mod quality;
mod read;
mod repl;
mod roots;
mod similar;
mod status;
mod sync;
mod table;
pub mod text;
mod ui;
pub mod value_parsers;
mod view;

use command::{Cli, Command, completions, dispatch};
use output::Printer;

/// Runs the command of this process's arguments and returns its exit code, see
/// [`vic_protocol::error::ErrorCode::exit_code`].
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::print_usage(&error),
    };
    output::run_and_exit(|printer| run(cli.command, printer))
}

fn run(command: Command, printer: &mut Printer) -> Result<()> {
    match &command {
        // Handles these commands first, because they work without a valid configuration.
        Command::Completions { shell } => return completions(*shell, printer),
        Command::Config(args) => return config::run(args, printer),
        Command::Mcp(args) => return mcp::run(args, printer),
        Command::Schema(args) => return vicd_command::run_in_vicd("schema", args, printer),
        Command::Corpus(args) if args.needs_no_daemon() => {
            return vicd_command::run_in_vicd("corpus", &args.passed_on(), printer);
        }
        _ => (),
    }
    let config = Config::load()?;
    // A single thread is enough to wait for the daemon, and starts faster than a thread pool.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    match command {
        Command::Repl => runtime.block_on(repl::run(&config, printer)),
        command => runtime.block_on(dispatch(command, &config, printer)),
    }
}
