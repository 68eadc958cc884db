//! Self-attention over the tokens of one text, computed with 8-bit integers.
//!
//! Queries, keys and values are bytes with a quantisation step per token and head. For a tile of queries and one head, the
//! code computes all products with the keys, converts them to attention weights (called shares here), and multiplies those
//! with the values. No buffer is larger than a tile times the text length. The attention weight is multiplied by the step
//! of the value before quantisation, so that tokens with high attention but small values do not reduce the precision of the
//! others.

use std::ops::Range;

use crate::embed::bert::linear::Linear;
use vic_kernels::encoder::{
    HeadRow, Kernels, KeyParameters, LANES, LayerSums, PANEL, PanelLine, Quantisation, Rows, STEP, TILE, panel_lines,
    weight_position,
};

/// A query whose bytes are all 128, the offset that is added to signed query values to store them as unsigned bytes.
const OFFSETS: [u8; MAX_WIDTH] = [128; MAX_WIDTH];

/// Maximum width of an attention head; ONNX Runtime runs models with wider heads.
pub(super) const MAX_WIDTH: usize = 64;

/// Minimum quantisation step of a value vector, because a vector of zeros would have step 0.
const LEAST_STEP: f32 = 1e-12;

/// The queries, keys and values of one text in one layer, and buffers for intermediate results.
pub(super) struct Attention {
    kernels: &'static dyn Kernels,
    heads: usize,
    /// Width of an attention head.
    width: usize,
    tokens: usize,
    /// The queries, one row for each token.
    queries: Vec<u8>,
    /// For each token and head, the factor that converts products of query and key to binary logarithms of attention
    /// weights.
    factors: Vec<f32>,
    /// The keys of each head in panels, laid out like the weights of a layer with one output per token.
    keys: Vec<PanelLine>,
    /// The quantisation parameters of the keys, for each head.
    columns: Vec<KeyParameters>,
    /// The value vectors of all heads, one row for each token.
    values: Vec<u8>,
    /// The values of each head in panels, laid out like the weights of a layer with one input per token.
    value_panels: Vec<PanelLine>,
    key_row: Vec<u8>,
    steps: Vec<f32>,
    sums: Vec<i32>,
    shares: Vec<u8>,
}

impl Attention {
    pub(super) fn new(kernels: &'static dyn Kernels, heads: usize, width: usize) -> Attention {
        Attention {
            kernels,
            heads,
            width,
            tokens: 0,
            queries: Vec::new(),
            factors: Vec::new(),
            keys: Vec::new(),
            columns: Vec::new(),
            values: Vec::new(),
            value_panels: Vec::new(),
            key_row: vec![0; heads * width],
            steps: vec![0.0; 3 * heads],
            sums: Vec::new(),
            shares: Vec::new(),
        }
    }

    /// Resizes the buffers for a text of `tokens` tokens. Data of an earlier text are overwritten; data that remain
    /// past the last token get an attention weight of 0.
    pub(super) fn resize_for(&mut self, tokens: usize) {
        self.tokens = tokens;
        let (hidden, across, down) = (self.heads * self.width, self.padded_keys(), self.padded_values());
        self.queries.resize(tokens * hidden, 0);
        self.factors.resize(tokens * self.heads, 0.0);
        self.keys.resize(self.heads * across / PANEL * panel_lines(self.width), PanelLine::ZERO);
        self.columns.clear();
        self.columns.resize(self.heads * across / LANES, KeyParameters::NONE);
        self.values.resize(down * hidden, 0);
        self.value_panels.resize(hidden / PANEL * panel_lines(down), PanelLine::ZERO);
        self.sums.resize(TILE * across, 0);
        self.shares.resize(TILE * down, 0);
    }

    /// Returns the number of keys (tokens), rounded up to whole panels.
    fn padded_keys(&self) -> usize {
        self.tokens.next_multiple_of(PANEL)
    }

    /// Returns the number of values (tokens), rounded up to a multiple of `STEP`.
    fn padded_values(&self) -> usize {
        self.tokens.next_multiple_of(STEP)
    }

    /// Quantises the query, key and value of one token, given as the sums of the projection layer, and stores them.
    pub(super) fn store_token(&mut self, token: usize, sums: &[i32], layer: &Linear, coding: Quantisation) {
        let (heads, width) = (self.heads, self.width);
        let row = token * heads * width..(token + 1) * heads * width;
        let parts = HeadRow {
            queries: &mut self.queries[row.clone()],
            keys: &mut self.key_row,
            values: &mut self.values[row],
            steps: &mut self.steps,
        };
        self.kernels.quantise_heads(LayerSums { sums, outputs: layer.outputs(), codings: &[coding] }, width, parts);
        let unit = std::f32::consts::LOG2_E / (width as f32).sqrt();
        let (panels, groups) = (self.padded_keys() / PANEL, self.padded_keys() / LANES);
        let lines = panel_lines(width);
        for (head, key) in self.key_row.chunks_exact(width).enumerate() {
            let panel = &mut self.keys[(head * panels + token / PANEL) * lines..][..lines];
            for (four, bytes) in key.as_chunks::<4>().0.iter().enumerate() {
                let (line, at) = weight_position(four * 4, token % PANEL);
                panel[line].0[at..at + 4].copy_from_slice(bytes);
            }
            let value_step = self.steps[2 * heads + head].max(LEAST_STEP);
            let (column, lane) = (&mut self.columns[head * groups + token / LANES], token % LANES);
            column.step[lane] = self.steps[heads + head];
            column.lift[lane] = value_step.log2();
            column.unlift[lane] = 1.0 / value_step;
            self.factors[token * heads + head] = self.steps[head] * unit;
        }
    }

    /// Prepares the keys and values for `Attention::attend`. Call this when all tokens are stored.
    pub(super) fn prepare_keys_and_values(&mut self) {
        self.compute_key_shifts();
        let (hidden, down) = (self.heads * self.width, self.padded_values());
        let lines = panel_lines(down);
        for four in 0..down / 4 {
            let row = |at: usize| &self.values[(four * 4 + at) * hidden..][..hidden];
            let rows = [row(0), row(1), row(2), row(3)];
            for panel in 0..hidden / PANEL {
                let rows = rows.map(|it| &it[panel * PANEL..(panel + 1) * PANEL]);
                let at = panel * lines + four * PANEL / LANES;
                self.kernels.interleave(rows, &mut self.value_panels[at..at + PANEL / LANES]);
            }
        }
    }

    /// Computes the product of each key with [`OFFSETS`], which is what the offset of query bytes adds to every product
    /// with that key.
    fn compute_key_shifts(&mut self) {
        let rows = Rows { data: &OFFSETS, stride: 0, count: 1, depth: self.width };
        let mut sums = [0; PANEL];
        for (panel, columns) in self.keys.chunks_exact(panel_lines(self.width)).zip(self.columns.as_chunks_mut::<2>().0)
        {
            self.kernels.dot(rows, panel, &mut sums, PANEL);
            for (column, sums) in columns.iter_mut().zip(sums.as_chunks().0) {
                column.shift = *sums;
            }
        }
    }

    /// Writes the attention output of a tile's tokens to `context`, one row for each token.
    pub(super) fn attend(&mut self, tile: Range<usize>, context: &mut [f32]) {
        let (hidden, width, across, down) =
            (self.heads * self.width, self.width, self.padded_keys(), self.padded_values());
        for head in 0..self.heads {
            let factors = self.compute_shares(tile.clone(), head);
            let rows = Rows { data: &self.shares, stride: down, count: tile.len(), depth: down };
            let panels = self.value_panels.chunks_exact(panel_lines(down)).enumerate();
            for (panel, lines) in panels.skip(head * width / PANEL).take(width / PANEL) {
                self.kernels.dot(rows, lines, &mut self.sums, across);
                for (row, factor) in factors[..tile.len()].iter().enumerate() {
                    let context = &mut context[row * hidden + panel * PANEL..][..PANEL];
                    self.kernels.scale(&self.sums[row * across..][..PANEL], *factor, context);
                }
            }
        }
    }

    /// Computes the quantised attention weights of a tile's tokens in one head, and returns the factors that dequantise the
    /// result.
    fn compute_shares(&mut self, tile: Range<usize>, head: usize) -> [f32; TILE] {
        let (hidden, width, across, down) =
            (self.heads * self.width, self.width, self.padded_keys(), self.padded_values());
        let queries = &self.queries[tile.start * hidden + head * width..];
        let rows = Rows { data: queries, stride: hidden, count: tile.len(), depth: width };
        let lines = panel_lines(width);
        let keys = &self.keys[head * across / PANEL * lines..][..across / PANEL * lines];
        for (panel, lines) in keys.chunks_exact(lines).enumerate() {
            self.kernels.dot(rows, lines, &mut self.sums[panel * PANEL..], across);
        }
        let columns = &self.columns[head * across / LANES..][..down / LANES];
        let mut factors = [0.0; TILE];
        for (factor, token) in factors.iter_mut().zip(tile.clone()) {
            *factor = self.factors[token * self.heads + head];
        }
        self.kernels.softmax(&mut self.sums, across, columns, &mut factors[..tile.len()], &mut self.shares);
        factors
    }
}
