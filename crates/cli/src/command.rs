//! The commands, and the file that runs each.

use clap::{CommandFactory, Parser, Subcommand};

use crate::output::Printer;
use crate::{
    ask, audit, bridge, config, corpus, daemon, demo, doctor, files, graph, grep, index, jobs, keys, llm, mcp, pause,
    quality, read, roots, similar, status, sync, table, ui, vicd_command, view,
};
use vic_protocol::config::Config;
use vic_protocol::error::{Error, Result};

/// Finds things in your files: indexes them on this machine and answers questions with the passages that prove it.
#[derive(Debug, Parser)]
#[command(name = "vic", version, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answers a question about the files
    Ask(ask::Args),
    /// Finds files similar to a file
    Similar(similar::Args),
    /// Finds lines of the indexed text by a regular expression
    Grep(grep::Args),
    /// Filters, groups and sums the rows of a table exactly, with the rows as evidence
    Table(table::Args),
    /// Runs a verb of the corpus API: `vic corpus help` lists the verbs
    Corpus(corpus::Args),
    /// Creates, lists, shows and deletes views (sets of documents)
    View(view::Args),
    /// Queries, draws, imports and exports the graph of relations between files
    Graph(graph::Args),
    /// Indexes folders or files, and watches them from then on
    Index(index::Args),
    /// Lists files by name, date, size, owner and state
    Files(files::Args),
    /// Prints the extracted text of a file
    Read(read::Args),
    /// Shows how many files are indexed, and current problems
    Status(status::Args),
    /// Waits until all earlier changes on disk are searchable
    Sync(sync::Args),
    /// Pauses reading files, for a duration or until `vic resume`
    Pause(pause::Args),
    /// Ends a pause
    Resume(pause::ResumeArgs),
    /// Lists, adds and removes indexed folders
    Roots(roots::Args),
    /// Lists, shows and cancels index jobs
    Jobs(jobs::Args),
    /// Lists, downloads and verifies embedding models
    #[command(disable_help_flag = true)]
    Models(vicd_command::Args),
    /// Checks all data of vic, and repairs it with --fix
    Doctor(doctor::Args),
    /// Starts, stops and inspects the daemon
    Daemon(daemon::Args),
    /// Shows the address of the HTTP API, and starts the daemon if none runs
    Bridge(bridge::Args),
    /// Opens the web page of the daemon, and starts the daemon if none runs
    Ui(ui::Args),
    /// Creates, lists and revokes keys for other people, each limited to some folders
    Keys(keys::Args),
    /// Answers questions with language models that search and query step by step
    Llm(llm::Args),
    /// Proposes entities and relations, has a model add more, and makes a graph of the accepted ones
    #[command(disable_help_flag = true)]
    Discover(vicd_command::Args),
    /// Reads commands line by line, with history and completion
    Repl,
    /// Serves the Model Context Protocol over standard input and output, or installs vic in its clients
    Mcp(mcp::Args),
    /// Lists requests to other machines, sent or refused
    Audit(audit::Args),
    /// Shows the settings with their values and origins
    Config(config::Args),
    /// Prints the JSON Schema of a published type
    #[command(disable_help_flag = true)]
    Schema(vicd_command::Args),
    /// Indexes a sample folder and asks a few questions through every tier
    Demo(demo::Args),
    /// Measures how often vic finds the known files and answers of your questions
    Quality(quality::Args),
    /// Measures parts of vic on this machine
    #[command(disable_help_flag = true)]
    Bench(vicd_command::Args),
    /// Writes questions with their query plans, to train a planner
    #[command(disable_help_flag = true)]
    SyntheticPlans(vicd_command::Args),
    /// Prints a completion script for a shell
    Completions {
        /// The shell to complete commands in
        shell: clap_complete::Shell,
    },
}

/// Runs a command that needs a configuration, except the repl.
pub(crate) async fn dispatch(command: Command, config: &Config, printer: &mut Printer) -> Result<()> {
    match command {
        Command::Ask(args) => ask::run(args, config, printer).await,
        Command::Similar(args) => similar::run(args, config, printer).await,
        Command::Grep(args) => grep::run(args, config, printer).await,
        Command::Table(args) => table::run(args, config, printer).await,
        Command::Corpus(args) => corpus::run(args, config, printer).await,
        Command::View(args) => view::run(args, config, printer).await,
        Command::Graph(args) => graph::run(args, config, printer).await,
        Command::Index(args) => index::run(args, config, printer).await,
        Command::Files(args) => files::run(args, config, printer).await,
        Command::Read(args) => read::run(args, config, printer).await,
        Command::Status(args) => status::run(args, config, printer).await,
        Command::Sync(args) => sync::run(args, config, printer).await,
        Command::Pause(args) => pause::run(args, config, printer).await,
        Command::Resume(args) => pause::resume(args, config, printer).await,
        Command::Roots(args) => roots::run(args, config, printer).await,
        Command::Jobs(args) => jobs::run(args, config, printer).await,
        Command::Models(args) => vicd_command::run_in_vicd("models", &args, printer),
        Command::Doctor(args) => doctor::run(&args, config, printer),
        Command::Daemon(args) => daemon::run(args, config, printer).await,
        Command::Demo(args) => demo::run(args, config, printer).await,
        Command::Bench(args) => vicd_command::run_in_vicd("bench", &args, printer),
        Command::Quality(args) => quality::run(args, config, printer).await,
        Command::Bridge(args) => bridge::run(args, config, printer).await,
        Command::Ui(args) => ui::run(&args, config, printer).await,
        Command::Keys(args) => keys::run(args, config, printer),
        Command::Mcp(args) => mcp::run(&args, printer),
        Command::Audit(args) => audit::run(args, config, printer).await,
        Command::SyntheticPlans(args) => vicd_command::run_in_vicd("synthetic-plans", &args, printer),
        Command::Llm(args) => llm::run(args, config, printer).await,
        Command::Discover(args) => vicd_command::run_in_vicd("discover", &args, printer),
        Command::Repl => Err(Error::invalid("`vic repl` cannot run inside `vic repl`")),
        Command::Config(args) => config::run(&args, printer),
        Command::Schema(args) => vicd_command::run_in_vicd("schema", &args, printer),
        Command::Completions { shell } => completions(shell, printer),
    }
}

pub(crate) fn completions(shell: clap_complete::Shell, printer: &mut Printer) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "vic", &mut script);
    printer.raw(&String::from_utf8_lossy(&script))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_definition_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wrong_usage_exits_with_2() {
        for line in [
            vec!["vic", "ask"],
            vec!["vic", "ask", "x", "--min-size", "ten"],
            vec!["vic", "files", "--after", "soon"],
            vec!["vic", "index", "--wait", "--no-wait"],
            vec!["vic", "pause", "--for", "soon"],
            vec!["vic", "sync", "--timeout", "0"],
            vec!["vic", "quality"],
            vec!["vic", "quality", "x.jsonl", "--parallel", "0"],
            vec!["vic", "nonsense"],
        ] {
            assert_eq!(Cli::try_parse_from(&line).unwrap_err().exit_code(), 2, "{line:?}");
        }
    }
}
