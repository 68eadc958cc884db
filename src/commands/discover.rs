//! `vic discover`: extracts proposals for entities and relations from files, has a model add more, and puts accepted
//! proposals into a graph. Each step writes a file for review; only the last one changes the graph.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chrono::{SecondsFormat, Utc};
use serde_json::Value;

use crate::agent::{Promotion, Proposer, chunk_text, promote_proposals, validate_proposals};
use crate::client::{AssistWork, Client};
use crate::config::Config;
use crate::error::{Error, IoContext, Result};
use crate::model::{Document, FileFilter, FileState, GraphFormat, Place};
use vic_cli::llm::{OverArgs, TimeArgs};
use vic_cli::output::{Printer, print_note};
use vic_cli::{graph, text, value_parsers};

/// Number of files per request to list files.
const PAGE_SIZE: u32 = 500;
/// Maximum number of evidence texts that are sent to a model; further ones are left out.
const MAX_EVIDENCE_CHUNKS: usize = 400;

/// Arguments of `vic discover`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Extracts proposals from the indexed files: documents, sections, people, links
    Proposals {
        /// Only files below this folder
        #[arg(long)]
        root: Option<PathBuf>,
        /// Maximum number of files to read
        #[arg(long, default_value_t = 1_000)]
        max_files: u64,
        /// File to write the proposals to
        #[arg(long)]
        out: PathBuf,
    },
    /// Has a model add entities, relations and routes to a file of proposals
    #[command(visible_alias = "augment-proposals")]
    Augment {
        /// File with the proposals
        proposals: PathBuf,
        /// File to write the extended proposals to
        #[arg(long)]
        out: PathBuf,
        /// Maximum number of proposals to add
        #[arg(long, default_value_t = 2_000)]
        max_new_proposals: u32,
        #[command(flatten)]
        over: OverArgs,
        #[command(flatten)]
        time: TimeArgs,
    },
    /// Adds the accepted proposals to the graph; with --out, writes them to a file instead
    Promote {
        /// File with the proposals
        proposals: PathBuf,
        /// File to write the accepted proposals to, for `vic graph import`
        #[arg(long)]
        out: Option<PathBuf>,
        /// Name of the source in the graph; replaces a source with that name; default: the file's name
        #[arg(long, conflicts_with = "out")]
        name: Option<String>,
        /// Only proposals of at least this confidence, 0 to 1
        #[arg(long, default_value_t = 0.5)]
        min_confidence: f64,
        /// Only the proposal with this proposal_id; may be given several times
        #[arg(long = "only", value_name = "ID")]
        only: Vec<String>,
    },
}

/// Runs the selected step.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    match args.command {
        Command::Proposals { root, max_files, out } => {
            write_proposals(root.as_deref(), max_files, &out, config, printer).await
        }
        Command::Augment { proposals, out, max_new_proposals, over, time } => {
            let file = read_json(&proposals)?;
            validate_proposals(&file)?;
            let client = Client::connect_or_start(config).await?;
            let chunks = read_evidence(&client, &file).await;
            let work = AssistWork::Augment { proposals: file, chunks, most: max_new_proposals };
            let augmented = client.assist(work, over.over(time)?).await?;
            write_json(&out, &augmented["proposals"])?;
            for left_out in augmented["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                print_note(left_out);
            }
            let count = |name: &str| augmented[name].as_u64().unwrap_or(0);
            let unproven = match count("unproven") {
                0 => String::new(),
                some => format!(" ({some} unproven)"),
            };
            let (added, routed) = (count("added"), count("routed"));
            let model = augmented["model"].as_str().unwrap_or_default();
            printer.line(&text::escape_controls(&format!(
                "proposals added: {added}{unproven}; schema hints set: {routed}; model: {model}"
            )))
        }
        Command::Promote { proposals, out, name, min_confidence, only } => {
            let graph = promote_proposals(&read_json(&proposals)?, &Promotion { min_confidence, only })?;
            let Some(out) = out else {
                let name = name.unwrap_or_else(|| graph::default_import_name(&proposals));
                return graph::import_graph(name, GraphFormat::Json, graph.to_string(), config, printer).await;
            };
            write_json(&out, &graph)?;
            let count = |name: &str| graph[name].as_array().map_or(0, Vec::len) as u64;
            printer.line(&format!("{}, {}", text::plural(count("nodes"), "node"), text::plural(count("edges"), "edge")))
        }
    }
}

async fn write_proposals(
    root: Option<&Path>,
    most: u64,
    out: &Path,
    config: &Config,
    printer: &mut Printer,
) -> Result<()> {
    let under = root.map(value_parsers::absolute_path).transpose()?;
    let client = Client::connect_or_start(config).await?;
    let filter = FileFilter {
        under: under.as_ref().map(PathBuf::from),
        state: Some(FileState::Indexed),
        ..FileFilter::default()
    };
    let mut proposer = Proposer::default();
    let mut read = 0;
    while read < most {
        let files = client.files(filter.clone(), PAGE_SIZE, read).await?.files;
        if files.is_empty() {
            break;
        }
        for file in files.iter().take(usize::try_from(most - read).unwrap_or(usize::MAX)) {
            let Some(path) = file.absolute().to_str().map(String::from) else { continue };
            match client.read(&path, &Place::default()).await {
                Ok(document) => proposer.add_document(&path, &document),
                Err(error) => print_note(&format!("left out: {}", error.message)),
            }
        }
        read += files.len() as u64;
    }
    let now = Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true);
    let file = proposer.into_file(&now, under.as_deref().unwrap_or("all roots"));
    write_json(out, &file)?;
    let count = file["proposals"].as_array().map_or(0, Vec::len) as u64;
    printer.line(&format!("{} of {}", text::plural(count, "proposal"), text::plural(read.min(most), "file")))
}

/// Reads the texts that the proposals cite as evidence; skips those that cannot be read.
async fn read_evidence(client: &Client, file: &Value) -> Vec<(String, String)> {
    let proposals = file["proposals"].as_array().into_iter().flatten();
    let cited = proposals.filter_map(|it| it["evidence"].as_array()).flatten();
    let mut documents: BTreeMap<String, Option<Document>> = BTreeMap::new();
    let mut chunks = BTreeMap::new();
    for chunk in cited.filter_map(|it| it["chunk_id"].as_str()) {
        if chunks.len() == MAX_EVIDENCE_CHUNKS {
            break;
        }
        let Some((path, _)) = chunk.rsplit_once('#').filter(|(path, _)| path.starts_with('/')) else { continue };
        if !documents.contains_key(path) {
            documents.insert(path.to_string(), client.read(path, &Place::default()).await.ok());
        }
        if let Some(text) = documents[path].as_ref().and_then(|it| chunk_text(it, chunk)) {
            chunks.insert(chunk.to_string(), text.to_string());
        }
    }
    chunks.into_iter().collect()
}

fn read_json(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).io_context("read", path)?;
    serde_json::from_str(&text).map_err(|error| Error::invalid(format!("`{}` is not JSON: {error}", path.display())))
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(Error::internal)?;
    std::fs::write(path, text + "\n").io_context("write", path)
}
