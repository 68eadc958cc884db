//! `vic models`: lists, downloads and verifies models and runtime libraries, and switches the embedding model. No other
//! command downloads anything.

mod suggest;
mod use_model;

use std::sync::Mutex;

use crate::catalog::AuditLog;
use crate::config::Config;
use crate::egress;
use crate::embed::models::{ChecksumState, ModelInfo, ModelStore, Progress};
use crate::error::Result;
use crate::escape::escape_controls_in_lines;
use vic_cli::output::{Format, FormatArgs, Printer};

/// Arguments of `vic models`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Lists the known models, and whether they are on this machine
    List {
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Downloads a model or library, and verifies its files
    Pull {
        /// Name of the model or library; default: the configured model and the libraries that vic needs
        name: Option<String>,
    },
    /// Says which languages the index has, and which model fits them
    Suggest {
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Switches to another embedding model: states the cost, asks, and restarts the daemon
    Use {
        /// Name of the model, or the path of a folder with an own model
        name: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Verifies the files by their checksums
    Verify {
        /// Name of the model or library; default: all that are on this machine
        name: Option<String>,
        /// Prints nothing if all files match
        #[arg(long, short)]
        quiet: bool,
    },
}

/// Libraries and models that a daemon with default settings loads, besides the embedding model.
const DEFAULT_PARTS: [&str; 3] = ["onnxruntime", "pdfium", "ppocr"];

/// Runs the selected step.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let store = ModelStore::new(config.model_dirs.clone());
    match args.command {
        Command::List { output } => list_models(&store, output.format, printer),
        Command::Pull { name } => {
            egress::set_audit_log(AuditLog::open(&config.audit_path())?);
            pull_models(&store, names_to_pull(name, config), printer).await
        }
        Command::Suggest { output } => suggest::run(&store, config, output.format, printer).await,
        Command::Use { name, yes } => use_model::run(&store, config, &name, yes, printer).await,
        Command::Verify { name, quiet } => verify_models(&store, name, quiet, printer),
    }
}

fn names_to_pull(name: Option<String>, config: &Config) -> Vec<String> {
    match name {
        Some(name) => vec![name],
        None => {
            let mut names: Vec<String> = DEFAULT_PARTS.into_iter().map(String::from).collect();
            // Adds the library of the configured device. The library for the CPU stays, because OCR uses it even if the
            // embedding model uses a GPU.
            let library = config.embed.device.runtime_library();
            if !DEFAULT_PARTS.contains(&library) {
                names.push(library.into());
            }
            names.push(config.embed.model.clone());
            names
        }
    }
}

fn list_models(store: &ModelStore, format: Format, printer: &mut Printer) -> Result<()> {
    let models = store.list()?;
    match format {
        Format::Json => printer.json(&models),
        Format::Human => models.iter().try_for_each(|it| printer.raw(&model_text(it))),
    }
}

/// Formats a model as a line, with lines for its published results.
fn model_text(model: &ModelInfo) -> String {
    let state = if model.present { "present" } else { "missing" };
    let size = if model.bytes > 0 { vic_cli::text::format_bytes(model.bytes) } else { "size unknown".into() };
    let languages = match &model.languages[..] {
        [] => None,
        [only] => Some(format!("language {only}")),
        several => Some(format!("{} languages", several.len())),
    };
    let checksums = match model.checksums {
        ChecksumState::Confirmed => None,
        ChecksumState::Recorded => Some("checksums recorded at the first pull".to_string()),
        ChecksumState::Unconfirmed => Some("checksums unconfirmed: recorded at the first pull".to_string()),
    };
    let facts = [
        model.dimension.map(|it| format!("{it} dimensions")),
        Some(size),
        Some(model.licence.clone()).filter(|it| !it.is_empty()),
        languages,
        model.speed.map(|it| format!("speed {it:.2}")),
        checksums,
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let mut text = format!("{state:8} {:24} {}\n", model.name, facts.join(", "));
    for it in &model.quality {
        text.push_str(&format!("{:33} {}: {} ({})\n", "", it.benchmark, it.score, it.source));
    }
    escape_controls_in_lines(&text).into_owned()
}

/// Downloads models, and prints a line for each file.
async fn pull_models(store: &ModelStore, names: Vec<String>, printer: &mut Printer) -> Result<()> {
    for name in names {
        printer.line(&format!("fetching {name}"))?;
        printer.flush()?;
        // Prints a line when the download of a file starts; files are downloaded one after another.
        let last = Mutex::new(String::new());
        let lines = Mutex::new(Vec::new());
        store
            .pull(&name, |progress: Progress| {
                let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if *last != progress.file {
                    last.clone_from(&progress.file);
                    lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(progress.file);
                }
            })
            .await?;
        for file in lines.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            printer.line(&format!("  {file}"))?;
        }
        printer.line(&format!("{name} is ready"))?;
    }
    Ok(())
}

fn verify_models(store: &ModelStore, name: Option<String>, quiet: bool, printer: &mut Printer) -> Result<()> {
    let names = match name {
        Some(name) => vec![name],
        None => store.list()?.into_iter().filter(|it| it.present).map(|it| it.name).collect(),
    };
    for name in names {
        store.verify(&name)?;
        if !quiet {
            printer.line(&format!("{name}: every file matches the catalog"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listing_shows_what_a_user_chooses_by() {
        let dir = tempfile::tempdir().unwrap();
        let models = ModelStore::new(vec![dir.path().into()]).list().unwrap();
        let text = |name: &str| model_text(models.iter().find(|it| it.name == name).unwrap());
        let multilingual = text("multilingual-e5-small");
        for part in ["missing", "384 dimensions", "MIT", "93 languages", "Mr. TyDi", "model card"] {
            assert!(multilingual.contains(part), "{multilingual}");
        }
        assert!(!multilingual.contains("unconfirmed"), "the package has a checksum: {multilingual}");
        assert!(text("mdbr-leaf-ir").contains("unconfirmed") && text("mdbr-leaf-ir").contains("768 dimensions"));
    }

    #[test]
    fn pull_without_name_fetches_parts_of_configured_device() {
        let check = |device: &str, expected: &[&str]| {
            let value = |name: &str| match name {
                "VIC_DATA_DIR" => Some("/d".into()),
                "VIC_EMBED_DEVICE" => Some(device.into()),
                _ => None,
            };
            assert_eq!(names_to_pull(None, &Config::from_lookup(&value).unwrap()), expected);
        };
        check("cpu", &["onnxruntime", "pdfium", "ppocr", "all-MiniLM-L6-v2"]);
        check("cuda", &["onnxruntime", "pdfium", "ppocr", "onnxruntime-cuda", "all-MiniLM-L6-v2"]);
    }
}
