//! Measures the matrix-multiply peak of this CPU, the reference for an encoder's speed.
//!
//! The kernel is the inner tile of a matrix product: 12 rows by two registers (6 with AVX2), with operands in the L1
//! cache, on one thread per core, all at once. Sums stay in registers; nothing is packed or written back. A full matrix
//! product approaches this peak and cannot exceed it. fp32 uses fused multiply-add; int8 multiplies bytes in groups of
//! four into 32-bit sums (VNNI) and is skipped on CPUs without it. A multiplication and an addition count as two
//! operations. Time is CPU time, so the peak is that of the machine, not what other processes leave of it.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::bench::durations::Durations;

/// Depth of the tile: both operands fit the L1 cache of every CPU of the last ten years.
const TILE_DEPTH: usize = 128;

/// Duration of a round: much longer than a scheduler tick, the unit of CPU time.
const ROUND_DURATION: Duration = Duration::from_millis(300);

/// Number of rounds; the median counts.
const ROUNDS: usize = 5;

/// Tiles between two clock reads.
const TILES_PER_CLOCK_READ: usize = 512;

/// The peak of this machine with a number of threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MatmulPeak {
    /// Threads, one per core.
    pub threads: usize,
    /// Instructions of the fp32 tile.
    pub fp32_by: &'static str,
    /// Billion operations per second in fp32.
    pub fp32_gflops: f64,
    /// Instructions of the int8 tile; `None` if the CPU has none.
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

    /// The peak of a precision in operations per second.
    pub fn operations_per_second(&self, precision: &str) -> Option<f64> {
        match precision {
            "fp32" => Some(self.fp32_gflops * 1e9),
            "int8" => self.int8_gops.map(|it| it * 1e9),
            _ => None,
        }
    }
}

/// A tile of a matrix product over four-byte elements: a float, or four small integers.
struct Tile<T> {
    instructions: &'static str,
    rows: usize,
    columns: usize,
    /// Operations per pair of elements.
    operations: usize,
    run: fn(&[T], &[T], &mut [T]),
}

impl<T> Tile<T> {
    fn operations_of_all(&self) -> f64 {
        (self.operations * self.rows * self.columns * TILE_DEPTH) as f64
    }
}

/// Billion operations per second of all threads together.
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

/// CPU seconds of the calling thread; `None` on systems without this figure.
fn thread_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds / 1e9)
}

fn portable_tile(left: &[f32], right: &[f32], sums: &mut [f32]) {
    const ROWS: usize = 4;
    const COLUMNS: usize = 8;
    let mut tile = [[0.0_f32; COLUMNS]; ROWS];
    for (left, right) in left.as_chunks::<ROWS>().0.iter().zip(right.as_chunks::<COLUMNS>().0) {
        for (row, a) in tile.iter_mut().zip(left) {
            row.iter_mut().zip(right).for_each(|(sum, b)| *sum += a * b);
        }
    }
    sums.iter_mut().zip(tile.iter().flatten()).for_each(|(to, sum)| *to = *sum);
}

const PORTABLE: Tile<f32> = Tile { instructions: "portable", rows: 4, columns: 8, operations: 2, run: portable_tile };

#[cfg(not(target_arch = "x86_64"))]
fn fp32() -> Tile<f32> {
    PORTABLE
}

#[cfg(not(target_arch = "x86_64"))]
fn int8() -> Option<Tile<i32>> {
    None
}

#[cfg(target_arch = "x86_64")]
use x86::{fp32, int8};

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "vector instructions have no safe loads and stores, and need a check at run time")]
mod x86 {
    use std::arch::is_x86_feature_detected;
    use std::arch::x86_64::*;

    use super::{PORTABLE, Tile};

    /// Defines one tile function: `$rows` rows by two registers of `$lanes` elements.
    macro_rules! tile {
        ($name:ident, $feature:literal, $element:ty, $rows:literal, $lanes:literal, $zero:ident, $load:ident, $store:ident,
         $splat:ident, ($sum:ident, $a:ident, $b:ident) => $multiply_add:expr) => {
            #[target_feature(enable = $feature)]
            fn $name(left: &[$element], right: &[$element], sums: &mut [$element]) {
                let mut tile = [[$zero(); 2]; $rows];
                for (left, right) in left.as_chunks::<$rows>().0.iter().zip(right.as_chunks::<{ 2 * $lanes }>().0) {
                    // SAFETY: the chunk holds two registers.
                    let both = unsafe { [$load(right.as_ptr().cast()), $load(right.as_ptr().add($lanes).cast())] };
                    for (pair, element) in tile.iter_mut().zip(left) {
                        let $a = $splat(*element);
                        for (total, $b) in pair.iter_mut().zip(both) {
                            let $sum = *total;
                            *total = $multiply_add;
                        }
                    }
                }
                for (to, row) in sums.as_chunks_mut::<{ 2 * $lanes }>().0.iter_mut().zip(tile) {
                    // SAFETY: the chunk holds two registers.
                    unsafe {
                        $store(to.as_mut_ptr().cast(), row[0]);
                        $store(to.as_mut_ptr().add($lanes).cast(), row[1]);
                    }
                }
            }
        };
    }

    tile!(fp32_512, "avx512f", f32, 12, 16, _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps,
        (sum, a, b) => _mm512_fmadd_ps(a, b, sum));
    tile!(fp32_256, "avx2,fma", f32, 6, 8, _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps,
        (sum, a, b) => _mm256_fmadd_ps(a, b, sum));
    tile!(int8_512, "avx512f,avx512vnni", i32, 12, 16, _mm512_setzero_si512, _mm512_loadu_si512, _mm512_storeu_si512,
        _mm512_set1_epi32, (sum, a, b) => _mm512_dpbusd_epi32(sum, a, b));
    tile!(int8_256, "avx2,avxvnni", i32, 6, 8, _mm256_setzero_si256, _mm256_loadu_si256, _mm256_storeu_si256,
        _mm256_set1_epi32, (sum, a, b) => _mm256_dpbusd_avx_epi32(sum, a, b));

    /// The widest fp32 tile that this CPU supports.
    pub(super) fn fp32() -> Tile<f32> {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: `is_x86_feature_detected` confirmed the instructions.
            let run = |a: &[f32], b: &[f32], sums: &mut [f32]| unsafe { fp32_512(a, b, sums) };
            return Tile { instructions: "avx512f", rows: 12, columns: 32, operations: 2, run };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: as above.
            let run = |a: &[f32], b: &[f32], sums: &mut [f32]| unsafe { fp32_256(a, b, sums) };
            return Tile { instructions: "avx2", rows: 6, columns: 16, operations: 2, run };
        }
        PORTABLE
    }

    /// The widest int8 tile that this CPU supports.
    pub(super) fn int8() -> Option<Tile<i32>> {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: `is_x86_feature_detected` confirmed the instructions.
            let run = |a: &[i32], b: &[i32], sums: &mut [i32]| unsafe { int8_512(a, b, sums) };
            return Some(Tile { instructions: "avx512vnni", rows: 12, columns: 32, operations: 8, run });
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxvnni") {
            // SAFETY: as above.
            let run = |a: &[i32], b: &[i32], sums: &mut [i32]| unsafe { int8_256(a, b, sums) };
            return Some(Tile { instructions: "avxvnni", rows: 6, columns: 16, operations: 8, run });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::test_needs::can_prove;

    /// Runs a tile over small numbers; returns the rows of sums.
    fn product<T: Copy + Default>(tile: &Tile<T>, left: impl Fn(usize) -> T, right: impl Fn(usize) -> T) -> Vec<T> {
        let left: Vec<T> = (0..tile.rows * TILE_DEPTH).map(left).collect();
        let right: Vec<T> = (0..tile.columns * TILE_DEPTH).map(right).collect();
        let mut sums = vec![T::default(); tile.rows * tile.columns];
        (tile.run)(&left, &right, &mut sums);
        sums
    }

    #[test]
    fn fp32_tile_equals_matrix_product() {
        for tile in [fp32(), PORTABLE] {
            let (left, right) = (|at: usize| (at % 7) as f32 - 3.0, |at: usize| (at % 5) as f32 - 2.0);
            let sums = product(&tile, left, right);
            for row in 0..tile.rows {
                for column in 0..tile.columns {
                    let expected: f32 =
                        (0..TILE_DEPTH).map(|k| left(k * tile.rows + row) * right(k * tile.columns + column)).sum();
                    assert_eq!(sums[row * tile.columns + column], expected, "{} {row} {column}", tile.instructions);
                }
            }
        }
    }

    #[test]
    fn int8_tile_equals_byte_matrix_product() {
        let tile = int8();
        if !can_prove(tile.is_some(), "this processor has no int8 matrix instructions") {
            return;
        }
        let tile = tile.unwrap();
        // Unsigned bytes on the left, signed ones on the right.
        let bytes = |at: usize| [at % 7, at % 3, 1, at % 2].map(|it| it as u8);
        let signed = |at: usize| [at as i32 % 5 - 2, 1, -1, at as i32 % 3].map(|it| it as i8 as u8);
        let sums = product(&tile, |at| i32::from_le_bytes(bytes(at)), |at| i32::from_le_bytes(signed(at)));
        for row in 0..tile.rows {
            for column in 0..tile.columns {
                let expected: i32 = (0..TILE_DEPTH)
                    .flat_map(|k| bytes(k * tile.rows + row).into_iter().zip(signed(k * tile.columns + column)))
                    .map(|(a, b)| i32::from(a) * i32::from(b as i8))
                    .sum();
                assert_eq!(sums[row * tile.columns + column], expected, "{row} {column}");
            }
        }
    }

    #[test]
    fn cpu_without_int8_has_no_int8_peak() {
        let peak = MatmulPeak { threads: 1, fp32_by: "portable", fp32_gflops: 10.0, int8_by: None, int8_gops: None };
        assert_eq!((peak.operations_per_second("fp32"), peak.operations_per_second("int8")), (Some(1e10), None));
    }
}
