//! Commands of `vic` that need models or the store in their own process. `vic` runs `vicd command` with their arguments;
//! output and exit codes are the same as those of `vic` commands.

mod bench;
mod corpus;
mod discover;
mod llm;
mod mcp;
mod models;
mod schema;
mod synthetic_plans;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use vic_cli::output::{self, Printer};

use crate::config::Config;
use crate::error::{Error, Result};

/// The commands. The program is named `vic` in help and usage errors, because that is what the user typed.
#[derive(Debug, Parser)]
#[command(name = "vic", bin_name = "vic", disable_help_subcommand = true)]
enum Command {
    /// Measures parts of vic on this machine
    Bench(bench::Args),
    /// Prints help and JSON Schemas of the corpus verbs
    Corpus(corpus::Args),
    /// Proposes entities and relations, has a model add more, and makes a graph of the accepted ones
    Discover(discover::Args),
    /// Chooses a backend for language models
    LlmUse(llm::UseArgs),
    /// Chooses a model of the current backend
    LlmModel(llm::ModelArgs),
    /// Serves the Model Context Protocol over standard input and output
    Mcp(mcp::Args),
    /// Lists, downloads and verifies embedding models
    Models(models::Args),
    /// Prints the JSON Schema of a published type
    Schema(schema::Args),
    /// Writes questions with their query plans, to train a planner
    SyntheticPlans(synthetic_plans::Args),
}

/// Runs a command and returns its exit code. The first of the `arguments` is the name of the command.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    end_with_parent();
    let command = match Command::try_parse_from(std::iter::once("vic".into()).chain(arguments)) {
        Ok(command) => command,
        Err(error) => return output::print_usage(&error),
    };
    output::run_and_exit(|printer| run(command, printer))
}

/// Lets the system end this process when `vic` ends, so that a killed `vic bench` does not continue to measure.
fn end_with_parent() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM)) {
        tracing::debug!("the command may continue after `vic` ends: {error}");
    }
}

fn run(command: Command, printer: &mut Printer) -> Result<()> {
    match &command {
        // Handles these commands first, because they work even if the configuration cannot be read.
        Command::Schema(args) => return schema::run(args, printer),
        Command::Corpus(args) => return corpus::run(args, printer),
        _ => (),
    }
    let config = Config::load()?;
    // A single thread is enough to wait for the daemon; benchmarks start their own threads.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    runtime.block_on(dispatch(command, &config, printer))
}

async fn dispatch(command: Command, config: &Config, printer: &mut Printer) -> Result<()> {
    match command {
        Command::Bench(args) => bench::run(args, config, printer).await,
        Command::Corpus(args) => corpus::run(&args, printer),
        Command::Discover(args) => discover::run(args, config, printer).await,
        Command::LlmUse(args) => llm::use_backend(args, config, printer),
        Command::LlmModel(args) => llm::use_model(args, config, printer),
        Command::Mcp(args) => mcp::run(args, config).await,
        Command::Models(args) => models::run(args, config, printer).await,
        Command::Schema(args) => schema::run(&args, printer),
        Command::SyntheticPlans(args) => synthetic_plans::run(args, config, printer),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn commands_are_well_formed() {
        Command::command().debug_assert();
    }

    #[test]
    fn wrong_usage_exits_with_code_2() {
        for line in [
            vec!["vic", "bench", "embed", "--backend", "abacus"],
            vec!["vic", "bench", "search", "--rate", "0", "--queries", "x"],
            vec!["vic", "nonsense"],
        ] {
            assert_eq!(Command::try_parse_from(&line).unwrap_err().exit_code(), 2, "{line:?}");
        }
    }
}
