//! `vic bench`: measures parts of vic on this machine, in this process, without the daemon.

use std::path::{Path, PathBuf};

use crate::cli::output::{Format, FormatArgs, Printer};
use crate::config::{Config, EmbedBackend, EmbedEngine};
use crate::embed::{self, BenchReport};
use crate::error::{Error, IoContext, Result};

/// Arguments of `vic bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Measures how many tokens are embedded a second
    Embed(EmbedArgs),
}

/// What to embed, and with what; without options, what the configuration says.
#[derive(Debug, clap::Args)]
struct EmbedArgs {
    /// Embeds the `text` of every line of this file; without it, generated passages of mixed length
    #[arg(long, value_name = "FILE.jsonl")]
    texts: Option<PathBuf>,
    /// Backend: onnx, ollama or openai
    #[arg(long, value_parser = ["onnx", "ollama", "openai"])]
    backend: Option<String>,
    /// Model
    #[arg(long)]
    model: Option<String>,
    /// Precision of the in-process model
    #[arg(long, value_parser = ["int8", "fp32"])]
    precision: Option<String>,
    /// What computes in process: vic's own encoder, ONNX Runtime, or whichever suits
    #[arg(long, value_parser = ["auto", "own", "onnx"])]
    engine: Option<String>,
    /// Texts embedded at the same time; 0 is one per core
    #[arg(long)]
    threads: Option<usize>,
    #[command(flatten)]
    output: FormatArgs,
}

/// Does what was asked.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let Command::Embed(args) = args.command;
    let config = with(&args, config);
    let texts = match &args.texts {
        Some(path) => read_texts(path)?,
        None => embed::sample_texts(),
    };
    let embedder = embed::open(&config).await?;
    let report = embed::bench(embedder, &config.embed, &texts).await?;
    match args.output.format {
        Format::Json => printer.json(&report),
        Format::Human => printer.line(&table(&report)),
    }
}

/// The configuration with the options over it.
fn with(args: &EmbedArgs, config: &Config) -> Config {
    let mut config = config.clone();
    match args.backend.as_deref() {
        Some("ollama") => config.embed.backend = EmbedBackend::Ollama,
        Some("openai") => config.embed.backend = EmbedBackend::OpenAi,
        Some("onnx") => config.embed.backend = EmbedBackend::Onnx,
        Some(_) | None => (),
    }
    match args.engine.as_deref() {
        Some("own") => config.embed.engine = EmbedEngine::Own,
        Some("onnx") => config.embed.engine = EmbedEngine::Onnx,
        Some("auto") => config.embed.engine = EmbedEngine::Auto,
        Some(_) | None => (),
    }
    let embed = &mut config.embed;
    embed.model = args.model.clone().unwrap_or(std::mem::take(&mut embed.model));
    embed.precision = args.precision.clone().unwrap_or(std::mem::take(&mut embed.precision));
    embed.threads = args.threads.unwrap_or(embed.threads);
    config
}

fn read_texts(path: &Path) -> Result<Vec<String>> {
    let content = std::fs::read_to_string(path).at("read", path)?;
    let wrong = |number: usize| Error::invalid(format!("line {number} of `{}` has no `text`", path.display()));
    let lines = content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let texts: Vec<String> = lines
        .map(|(index, line)| {
            let value: serde_json::Value = serde_json::from_str(line).map_err(|_| wrong(index + 1))?;
            value["text"].as_str().map(String::from).ok_or_else(|| wrong(index + 1))
        })
        .collect::<Result<_>>()?;
    if texts.is_empty() {
        return Err(Error::invalid(format!("`{}` holds no text", path.display())));
    }
    Ok(texts)
}

fn table(report: &BenchReport) -> String {
    let (settings, machine) = (&report.settings, &report.machine);
    format!(
        "{:.0} tokens/s, {:.1} texts/s ({} texts, {} tokens, {:.1} s)\n\
         a batch of {}: median {:.1} ms, 99th percentile {:.1} ms; peak memory {:.0} MiB\n\
         {} by {}, {} ({}), {} threads\n\
         {}, {} cores, {} MiB, {}",
        report.tokens_per_second,
        report.texts_per_second,
        report.texts,
        report.tokens,
        report.seconds,
        settings.batch,
        report.p50_ms,
        report.p99_ms,
        report.peak_rss_mib,
        settings.model,
        settings.backend,
        settings.precision,
        settings.engine,
        settings.threads,
        machine.cpu,
        machine.cores,
        machine.memory_mib,
        machine.os,
    )
}
