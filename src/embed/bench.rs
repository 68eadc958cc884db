//! Measures an embedder: tokens per second, and how long a batch takes.

use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::config::EmbedConfig;
use crate::embed::Embedder;
use crate::error::{Error, Result};

/// Texts of the built-in mix, about a minute's work for one slow core.
const SAMPLE_TEXTS: usize = 512;

/// Words of the built-in mix: of the length and shape that prose has.
const WORDS: &str = "the of and archive invoice quarterly report meeting engine temperature measured between paragraph \
    section results were compared with earlier observations which suggests that pressure along surface increases near \
    boundary layer 2024 contract delivery address customer shall not exceed figure table shows method proposed in this \
    paper we describe a system for indexing local documents without network access";

/// What an embedder achieved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// Tokens a second, special tokens not counted.
    pub tokens_per_second: f64,
    /// Texts a second.
    pub texts_per_second: f64,
    /// Texts measured.
    pub texts: usize,
    /// Tokens measured.
    pub tokens: usize,
    /// Seconds measured.
    pub seconds: f64,
    /// Median time of a batch, in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of the time of a batch, in milliseconds.
    pub p99_ms: f64,
    /// Largest resident memory of this process so far, in MiB; 0 where the system does not tell.
    pub peak_rss_mib: f64,
    /// What was measured.
    pub settings: Settings,
    /// Where it was measured.
    pub machine: Machine,
}

/// The settings of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// `onnx`, `ollama` or `openai`.
    pub backend: String,
    /// The model's name.
    pub model: String,
    /// `int8` or `fp32`; the server's own business for remote backends.
    pub precision: String,
    /// What computes in process; `server` for remote backends.
    #[serde(default)]
    pub engine: String,
    /// Threads; 0 is one per core.
    pub threads: usize,
    /// Length of the vectors.
    pub dimension: usize,
    /// Texts in a call.
    pub batch: usize,
    /// Fingerprint of the vectors.
    pub fingerprint: String,
}

/// A machine, as far as it matters for a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Operating system and architecture.
    pub os: String,
}

/// Embeds `texts` in batches, after a warm-up, and reports. Texts that are too long count as far as they are embedded.
///
/// # Errors
/// There are no texts, or the embedder fails.
pub async fn bench(embedder: Arc<dyn Embedder>, config: &EmbedConfig, texts: &[String]) -> Result<BenchReport> {
    let batch = embedder.batch_size().max(1);
    let Some(warm_up) = texts.chunks(batch).next() else { return Err(Error::invalid("there are no texts to embed")) };
    let counter = embedder.token_counter();
    let tokens = texts.iter().map(|it| counter.token_spans(it).len().min(counter.max_chunk_tokens())).sum();
    embedder.embed_documents(warm_up).await?;
    let mut times = Vec::with_capacity(texts.len() / batch + 1);
    let start = Instant::now();
    for texts in texts.chunks(batch) {
        let start = Instant::now();
        embedder.embed_documents(texts).await?;
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    let seconds = start.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    Ok(BenchReport {
        tokens_per_second: tokens as f64 / seconds,
        texts_per_second: texts.len() as f64 / seconds,
        texts: texts.len(),
        tokens,
        seconds,
        p50_ms: percentile(&times, 50),
        p99_ms: percentile(&times, 99),
        peak_rss_mib: peak_rss_mib(),
        settings: Settings {
            backend: format!("{:?}", config.backend).to_lowercase(),
            model: config.model.clone(),
            precision: config.precision.clone(),
            engine: embedder.engine().to_string(),
            threads: config.threads,
            dimension: embedder.dimension(),
            batch,
            fingerprint: embedder.fingerprint().to_string(),
        },
        machine: machine(),
    })
}

/// Returns a mix of texts of 10 to 300 words, the same every time.
pub fn sample_texts() -> Vec<String> {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut state = 7u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let text = |_| {
        let count = 10 + random(291);
        let picked: Vec<&str> = (0..count).map(|_| words[random(words.len())]).collect();
        picked.join(" ")
    };
    (0..SAMPLE_TEXTS).map(text).collect()
}

/// The smallest value that at least `percent` of the sorted values do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0.0)
}

fn machine() -> Machine {
    let cpu = line_of("/proc/cpuinfo", "model name").map(|it| it.trim_start_matches([':', ' ', '\t']).to_string());
    Machine {
        cpu: cpu.unwrap_or_else(|| "unknown".into()),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_mib: kib_of("/proc/meminfo", "MemTotal:") / 1024,
        os: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
    }
}

fn peak_rss_mib() -> f64 {
    kib_of("/proc/self/status", "VmHWM:") as f64 / 1024.0
}

fn kib_of(path: &str, key: &str) -> u64 {
    let line = line_of(path, key).unwrap_or_default();
    line.split_whitespace().next().and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// Returns the rest of the line that begins with `key`; other systems have no such files.
fn line_of(path: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)).map(|it| it.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values = [1.0, 2.0, 3.0, 4.0];
        assert_eq!((percentile(&values, 50), percentile(&values, 99)), (2.0, 4.0));
        assert_eq!(percentile(&[], 50), 0.0);
    }

    #[test]
    fn the_sample_is_the_same_every_time_and_of_mixed_lengths() {
        let texts = sample_texts();
        assert_eq!(texts, sample_texts());
        let lengths: Vec<usize> = texts.iter().map(|it| it.split(' ').count()).collect();
        assert!(lengths.iter().min() < Some(&20) && lengths.iter().max() > Some(&280));
    }
}
