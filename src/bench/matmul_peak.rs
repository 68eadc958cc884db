//! Measures the peak speed of matrix multiplication on this CPU, the reference for the speed of the embedder.
//!
//! Multiplies a small tile ([`vic_kernels::matmul_tile`]) repeatedly, on one thread per core at the same time. The product
//! of large matrices approaches this peak and cannot exceed it. int8 is skipped on CPUs without dot products of bytes. Only
//! the CPU time of the threads counts, so that other processes do not lower the peak.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde::Serialize;

use vic_kernels::matmul_tile::{TILE_DEPTH, Tile, fp32, int8};

use crate::bench::durations::Durations;

/// Duration of one round: much longer than a scheduler tick, the unit in which CPU time is counted.
const ROUND_DURATION: Duration = Duration::from_millis(300);

/// Number of rounds; their median is the result.
const ROUNDS: usize = 5;

/// Number of tiles computed between two reads of the clock.
const TILES_PER_CLOCK_READ: usize = 512;

/// The peak speed of matrix multiplication on this machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MatmulPeak {
    /// Number of threads, one per core.
    pub threads: usize,
    /// Name of the CPU instructions that multiply the fp32 tile.
    pub fp32_by: &'static str,
    /// Billion operations per second in fp32.
    pub fp32_gflops: f64,
    /// Name of the CPU instructions that multiply the int8 tile; `None` if the CPU has no such instructions.
    pub int8_by: Option<&'static str>,
    /// Billion operations per second in int8.
    pub int8_gops: Option<f64>,
}

impl MatmulPeak {
    /// Measures the peak; takes about three seconds.
    pub fn measure(threads: usize) -> MatmulPeak {
        let threads = threads.max(1);
        let (fp32, int8) = (fp32(), int8());
        MatmulPeak {
            threads,
            fp32_by: fp32.instructions,
            fp32_gflops: measure_speed(&fp32, threads, 0.5),
            int8_by: int8.as_ref().map(|it| it.instructions),
            int8_gops: int8.as_ref().map(|it| measure_speed(it, threads, 0x0101_0101)),
        }
    }

    /// Returns the peak of a precision, `fp32` or `int8`, in operations per second.
    pub fn operations_per_second(&self, precision: &str) -> Option<f64> {
        match precision {
            "fp32" => Some(self.fp32_gflops * 1e9),
            "int8" => self.int8_gops.map(|it| it * 1e9),
            _ => None,
        }
    }
}

/// Measures how many billion operations per second all threads together compute.
fn measure_speed<T: Copy + Default + Send + Sync>(tile: &Tile<T>, threads: usize, value: T) -> f64 {
    Durations::new((0..ROUNDS).map(|_| run_round(tile, threads, value)).collect()).percentile(50) / 1e9
}

fn run_round<T: Copy + Default + Send + Sync>(tile: &Tile<T>, threads: usize, value: T) -> f64 {
    let barrier = Barrier::new(threads);
    let one = || {
        let (left, right) = (vec![value; tile.rows * TILE_DEPTH], vec![value; tile.columns * TILE_DEPTH]);
        let mut sums = vec![T::default(); tile.rows * tile.columns];
        (tile.run)(&left, &right, &mut sums);
        barrier.wait();
        let (begun, computed, mut tiles) = (Instant::now(), thread_seconds(), 0_u64);
        while begun.elapsed() < ROUND_DURATION {
            for _ in 0..TILES_PER_CLOCK_READ {
                (tile.run)(std::hint::black_box(&left), &right, &mut sums);
            }
            tiles += TILES_PER_CLOCK_READ as u64;
        }
        std::hint::black_box(&sums);
        let seconds = match (computed, thread_seconds()) {
            (Some(before), Some(after)) if after > before => after - before,
            _ => begun.elapsed().as_secs_f64(),
        };
        tiles as f64 * tile.operations_of_all() / seconds
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|it| it.join().unwrap_or(0.0)).sum()
    })
}

/// Returns the CPU time of the calling thread in seconds; `None` on systems that do not report it.
fn thread_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_without_int8_has_no_int8_peak() {
        let peak = MatmulPeak { threads: 1, fp32_by: "portable", fp32_gflops: 10.0, int8_by: None, int8_gops: None };
        assert_eq!((peak.operations_per_second("fp32"), peak.operations_per_second("int8")), (Some(1e10), None));
    }
}
