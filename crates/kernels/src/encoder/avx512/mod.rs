//! Kernels for processors with AVX-512 and VNNI (dot products of bytes).
//!
//! All unsafe code is in this file, in `registers` and in [`dot`]; the other modules build on those. An [`Avx512`] value
//! exists only if the processor supports the instructions, so its methods may use them.

mod dot;
mod registers;
mod norm;
mod row_ops;
mod softmax;

use crate::encoder::operands::{HeadRow, Kernels, KeyParameters, LayerNorm, LayerSums, PanelLine, QuantisedRows, Rows};

/// Proof that the processor supports the instructions.
pub(super) struct Avx512(());

static DETECTED: Avx512 = Avx512(());

impl Avx512 {
    /// Returns the AVX-512 kernels if this processor can run them.
    pub(super) fn detect() -> Option<&'static dyn Kernels> {
        let all = std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512dq")
            && std::arch::is_x86_feature_detected!("avx512vl")
            && std::arch::is_x86_feature_detected!("avx512vnni");
        all.then_some(&DETECTED)
    }
}

// SAFETY, for all methods: a value of this type exists only if the processor supports the instructions.
impl Kernels for Avx512 {
    fn name(&self) -> &'static str {
        "avx512-vnni"
    }

    fn dot(&self, rows: Rows<'_>, panel: &[PanelLine], sums: &mut [i32], stride: usize) {
        dot::dot(rows, panel, sums, stride);
    }

    fn norm(&self, normal: LayerNorm<'_>, rows: &mut [f32], coded: QuantisedRows<'_>) {
        unsafe { norm::norm(normal, rows, coded) }
    }

    fn add_norm(&self, product: LayerSums<'_>, normal: LayerNorm<'_>, rows: &mut [f32], coded: QuantisedRows<'_>) {
        unsafe { norm::add_norm(product, normal, rows, coded) }
    }

    fn gelu(&self, product: LayerSums<'_>, work: &mut [f32], coded: QuantisedRows<'_>) {
        unsafe { row_ops::gelu(product, work, coded) }
    }

    fn quantise_heads(&self, product: LayerSums<'_>, width: usize, row: HeadRow<'_>) {
        unsafe { row_ops::heads(product, width, row) }
    }

    fn softmax(&self, sums: &mut [i32], stride: usize, keys: &[KeyParameters], factors: &mut [f32], shares: &mut [u8]) {
        unsafe { softmax::softmax(sums, stride, keys, factors, shares) }
    }

    fn scale(&self, sums: &[i32], factor: f32, row: &mut [f32]) {
        unsafe { row_ops::scale(sums, factor, row) }
    }

    fn quantise(&self, rows: &[f32], coded: QuantisedRows<'_>) {
        unsafe { row_ops::code(rows, coded) }
    }

    fn interleave(&self, rows: [&[u8]; 4], lines: &mut [PanelLine]) {
        unsafe { row_ops::weave(rows, lines) }
    }
}
