//! Commands of `vic` that need the engine in their own process. `vic` passes their arguments to `vicd command`; output
//! and exit codes are those of `vic`.

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

/// Named `vic`, because the user typed `vic`.
#[derive(Debug, Parser)]
#[command(name = "vic", bin_name = "vic", disable_help_subcommand = true)]
enum Command {
    /// Measures parts of vic on this machine
    Bench(bench::Args),
    /// Prints help and schemas of the verbs
    Corpus(corpus::Args),
    /// Proposes entities and relations, has a model add to them, and makes a graph of the accepted ones
    Discover(discover::Args),
    /// Chooses a backend for language models
    LlmUse(llm::UseArgs),
    /// Chooses a model of the backend
    LlmModel(llm::ModelArgs),
    /// Serves the Model Context Protocol over standard input and output
    Mcp(mcp::Args),
    /// Lists, fetches and verifies embedding models
    Models(models::Args),
    /// Prints the JSON Schema of a published type
    Schema(schema::Args),
    /// Writes questions with their plans, to train a planner on
    SyntheticPlans(synthetic_plans::Args),
}

/// Runs a command and returns its exit code. `arguments` start with the name of the command.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    end_with_parent();
    let command = match Command::try_parse_from(std::iter::once("vic".into()).chain(arguments)) {
        Ok(command) => command,
        Err(error) => return output::print_usage(&error),
    };
    output::run_and_exit(|printer| run(command, printer))
}

/// Ends this process when `vic` ends, so that a killed `vic bench` leaves no measurement behind.
fn end_with_parent() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM)) {
        tracing::debug!("the command may outlive `vic`: {error}");
    }
}

fn run(command: Command, printer: &mut Printer) -> Result<()> {
    match &command {
        // These work without a readable configuration.
        Command::Schema(args) => return schema::run(args, printer),
        Command::Corpus(args) => return corpus::run(args, printer),
        _ => (),
    }
    let config = Config::load()?;
    // One thread is enough to wait for the daemon; benchmarks start their own.
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
