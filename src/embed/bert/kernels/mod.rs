//! The arithmetic of the encoder: products of 8-bit integers and the operations between them.
//!
//! Each kernel works on one row (one token) or, for [`Kernels::dot`], on a tile of rows. Its result for a row depends
//! on that row alone. [`mod@plain`] defines each kernel in simple Rust; [`avx512`] implements the same with AVX-512.
//! This module does not depend on models or files.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod plain;

/// Maximum rows per call of [`Kernels::dot`]: as many as have registers for their sums.
pub(super) const TILE: usize = 14;

/// Outputs of one weight panel: two registers of 16 sums.
pub(super) const PANEL: usize = 32;

/// Lanes of a register of 32-bit numbers.
pub(super) const LANES: usize = 16;

/// The number of inputs of a product is a multiple of this.
pub(super) const STEP: usize = 16;

/// Lines of a panel per four inputs.
const LINES_PER_FOUR: usize = PANEL * 4 / 64;

/// 64 aligned bytes: the weights of 16 outputs for 4 consecutive inputs, with the four of an output adjacent. The bytes
/// are the bits of signed integers.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct PanelLine(pub(super) [u8; 64]);

impl PanelLine {
    pub(super) const ZERO: PanelLine = PanelLine([0; 64]);
}

/// Returns the number of lines of a panel with `inputs` inputs.
pub(super) const fn panel_lines(inputs: usize) -> usize {
    inputs / 4 * LINES_PER_FOUR
}

/// Returns the position of the weight of `output` for `input` in a panel: the line, and the byte in it.
pub(super) const fn weight_position(input: usize, output: usize) -> (usize, usize) {
    (input / 4 * LINES_PER_FOUR + output / LANES, output % LANES * 4 + input % 4)
}

/// Rows of unsigned bytes.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    /// Starts with the first row.
    pub(super) data: &'a [u8],
    /// Distance from the start of one row to the next.
    pub(super) stride: usize,
    /// Number of rows, at most [`TILE`].
    pub(super) count: usize,
    /// Bytes per row, a multiple of [`STEP`].
    pub(super) depth: usize,
}

/// How a row is quantised: a number is `low + step * byte`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Quantisation {
    pub(super) step: f32,
    pub(super) low: f32,
}

/// Parameters that dequantise the sums of 16 outputs.
#[derive(Clone, Copy)]
pub(super) struct OutputScales {
    /// The quantisation step of the weights.
    pub(super) step: [f32; LANES],
    /// The sum of the weights, to be multiplied by [`Quantisation::low`].
    pub(super) sum: [f32; LANES],
    pub(super) bias: [f32; LANES],
}

/// Parameters that convert products with 16 keys into attention scores, and account for the steps of their values.
#[derive(Clone, Copy)]
pub(super) struct KeyParameters {
    /// The quantisation step of a key.
    pub(super) step: [f32; LANES],
    /// The contribution of the query's byte offset to each product.
    pub(super) shift: [i32; LANES],
    /// The binary logarithm of the step of the key's value.
    pub(super) lift: [f32; LANES],
    /// The reciprocal of that step.
    pub(super) unlift: [f32; LANES],
}

impl KeyParameters {
    /// Sixteen keys that get no attention.
    pub(super) const NONE: KeyParameters = KeyParameters {
        step: [0.0; LANES],
        shift: [0; LANES],
        lift: [KeyParameters::NEVER; LANES],
        unlift: [0.0; LANES],
    };

    /// The lift of a key that gets no attention.
    pub(super) const NEVER: f32 = -1e30;
}

/// A layer normalisation: scale and shift of 16 numbers.
#[derive(Clone, Copy)]
pub(super) struct NormParameters {
    pub(super) scale: [f32; LANES],
    pub(super) shift: [f32; LANES],
}

/// The outputs of [`Kernels::quantise_heads`]: the three parts of a row.
pub(super) struct HeadRow<'a> {
    /// Offset by 128 to be unsigned.
    pub(super) queries: &'a mut [u8],
    /// The bits of signed integers.
    pub(super) keys: &'a mut [u8],
    /// The bits of signed integers.
    pub(super) values: &'a mut [u8],
    /// The quantisation step per head: first of the queries, then of the keys, then of the values.
    pub(super) steps: &'a mut [f32],
}

/// Products of a few rows with a layer, and the parameters that dequantise them.
#[derive(Clone, Copy)]
pub(super) struct LayerSums<'a> {
    /// Row by row.
    pub(super) sums: &'a [i32],
    /// The parameters of the layer.
    pub(super) outputs: &'a [OutputScales],
    /// The codings of the multiplied rows.
    pub(super) codings: &'a [Quantisation],
}

impl LayerSums<'_> {
    /// Length of a row.
    fn width(&self) -> usize {
        self.outputs.len() * LANES
    }
}

/// Output of quantised rows.
pub(super) struct QuantisedRows<'a> {
    /// Row by row.
    pub(super) bytes: &'a mut [u8],
    /// One for each row.
    pub(super) codings: &'a mut [Quantisation],
}

/// A layer normalisation.
#[derive(Clone, Copy)]
pub(super) struct LayerNorm<'a> {
    pub(super) groups: &'a [NormParameters],
    /// Added to the variance to avoid division by zero.
    pub(super) epsilon: f32,
}

/// The kernels for one kind of processor. Row lengths are multiples of four times [`LANES`].
pub(super) trait Kernels: Send + Sync {
    /// Returns the name of these kernels.
    fn name(&self) -> &'static str;

    /// Writes the product of each row with each output of a panel; those of row `r` start at `sums[r * stride]`. Exact.
    fn dot(&self, rows: Rows<'_>, panel: &[PanelLine], sums: &mut [i32], stride: usize);

    /// Normalises rows in place and quantises them.
    fn norm(&self, normal: LayerNorm<'_>, rows: &mut [f32], coded: QuantisedRows<'_>);

    /// Adds products to rows, normalises them in place and quantises them.
    fn add_norm(&self, product: LayerSums<'_>, normal: LayerNorm<'_>, rows: &mut [f32], coded: QuantisedRows<'_>);

    /// Quantises the GELU of products. `work` is as long as one row.
    fn gelu(&self, product: LayerSums<'_>, work: &mut [f32], coded: QuantisedRows<'_>);

    /// Quantises the product of one row with queries, keys and values, head by head and symmetrically (no lowest value).
    fn quantise_heads(&self, product: LayerSums<'_>, width: usize, row: HeadRow<'_>);

    /// Computes attention shares from the products of a few queries with all keys. The rows start `stride` sums apart;
    /// the sums are overwritten. The largest share of a row is 255, and a share includes the step of its value.
    ///
    /// On input, `factors` holds the step of each query in binary logarithms; on output, the factor that dequantises
    /// the products of its shares with the values.
    fn softmax(&self, sums: &mut [i32], stride: usize, keys: &[KeyParameters], factors: &mut [f32], shares: &mut [u8]);

    /// Multiplies sums by a factor.
    fn scale(&self, sums: &[i32], factor: f32, row: &mut [f32]);

    /// Quantises rows.
    fn quantise(&self, rows: &[f32], coded: QuantisedRows<'_>);

    /// Interleaves four rows of [`PANEL`] bytes into the panel layout of four inputs.
    fn interleave(&self, rows: [&[u8]; 4], lines: &mut [PanelLine]);
}

/// Returns the fastest kernels for this processor, if it supports any beside the plain ones.
pub(super) fn fastest() -> Option<&'static dyn Kernels> {
    #[cfg(target_arch = "x86_64")]
    if let Some(kernels) = avx512::Avx512::detect() {
        return Some(kernels);
    }
    None
}

/// Returns the kernels in plain Rust.
pub(super) fn plain() -> &'static dyn Kernels {
    &plain::Plain
}

#[cfg(test)]
pub(super) mod tests;
