//! Operands of the encoder kernels, and the trait [`Kernels`] that is implemented for each kind of processor.

/// Maximum number of rows per call of [`Kernels::dot`]: the registers hold the sums of no more than this many rows.
pub const TILE: usize = 14;

/// Number of outputs of one weight panel: two registers of 16 sums each.
pub const PANEL: usize = 32;

/// Number of 32-bit numbers in a register.
pub const LANES: usize = 16;

/// The number of inputs of a product must be a multiple of this.
pub const STEP: usize = 16;

/// Number of [`PanelLine`]s of a panel for each four inputs.
pub(crate) const LINES_PER_FOUR: usize = PANEL * 4 / 64;

/// 64 aligned bytes: the weights of 16 outputs for 4 consecutive inputs; the four weights of an output are adjacent. Each
/// byte holds the bits of a signed integer.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct PanelLine(pub [u8; 64]);

impl PanelLine {
    /// A line in which all weights are zero.
    pub const ZERO: PanelLine = PanelLine([0; 64]);
}

/// Returns the number of lines of a panel with this many inputs.
pub const fn panel_lines(inputs: usize) -> usize {
    inputs / 4 * LINES_PER_FOUR
}

/// Returns the position in a panel of the weight of `output` for `input`: index of the line, and index of the byte in it.
pub const fn weight_position(input: usize, output: usize) -> (usize, usize) {
    (input / 4 * LINES_PER_FOUR + output / LANES, output % LANES * 4 + input % 4)
}

/// Rows of unsigned bytes: the left operand of a product.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// The bytes of all rows, beginning with the first row.
    pub data: &'a [u8],
    /// Distance in bytes from the start of one row to the start of the next.
    pub stride: usize,
    /// Number of rows, at most [`TILE`].
    pub count: usize,
    /// Number of bytes per row, a multiple of [`STEP`].
    pub depth: usize,
}

/// Parameters with which a row of numbers is quantised to bytes: a number is about `low + step * byte`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantisation {
    /// Difference between the numbers of two consecutive byte values.
    pub step: f32,
    /// The number that byte 0 represents.
    pub low: f32,
}

/// Parameters that dequantise the integer sums of 16 outputs.
#[derive(Clone, Copy)]
pub struct OutputScales {
    /// The quantisation steps of the weights of each output.
    pub step: [f32; LANES],
    /// The sum of the weights of each output; [`Quantisation::low`] is multiplied by it.
    pub sum: [f32; LANES],
    /// The bias of each output, added to the dequantised sum.
    pub bias: [f32; LANES],
}

/// Parameters that convert the products of a query with 16 keys into attention scores. They also hold the quantisation
/// steps of the keys' values.
#[derive(Clone, Copy)]
pub struct KeyParameters {
    /// The quantisation step of each key.
    pub step: [f32; LANES],
    /// Amount by which the byte offset of the queries increases the product with each key; it is subtracted from the
    /// product.
    pub shift: [i32; LANES],
    /// The binary logarithm of the quantisation step of each key's value; added to the score.
    pub lift: [f32; LANES],
    /// The reciprocal of the quantisation step of each key's value.
    pub unlift: [f32; LANES],
}

impl KeyParameters {
    /// Parameters of sixteen padding keys, which get no attention.
    pub const NONE: KeyParameters = KeyParameters {
        step: [0.0; LANES],
        shift: [0; LANES],
        lift: [KeyParameters::NEVER; LANES],
        unlift: [0.0; LANES],
    };

    /// Value of `lift` for a padding key: so low that its attention weight is zero.
    pub const NEVER: f32 = -1e30;
}

/// Scale and shift of 16 numbers in a layer normalisation.
#[derive(Clone, Copy)]
pub struct NormParameters {
    /// Factor by which each normalised number is multiplied.
    pub scale: [f32; LANES],
    /// Summand added to each number after the multiplication.
    pub shift: [f32; LANES],
}

/// Output buffers of [`Kernels::quantise_heads`] for one row: queries, keys and values as bytes.
pub struct HeadRow<'a> {
    /// The quantised queries, offset by 128 to be unsigned.
    pub queries: &'a mut [u8],
    /// The quantised keys; each byte holds the bits of a signed integer.
    pub keys: &'a mut [u8],
    /// The quantised values; each byte holds the bits of a signed integer.
    pub values: &'a mut [u8],
    /// The quantisation step of each head: first those of the queries, then of the keys, then of the values.
    pub steps: &'a mut [f32],
}

/// Products of a few rows with the weights of a layer, and the parameters that dequantise them.
#[derive(Clone, Copy)]
pub struct LayerSums<'a> {
    /// The integer sums, row by row.
    pub sums: &'a [i32],
    /// The dequantisation parameters of the layer's outputs, 16 outputs each.
    pub outputs: &'a [OutputScales],
    /// The quantisation of each multiplied row.
    pub codings: &'a [Quantisation],
}

impl LayerSums<'_> {
    /// Returns the number of outputs, which is the length of a row of sums.
    pub(crate) fn width(&self) -> usize {
        self.outputs.len() * LANES
    }
}

/// Output buffers for quantised rows.
pub struct QuantisedRows<'a> {
    /// The quantised bytes, row by row.
    pub bytes: &'a mut [u8],
    /// The quantisation of each row.
    pub codings: &'a mut [Quantisation],
}

/// Parameters of a layer normalisation.
#[derive(Clone, Copy)]
pub struct LayerNorm<'a> {
    /// Scales and shifts, for 16 numbers each.
    pub groups: &'a [NormParameters],
    /// Small number added to the variance, to avoid a division by zero.
    pub epsilon: f32,
}

/// The kernels for one kind of processor. Row lengths must be multiples of four times [`LANES`].
pub trait Kernels: Send + Sync {
    /// Returns the name of these kernels, such as `plain`.
    fn name(&self) -> &'static str;

    /// Writes the exact product of each row with each output of a panel. The products of row `r` start at `sums[r *
    /// stride]`.
    fn dot(&self, rows: Rows<'_>, panel: &[PanelLine], sums: &mut [i32], stride: usize);

    /// Normalises rows in place, quantises them, and writes the bytes to `coded`.
    fn norm(&self, normal: LayerNorm<'_>, rows: &mut [f32], coded: QuantisedRows<'_>);

    /// Adds products to rows, normalises the rows in place, quantises them, and writes the bytes to `coded`.
    fn add_norm(&self, product: LayerSums<'_>, normal: LayerNorm<'_>, rows: &mut [f32], coded: QuantisedRows<'_>);

    /// Computes the GELU of the products, quantises it, and writes the bytes to `coded`. `work` is a buffer for one row.
    fn gelu(&self, product: LayerSums<'_>, work: &mut [f32], coded: QuantisedRows<'_>);

    /// Quantises the queries, keys and values of one row, each head separately and symmetrically around zero.
    fn quantise_heads(&self, product: LayerSums<'_>, width: usize, row: HeadRow<'_>);

    /// Computes attention weights (`shares`) from the products of a few queries with all keys. The rows start `stride`
    /// sums apart; the sums are overwritten. The largest weight of a row is 255. A weight includes the quantisation step
    /// of its value.
    ///
    /// On input, `factors` holds the quantisation step of each query in binary logarithms; on output, the factor that
    /// dequantises the products of the weights with the values.
    fn softmax(&self, sums: &mut [i32], stride: usize, keys: &[KeyParameters], factors: &mut [f32], shares: &mut [u8]);

    /// Multiplies the sums by a factor and writes the results to `row`.
    fn scale(&self, sums: &[i32], factor: f32, row: &mut [f32]);

    /// Quantises rows and writes the bytes to `coded`.
    fn quantise(&self, rows: &[f32], coded: QuantisedRows<'_>);

    /// Interleaves four rows of [`PANEL`] bytes, the weights of four inputs, into the layout of a panel.
    fn interleave(&self, rows: [&[u8]; 4], lines: &mut [PanelLine]);
}
