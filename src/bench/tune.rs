//! `vic bench embed --autotune`: finds the fastest setting of the embedder on this machine.
//!
//! Tries only settings that do not change the vectors: the number of threads and of texts per call. Another model or
//! precision would need another index. All settings are measured several times in rotation, because the speed of a shared
//! machine varies, and the median of its measurements counts for each setting.

use std::time::Duration;

use crate::bench::embed::{self, CallSettings, CallSize, MeasureLimits};
use crate::bench::figures::TOKENS_PER_SECOND;
use crate::bench::report::Row;
use crate::config::{Config, EmbedBackend};
use crate::error::Result;

/// Number of measurements of each setting; their median counts.
const RUNS_PER_SETTING: usize = 3;

/// A setting that uses more threads or memory is chosen only if it is faster by more than this factor.
const MIN_SPEEDUP: f64 = 1.03;

/// Default numbers of texts per call to try.
const DEFAULT_BATCHES: [usize; 4] = [32, 64, 128, 256];

/// A setting of the embedder. The order of settings is by resource use, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TunedSetting {
    /// Number of threads; 0 if the backend has no such setting.
    pub threads: usize,
    /// Number of texts per call.
    pub batch: usize,
}

/// The settings to try, and the limits of each measurement.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// Numbers of threads to try; empty for 1, 2, 4 and so on up to one per core.
    pub threads: Vec<usize>,
    /// Numbers of texts per call to try; empty for 32, 64, 128 and 256.
    pub batches: Vec<usize>,
    /// Duration of one measurement in seconds.
    pub seconds: f64,
    /// Limits of a measurement.
    pub bounds: MeasureLimits,
}

/// Measures the candidates: first the numbers of threads, then the numbers of texts per call with the best number of
/// threads. Calls `told` with the row of each measurement. Returns the best setting, and the median row of each setting.
///
/// # Errors
/// As [`embed::measure`], if every setting fails. A setting that fails is excluded; its row holds the error.
pub async fn tune(
    config: &Config,
    texts: &[String],
    candidates: &Candidates,
    mut told: impl FnMut(&Row),
) -> Result<(TunedSetting, Vec<Row>)> {
    let own = config.embed.backend == EmbedBackend::Onnx;
    let threads = match (own, candidates.threads.is_empty()) {
        (false, _) => vec![0],
        (true, true) => doublings(std::thread::available_parallelism().map_or(1, usize::from)),
        (true, false) => candidates.threads.clone(),
    };
    let batches = if candidates.batches.is_empty() { DEFAULT_BATCHES.to_vec() } else { candidates.batches.clone() };
    let middle = batches[batches.len() / 2];
    let first: Vec<TunedSetting> = threads.iter().map(|it| TunedSetting { threads: *it, batch: middle }).collect();
    let mut rows = measure_in_turns(config, texts, &first, candidates, &mut told).await?;
    let best = pick_cheapest_fast(&speeds(&rows)).map_or(threads[0], |it| it.threads);
    let second: Vec<TunedSetting> =
        batches.iter().filter(|it| **it != middle).map(|it| TunedSetting { threads: best, batch: *it }).collect();
    rows.extend(measure_in_turns(config, texts, &second, candidates, &mut told).await?);
    let with_best: Vec<(TunedSetting, f64)> = speeds(&rows).into_iter().filter(|it| it.0.threads == best).collect();
    let found = pick_cheapest_fast(&with_best).unwrap_or(TunedSetting { threads: best, batch: middle });
    Ok((found, rows.into_iter().map(|it| it.1).collect()))
}

/// Measures each setting [`RUNS_PER_SETTING`] times in rotation. Returns the median row of each setting, or its error.
async fn measure_in_turns(
    config: &Config,
    texts: &[String],
    settings: &[TunedSetting],
    candidates: &Candidates,
    told: &mut impl FnMut(&Row),
) -> Result<Vec<(TunedSetting, Row)>> {
    let mut turns: Vec<Vec<Row>> = vec![Vec::new(); settings.len()];
    for _ in 0..RUNS_PER_SETTING {
        for (setting, rows) in settings.iter().zip(&mut turns) {
            let mut config = config.clone();
            config.embed.threads = setting.threads;
            let bounds =
                MeasureLimits { total: Some(Duration::from_secs_f64(candidates.seconds)), ..candidates.bounds };
            let manner = CallSettings { batch: CallSize::Texts(setting.batch), callers: CONCURRENT_CALLS, bounds };
            let measured = embed::measure(&config, texts, manner, None).await;
            let mut row = measured.unwrap_or_else(|error| embed::failed_row(&config, &manner, error));
            row.label = match setting.threads {
                0 => format!("{} texts a call", setting.batch),
                threads => format!("{threads} threads, {} texts a call", setting.batch),
            };
            told(&row);
            rows.push(row);
        }
    }
    let median = |mut rows: Vec<Row>| {
        rows.sort_by(|a, b| speed(a).total_cmp(&speed(b)));
        // One failed measurement excludes a setting, because a setting that sometimes runs out of memory must not be saved.
        let failed = rows.iter().position(|it| it.error.is_some());
        rows.swap_remove(failed.unwrap_or(rows.len() / 2))
    };
    let rows: Vec<(TunedSetting, Row)> = settings.iter().copied().zip(turns.into_iter().map(median)).collect();
    match rows.iter().find_map(|it| it.1.error.clone()) {
        Some(error) if rows.iter().all(|it| it.1.error.is_some()) => Err(error),
        _ => Ok(rows),
    }
}

/// Number of concurrent calls, the same as in indexing.
pub const CONCURRENT_CALLS: usize = 2;

fn speed(row: &Row) -> f64 {
    row.get(TOKENS_PER_SECOND).unwrap_or(0.0)
}

fn speeds(rows: &[(TunedSetting, Row)]) -> Vec<(TunedSetting, f64)> {
    rows.iter().filter(|it| it.1.error.is_none()).map(|(setting, row)| (*setting, speed(row))).collect()
}

/// Returns the setting with the least resource use among those about as fast as the fastest one.
fn pick_cheapest_fast(measured: &[(TunedSetting, f64)]) -> Option<TunedSetting> {
    let fastest = measured.iter().map(|it| it.1).fold(0.0, f64::max);
    measured.iter().filter(|it| it.1 * MIN_SPEEDUP >= fastest).map(|it| it.0).min()
}

/// Returns 1, 2, 4 and so on below `most`, and `most` itself.
fn doublings(most: usize) -> Vec<usize> {
    let mut all: Vec<usize> = std::iter::successors(Some(1), |it| Some(it * 2)).take_while(|it| *it < most).collect();
    all.push(most.max(1));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cheapest_of_the_fastest_is_picked() {
        let setting = |threads, batch| TunedSetting { threads, batch };
        let check = |measured: &[(TunedSetting, f64)], expected| assert_eq!(pick_cheapest_fast(measured), expected);
        check(&[(setting(1, 64), 100.0), (setting(2, 64), 190.0)], Some(setting(2, 64)));
        check(&[(setting(2, 64), 190.0), (setting(4, 64), 191.0)], Some(setting(2, 64)));
        check(&[(setting(2, 256), 190.0), (setting(2, 64), 188.0)], Some(setting(2, 64)));
        check(&[(setting(2, 256), 190.0), (setting(2, 64), 100.0)], Some(setting(2, 256)));
        check(&[], None);
    }

    #[test]
    fn threads_double_up_to_one_per_core() {
        assert_eq!(doublings(1), [1]);
        assert_eq!(doublings(2), [1, 2]);
        assert_eq!(doublings(6), [1, 2, 4, 6]);
        assert_eq!(doublings(8), [1, 2, 4, 8]);
    }
}
