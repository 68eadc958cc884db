//! Chunks of documents, their vectors, and the results of one search in the store.

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

/// The indexing tier that produced a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tier {
    /// Metadata of the file only.
    L0,
    /// Text extracted while indexing.
    L1,
    /// Text extracted on demand by a skill, e.g. OCR.
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
    /// Deterministic id of the chunk.
    pub id: ChunkId,
    /// Index of the chunk among the chunks of its file, from 0.
    pub ordinal: u32,
    /// The text that is embedded and searched: title and heading path, a line break, then the passage.
    pub text: String,
    /// Byte offset in `text` at which the passage begins; 0 if there is neither title nor heading.
    pub body_start: u32,
    /// Location of the whole passage in the file. [`Chunk::body_anchor`] returns the location of a part of the passage.
    pub anchor: Anchor,
    /// Locations of the parts of the passage, where they differ from `anchor`.
    pub pieces: EncodedPieces,
    /// Headings above the passage, outermost first.
    pub heading_path: Vec<String>,
    /// Length of `text` in tokens of the embedder, without special tokens.
    pub tokens: u32,
    /// Tier that produced the chunk.
    pub tier: Tier,
}

impl Chunk {
    /// Returns the passage, without the title and headings that precede it in `text`.
    pub fn body(&self) -> &str {
        &self.text[self.body_start as usize..]
    }
}

/// A chunk with its vector, ready to be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedded {
    /// The embedded chunk.
    pub chunk: Chunk,
    /// Vector of the chunk: L2 norm 1, as long as the embedder's dimension. Empty until the chunk is embedded; until then
    /// only the keyword search finds the chunk.
    pub vector: Vec<f32>,
}

/// Maximum deviation of a vector's squared norm from 1. Rounding changes the squared norm by less than 0.001.
const NORM_TOLERANCE: f32 = 0.05;

/// Returns whether the L2 norm of a vector is 1. It is 1 for every vector that vic writes, and almost never for a vector
/// damaged on disk.
pub fn has_unit_norm(vector: &[f32]) -> bool {
    (vector.iter().map(|it| it * it).sum::<f32>() - 1.0).abs() < NORM_TOLERANCE
}

/// All chunks of one file, which replace the chunks of that file in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct FileChunks {
    /// The file's id.
    pub file_id: FileId,
    /// The file's chunks in order; may be empty.
    pub chunks: Vec<Embedded>,
}

/// One result in the ranked list of one search (by keywords or by vector); the best comes first.
#[derive(Clone, Debug, PartialEq)]
pub struct LegHit {
    /// Id of the chunk.
    pub chunk_id: ChunkId,
    /// Id of the file that contains the chunk.
    pub file_id: FileId,
    /// Keyword search: BM25 score, 0 or more. Vector search: cosine similarity, -1 to 1.
    pub score: f32,
}

/// A chunk loaded from the store, with its file.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredChunk {
    /// Id of the file that contains the chunk.
    pub file_id: FileId,
    /// The chunk, without its vector.
    pub chunk: Chunk,
}

/// Splits text into the tokens of the embedder.
pub trait TokenCounter: Send + Sync {
    /// Returns the byte range of every token of `text`, in order, without special tokens. Ranges do not overlap, lie on
    /// character boundaries, and may leave gaps (white space).
    fn token_spans(&self, text: &str) -> Vec<(usize, usize)>;

    /// Returns the maximum number of tokens that a chunk may have so that the embedder does not truncate it.
    fn max_chunk_tokens(&self) -> usize;
}
