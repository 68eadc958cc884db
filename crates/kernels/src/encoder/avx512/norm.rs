//! Layer normalisation with AVX-512.

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_mul_ps, _mm512_reduce_add_ps, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_sub_ps,
};

use crate::encoder::avx512::registers::{load, store};
use crate::encoder::avx512::row_ops::{Dequantiser, RowBounds};
use crate::encoder::operands::{LANES, LayerNorm, LayerSums, Quantisation, QuantisedRows};

/// Number of rows processed together: while one row waits for a reduction, the processor works on the others.
const GROUP: usize = 4;

/// Implements [`crate::encoder::Kernels::norm`].
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn norm(normal: LayerNorm<'_>, rows: &mut [f32], coded: QuantisedRows<'_>) {
    normalise(None, normal, rows, coded);
}

/// Implements [`crate::encoder::Kernels::add_norm`].
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn add_norm(product: LayerSums<'_>, normal: LayerNorm<'_>, rows: &mut [f32], coded: QuantisedRows<'_>) {
    normalise(Some(product), normal, rows, coded);
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn normalise(product: Option<LayerSums<'_>>, normal: LayerNorm<'_>, rows: &mut [f32], coded: QuantisedRows<'_>) {
    let width = normal.groups.len() * LANES;
    let (mut rows, mut bytes, mut codings) = (rows, coded.bytes, coded.codings);
    let mut product = product;
    while !codings.is_empty() {
        let count = if codings.len() >= GROUP { GROUP } else { 1 };
        let (row, bytes_of, codings_of);
        (row, rows) = rows.split_at_mut(count * width);
        (bytes_of, bytes) = bytes.split_at_mut(count * width);
        (codings_of, codings) = codings.split_at_mut(count);
        let head = product.map(|it| LayerSums { sums: &it.sums[..count * width], codings: &it.codings[..count], ..it });
        let coded = QuantisedRows { bytes: bytes_of, codings: codings_of };
        match count {
            GROUP => normalise_group::<GROUP>(head, normal, row, coded),
            _ => normalise_group::<1>(head, normal, row, coded),
        }
        product = product.map(|it| LayerSums { sums: &it.sums[count * width..], codings: &it.codings[count..], ..it });
    }
}

/// Normalises and quantises `ROWS` rows in lockstep.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn normalise_group<const ROWS: usize>(
    product: Option<LayerSums<'_>>,
    normal: LayerNorm<'_>,
    rows: &mut [f32],
    coded: QuantisedRows<'_>,
) {
    let (groups, rows) = (normal.groups.len(), rows.as_chunks_mut::<LANES>().0);
    let mut totals = match product {
        Some(product) => add_products::<ROWS>(product, rows),
        None => row_sums::<ROWS>(rows),
    };
    let count = (groups * LANES) as f32;
    for totals in &mut totals {
        *totals = _mm512_set1_ps(_mm512_reduce_add_ps(*totals) / count);
    }
    let means = totals;
    let mut squares = [_mm512_setzero_ps(); ROWS];
    for at in 0..groups {
        for row in 0..ROWS {
            // Sums up squares of deviations from the mean, because squares of numbers far from zero would lose the
            // deviations to rounding.
            let deviation = _mm512_sub_ps(load(&rows[row * groups + at]), means[row]);
            squares[row] = _mm512_fmadd_ps(deviation, deviation, squares[row]);
        }
    }
    for squares in &mut squares {
        let variance = _mm512_reduce_add_ps(*squares) / count;
        *squares = _mm512_set1_ps(1.0 / (variance + normal.epsilon).sqrt());
    }
    let factors = squares;
    let mut bounds = [RowBounds::new(); ROWS];
    for (at, norm) in normal.groups.iter().enumerate() {
        let (scale, shift) = (load(&norm.scale), load(&norm.shift));
        for row in 0..ROWS {
            let values = &mut rows[row * groups + at];
            let deviation = _mm512_mul_ps(_mm512_sub_ps(load(values), means[row]), factors[row]);
            let normal = _mm512_fmadd_ps(deviation, scale, shift);
            bounds[row].add(normal);
            store(values, normal);
        }
    }
    let bytes = coded.bytes.as_chunks_mut().0.chunks_exact_mut(groups);
    for ((bounds, coding), (row, bytes)) in
        bounds.into_iter().zip(coded.codings).zip(rows.chunks_exact(groups).zip(bytes))
    {
        *coding = bounds.code(row, bytes);
    }
}

/// Adds products to rows in place, and returns the sums of each row, one per lane.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn add_products<const ROWS: usize>(product: LayerSums<'_>, rows: &mut [[f32; LANES]]) -> [__m512; ROWS] {
    let (groups, sums) = (product.outputs.len(), product.sums.as_chunks().0);
    let mut scales = [Dequantiser::new(Quantisation::default()); ROWS];
    for (scale, coding) in scales.iter_mut().zip(product.codings) {
        *scale = Dequantiser::new(*coding);
    }
    let mut totals = [_mm512_setzero_ps(); ROWS];
    for (at, outputs) in product.outputs.iter().enumerate() {
        for row in 0..ROWS {
            let values = &mut rows[row * groups + at];
            let sum = _mm512_add_ps(load(values), scales[row].numbers(&sums[row * groups + at], outputs));
            totals[row] = _mm512_add_ps(totals[row], sum);
            store(values, sum);
        }
    }
    totals
}

/// Returns the sums of each row, one per lane.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn row_sums<const ROWS: usize>(rows: &[[f32; LANES]]) -> [__m512; ROWS] {
    let groups = rows.len() / ROWS;
    let mut totals = [_mm512_setzero_ps(); ROWS];
    for (row, total) in rows.chunks_exact(groups).zip(&mut totals) {
        for values in row {
            *total = _mm512_add_ps(*total, load(values));
        }
    }
    totals
}
