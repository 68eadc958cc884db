//! `vic demo`: a sample warehouse, a daemon of its own, and a few questions through every tier.
//!
//! Everything lies in the folder `demo` of the data directory: the user's own index is not touched.

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

/// The sample warehouse, as it lies in the project.
static SAMPLE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../data");

/// Questions, and what each shows.
const QUESTIONS: &[(&str, &str)] = &[
    ("ext:pdf path:Contracts", "L0: names, dates and sizes alone"),
    ("Who keeps the spare key of the Cinder Bay hut?", "L1: words and meaning"),
    ("How much notice must we give to leave the workshop on the quay?", "L1: words and meaning"),
    ("Who signed the IDR contract?", "L2: the page itself is looked at"),
    ("Who signed the IDR contract?", "L1 again: what was seen is in the index now"),
];

/// Arguments of `vic demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Read and embed every sample file again
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Ask at once, of what an earlier demo has indexed
    #[arg(long)]
    quick: bool,
}

/// Seeds, indexes, asks, and ends the daemon again.
pub(crate) async fn run(args: Args, users: &Config, printer: &mut Printer) -> Result<()> {
    let config = own(users);
    let warehouse = config.data_dir.with_file_name("warehouse");
    directory::prepare(users)?;
    seed(&warehouse)?;
    printer.line(&format!("sample warehouse: {}", text::visible(&warehouse.display().to_string())))?;
    printer.flush()?;
    let client = Client::connect_or_start(&config).await?;
    let shown = show(&args, &client, &warehouse, printer).await;
    // The demo leaves nothing running, whatever became of it.
    let stopped = client.shutdown().await;
    shown.and(stopped)
}

/// The configuration of the demo's own daemon, whose folder nobody else uses.
fn own(config: &Config) -> Config {
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

/// Writes the sample files that are missing or different.
fn seed(warehouse: &Path) -> Result<()> {
    fn write(dir: &Dir<'_>, warehouse: &Path) -> Result<()> {
        for file in dir.files() {
            let path = warehouse.join(file.path());
            if std::fs::read(&path).is_ok_and(|it| it == file.contents()) {
                continue;
            }
            let parent = path.parent().unwrap_or(warehouse);
            std::fs::create_dir_all(parent).at("create", parent)?;
            std::fs::write(&path, file.contents()).at("write", &path)?;
        }
        dir.dirs().try_for_each(|it| write(it, warehouse))
    }
    write(&SAMPLE, warehouse)
}

async fn show(args: &Args, client: &Client, warehouse: &Path, printer: &mut Printer) -> Result<()> {
    if !args.quick {
        index(args.full, client, warehouse, printer).await?;
    } else if !client.status().await?.index_ready {
        let sentence = "no earlier demo has indexed the sample, and `--quick` asks only of what one has";
        return Err(Error::new(ErrorCode::FailedPrecondition, sentence).hint("run `vic demo` once"));
    }
    let mut tiers = BTreeSet::new();
    for (question, shows) in QUESTIONS {
        let request = AskRequest { query: (*question).into(), limit: Some(2), ..AskRequest::default() };
        let response = client.ask(request).await?;
        tiers.extend(response.hits.iter().flat_map(|it| it.layers.iter().cloned()));
        printer.raw(&told(question, shows, &response))?;
        printer.flush()?;
    }
    let tiers: Vec<String> = tiers.into_iter().collect();
    printer.line(&format!("\ntiers that took part: {}", tiers.join(", ")))
}

async fn index(full: bool, client: &Client, warehouse: &Path, printer: &mut Printer) -> Result<()> {
    let paths = vec![warehouse.display().to_string()];
    let mut snapshots = Box::pin(client.index(IndexRequest { paths, full, ..IndexRequest::default() }).await?);
    let mut last = None;
    while let Some(snapshot) = snapshots.next().await {
        last = Some(snapshot?);
    }
    let job = last.ok_or_else(|| Error::internal("the job gave no snapshot"))?;
    printer.line(&jobs::summary(&job))?;
    printer.flush()
}

/// A question and the best of its answer, made safe for a terminal.
fn told(question: &str, shows: &str, response: &AskResponse) -> String {
    let mut out = format!("\n$ vic ask \"{question}\"   ({shows})\n");
    if let Some(summary) = &response.answer_summary {
        out.push_str(&format!("{}\n", text::wrap(summary, 2, usize::MAX)));
    }
    for hit in &response.hits {
        let (path, tier) = (text::visible(&hit.path), hit.layers.join("+"));
        out.push_str(&format!("  {path}  {:.3}  {}, through {tier}\n", hit.score, hit.tier));
    }
    for warning in &response.warnings {
        out.push_str(&format!("  warning: {}\n", text::visible(warning)));
    }
    if let Some(latency) = response.stats.as_ref().and_then(|it| it.latency_ms) {
        out.push_str(&format!("  {latency:.0} ms\n"));
    }
    out
}
