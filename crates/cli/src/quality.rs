//! `vic quality`: asks questions with known files and answers, and prints how often vic finds them.

mod comparison;
mod metrics;
mod questions;
mod report;
mod run;

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::output::{Format, FormatArgs, Printer};
use crate::value_parsers;
use comparison::Comparison;
use run::{Run, Settings};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::{Error, IoContext, Result};

/// Maximum size of a file of questions. A larger one is a mistake, such as the name of a file of data.
const MAX_QUESTIONS_BYTES: u64 = 64 << 20;

/// Arguments of `vic quality`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File of questions: JSON lines with `question`, `files` and `answers`, or question, file and answer separated by
    /// tabs; `-` for standard input
    questions: PathBuf,
    /// Search only below this folder
    #[arg(long)]
    root: Option<PathBuf>,
    /// Maximum number of hits for each question; recall is measured among them
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Number of questions that are asked at the same time; more than 1 makes the measured times longer
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    parallel: u8,
    /// Save the results in this file, to compare with later
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Compare with results that --save stored, question by question
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    #[command(flatten)]
    output: FormatArgs,
}

/// The JSON output.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    run: &'a Run,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<Comparison>,
}

/// Asks all questions of a file and prints the measures.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let questions = questions::parse_questions(&read_questions(&args.questions)?)?;
    let before = args.against.as_deref().map(Run::read).transpose()?;
    let client = Client::connect_or_start(config).await?;
    let settings = Settings {
        root: value_parsers::resolve_root(&client, args.root.as_deref()).await?,
        limit: args.limit,
        parallel: args.parallel.into(),
    };
    let run = run::ask_all(&client, &questions, &settings).await?;
    if let Some(path) = &args.save {
        run.save(path)?;
    }
    let comparison = before.map(|it| comparison::compare(&it, &run));
    match args.output.format {
        Format::Human => printer.raw(&report::format_report(&run, comparison.as_ref())),
        Format::Json => printer.json(&Report { run: &run, comparison }),
    }
}

/// Reads the questions from a file or from standard input.
fn read_questions(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().take(MAX_QUESTIONS_BYTES + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|it| it.take(MAX_QUESTIONS_BYTES + 1).read_to_end(&mut bytes))
    }
    .io_context("read", path)?;
    if bytes.len() as u64 > MAX_QUESTIONS_BYTES {
        let limit = MAX_QUESTIONS_BYTES >> 20;
        return Err(Error::invalid(format!("the questions in `{}` are longer than {limit} MiB", path.display())));
    }
    String::from_utf8(bytes).map_err(|_| Error::invalid(format!("`{}` is not UTF-8 text", path.display())))
}
