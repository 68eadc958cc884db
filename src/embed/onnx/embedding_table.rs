//! The embedding tables of a model, which map token ids and positions to the encoder's input.
//!
//! The word table is half of a small model. It is not part of the ONNX graph, so that it is in memory only once for all
//! sessions.

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::embed::onnx::graph::Precision;
use crate::embed::onnx::weights::{BertConfig, Weights};
use crate::error::{Error, Result};

/// The embedding tables of one model, shared by all sessions.
pub(crate) struct EmbeddingTable {
    hidden: usize,
    words: WordTable,
    /// For each token position, the sum of the position embedding and the embedding of segment 0.
    positions: Vec<f32>,
}

/// The word embeddings. Half precision takes half the memory of fp32, and its error is far below that of 8-bit
/// products.
enum WordTable {
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
            Precision::Int8 => {
                let mut half = Vec::with_capacity(rows * hidden);
                weights.read(name, &mut |piece| half.extend(piece.iter().map(|it| f16::from_f32(*it))))?;
                WordTable::Half(half)
            }
        };
        let positions = config.max_position_embeddings;
        let mut places = weights.tensor("embeddings.position_embeddings.weight", &[positions, hidden])?;
        let segments = "embeddings.token_type_embeddings.weight";
        let segment = weights.tensor(segments, &weights.matrix_shape(segments)?)?;
        for row in places.chunks_exact_mut(hidden) {
            row.iter_mut().zip(&segment).for_each(|(place, segment)| *place += segment);
        }
        Ok(EmbeddingTable { hidden, words, positions: places })
    }

    /// Returns the number of tokens in the word table.
    pub(crate) fn vocabulary(&self) -> usize {
        let numbers = match &self.words {
            WordTable::Half(words) => words.len(),
            WordTable::Full(words) => words.len(),
        };
        numbers / self.hidden
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
                WordTable::Half(words) => words.get(range).map(|it| it.convert_to_f32_slice(row)),
                WordTable::Full(words) => words.get(range).map(|it| row.copy_from_slice(it)),
            };
            known.ok_or_else(|| Error::internal(format!("token id {id} is not in the model's word table")))?;
            row.iter_mut().zip(place).for_each(|(value, place)| *value += place);
        }
        Ok(())
    }
}
