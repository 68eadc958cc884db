//! `vic llm use` and `vic llm model`: store the chosen backend or model in the data directory. Need no daemon.

use vic_cli::llm::BackendArgs;
use vic_cli::output::Printer;
use vic_cli::text;

use crate::agent::{BackendChoice, BackendKind, CommandLine, Override};
use crate::config::Config;
use crate::data_dir::directory;
use crate::error::{IoContext, Result};

/// Arguments of `vic llm use`.
#[derive(Debug, clap::Args)]
pub(crate) struct UseArgs {
    #[command(subcommand)]
    backend: BackendArgs,
}

/// Arguments of `vic llm model`.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelArgs {
    /// Name of the model
    name: String,
}

/// Stores the choice of a model backend.
pub(crate) fn use_backend(args: UseArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    store_choice(to_override(args.backend)?, config, printer)
}

/// Stores the choice of another model of the current backend.
pub(crate) fn use_model(args: ModelArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    store_choice(Override { model: Some(args.name), ..Override::default() }, config, printer)
}

fn to_override(backend: BackendArgs) -> Result<Override> {
    let kind = |backend, model| Override { backend: Some(backend), model, ..Override::default() };
    Ok(match backend {
        BackendArgs::Mock => kind(BackendKind::Mock, None),
        BackendArgs::Ollama { model } => kind(BackendKind::Ollama, model),
        BackendArgs::Openai { model } => kind(BackendKind::OpenAi, model),
        BackendArgs::Command { program, args } => {
            Override { command: Some(command_line(program, args)?), ..kind(BackendKind::Command, None) }
        }
    })
}

/// Stores a change of the chosen backend in the data directory, where the daemon reads it.
fn store_choice(over: Override, config: &Config, printer: &mut Printer) -> Result<()> {
    directory::create_checked(config)?;
    let choice = match over.backend {
        // An earlier choice that cannot be read is replaced by the configured backend.
        Some(_) => {
            BackendChoice::load(config).unwrap_or_else(|_| BackendChoice::configured(config)).with_overrides(&over)?
        }
        None => BackendChoice::load(config)?.with_overrides(&over)?,
    };
    choice.save(config)?;
    let model = choice.model_name(config);
    let what = match (&choice.command, choice.backend) {
        (Some(command), BackendKind::Command) => command.command_line(),
        _ => model.clone(),
    };
    let with = if choice.backend == BackendKind::Command && !model.is_empty() {
        format!(", model {model}")
    } else {
        String::new()
    };
    printer.line(&text::escape_controls(&format!("{}: {what}{with}", choice.backend.name())))
}

/// Returns the command line as typed, with the current directory that its relative paths refer to.
fn command_line(program: String, args: Vec<String>) -> Result<CommandLine> {
    let folder = std::env::current_dir().io_context("find", std::path::Path::new("."))?;
    Ok(CommandLine { program, args, folder })
}
