//! `vic llm use` and `vic llm model`: stores the choice of a backend in the data directory. Needs no daemon.

use vic_cli::llm::Use;
use vic_cli::output::Printer;
use vic_cli::text;

use crate::agent::{BackendKind, Choice, CommandLine, Override};
use crate::config::Config;
use crate::data_dir::directory;
use crate::error::{IoContext, Result};

/// Arguments of `vic llm use`.
#[derive(Debug, clap::Args)]
pub(crate) struct UseArgs {
    #[command(subcommand)]
    backend: Use,
}

/// Arguments of `vic llm model`.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelArgs {
    /// Name of the model
    name: String,
}

/// Chooses a backend and stores the choice.
pub(crate) fn use_backend(args: UseArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    choose(used(args.backend)?, config, printer)
}

/// Chooses another model of the backend and stores the choice.
pub(crate) fn use_model(args: ModelArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    choose(Override { model: Some(args.name), ..Override::default() }, config, printer)
}

fn used(backend: Use) -> Result<Override> {
    let kind = |backend, model| Override { backend: Some(backend), model, ..Override::default() };
    Ok(match backend {
        Use::Mock => kind(BackendKind::Mock, None),
        Use::Ollama { model } => kind(BackendKind::Ollama, model),
        Use::Openai { model } => kind(BackendKind::OpenAi, model),
        Use::Command { program, args } => {
            Override { command: Some(line(program, args)?), ..kind(BackendKind::Command, None) }
        }
    })
}

/// Stores a choice. Needs no daemon.
fn choose(over: Override, config: &Config, printer: &mut Printer) -> Result<()> {
    directory::prepare(config)?;
    let choice = match over.backend {
        // An unreadable earlier choice is replaced.
        Some(_) => Choice::load(config).unwrap_or_else(|_| Choice::configured(config)).with(&over)?,
        None => Choice::load(config)?.with(&over)?,
    };
    choice.save(config)?;
    let model = choice.model_name(config);
    let what = match (&choice.command, choice.backend) {
        (Some(command), BackendKind::Command) => command.shown(),
        _ => model.clone(),
    };
    let with = if choice.backend == BackendKind::Command && !model.is_empty() {
        format!(", model {model}")
    } else {
        String::new()
    };
    printer.line(&text::visible(&format!("{}: {what}{with}", choice.backend.name())))
}

/// The command line as typed, with the current directory that it refers to.
fn line(program: String, args: Vec<String>) -> Result<CommandLine> {
    let folder = std::env::current_dir().at("find", std::path::Path::new("."))?;
    Ok(CommandLine { program, args, folder })
}
