//! The inner tile of a matrix product, the fastest arithmetic of a processor. Benchmarks compare the encoder with its
//! speed.
//!
//! The operands are in the L1 cache and the sums in registers; nothing is packed or written back. A tile has 12 rows (6
//! with AVX2) by two registers. fp32 uses fused multiply-add; int8 multiplies bytes in groups of four into 32-bit sums
//! (VNNI).

/// Number of products summed into each output of a tile: so few that both operands fit in the L1 cache of every CPU of
/// the last ten years.
pub const TILE_DEPTH: usize = 128;

/// One tile of a matrix product over elements of four bytes: a float, or four 8-bit integers.
pub struct Tile<T> {
    /// Name of the instruction set.
    pub instructions: &'static str,
    /// Number of rows of the product.
    pub rows: usize,
    /// Number of columns of the product.
    pub columns: usize,
    /// Number of operations for each pair of multiplied elements; a multiplication and an addition count as two.
    pub operations: usize,
    /// Multiplies `rows` x [`TILE_DEPTH`] by [`TILE_DEPTH`] x `columns` elements into `rows` x `columns` sums.
    pub run: fn(&[T], &[T], &mut [T]),
}

impl<T> Tile<T> {
    /// Returns the number of operations of one run; a multiplication and an addition count as two.
    pub fn operations_of_all(&self) -> f64 {
        (self.operations * self.rows * self.columns * TILE_DEPTH) as f64
    }
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

/// Returns the widest fp32 tile that this CPU supports.
#[cfg(not(target_arch = "x86_64"))]
pub fn fp32() -> Tile<f32> {
    PORTABLE
}

/// Returns the widest int8 tile that this CPU supports.
#[cfg(not(target_arch = "x86_64"))]
pub fn int8() -> Option<Tile<i32>> {
    None
}

#[cfg(target_arch = "x86_64")]
pub use x86::{fp32, int8};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::is_x86_feature_detected;
    use std::arch::x86_64::*;

    use super::{PORTABLE, Tile};

    /// Defines one tile function for `$rows` rows by two registers of `$lanes` elements.
    macro_rules! tile {
        ($name:ident, $feature:literal, $element:ty, $rows:literal, $lanes:literal, $zero:ident, $load:ident, $store:ident,
         $splat:ident, ($sum:ident, $a:ident, $b:ident) => $multiply_add:expr) => {
            #[target_feature(enable = $feature)]
            fn $name(left: &[$element], right: &[$element], sums: &mut [$element]) {
                let mut tile = [[$zero(); 2]; $rows];
                for (left, right) in left.as_chunks::<$rows>().0.iter().zip(right.as_chunks::<{ 2 * $lanes }>().0) {
                    // SAFETY: the chunk is exactly as long as two registers.
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
                    // SAFETY: the chunk is exactly as long as two registers.
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

    /// Returns the widest fp32 tile that this CPU supports.
    pub fn fp32() -> Tile<f32> {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: `is_x86_feature_detected` confirmed the instructions.
            let run = |a: &[f32], b: &[f32], sums: &mut [f32]| unsafe { fp32_512(a, b, sums) };
            return Tile { instructions: "avx512f", rows: 12, columns: 32, operations: 2, run };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: `is_x86_feature_detected` confirmed the instructions.
            let run = |a: &[f32], b: &[f32], sums: &mut [f32]| unsafe { fp32_256(a, b, sums) };
            return Tile { instructions: "avx2", rows: 6, columns: 16, operations: 2, run };
        }
        PORTABLE
    }

    /// Returns the widest int8 tile that this CPU supports.
    pub fn int8() -> Option<Tile<i32>> {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: `is_x86_feature_detected` confirmed the instructions.
            let run = |a: &[i32], b: &[i32], sums: &mut [i32]| unsafe { int8_512(a, b, sums) };
            return Some(Tile { instructions: "avx512vnni", rows: 12, columns: 32, operations: 8, run });
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxvnni") {
            // SAFETY: `is_x86_feature_detected` confirmed the instructions.
            let run = |a: &[i32], b: &[i32], sums: &mut [i32]| unsafe { int8_256(a, b, sums) };
            return Some(Tile { instructions: "avxvnni", rows: 6, columns: 16, operations: 8, run });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a tile over elements given by index; returns the sums, row by row.
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
        let Some(tile) = int8() else { return };
        // Unsigned bytes are on the left, signed ones on the right.
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
}
