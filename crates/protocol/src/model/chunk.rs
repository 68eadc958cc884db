//! Chunks, their vectors, and the store's results for a query.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::{Anchor, EncodedPieces, FileId};

/// The deterministic id of a chunk: the first 16 bytes of BLAKE3 over content hash, ordinal and chunker settings, in hex.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChunkId(pub String);

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The tier at which a chunk was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tier {
    /// Metadata only.
    L0,
    /// Extracted text.
    L1,
    /// Extracted on demand by a skill.
    L2,
}

impl Tier {
    /// Returns `L0`, `L1` or `L2`.
    pub fn name(self) -> &'static str {
        match self {
            Tier::L0 => "L0",
            Tier::L1 => "L1",
            Tier::L2 => "L2",
        }
    }
}

/// A piece of a document, small enough to embed.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// Its id.
    pub id: ChunkId,
    /// Its index among the chunks of its file, from 0.
    pub ordinal: u32,
    /// The text that is embedded and searched: title and heading path, a line break, then the passage.
    pub text: String,
    /// Byte of `text` at which the passage begins; 0 when there is no title and no heading.
    pub body_start: u32,
    /// Place of the whole passage in the file, from start to end. [`Chunk::body_anchor`] gives the place of a part.
    pub anchor: Anchor,
    /// Places of its parts, where they differ.
    pub pieces: EncodedPieces,
    /// Headings above the passage, outermost first.
    pub heading_path: Vec<String>,
    /// Length of `text` in tokens of the embedder, without special tokens.
    pub tokens: u32,
    /// Tier at which it was made.
    pub tier: Tier,
}

impl Chunk {
    /// Returns the passage without its title and headings.
    pub fn body(&self) -> &str {
        &self.text[self.body_start as usize..]
    }
}

/// A chunk with its vector, ready for the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedded {
    /// The chunk.
    pub chunk: Chunk,
    /// Its vector: as long as the embedder's dimension, L2 norm 1. Empty until it is embedded; until then only the
    /// keyword leg finds the chunk.
    pub vector: Vec<f32>,
}

/// Tolerance of the squared norm of a vector. Rounding changes it by less than a thousandth.
const NORM_TOLERANCE: f32 = 0.05;

/// Returns whether the L2 norm is 1, as it is for every vector that vic writes. Vectors damaged on disk almost never
/// pass.
pub fn has_unit_norm(vector: &[f32]) -> bool {
    (vector.iter().map(|it| it * it).sum::<f32>() - 1.0).abs() < NORM_TOLERANCE
}

/// All chunks of one file. They replace the file's chunks in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct FileChunks {
    /// The file.
    pub file_id: FileId,
    /// Its chunks in order; may be empty.
    pub chunks: Vec<Embedded>,
}

/// One result of one leg, best first.
#[derive(Clone, Debug, PartialEq)]
pub struct LegHit {
    /// The chunk.
    pub chunk_id: ChunkId,
    /// Its file.
    pub file_id: FileId,
    /// Keyword leg: BM25, 0 or more. Vector leg: cosine similarity, -1 to 1.
    pub score: f32,
}

/// A chunk as the store keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredChunk {
    /// Its file.
    pub file_id: FileId,
    /// The chunk.
    pub chunk: Chunk,
}

/// Tokenizes text with the embedder's tokenizer.
pub trait TokenCounter: Send + Sync {
    /// Returns the byte range of every token of `text`, in order, without special tokens. Ranges do not overlap, lie on
    /// character boundaries, and may leave gaps (white space).
    fn token_spans(&self, text: &str) -> Vec<(usize, usize)>;

    /// Returns the maximum number of tokens of a chunk that is embedded without truncation.
    fn max_chunk_tokens(&self) -> usize;
}
