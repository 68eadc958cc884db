//! Attention weights (softmax) with AVX-512.

use std::arch::x86_64::{
    _mm512_castps_si512, _mm512_castsi512_ps, _mm512_cvtepi32_ps, _mm512_cvtps_epi32, _mm512_fmadd_ps, _mm512_max_ps,
    _mm512_mul_ps, _mm512_reduce_add_ps, _mm512_reduce_max_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_setzero_si512,
    _mm512_sub_epi32, _mm512_sub_ps,
};

use crate::encoder::avx512::registers::{exp2, load, load_integers, store_bytes, store_four, store_integers};
use crate::encoder::operands::{KeyParameters, LANES};

/// The binary logarithm of the largest attention weight, 255.
const LOG2_MAX_SHARE: f32 = 7.994_353_4;

/// Number of rows processed together: they share the loads of the keys, and their reductions overlap.
const GROUP: usize = 4;

/// Implements [`crate::encoder::Kernels::softmax`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn softmax(sums: &mut [i32], stride: usize, keys: &[KeyParameters], factors: &mut [f32], shares: &mut [u8]) {
    let across = keys.len() * LANES;
    let whole = factors.len() / GROUP * GROUP;
    for (group, factors) in factors.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let row = group * GROUP;
        share_rows::<GROUP>(&mut sums[row * stride..], stride, keys, factors, &mut shares[row * across..]);
    }
    for (row, factor) in factors.iter_mut().enumerate().skip(whole) {
        let factor = std::array::from_mut(factor);
        share_rows::<1>(&mut sums[row * stride..], stride, keys, factor, &mut shares[row * across..]);
    }
}

/// Processes `ROWS` rows in two passes over the keys: first the scores, which overwrite the sums, then the attention
/// weights.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn share_rows<const ROWS: usize>(
    sums: &mut [i32],
    stride: usize,
    keys: &[KeyParameters],
    factors: &mut [f32; ROWS],
    shares: &mut [u8],
) {
    let (sums, shares) = (sums.as_chunks_mut::<LANES>().0, shares.as_chunks_mut::<LANES>().0);
    let stride = stride / LANES;
    let mut most = [_mm512_set1_ps(f32::MIN); ROWS];
    for (at, keys) in keys.iter().enumerate() {
        let (shift, step, lift) = (load_integers(&keys.shift), load(&keys.step), load(&keys.lift));
        for row in 0..ROWS {
            let sums = &mut sums[row * stride + at];
            let product = _mm512_cvtepi32_ps(_mm512_sub_epi32(load_integers(sums), shift));
            let score = _mm512_fmadd_ps(_mm512_mul_ps(product, step), _mm512_set1_ps(factors[row]), lift);
            most[row] = _mm512_max_ps(most[row], score);
            store_integers(sums, _mm512_castps_si512(score));
        }
    }
    for most in &mut most {
        *most = _mm512_set1_ps(_mm512_reduce_max_ps(*most) - LOG2_MAX_SHARE);
    }
    let mut total = [_mm512_setzero_ps(); ROWS];
    let (fours, rest) = keys.as_chunks::<4>();
    for (at, four) in fours.iter().enumerate() {
        for row in 0..ROWS {
            let mut integers = [_mm512_setzero_si512(); 4];
            for (group, integers) in integers.iter_mut().enumerate() {
                let score = _mm512_castsi512_ps(load_integers(&sums[row * stride + at * 4 + group]));
                let share = exp2(_mm512_sub_ps(score, most[row]));
                total[row] = _mm512_fmadd_ps(share, load(&four[group].unlift), total[row]);
                *integers = _mm512_cvtps_epi32(share);
            }
            if let Some(shares) = shares[row * keys.len() + at * 4..].first_chunk_mut() {
                store_four(shares, integers);
            }
        }
    }
    for (at, group) in rest.iter().enumerate().map(|(at, group)| (fours.len() * 4 + at, group)) {
        for row in 0..ROWS {
            let score = _mm512_castsi512_ps(load_integers(&sums[row * stride + at]));
            let share = exp2(_mm512_sub_ps(score, most[row]));
            total[row] = _mm512_fmadd_ps(share, load(&group.unlift), total[row]);
            store_bytes(&mut shares[row * keys.len() + at], _mm512_cvtps_epi32(share));
        }
    }
    for (factor, total) in factors.iter_mut().zip(total) {
        *factor = 1.0 / _mm512_reduce_add_ps(total);
    }
}
