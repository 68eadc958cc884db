//! The embedding tables of a model, which map token ids and positions to the encoder's input.
//!
//! The word table is half of a small model, and most of a multilingual one. It is not part of the ONNX graph, so that it
//! is in memory only once for all sessions.

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::embed::converted_weights::quantise_row;
use crate::embed::onnx::graph::Precision;
use crate::embed::onnx::weights::{BertConfig, Weights};
use crate::error::{Error, Result};

/// The embedding tables of one model, shared by all sessions.
pub(crate) struct EmbeddingTable {
    hidden: usize,
    words: WordTable,
    /// For each token position, the sum of the position embedding and the embedding of segment 0.
    positions: Vec<f32>,
    /// What the embedding of segment 1 adds to that of segment 0; empty if the model has a single segment.
    second_segment: Vec<f32>,
}

/// Number of tokens above which the word table is kept as bytes: that of a multilingual model takes 190 MB with half
/// precision.
const MAX_HALF_ROWS: usize = 65_536;

/// The word embeddings. Half precision takes half the memory of fp32, and its error is far below that of 8-bit
/// products. Bytes take a quarter, with one step per row.
enum WordTable {
    Bytes { bytes: Vec<u8>, steps: Vec<f32> },
    Half(Vec<f16>),
    Full(Vec<f32>),
}

impl EmbeddingTable {
    /// Reads the embedding tables from the weights of a model.
    pub(crate) fn open(weights: &Weights, config: &BertConfig, precision: Precision) -> Result<EmbeddingTable> {
        let name = "embeddings.word_embeddings.weight";
        let hidden = config.hidden_size;
        let [rows, width] = weights.matrix_shape(name)?;
        if width != hidden {
            return Err(weights.invalid_model(&format!("`{name}` has {width} columns instead of {hidden}")));
        }
        let words = match precision {
            Precision::Fp32 => WordTable::Full(weights.tensor(name, &[rows, hidden])?),
            Precision::Int8 => WordTable::read_rounded(weights, name, [rows, hidden])?,
        };
        let positions = config.max_position_embeddings;
        let mut places = weights.tensor("embeddings.position_embeddings.weight", &[positions, hidden])?;
        let segments = "embeddings.token_type_embeddings.weight";
        let segment = weights.tensor(segments, &weights.matrix_shape(segments)?)?;
        for row in places.chunks_exact_mut(hidden) {
            row.iter_mut().zip(&segment).for_each(|(place, segment)| *place += segment);
        }
        let (first, others) = segment.split_at(hidden.min(segment.len()));
        let second_segment = others.iter().zip(first).map(|(second, first)| second - first).collect();
        Ok(EmbeddingTable { hidden, words, positions: places, second_segment })
    }

    /// Returns the number of tokens in the word table.
    pub(crate) fn vocabulary(&self) -> usize {
        let numbers = match &self.words {
            WordTable::Bytes { bytes, .. } => bytes.len(),
            WordTable::Half(words) => words.len(),
            WordTable::Full(words) => words.len(),
        };
        numbers / self.hidden
    }

    /// Returns the table's part of the fingerprint: empty, or how its numbers are rounded if that affects vectors.
    pub(crate) fn computation(&self) -> &'static str {
        if matches!(self.words, WordTable::Bytes { .. }) { " byte words" } else { "" }
    }

    /// Returns the size of the tables in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let words = match &self.words {
            WordTable::Bytes { bytes, steps } => bytes.len() + size_of_val(steps.as_slice()),
            WordTable::Half(words) => size_of_val(words.as_slice()),
            WordTable::Full(words) => size_of_val(words.as_slice()),
        };
        words + size_of_val(self.positions.as_slice())
    }

    /// Returns the number of values of an embedding.
    pub(crate) fn hidden(&self) -> usize {
        self.hidden
    }

    /// Overwrites `output` with the embeddings of the token ids, one row after the other.
    pub(crate) fn fill(&self, ids: &[u32], output: &mut Vec<f32>) -> Result<()> {
        output.clear();
        output.resize(ids.len() * self.hidden, 0.0);
        if ids.len() * self.hidden > self.positions.len() {
            return Err(Error::internal("the text has more tokens than the model has positions"));
        }
        let rows = output.chunks_exact_mut(self.hidden).zip(self.positions.chunks_exact(self.hidden));
        for (id, (row, place)) in ids.iter().zip(rows) {
            let start = *id as usize * self.hidden;
            let range = start..start + self.hidden;
            let known = match &self.words {
                WordTable::Bytes { bytes, steps } => bytes.get(range).map(|it| {
                    let step = steps[*id as usize];
                    row.iter_mut().zip(it).for_each(|(value, byte)| *value = f32::from(byte.cast_signed()) * step);
                }),
                WordTable::Half(words) => words.get(range).map(|it| it.convert_to_f32_slice(row)),
                WordTable::Full(words) => words.get(range).map(|it| row.copy_from_slice(it)),
            };
            known.ok_or_else(|| Error::internal(format!("token id {id} is not in the model's word table")))?;
            row.iter_mut().zip(place).for_each(|(value, place)| *value += place);
        }
        Ok(())
    }

    /// Like `fill`, for a pair of texts: the tokens from index `second` belong to the second segment.
    pub(crate) fn fill_pair(&self, ids: &[u32], second: usize, output: &mut Vec<f32>) -> Result<()> {
        self.fill(ids, output)?;
        for row in output.chunks_exact_mut(self.hidden).skip(second) {
            row.iter_mut().zip(&self.second_segment).for_each(|(value, segment)| *value += segment);
        }
        Ok(())
    }
}

impl WordTable {
    /// Reads a table with rounded numbers: as bytes if the file has bytes or the table is large, else in half precision.
    fn read_rounded(weights: &Weights, name: &str, [rows, hidden]: [usize; 2]) -> Result<WordTable> {
        if let Some((bytes, steps)) = weights.quantised_matrix(name)? {
            return Ok(WordTable::Bytes { bytes, steps });
        }
        if rows <= MAX_HALF_ROWS {
            let mut half = Vec::with_capacity(rows * hidden);
            weights.read(name, &mut |piece| half.extend(piece.iter().map(|it| f16::from_f32(*it))))?;
            return Ok(WordTable::Half(half));
        }
        let (mut bytes, mut steps) = (Vec::with_capacity(rows * hidden), Vec::with_capacity(rows));
        let mut waiting: Vec<f32> = Vec::new();
        weights.read(name, &mut |piece| {
            waiting.extend_from_slice(piece);
            let whole = waiting.len() / hidden * hidden;
            for row in waiting[..whole].chunks_exact(hidden) {
                let (coded, step) = quantise_row(row);
                bytes.extend(coded);
                steps.push(step);
            }
            waiting.drain(..whole);
        })?;
        Ok(WordTable::Bytes { bytes, steps })
    }
}
