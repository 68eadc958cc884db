//! `vic models use`: switches the daemon to another embedding model, after stating what that costs.

use std::io::{BufRead, IsTerminal};
use std::time::{Duration, Instant};

use vic_cli::daemon::stop_daemon;
use vic_cli::output::Printer;
use vic_cli::text;

use crate::client::Client;
use crate::config::{self, Config, EmbedBackend, EmbedConfig, Origin};
use crate::embed::models::ModelStore;
use crate::embed::{Embedder, sample_texts};
use crate::error::{Error, ErrorCode, Result};
use crate::model::Status;

/// How long the speed of the new model is measured on this machine.
const MEASURED: Duration = Duration::from_secs(3);

/// The variable that names the model.
const VARIABLE: &str = "VIC_EMBED_MODEL";

/// What a switch costs.
#[derive(Debug, PartialEq)]
struct Cost {
    /// Chunks that must be embedded again.
    chunks: u64,
    /// Time that this takes if nothing else runs.
    seconds: f64,
    /// Disk space of the new vectors in bytes.
    bytes: u64,
}

/// Checks the model, states the cost, asks for confirmation unless `yes` is set, and restarts the daemon with the model.
pub(super) async fn run(
    store: &ModelStore,
    config: &Config,
    name: &str,
    yes: bool,
    printer: &mut Printer,
) -> Result<()> {
    require_changeable(config)?;
    require_present(store, name)?;
    let client = Client::connect_or_start(config).await?;
    let status = client.status().await?;
    if config.embed.model == name {
        return printer.line(&format!("{name} is the model in use"));
    }
    let settings = EmbedConfig { model: name.to_string(), ..config.embed.clone() };
    // Loading the model here shows that the daemon can load it.
    let model = crate::embed::open(&Config { embed: settings, ..config.clone() }).await?;
    let cost = estimate(&status, model.dimension(), chunks_per_second(&*model).await?);
    drop(model);
    printer.line(&cost_text(&config.embed.model, name, &cost))?;
    printer.flush()?;
    if !yes && !confirmed(printer)? {
        return printer.line("nothing was changed");
    }
    config::set_in_file(&config.data_dir, VARIABLE, name)?;
    drop(client);
    stop_daemon(config).await?;
    let config = Config::load()?;
    let status = Client::connect_or_start(&config).await?.status().await?;
    printer.line(&format!("{} is in use; `vic status` shows when every file has vectors of it", status.embed_model))
}

/// Refuses a switch that `config.toml` could not bring about.
fn require_changeable(config: &Config) -> Result<()> {
    if config.embed.backend != EmbedBackend::Onnx {
        let backend = config.embed.backend.name();
        return Err(Error::invalid(format!("the embedding backend is `{backend}`, not a model of `vic models list`"))
            .hint("set VIC_EMBED_BACKEND to `onnx` first"));
    }
    let fixed = config::settings()?.into_iter().any(|it| it.name == VARIABLE && it.origin == Origin::Environment);
    if fixed {
        return Err(Error::new(
            ErrorCode::FailedPrecondition,
            format!(
                "{VARIABLE} is set in the environment, which takes precedence over the choice stored by this command"
            ),
        )
        .hint(format!("unset {VARIABLE}, or change it there and restart the daemon")));
    }
    Ok(())
}

/// Refuses a model that is not on this machine. The path of a user's own model is checked when it is opened.
fn require_present(store: &ModelStore, name: &str) -> Result<()> {
    if name.contains(std::path::is_separator) || name.ends_with(".onnx") {
        return Ok(());
    }
    store.entry(name)?;
    match store.list()?.iter().any(|it| it.name == name && it.present) {
        true => Ok(()),
        false => Err(Error::not_found(format!("the model `{name}` is not on this machine"))
            .hint(format!("run `vic models pull {name}` first"))),
    }
}

/// Measures how many passages the model embeds per second on this machine.
async fn chunks_per_second(model: &dyn Embedder) -> Result<f64> {
    let texts = sample_texts();
    let batch = &texts[..texts.len().min(model.batch_size().max(1))];
    let (start, mut done) = (Instant::now(), 0);
    for part in batch.chunks(8).cycle() {
        model.embed_documents(part).await?;
        done += part.len();
        if start.elapsed() >= MEASURED {
            break;
        }
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
}

fn estimate(status: &Status, dimension: usize, chunks_per_second: f64) -> Cost {
    Cost {
        chunks: status.chunks,
        seconds: status.chunks as f64 / chunks_per_second.max(f64::MIN_POSITIVE),
        // The new table also has the text of the chunks and its keyword index, as the old one has.
        bytes: status.store_bytes + status.chunks * dimension.saturating_sub(status.dimension as usize) as u64 * 4,
    }
}

fn cost_text(from: &str, to: &str, cost: &Cost) -> String {
    format!(
        "switching from {from} to {to} embeds {} again: about {} at full speed on this machine, and up to {} more disk \
         space until the old index is dropped. The old index answers meanwhile; views and the graph stay.",
        text::plural(cost.chunks, "chunk"),
        text::format_duration(cost.seconds.ceil()),
        text::format_bytes(cost.bytes),
    )
}

/// Asks the user. Without a terminal there is no answer.
fn confirmed(printer: &mut Printer) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Error::new(
            ErrorCode::FailedPrecondition,
            "the switch needs a confirmation, but there is no terminal",
        )
        .hint("add `--yes`"));
    }
    printer.line("switch? [y/N]")?;
    printer.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(Error::internal)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::samples;

    #[test]
    fn cost_grows_with_chunks_and_dimension() {
        let status = Status { chunks: 9_000, dimension: 384, store_bytes: 1_000, ..samples::status() };
        assert_eq!(estimate(&status, 384, 10.0), Cost { chunks: 9_000, seconds: 900.0, bytes: 1_000 });
        assert_eq!(estimate(&status, 768, 10.0).bytes, 1_000 + 9_000 * 384 * 4);
        let text = cost_text("a", "b", &estimate(&status, 384, 10.0));
        assert!(text.contains("9,000 chunks") && text.contains("15m"), "{text}");
    }

    #[test]
    fn absent_model_is_refused_with_command() {
        let dir = tempfile::tempdir().unwrap();
        let store = ModelStore::new(vec![dir.path().into()]);
        let error = require_present(&store, "multilingual-e5-small").unwrap_err();
        assert_eq!(
            (error.code, error.hint.unwrap()),
            (ErrorCode::NotFound, "run `vic models pull multilingual-e5-small` first".into())
        );
        assert!(require_present(&store, "no-such-model").unwrap_err().message.contains("unknown model"));
        require_present(&store, "/own/model").unwrap();
    }
}
