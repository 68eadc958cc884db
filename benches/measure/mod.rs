//! Code that the benches share: arguments, a timing loop with a warm-up, seeded random numbers, and the printed lines.
//!
//! Each measurement prints a JSON object: its name, the median, 10th and 99th percentile of its times in milliseconds, the
//! units (files, texts, rows) per second at the median, and the peak memory of the process so far. Uses no code of vic.

#![allow(dead_code, reason = "every bench includes this file and uses a part of it")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The result of a bench. Any error ends the bench with a message.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Returns the value after `--name` on the command line; `None` if it is missing.
pub(crate) fn argument(name: &str) -> Option<String> {
    let flag = format!("--{name}");
    std::env::args().skip_while(|it| *it != flag).nth(1)
}

/// Returns the number after `--name` on the command line, else `default`.
pub(crate) fn number_argument(name: &str, default: usize) -> Outcome<usize> {
    argument(name)
        .map_or(Ok(default), |text| text.parse().map_err(|_| format!("--{name} `{text}` is not a number").into()))
}

/// Returns the folder after `--folder` on the command line, else the folder of sample files.
pub(crate) fn corpus_folder() -> PathBuf {
    let sample = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data"));
    argument("folder").map_or_else(sample, PathBuf::from)
}

/// Creates a tree of `files` empty files: fifty files per folder, and twenty such folders in each parent folder.
pub(crate) fn make_tree(root: &Path, files: usize) -> Outcome<PathBuf> {
    for file in 0..files {
        let folder = root.join(format!("folder {}/{}", file / 1_000, file / 50));
        if file % 50 == 0 {
            std::fs::create_dir_all(&folder)?;
        }
        std::fs::write(folder.join(format!("file {}.txt", file % 50)), "")?;
    }
    Ok(root.to_path_buf())
}

/// Collects the durations of one measurement.
#[derive(Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// Runs `work` and records its duration.
    pub(crate) fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let value = work();
        self.add(begun);
        value
    }

    /// Records the time since `begun`.
    pub(crate) fn add(&mut self, begun: Instant) {
        self.push(begun.elapsed());
    }

    /// Records a duration that was measured elsewhere.
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// Prints the result of this measurement as a line. `units` is the number of units that one run handles; `more` holds
    /// further fields of the JSON object.
    pub(crate) fn report(mut self, name: &str, units: f64, unit: &str, more: Value) {
        self.0.sort_unstable();
        let at = |percent: usize| {
            let rank = (self.0.len() * percent).div_ceil(100).max(1) - 1;
            self.0.get(rank).map_or(0.0, Duration::as_secs_f64)
        };
        let ms = |seconds: f64| (seconds * 1e6).round() / 1e3;
        let mut line = json!({
            "what": name, "median_ms": ms(at(50)), "p10_ms": ms(at(10)), "p99_ms": ms(at(99)), "runs": self.0.len(),
            format!("{unit}_per_second"): (units / at(50).max(1e-9)).round(), "peak_rss_mib": peak_rss_mib(),
        });
        if let (Some(line), Value::Object(more)) = (line.as_object_mut(), more) {
            line.extend(more);
        }
        print(&line);
    }
}

/// Runs `work` once to warm up and `runs` times to measure, and prints the result.
pub(crate) fn measure(name: &str, runs: usize, units: f64, unit: &str, mut work: impl FnMut() -> Outcome) -> Outcome {
    work()?;
    let mut times = Times::default();
    for _ in 0..runs {
        times.time(&mut work)?;
    }
    times.report(name, units, unit, Value::Null);
    Ok(())
}

/// Prints a JSON object as one line.
#[expect(clippy::print_stdout, reason = "the lines are what a bench is for")]
pub(crate) fn print(line: &Value) {
    println!("{line}");
}

/// Returns the peak resident memory of this process so far in MiB, or 0 if the system does not report it.
pub(crate) fn peak_rss_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|it| it.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// A deterministic pseudo-random generator (splitmix64).
pub(crate) struct Rng(u64);

impl Rng {
    /// Makes a generator; the same seed gives the same numbers.
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D)
    }

    /// Returns the next 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random number in `0..1`.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a random number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.uniform() * limit as f64) as usize
    }

    /// Returns a random number with a nearly normal distribution: the sum of four uniform numbers.
    pub(crate) fn normal(&mut self) -> f32 {
        let bits = self.next();
        let sum: u64 = (0..4).map(|part| bits >> (16 * part) & 0xFFFF).sum();
        (sum as f32 / 65_535.0 - 2.0) * 1.732
    }
}
