//! `vic bench embed`: measures tokens per second, padding waste, and speed as a share of the CPU's peak.
//!
//! Texts are embedded as in indexing: a few texts per call, and several calls at the same time. Each setting gives a row.
//! If a setting fails (missing model, unresponsive server, too much memory), its row holds the error, and the other
//! settings are still measured.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use serde::Deserialize;
use serde_json::json;

use crate::bench::durations::Durations;
use crate::bench::figures::{
    BATCHES, CPU_PERCENT, PADDING_IF_SQUARE, PADDING_WASTE, PEAK_RSS_MIB, PEAK_SHARE, SECONDS_READY, TEXTS,
    TEXTS_PER_SECOND, TOKENS, TOKENS_PER_SECOND,
};
use crate::bench::matmul_peak::MatmulPeak;
use crate::bench::report::Row;
use crate::bench::resource_usage::ResourceUsage;
use crate::config::{Config, EmbedBackend, EmbedDevice};
use crate::daemon::Memory;
use crate::embed::models::ModelStore;
use crate::embed::{self, Embedder};
use crate::error::{Error, ErrorCode, Result};

/// How many texts are embedded in one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallSize {
    /// As many texts as the embedder prefers.
    #[default]
    Preferred,
    /// A fixed number of texts.
    Texts(usize),
    /// As many texts as fit into a number of tokens, but at least one.
    Tokens(usize),
}

/// Limits of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct MeasureLimits {
    /// Time limit of one call.
    pub call: Duration,
    /// No call starts after this time; the calls made until then are reported.
    pub total: Option<Duration>,
    /// Maximum resident memory of this process in MiB, checked after each call; more is an error.
    pub memory_mib: Option<f64>,
    /// Peak resident memory in MiB before the measurement, for systems that cannot reset the peak. Set by [`measure`].
    pub initial_peak_mib: f64,
}

impl Default for MeasureLimits {
    fn default() -> MeasureLimits {
        MeasureLimits { call: Duration::from_secs(120), total: None, memory_mib: None, initial_peak_mib: 0.0 }
    }
}

impl MeasureLimits {
    fn with_initial_peak(self, before_mib: f64) -> MeasureLimits {
        MeasureLimits { initial_peak_mib: before_mib, ..self }
    }
}

/// How texts are passed to the embedder.
#[derive(Clone, Copy, Debug)]
pub struct CallSettings {
    /// Number of texts per call.
    pub batch: CallSize,
    /// Number of concurrent calls.
    pub callers: usize,
    /// Limits of the measurement.
    pub bounds: MeasureLimits,
}

/// Opens the configured embedder, warms it up and measures it. Of a text that is too long, only the embedded tokens count.
///
/// # Errors
/// There are no texts; the embedder cannot be opened or fails; a call exceeds its timeout
/// ([`ErrorCode::DeadlineExceeded`]); memory exceeds its limit ([`ErrorCode::ResourceExhausted`]).
pub async fn measure(
    config: &Config,
    texts: &[String],
    manner: CallSettings,
    peak: Option<&MatmulPeak>,
) -> Result<Row> {
    if texts.is_empty() {
        return Err(Error::invalid("there are no texts to embed"));
    }
    let usage = ResourceUsage::start();
    let manner = CallSettings { bounds: manner.bounds.with_initial_peak(Memory::of_this_process().peak_mib), ..manner };
    let opened = tokio::time::timeout(manner.bounds.call, embed::open(config)).await;
    let embedder = opened.map_err(|_| timeout_error("does not open", manner.bounds.call))??;
    let ready = usage.seconds();
    let lengths = token_lengths(&*embedder, texts);
    let calls = split_into_calls(&lengths, manner.batch, embedder.batch_size());
    embed_call(&*embedder, &texts[calls[0].clone()], &manner.bounds).await?;
    let mut row = run_calls(&embedder, texts, &lengths, &calls, &manner).await?;
    row.set(SECONDS_READY, ready);
    if config.embed.backend != EmbedBackend::Onnx {
        // Removes the CPU and memory use of this process, because a server process computes the vectors.
        [CPU_PERCENT, PEAK_RSS_MIB].into_iter().for_each(|it| row.remove(it));
    }
    record_actual(&mut row, config, &*embedder, &manner);
    if let (Some(peak), Some(operations)) = (peak, operations_per_token(config)) {
        row.setting("peak", json!(peak));
        row.setting("operations_per_token", operations);
        let most = embedder.precision().and_then(|it| peak.operations_per_second(it));
        if let (Some(most), Some(speed)) = (most, row.get(TOKENS_PER_SECOND)) {
            row.set(PEAK_SHARE, speed * operations / most);
        }
    }
    Ok(row)
}

/// Returns the label of this configuration's row in tables.
pub fn config_label(config: &Config) -> String {
    let embed = &config.embed;
    match embed.backend {
        EmbedBackend::Onnx if embed.device == EmbedDevice::Cuda => {
            format!("{} {} (cuda)", embed.model, embed.precision)
        }
        EmbedBackend::Onnx => format!("{} {}", embed.model, embed.precision),
        EmbedBackend::Ollama | EmbedBackend::OpenAi => format!("{} ({})", embed.model, embed.backend.name()),
    }
}

async fn run_calls(
    embedder: &Arc<dyn Embedder>,
    texts: &[String],
    lengths: &[usize],
    calls: &[std::ops::Range<usize>],
    manner: &CallSettings,
) -> Result<Row> {
    let usage = ResourceUsage::start();
    let within = || manner.bounds.total.is_none_or(|most| usage.seconds() < most.as_secs_f64());
    let begin = |at: &std::ops::Range<usize>| {
        let at = at.clone();
        async move {
            let begun = Instant::now();
            embed_call(&**embedder, &texts[at.clone()], &manner.bounds).await?;
            Ok::<_, Error>((begun.elapsed().as_secs_f64() * 1_000.0, at))
        }
    };
    let under_way = futures::stream::iter(calls).take_while(|_| std::future::ready(within())).map(begin);
    let done: Vec<(f64, std::ops::Range<usize>)> = under_way.buffered(manner.callers.max(1)).try_collect().await?;
    let mut row = Row::default();
    usage.write_to(&mut row);
    let seconds = usage.seconds();
    let measured = || done.iter().map(|it| it.1.clone());
    let tokens: usize = measured().map(|at| lengths[at].iter().sum::<usize>()).sum();
    let square: usize = measured().map(|at| at.len() * lengths[at].iter().max().unwrap_or(&0)).sum();
    let count: usize = measured().map(|at| at.len()).sum();
    row.rate(TOKENS_PER_SECOND, tokens as f64, seconds);
    row.rate(TEXTS_PER_SECOND, count as f64, seconds);
    row.set(TOKENS, tokens as f64);
    row.set(TEXTS, count as f64);
    row.set(BATCHES, done.len() as f64);
    row.set(PADDING_IF_SQUARE, 1.0 - tokens as f64 / square as f64);
    if let Some(waste) = embedder.padding_waste() {
        row.set(PADDING_WASTE, waste);
    }
    Durations::new(done.into_iter().map(|it| it.0).collect()).write_to(&mut row);
    Ok(row)
}

/// Embeds texts in one call, within the limits on time and memory.
async fn embed_call(embedder: &dyn Embedder, texts: &[String], bounds: &MeasureLimits) -> Result<()> {
    let vectors = tokio::time::timeout(bounds.call, embedder.embed_documents(texts))
        .await
        .map_err(|_| timeout_error(&format!("does not embed {} texts", texts.len()), bounds.call))??;
    if vectors.len() != texts.len() {
        return Err(Error::internal(format!("{} texts gave {} vectors", texts.len(), vectors.len())));
    }
    check_memory(bounds)
}

/// Checks the peak of memory use since the start of the measurement, which includes opening the model.
fn check_memory(bounds: &MeasureLimits) -> Result<()> {
    let Memory { rss_mib, peak_mib, .. } = Memory::of_this_process();
    let taken = if peak_mib > bounds.initial_peak_mib { peak_mib } else { rss_mib };
    match bounds.memory_mib {
        Some(most) if taken > most => Err(Error::new(
            ErrorCode::ResourceExhausted,
            format!("{taken:.0} MiB of memory were used, but only {most:.0} MiB are allowed"),
        )
        .hint("use fewer threads (fewer copies of the model) or int8 instead of fp32, or allow more memory")),
        _ => Ok(()),
    }
}

fn timeout_error(what: &str, bound: Duration) -> Error {
    Error::new(ErrorCode::DeadlineExceeded, format!("the backend {what} within {} s", bound.as_secs_f64()))
        .hint("use fewer texts in a call with --batch, or more time with --timeout")
}

/// Returns the number of tokens of each text, at most as many as the model embeds.
fn token_lengths(embedder: &dyn Embedder, texts: &[String]) -> Vec<usize> {
    let counter = embedder.token_counter();
    texts.iter().map(|it| counter.token_spans(it).len().min(counter.max_chunk_tokens())).collect()
}

/// Returns the range of texts of each call. `own` is the number of texts that the embedder prefers.
fn split_into_calls(lengths: &[usize], batch: CallSize, own: usize) -> Vec<std::ops::Range<usize>> {
    let texts = match batch {
        CallSize::Preferred => own,
        CallSize::Texts(texts) => texts,
        CallSize::Tokens(_) => usize::MAX,
    };
    let tokens = if let CallSize::Tokens(tokens) = batch { tokens } else { usize::MAX };
    let mut calls = Vec::new();
    let (mut start, mut held) = (0, 0_usize);
    for (at, length) in lengths.iter().enumerate() {
        if at > start && (at - start >= texts.max(1) || held.saturating_add(*length) > tokens) {
            calls.push(start..at);
            (start, held) = (at, 0);
        }
        held += length;
    }
    calls.push(start..lengths.len());
    calls
}

/// Returns a row with the error, for settings that could not be measured.
pub fn failed_row(config: &Config, manner: &CallSettings, error: Error) -> Row {
    let mut row = Row::failed(config_label(config), error);
    row.setting("engine", config.embed.engine.name());
    record_requested(&mut row, config, manner);
    row
}

/// Records the settings that the user requested in a row.
fn record_requested(row: &mut Row, config: &Config, manner: &CallSettings) {
    let embed = &config.embed;
    row.setting("backend", embed.backend.name());
    row.setting("model", embed.model.clone());
    if embed.backend == EmbedBackend::Onnx {
        row.setting("precision", embed.precision.clone());
        row.setting("threads", embed.threads);
        row.setting("device", embed.device.name());
    } else {
        row.setting("tokens", "estimated");
    }
    match manner.batch {
        CallSize::Tokens(tokens) => row.setting("batch_tokens", tokens),
        CallSize::Texts(texts) => row.setting("batch", texts),
        CallSize::Preferred => (),
    }
    row.setting("callers", manner.callers);
}

fn record_actual(row: &mut Row, config: &Config, embedder: &dyn Embedder, manner: &CallSettings) {
    row.label = config_label(config);
    record_requested(row, config, manner);
    if let Some(precision) = embedder.precision().filter(|it| *it != config.embed.precision) {
        row.label = format!("{} {precision}", config.embed.model);
        row.setting("precision", precision);
    }
    row.setting("engine", embedder.engine());
    if manner.batch == CallSize::Preferred {
        row.setting("batch", embedder.batch_size());
    }
    row.setting("dimension", embedder.dimension());
    row.setting("fingerprint", embedder.fingerprint());
}

/// Returns the arithmetic operations of the linear layers per token; `None` if no local file describes the model. The
/// attention, which is not counted, adds about a tenth for a text of 256 tokens.
fn operations_per_token(config: &Config) -> Option<f64> {
    #[derive(Deserialize)]
    struct Shape {
        hidden_size: f64,
        intermediate_size: f64,
        num_hidden_layers: f64,
    }
    if config.embed.backend != EmbedBackend::Onnx {
        return None;
    }
    let model = &config.embed.model;
    let path = match ModelStore::new(config.model_dirs.clone()).locate_file(model, "config.json") {
        Ok(path) => path,
        Err(_) => Path::new(model).join("config.json"),
    };
    let shape: Shape = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
    // A layer has four weight matrices in the attention and two in the feed-forward part; a multiply-add is two operations.
    let weights = 4.0 * shape.hidden_size * shape.hidden_size + 2.0 * shape.hidden_size * shape.intermediate_size;
    Some(2.0 * weights * shape.num_hidden_layers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_respect_batch_and_cover_each_text_once() {
        let lengths = [5, 5, 5, 100, 1];
        let check = |batch, ends: &[usize]| {
            let calls = split_into_calls(&lengths, batch, 4);
            assert_eq!(calls.iter().map(|it| it.end).collect::<Vec<_>>(), ends, "{batch:?}");
            assert_eq!(calls.into_iter().flatten().collect::<Vec<_>>(), [0, 1, 2, 3, 4], "{batch:?}");
        };
        check(CallSize::Preferred, &[4, 5]);
        check(CallSize::Texts(2), &[2, 4, 5]);
        check(CallSize::Texts(0), &[1, 2, 3, 4, 5]);
        check(CallSize::Tokens(10), &[2, 3, 4, 5]);
        check(CallSize::Tokens(1_000), &[5]);
    }

    #[tokio::test]
    async fn missing_texts_or_model_are_named_in_error() {
        let dir = tempfile::tempdir().unwrap();
        let lookup = |name: &str| (name == "VIC_DATA_DIR").then(|| dir.path().as_os_str().to_owned());
        let mut config = Config::from_lookup(&lookup).unwrap();
        let manner = CallSettings { batch: CallSize::Preferred, callers: 1, bounds: MeasureLimits::default() };
        assert!(measure(&config, &[], manner, None).await.unwrap_err().message.contains("no texts"));
        config.embed.model = "no-such-model".into();
        let error = measure(&config, &["a".into()], manner, None).await.unwrap_err();
        assert!(error.code == ErrorCode::NotFound && error.hint.is_some(), "{error}");
    }
}
