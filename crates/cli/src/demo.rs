//! `vic demo`: indexes a sample warehouse (folder of files) with a separate daemon, and asks a few questions through
//! every tier.
//!
//! All files are in the folder `demo` of the data directory, so that the user's own index is not touched.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use futures::StreamExt;
use include_dir::{Dir, include_dir};

use crate::output::Printer;
use crate::{jobs, text};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::data_dir::directory;
use vic_protocol::error::{Error, ErrorCode, IoContext, Result};
use vic_protocol::model::{AskRequest, AskResponse, IndexRequest};

/// The files of the sample warehouse, embedded from the source tree.
static SAMPLE_FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../data");

/// The questions that the demo asks, each with the feature that it shows.
const QUESTIONS: &[(&str, &str)] = &[
    ("ext:pdf path:Contracts", "L0: only file names, dates and sizes"),
    ("Who keeps the spare key of the Cinder Bay hut?", "L1: words and meaning"),
    ("How much notice must we give to leave the workshop on the quay?", "L1: words and meaning"),
    ("Who signed the IDR contract?", "L2: OCR or layout reads the page itself"),
    ("Who signed the IDR contract?", "L1 again: the evidence is in the index now"),
];

/// Arguments of `vic demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Read and embed all sample files again
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Skip indexing; ask about the sample that an earlier demo indexed
    #[arg(long)]
    quick: bool,
}

/// Writes the sample files, indexes them, asks the questions, and stops the demo's daemon.
pub(crate) async fn run(args: Args, users: &Config, printer: &mut Printer) -> Result<()> {
    let config = demo_config(users);
    let warehouse = config.data_dir.with_file_name("warehouse");
    directory::create_checked(users)?;
    write_sample(&warehouse)?;
    printer.line(&format!("sample warehouse: {}", text::escape_controls(&warehouse.display().to_string())))?;
    printer.flush()?;
    let client = Client::connect_or_start(&config).await?;
    let shown = ask_questions(&args, &client, &warehouse, printer).await;
    // Stops the demo's daemon even if the demo failed.
    let stopped = client.shutdown().await;
    shown.and(stopped)
}

/// Returns the configuration of the demo's daemon, which has a separate data directory.
fn demo_config(config: &Config) -> Config {
    let data_dir = config.data_dir.join("demo").join("state");
    Config {
        db_path: data_dir.join("index"),
        job_db_path: data_dir.join("vic_jobs.sqlite"),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        warehouse_root: None,
        data_dir,
        ..config.clone()
    }
}

/// Writes the sample files that are missing or have different content.
fn write_sample(warehouse: &Path) -> Result<()> {
    fn write(dir: &Dir<'_>, warehouse: &Path) -> Result<()> {
        for file in dir.files() {
            let path = warehouse.join(file.path());
            if std::fs::read(&path).is_ok_and(|it| it == file.contents()) {
                continue;
            }
            let parent = path.parent().unwrap_or(warehouse);
            std::fs::create_dir_all(parent).io_context("create", parent)?;
            std::fs::write(&path, file.contents()).io_context("write", &path)?;
        }
        dir.dirs().try_for_each(|it| write(it, warehouse))
    }
    write(&SAMPLE_FILES, warehouse)
}

async fn ask_questions(args: &Args, client: &Client, warehouse: &Path, printer: &mut Printer) -> Result<()> {
    if !args.quick {
        index_sample(args.full, client, warehouse, printer).await?;
    } else if !client.status().await?.index_ready {
        let sentence = "the sample is not indexed yet, and `--quick` skips indexing";
        return Err(Error::new(ErrorCode::FailedPrecondition, sentence).hint("run `vic demo` once"));
    }
    let mut tiers = BTreeSet::new();
    for (question, shows) in QUESTIONS {
        let request = AskRequest { query: (*question).into(), limit: Some(2), ..AskRequest::default() };
        let response = client.ask(request).await?;
        tiers.extend(response.hits.iter().flat_map(|it| it.layers.iter().cloned()));
        printer.raw(&format_answer(question, shows, &response))?;
        printer.flush()?;
    }
    let tiers: Vec<String> = tiers.into_iter().collect();
    printer.line(&format!("\ntiers that took part: {}", tiers.join(", ")))
}

async fn index_sample(full: bool, client: &Client, warehouse: &Path, printer: &mut Printer) -> Result<()> {
    let paths = vec![warehouse.display().to_string()];
    let mut snapshots = Box::pin(client.index(IndexRequest { paths, full, ..IndexRequest::default() }).await?);
    let mut last = None;
    while let Some(snapshot) = snapshots.next().await {
        last = Some(snapshot?);
    }
    let job = last.ok_or_else(|| Error::internal("the daemon sent no snapshot of the job"))?;
    printer.line(&jobs::job_summary(&job))?;
    printer.flush()
}

/// Formats a question and the best part of its answer, with control characters escaped for a terminal.
fn format_answer(question: &str, shows: &str, response: &AskResponse) -> String {
    let mut out = format!("\n$ vic ask \"{question}\"   ({shows})\n");
    if let Some(summary) = &response.answer_summary {
        out.push_str(&format!("{}\n", text::wrap(summary, 2, usize::MAX)));
    }
    for hit in &response.hits {
        let (path, tier) = (text::escape_controls(&hit.path), hit.layers.join("+"));
        out.push_str(&format!("  {path}  {:.3}  {}, through {tier}\n", hit.score, hit.tier));
    }
    for warning in &response.warnings {
        out.push_str(&format!("  warning: {}\n", text::escape_controls(warning)));
    }
    if let Some(latency) = response.stats.as_ref().and_then(|it| it.latency_ms) {
        out.push_str(&format!("  {latency:.0} ms\n"));
    }
    out
}
