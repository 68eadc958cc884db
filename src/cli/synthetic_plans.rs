//! `vic synthetic-plans`: writes questions with their plans, to train a planner on. Works without the daemon.

use std::io::Write;
use std::path::{Path, PathBuf};

use chrono::{Local, NaiveDate};

use crate::cli::output::Printer;
use crate::config::Config;
use crate::error::{Error, IoContext, Result};
use crate::librarian;

/// Where the lines go when nothing else is said and the folder exists.
const DEFAULT_FILE: &str = "training/synthetic_plans.jsonl";

/// Arguments of `vic synthetic-plans`. A line is `{"question": "...", "plan": {...}}`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File to write; default VIC_SYNTHETIC_JSONL, else training/synthetic_plans.jsonl if ./training exists
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Number of lines
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// The same seed and day give the same lines
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The day that `last week` counts from; default today
    #[arg(long, value_name = "YYYY-MM-DD")]
    today: Option<NaiveDate>,
}

/// Does what was asked.
pub(crate) fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let path = match args.out.or_else(|| config.synthetic_jsonl.clone()) {
        Some(path) => path,
        None if Path::new("training").is_dir() => PathBuf::from(DEFAULT_FILE),
        None => {
            return Err(Error::invalid("no file to write to: there is no folder `training` here")
                .hint("name one: `vic synthetic-plans --out plans.jsonl`"));
        }
    };
    let today = args.today.unwrap_or_else(|| Local::now().date_naive());
    let examples = librarian::synthetic_plans(args.count as usize, args.seed, today)?;
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Beside its place first, so that a file that is there already is replaced whole or not at all.
    let mut file = tempfile::NamedTempFile::new_in(folder).at("write", &path)?;
    let mut writer = std::io::BufWriter::new(file.as_file_mut());
    for example in &examples {
        serde_json::to_writer(&mut writer, example).map_err(Error::internal)?;
        writer.write_all(b"\n").at("write", &path)?;
    }
    writer.flush().at("write", &path)?;
    drop(writer);
    file.persist(&path).map_err(|error| error.error).at("write", &path)?;
    printer.line(&format!("{} lines in {}", examples.len(), path.display()))
}
