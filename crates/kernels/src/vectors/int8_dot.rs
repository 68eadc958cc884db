//! Quantisation of vectors to 8-bit integers, and their dot products.

use crate::vectors::i8_rows::I8Rows;
use crate::vectors::prefetch::prefetch;

/// Rounds to the nearest integer, without the library call that `round` compiles to for older processors.
#[inline(always)]
pub fn round(number: f32) -> i32 {
    (number + 0.5f32.copysign(number)) as i32
}

/// Returns the quantisation step that maps the largest magnitude in the vector to `steps`; 1 for a vector of zeros.
pub fn step_size(vector: &[f32], steps: f32) -> f32 {
    let largest = vector.iter().fold(0.0f32, |largest, it| largest.max(it.abs()));
    if largest > 0.0 { largest / steps } else { 1.0 }
}

/// Computes the dot product of each of these rows with a query, using the widest registers of this processor.
pub fn dot_products(numbers: &I8Rows, rows: &[u32], query: &[i16], products: &mut [i32]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512bw") && has!("avx512vnni") {
            // SAFETY: the processor supports the instructions for which the function was compiled.
            return unsafe { dot_products_avx512(numbers, rows, query, products) };
        }
        if has!("avx2") {
            // SAFETY: the processor supports the instructions for which the function was compiled.
            return unsafe { dot_products_avx2(numbers, rows, query, products) };
        }
    }
    dot_products_plain(numbers, rows, query, products);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512bw,avx512vnni")]
fn dot_products_avx512(numbers: &I8Rows, rows: &[u32], query: &[i16], products: &mut [i32]) {
    dot_products_plain(numbers, rows, query, products);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn dot_products_avx2(numbers: &I8Rows, rows: &[u32], query: &[i16], products: &mut [i32]) {
    dot_products_plain(numbers, rows, query, products);
}

/// Number of rows that are prefetched ahead: the rows are scattered, so that the processor cannot predict the next one.
const PREFETCH_ROWS: usize = 8;

/// Plain code that the compiler vectorises. It is inlined, so that each caller compiles it for its own registers.
#[inline(always)]
fn dot_products_plain(numbers: &I8Rows, rows: &[u32], query: &[i16], products: &mut [i32]) {
    let numbers_of = |row: u32| &numbers.row(row as usize)[..query.len()];
    for (at, (row, product)) in rows.iter().zip(products).enumerate() {
        if let Some(row) = rows.get(at + PREFETCH_ROWS) {
            prefetch(numbers_of(*row));
        }
        *product = numbers_of(*row).iter().zip(query).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_goes_to_nearest_and_halves_away_from_zero() {
        for (number, whole) in [(0.0, 0), (0.4, 0), (0.5, 1), (-0.5, -1), (126.6, 127), (-127.0, -127), (-1.4, -1)] {
            assert_eq!(round(number), whole, "{number}");
        }
    }

    #[test]
    fn all_dot_product_variants_agree() {
        let number = |it: i32| (it * 29 % 255 - 127) as i8;
        let mut numbers = I8Rows::new(77);
        (0..5).for_each(|row| numbers.push((row * 77..(row + 1) * 77).map(number)));
        let query: Vec<i16> = (0..77).map(|it| it * 397 % 2_047 - 1_023).collect();
        let rows = [4, 0, 3];
        let (mut wide, mut plain) = ([0; 3], [0; 3]);
        dot_products(&numbers, &rows, &query, &mut wide);
        dot_products_plain(&numbers, &rows, &query, &mut plain);
        assert_eq!(wide, plain);
        let first: i32 = numbers.row(4).iter().zip(&query).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
        assert_eq!(plain[0], first);
    }
}
