//! The arithmetic of the encoder: products of 8 bit integers, and what stands between them.
//!
//! Each kernel works on one row (one token) or, for [`Kernels::dot`], on a tile of rows, and what it makes of a row
//! depends on that row alone. [`mod@plain`] says in simple Rust what each one computes; [`avx512`] does the same with the
//! widest instructions there are. Nothing here knows of models or files.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod plain;

/// Rows that one call of [`Kernels::dot`] takes at most: as many as there are registers for their sums.
pub(super) const TILE: usize = 14;

/// Outputs of one panel of weights: two registers of 16 sums.
pub(super) const PANEL: usize = 32;

/// Lanes of a register of 32 bit numbers.
pub(super) const LANES: usize = 16;

/// Products are summed over a multiple of this many inputs.
pub(super) const STEP: usize = 16;

/// Lines of a panel for four inputs.
const LINES_PER_FOUR: usize = PANEL * 4 / 64;

/// 64 bytes on a boundary of 64: weights of 16 outputs for 4 successive inputs, the four of an output side by side. They
/// are the bits of signed numbers.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u8; 64]);

impl Line {
    pub(super) const ZERO: Line = Line([0; 64]);
}

/// Returns the lines of a panel over `inputs` inputs.
pub(super) const fn panel_lines(inputs: usize) -> usize {
    inputs / 4 * LINES_PER_FOUR
}

/// Returns where a panel keeps the four weights of `output` that begin at `input`: the line, and the byte in it.
pub(super) const fn place(input: usize, output: usize) -> (usize, usize) {
    (input / 4 * LINES_PER_FOUR + output / LANES, output % LANES * 4 + input % 4)
}

/// Rows of unsigned bytes.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    /// Begins with the first row.
    pub(super) data: &'a [u8],
    /// From the start of one row to the start of the next.
    pub(super) stride: usize,
    /// How many there are, at most [`TILE`].
    pub(super) count: usize,
    /// Bytes of a row, a multiple of [`STEP`].
    pub(super) depth: usize,
}

/// How a row of numbers was made bytes: a number is `low + step * byte`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Coding {
    pub(super) step: f32,
    pub(super) low: f32,
}

/// What makes numbers of the sums of 16 outputs.
#[derive(Clone, Copy)]
pub(super) struct Outputs {
    /// What one step of a weight is worth.
    pub(super) step: [f32; LANES],
    /// The sum of the weights, which goes with [`Coding::low`].
    pub(super) sum: [f32; LANES],
    pub(super) bias: [f32; LANES],
}

/// What makes attention scores of the products with 16 keys, and what their values need.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    /// What one step of a key is worth.
    pub(super) step: [f32; LANES],
    /// What the offset of the query's bytes adds to each product.
    pub(super) shift: [i32; LANES],
    /// The binary logarithm of a step of the value that belongs to the key.
    pub(super) lift: [f32; LANES],
    /// One divided by that step.
    pub(super) unlift: [f32; LANES],
}

impl Keys {
    /// Sixteen keys that get no attention.
    pub(super) const NONE: Keys =
        Keys { step: [0.0; LANES], shift: [0; LANES], lift: [Keys::NEVER; LANES], unlift: [0.0; LANES] };

    /// The lift of a key that gets no attention.
    pub(super) const NEVER: f32 = -1e30;
}

/// A layer normalisation: scale and shift of 16 numbers.
#[derive(Clone, Copy)]
pub(super) struct Norm {
    pub(super) scale: [f32; LANES],
    pub(super) shift: [f32; LANES],
}

/// Where [`Kernels::heads`] puts the three parts of a row.
pub(super) struct HeadRow<'a> {
    /// Offset by 128, so that they are unsigned.
    pub(super) queries: &'a mut [u8],
    /// The bits of signed numbers.
    pub(super) keys: &'a mut [u8],
    /// The same.
    pub(super) values: &'a mut [u8],
    /// What one step is worth in each head: those of the queries, then those of the keys, then those of the values.
    pub(super) steps: &'a mut [f32],
}

/// Products of a few rows with a layer, and what makes numbers of them.
#[derive(Clone, Copy)]
pub(super) struct Product<'a> {
    /// Row by row.
    pub(super) sums: &'a [i32],
    /// Those of the layer.
    pub(super) outputs: &'a [Outputs],
    /// Those of the rows that were multiplied.
    pub(super) codings: &'a [Coding],
}

impl Product<'_> {
    /// Length of a row.
    fn width(&self) -> usize {
        self.outputs.len() * LANES
    }
}

/// Rows that become bytes.
pub(super) struct Coded<'a> {
    /// Row by row.
    pub(super) bytes: &'a mut [u8],
    /// One for each row.
    pub(super) codings: &'a mut [Coding],
}

/// A layer normalisation.
#[derive(Clone, Copy)]
pub(super) struct Normal<'a> {
    pub(super) groups: &'a [Norm],
    /// Keeps it from dividing by zero.
    pub(super) epsilon: f32,
}

/// The kernels, for one kind of processor. Lengths of rows are multiples of four times [`LANES`].
pub(super) trait Kernels: Send + Sync {
    /// What this kind is called.
    fn name(&self) -> &'static str;

    /// Writes the products of each row with each output of a panel: those of row `r` begin at `sums[r * stride]`. Exact.
    fn dot(&self, rows: Rows<'_>, panel: &[Line], sums: &mut [i32], stride: usize);

    /// Normalises rows in place, and codes them.
    fn norm(&self, normal: Normal<'_>, rows: &mut [f32], coded: Coded<'_>);

    /// Adds products to rows, normalises them in place, and codes them.
    fn add_norm(&self, product: Product<'_>, normal: Normal<'_>, rows: &mut [f32], coded: Coded<'_>);

    /// Codes the GELU of products. `work` is as long as one row.
    fn gelu(&self, product: Product<'_>, work: &mut [f32], coded: Coded<'_>);

    /// Codes the product of one row that holds queries, keys and values, head by head, without a lowest value.
    fn heads(&self, product: Product<'_>, width: usize, row: HeadRow<'_>);

    /// Makes shares of attention out of the products of a few queries with all keys, whose rows begin `stride` sums after
    /// each other; the sums are used up. The largest share of a row is 255, and a share holds the step of its value.
    ///
    /// `factors` comes with what one step of each query is worth, in binary logarithms, and leaves with what the products
    /// of its shares with the values are to be multiplied by.
    fn softmax(&self, sums: &mut [i32], stride: usize, keys: &[Keys], factors: &mut [f32], shares: &mut [u8]);

    /// Multiplies sums by a factor.
    fn scale(&self, sums: &[i32], factor: f32, row: &mut [f32]);

    /// Codes rows.
    fn code(&self, rows: &[f32], coded: Coded<'_>);

    /// Lays four rows of [`PANEL`] bytes as a panel wants four inputs.
    fn weave(&self, rows: [&[u8]; 4], lines: &mut [Line]);
}

/// Returns the fastest kernels that this processor has, if it has any beside the plain ones.
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
