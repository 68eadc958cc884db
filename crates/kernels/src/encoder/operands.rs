//! The operands of the kernels, and the interface that each kind of processor implements.

/// Maximum rows per call of [`Kernels::dot`]: as many as have registers for their sums.
pub const TILE: usize = 14;

/// Outputs of one weight panel: two registers of 16 sums.
pub const PANEL: usize = 32;

/// Lanes of a register of 32-bit numbers.
pub const LANES: usize = 16;

/// The number of inputs of a product is a multiple of this.
pub const STEP: usize = 16;

/// Lines of a panel per four inputs.
pub(crate) const LINES_PER_FOUR: usize = PANEL * 4 / 64;

/// 64 aligned bytes: the weights of 16 outputs for 4 consecutive inputs, with the four of an output adjacent. The bytes
/// are the bits of signed integers.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct PanelLine(pub [u8; 64]);

impl PanelLine {
    /// A line of zeros.
    pub const ZERO: PanelLine = PanelLine([0; 64]);
}

/// Returns the number of lines of a panel with `inputs` inputs.
pub const fn panel_lines(inputs: usize) -> usize {
    inputs / 4 * LINES_PER_FOUR
}

/// Returns the position of the weight of `output` for `input` in a panel: the line, and the byte in it.
pub const fn weight_position(input: usize, output: usize) -> (usize, usize) {
    (input / 4 * LINES_PER_FOUR + output / LANES, output % LANES * 4 + input % 4)
}

/// Rows of unsigned bytes.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// Starts with the first row.
    pub data: &'a [u8],
    /// Distance from the start of one row to the next.
    pub stride: usize,
    /// Number of rows, at most [`TILE`].
    pub count: usize,
    /// Bytes per row, a multiple of [`STEP`].
    pub depth: usize,
}

/// How a row is quantised: a number is `low + step * byte`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantisation {
    /// Difference between two neighbouring bytes.
    pub step: f32,
    /// The number of byte 0.
    pub low: f32,
}

/// Parameters that dequantise the sums of 16 outputs.
#[derive(Clone, Copy)]
pub struct OutputScales {
    /// The quantisation step of the weights.
    pub step: [f32; LANES],
    /// The sum of the weights, to be multiplied by [`Quantisation::low`].
    pub sum: [f32; LANES],
    /// Added to each dequantised sum.
    pub bias: [f32; LANES],
}

/// Parameters that convert products with 16 keys into attention scores, and account for the steps of their values.
#[derive(Clone, Copy)]
pub struct KeyParameters {
    /// The quantisation step of a key.
    pub step: [f32; LANES],
    /// The contribution of the query's byte offset to each product.
    pub shift: [i32; LANES],
    /// The binary logarithm of the step of the key's value.
    pub lift: [f32; LANES],
    /// The reciprocal of that step.
    pub unlift: [f32; LANES],
}

impl KeyParameters {
    /// Sixteen keys that get no attention.
    pub const NONE: KeyParameters = KeyParameters {
        step: [0.0; LANES],
        shift: [0; LANES],
        lift: [KeyParameters::NEVER; LANES],
        unlift: [0.0; LANES],
    };

    /// The lift of a key that gets no attention.
    pub const NEVER: f32 = -1e30;
}

/// A layer normalisation: scale and shift of 16 numbers.
#[derive(Clone, Copy)]
pub struct NormParameters {
    /// Factor of each normalised number.
    pub scale: [f32; LANES],
    /// Added after the factor.
    pub shift: [f32; LANES],
}

/// The outputs of [`Kernels::quantise_heads`]: the three parts of a row.
pub struct HeadRow<'a> {
    /// Offset by 128 to be unsigned.
    pub queries: &'a mut [u8],
    /// The bits of signed integers.
    pub keys: &'a mut [u8],
    /// The bits of signed integers.
    pub values: &'a mut [u8],
    /// The quantisation step per head: first of the queries, then of the keys, then of the values.
    pub steps: &'a mut [f32],
}

/// Products of a few rows with a layer, and the parameters that dequantise them.
#[derive(Clone, Copy)]
pub struct LayerSums<'a> {
    /// Row by row.
    pub sums: &'a [i32],
    /// The parameters of the layer.
    pub outputs: &'a [OutputScales],
    /// The codings of the multiplied rows.
    pub codings: &'a [Quantisation],
}

impl LayerSums<'_> {
    /// Length of a row.
    pub(crate) fn width(&self) -> usize {
        self.outputs.len() * LANES
    }
}

/// Output of quantised rows.
pub struct QuantisedRows<'a> {
    /// Row by row.
    pub bytes: &'a mut [u8],
    /// One for each row.
    pub codings: &'a mut [Quantisation],
}

/// A layer normalisation.
#[derive(Clone, Copy)]
pub struct LayerNorm<'a> {
    /// The parameters, 16 numbers each.
    pub groups: &'a [NormParameters],
    /// Added to the variance to avoid division by zero.
    pub epsilon: f32,
}

/// The kernels for one kind of processor. Row lengths are multiples of four times [`LANES`].
pub trait Kernels: Send + Sync {
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
