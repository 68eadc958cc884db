//! Operations on a row between two matrix products, with AVX-512: dequantisation, GELU and quantisation.

use std::arch::x86_64::{
    __m128i, __m512, _mm_loadu_si128, _mm_unpackhi_epi8, _mm_unpackhi_epi16, _mm_unpacklo_epi8, _mm_unpacklo_epi16,
    _mm512_abs_ps, _mm512_add_epi32, _mm512_castsi128_si512, _mm512_cvtepi32_ps, _mm512_cvtps_epi32, _mm512_fmadd_ps,
    _mm512_inserti32x4, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_reduce_max_ps, _mm512_reduce_min_ps,
    _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_sub_ps,
};

use crate::encoder::avx512::registers::{self, load, load_integers, store, store_bytes, store_four, store_line};
use crate::encoder::operands::{
    HeadRow, LANES, LayerSums, OutputScales, PANEL, PanelLine, Quantisation, QuantisedRows,
};

/// Offset added to a signed byte to make it unsigned.
const OFFSET: i32 = 128;

/// The quantisation of one row in registers, to dequantise its sums.
#[derive(Clone, Copy)]
pub(super) struct Dequantiser {
    step: __m512,
    low: __m512,
}

impl Dequantiser {
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    pub(super) fn new(coding: Quantisation) -> Dequantiser {
        Dequantiser { step: _mm512_set1_ps(coding.step), low: _mm512_set1_ps(coding.low) }
    }

    /// Dequantises the sums of 16 outputs.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    pub(super) fn numbers(self, sums: &[i32; LANES], outputs: &OutputScales) -> __m512 {
        let value = _mm512_mul_ps(_mm512_cvtepi32_ps(load_integers(sums)), self.step);
        let rest = _mm512_fmadd_ps(self.low, load(&outputs.sum), load(&outputs.bias));
        _mm512_fmadd_ps(value, load(&outputs.step), rest)
    }
}

/// Partial minimum and maximum of a row, one of each per vector lane.
#[derive(Clone, Copy)]
pub(super) struct RowBounds {
    low: __m512,
    high: __m512,
}

impl RowBounds {
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    pub(super) fn new() -> RowBounds {
        RowBounds { low: _mm512_set1_ps(f32::MAX), high: _mm512_set1_ps(f32::MIN) }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    pub(super) fn add(&mut self, values: __m512) {
        self.low = _mm512_min_ps(self.low, values);
        self.high = _mm512_max_ps(self.high, values);
    }

    /// Quantises the row with these bounds, and returns its quantisation.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    pub(super) fn code(self, row: &[[f32; LANES]], coded: &mut [[u8; LANES]]) -> Quantisation {
        let low = _mm512_reduce_min_ps(self.low);
        let step = (_mm512_reduce_max_ps(self.high) - low) / 255.0;
        let inverse = if step > 0.0 { 1.0 / step } else { 0.0 };
        let (factor, bottom) = (_mm512_set1_ps(inverse), _mm512_set1_ps(low));
        for (values, coded) in row.as_chunks::<4>().0.iter().zip(coded.as_chunks_mut().0) {
            let mut steps = [_mm512_setzero_si512(); 4];
            for (steps, values) in steps.iter_mut().zip(values) {
                *steps = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_sub_ps(load(values), bottom), factor));
            }
            store_four(coded, steps);
        }
        Quantisation { step, low }
    }
}

/// Implements [`crate::encoder::Kernels::quantise`].
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn code(rows: &[f32], coded: QuantisedRows<'_>) {
    let width = rows.len() / coded.codings.len().max(1);
    let rows = rows.chunks_exact(width).zip(coded.bytes.chunks_exact_mut(width));
    for ((row, bytes), coding) in rows.zip(coded.codings) {
        let row = row.as_chunks().0;
        let mut bounds = RowBounds::new();
        for values in row {
            bounds.add(load(values));
        }
        *coding = bounds.code(row, bytes.as_chunks_mut().0);
    }
}

/// Implements [`crate::encoder::Kernels::gelu`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
pub(super) fn gelu(product: LayerSums<'_>, work: &mut [f32], coded: QuantisedRows<'_>) {
    let width = product.width();
    let rows = product.sums.chunks_exact(width).zip(product.codings);
    let coded = coded.bytes.chunks_exact_mut(width).zip(coded.codings);
    for ((sums, old), (bytes, coding)) in rows.zip(coded) {
        let (scale, work) = (Dequantiser::new(*old), work[..width].as_chunks_mut().0);
        let mut bounds = RowBounds::new();
        for ((sums, outputs), work) in sums.as_chunks().0.iter().zip(product.outputs).zip(work.iter_mut()) {
            let values = registers::gelu(scale.numbers(sums, outputs));
            bounds.add(values);
            store(work, values);
        }
        *coding = bounds.code(work, bytes.as_chunks_mut().0);
    }
}

/// Implements [`crate::encoder::Kernels::quantise_heads`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
pub(super) fn heads(product: LayerSums<'_>, width: usize, row: HeadRow<'_>) {
    let size = row.queries.len();
    let scale = Dequantiser::new(product.codings[0]);
    let parts = [(row.queries, OFFSET), (row.keys, 0), (row.values, 0)];
    let numbers = product.sums.chunks_exact(size).zip(product.outputs.chunks_exact(size / LANES));
    let steps = row.steps.chunks_exact_mut(size / width);
    for (((coded, offset), (sums, outputs)), steps) in parts.into_iter().zip(numbers).zip(steps) {
        let (sums, coded) = (sums.as_chunks().0, coded.as_chunks_mut().0);
        match width / LANES {
            2 => quantise_heads_of::<2>(scale, sums, outputs, steps, (coded, offset)),
            _ => quantise_heads_of::<4>(scale, sums, outputs, steps, (coded, offset)),
        }
    }
}

/// Quantises heads of `N` registers each and adds an offset to the bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
#[inline]
fn quantise_heads_of<const N: usize>(
    scale: Dequantiser,
    sums: &[[i32; LANES]],
    outputs: &[OutputScales],
    steps: &mut [f32],
    (coded, offset): (&mut [[u8; LANES]], i32),
) {
    let offset = _mm512_set1_epi32(offset);
    let heads = sums.as_chunks::<N>().0.iter().zip(outputs.as_chunks::<N>().0).zip(coded.as_chunks_mut::<N>().0);
    for (((sums, outputs), coded), step) in heads.zip(steps) {
        let mut values = [_mm512_setzero_ps(); N];
        let mut most = _mm512_setzero_ps();
        for (values, (sums, outputs)) in values.iter_mut().zip(sums.iter().zip(outputs)) {
            *values = scale.numbers(sums, outputs);
            most = _mm512_max_ps(most, _mm512_abs_ps(*values));
        }
        let most = _mm512_reduce_max_ps(most);
        let inverse = _mm512_set1_ps(if most > 0.0 { 127.0 / most } else { 0.0 });
        *step = most / 127.0;
        for (values, coded) in values.iter().zip(coded) {
            let steps = _mm512_cvtps_epi32(_mm512_mul_ps(*values, inverse));
            store_bytes(coded, _mm512_add_epi32(steps, offset));
        }
    }
}

/// Implements [`crate::encoder::Kernels::scale`].
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn scale(sums: &[i32], factor: f32, row: &mut [f32]) {
    let factor = _mm512_set1_ps(factor);
    for (sums, row) in sums.as_chunks().0.iter().zip(row.as_chunks_mut().0) {
        store(row, _mm512_mul_ps(_mm512_cvtepi32_ps(load_integers(sums)), factor));
    }
}

/// Implements [`crate::encoder::Kernels::interleave`].
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn weave(rows: [&[u8]; 4], lines: &mut [PanelLine]) {
    for (half, line) in lines[..PANEL / LANES].iter_mut().enumerate() {
        let [a, b, c, d] = rows.map(|row| load_bytes(row, half * LANES));
        // Interleaves pairs of rows byte by byte, then the two results in units of two bytes.
        let (ab, cd) = (_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d));
        let low = _mm512_castsi128_si512(_mm_unpacklo_epi16(ab, cd));
        let low = _mm512_inserti32x4::<1>(low, _mm_unpackhi_epi16(ab, cd));
        let (ab, cd) = (_mm_unpackhi_epi8(a, b), _mm_unpackhi_epi8(c, d));
        let all = _mm512_inserti32x4::<2>(low, _mm_unpacklo_epi16(ab, cd));
        store_line(line, _mm512_inserti32x4::<3>(all, _mm_unpackhi_epi16(ab, cd)));
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn load_bytes(row: &[u8], start: usize) -> __m128i {
    let bytes = &row[start..start + LANES];
    // SAFETY: the slice is as long as the register, and the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}
