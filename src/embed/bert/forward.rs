//! The forward pass of vic's own encoder: computes one vector per token from the embeddings of the tokens.
//!
//! A pass processes one text. Each layer computes queries, keys and values for the whole text; everything after that is
//! computed block by block, so that intermediate results stay in the caches. The matrix products of a block are computed
//! panel by panel: one panel of weights is used for all tiles of the block before the next panel is loaded.

use std::ops::Range;
use std::sync::Arc;

use crate::embed::bert::ProcessorKernels;
use crate::embed::bert::attention::Attention;
use crate::embed::bert::linear::Linear;
use crate::embed::bert::network::{EncoderLayer, Network};
use vic_kernels::encoder::{
    Kernels, LayerNorm, LayerSums, NormParameters, PANEL, Quantisation, QuantisedRows, Rows, TILE,
};

/// Number of tiles per block, such that their rows and a panel fit into the L1 cache, and their sums into the L2 cache.
const TILES_PER_BLOCK: usize = 3;

/// The buffers and the network for forward passes. Each thread has its own.
pub(crate) struct ForwardPass {
    network: Arc<Network>,
    kernels: &'static dyn Kernels,
    attention: Attention,
    /// The activations, one row per token.
    activations: Vec<f32>,
    /// The activations, quantised to bytes.
    coded: Vec<u8>,
    codings: Vec<Quantisation>,
    block: Block,
}

/// Buffers for the intermediate results of one block.
struct Block {
    kernels: &'static dyn Kernels,
    sums: Vec<i32>,
    context: Vec<f32>,
    work: Vec<f32>,
    coded: Vec<u8>,
    codings: [Quantisation; TILES_PER_BLOCK * TILE],
}

impl ForwardPass {
    pub(crate) fn new(network: Arc<Network>, ProcessorKernels(kernels): ProcessorKernels) -> ForwardPass {
        let shape = network.shape;
        let (rows, widest) = (TILES_PER_BLOCK * TILE, shape.inner.max(3 * shape.hidden));
        ForwardPass {
            kernels,
            attention: Attention::new(kernels, shape.heads, shape.hidden / shape.heads),
            activations: Vec::new(),
            coded: Vec::new(),
            codings: Vec::new(),
            block: Block {
                kernels,
                sums: vec![0; rows * widest],
                context: vec![0.0; rows * shape.hidden],
                work: vec![0.0; shape.inner],
                coded: vec![0; rows * shape.inner.max(shape.hidden)],
                codings: [Quantisation::default(); TILES_PER_BLOCK * TILE],
            },
            network,
        }
    }

    /// Runs a text through the network and returns the output, one row per token. `fill` writes the embeddings of the
    /// tokens into the buffer, row by row.
    pub(crate) fn run<E>(&mut self, fill: impl FnOnce(&mut Vec<f32>) -> Result<(), E>) -> Result<&[f32], E> {
        fill(&mut self.activations)?;
        let network = self.network.clone();
        let hidden = network.shape.hidden;
        let tokens = self.activations.len() / hidden;
        if tokens == 0 {
            return Ok(&self.activations);
        }
        self.coded.resize(tokens * hidden, 0);
        self.codings.resize(tokens, Quantisation::default());
        self.attention.resize_for(tokens);
        let normal = LayerNorm { groups: &network.embedding_norm, epsilon: network.shape.epsilon };
        let coded = QuantisedRows { bytes: &mut self.coded, codings: &mut self.codings };
        self.kernels.norm(normal, &mut self.activations, coded);
        let tiles = tiles(tokens);
        for layer in &network.layers {
            for tiles in tiles.chunks(TILES_PER_BLOCK) {
                self.project(layer, tiles);
            }
            self.attention.prepare_keys_and_values();
            for tiles in tiles.chunks(TILES_PER_BLOCK) {
                self.attend(layer, tiles);
                self.feed_forward(layer, tiles);
            }
        }
        Ok(&self.activations)
    }

    /// Computes the queries, keys and values of the tokens of a block.
    fn project(&mut self, layer: &EncoderLayer, tiles: &[Range<usize>]) {
        let (layer, hidden) = (&layer.project, layer.project.inputs());
        let tokens = span(tiles);
        self.block.multiply(layer, &self.coded[tokens.start * hidden..tokens.end * hidden], tiles);
        for (token, sums) in tokens.zip(self.block.sums.chunks_exact(layer.width())) {
            self.attention.store_token(token, sums, layer, self.codings[token]);
        }
    }

    /// Computes the attention of the tokens of a block, combines the heads, adds the residual and normalises.
    fn attend(&mut self, layer: &EncoderLayer, tiles: &[Range<usize>]) {
        let (block, hidden, tokens) = (&mut self.block, layer.mix.width(), span(tiles));
        for tile in tiles {
            let rows = (tile.start - tokens.start) * hidden..(tile.end - tokens.start) * hidden;
            self.attention.attend(tile.clone(), &mut block.context[rows]);
        }
        let size = tokens.len() * hidden;
        let coded = QuantisedRows { bytes: &mut block.coded[..size], codings: &mut block.codings[..tokens.len()] };
        self.kernels.quantise(&block.context[..size], coded);
        let coded = std::mem::take(&mut block.coded);
        block.multiply(&layer.mix, &coded[..size], tiles);
        block.coded = coded;
        self.add_norm(&layer.mix, &layer.attention_norm, tokens);
    }

    /// Computes the feed-forward part of a layer for a block; this part processes each token independently of the others.
    fn feed_forward(&mut self, layer: &EncoderLayer, tiles: &[Range<usize>]) {
        let (block, tokens) = (&mut self.block, span(tiles));
        let (hidden, inner) = (layer.widen.inputs(), layer.widen.width());
        block.multiply(&layer.widen, &self.coded[tokens.start * hidden..tokens.end * hidden], tiles);
        let size = tokens.len() * inner;
        let (sums, codings) = (&block.sums[..size], &self.codings[tokens.clone()]);
        let product = LayerSums { sums, outputs: layer.widen.outputs(), codings };
        let coded = QuantisedRows { bytes: &mut block.coded[..size], codings: &mut block.codings[..tokens.len()] };
        self.kernels.gelu(product, &mut block.work, coded);
        let coded = std::mem::take(&mut block.coded);
        block.multiply(&layer.narrow, &coded[..size], tiles);
        block.coded = coded;
        self.add_norm(&layer.narrow, &layer.output_norm, tokens);
    }

    /// Adds the result of the last product to the activations of a block (the residual), normalises and quantises them.
    fn add_norm(&mut self, layer: &Linear, groups: &[NormParameters], tokens: Range<usize>) {
        let rows = tokens.start * layer.width()..tokens.end * layer.width();
        let sums = &self.block.sums[..rows.len()];
        let product = LayerSums { sums, outputs: layer.outputs(), codings: &self.block.codings[..tokens.len()] };
        let normal = LayerNorm { groups, epsilon: self.network.shape.epsilon };
        let coded = QuantisedRows { bytes: &mut self.coded[rows.clone()], codings: &mut self.codings[tokens] };
        self.kernels.add_norm(product, normal, &mut self.activations[rows], coded);
    }
}

impl Block {
    /// Multiplies the rows of a block by the weights of a layer, and stores the sums.
    fn multiply(&mut self, layer: &Linear, rows: &[u8], tiles: &[Range<usize>]) {
        let (depth, width, first) = (layer.inputs(), layer.width(), span(tiles).start);
        for (panel, lines) in layer.panels().enumerate() {
            for tile in tiles {
                let start = tile.start - first;
                let rows = Rows { data: &rows[start * depth..], stride: depth, count: tile.len(), depth };
                self.kernels.dot(rows, lines, &mut self.sums[start * width + panel * PANEL..], width);
            }
        }
    }
}

/// Splits `tokens` tokens into tiles whose sizes differ by at most one, because a small last tile would take nearly as long
/// as a full one.
fn tiles(tokens: usize) -> Vec<Range<usize>> {
    let count = tokens.div_ceil(TILE);
    (0..count).map(|at| at * tokens / count..(at + 1) * tokens / count).collect()
}

/// Returns the range of tokens that consecutive tiles cover.
fn span(tiles: &[Range<usize>]) -> Range<usize> {
    tiles.first().map_or(0, |it| it.start)..tiles.last().map_or(0, |it| it.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_tokens_once_with_equal_sizes() {
        for tokens in 1..600 {
            let tiles = tiles(tokens);
            assert_eq!((span(&tiles), tiles.iter().map(Range::len).sum()), (0..tokens, tokens));
            assert!(tiles.windows(2).all(|it| it[0].end == it[1].start));
            let sizes = || tiles.iter().map(Range::len);
            assert!(sizes().max() <= Some(TILE) && sizes().max().unwrap() - sizes().min().unwrap() <= 1);
        }
    }
}
