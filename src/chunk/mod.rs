//! Splits documents into chunks: passages small enough to embed, which end at sentence, line and section boundaries.
//!
//! Chunking is deterministic: the same document and settings give the same chunks. This module does no I/O and computes no
//! vectors.
//!
//! The steps, one file each: `segment` splits every block at sentences or lines, `section` groups segments below their
//! headings, `pack` chooses the boundaries of chunks, `build` makes the text and the anchor of each chunk.

mod build;
mod skill_parts;
mod pack;
mod section;
mod segment;
mod settings;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use crate::model::{Chunk, ChunkId, ContentHash, Document, Tier, TokenCounter};

pub use settings::{ChunkSettings, DEFAULT_MAX_TOKENS, DEFAULT_OVERLAP_TOKENS, DEFAULT_TARGET_TOKENS};

use build::Builder;
use section::Outline;

/// Version of the chunk boundaries. Increase it when chunking changes: the version is hashed into chunk ids, so that an old
/// chunk and a new chunk never have the same id.
const CUT_VERSION: u32 = 2;

/// Version of the chunk anchors (locations in the file). Increase it when chunks of the same text get other anchors.
const PLACES_VERSION: u32 = 1;

/// The context (title and headings) may take at most `1 / CONTEXT_SHARE` of the tokens of a chunk.
const CONTEXT_SHARE: usize = 4;

/// Returns the version of the chunking rules. Chunks that were made with another version are outdated.
pub(crate) fn version() -> String {
    format!("{CUT_VERSION}.{PLACES_VERSION}")
}

/// Splits documents into chunks. Cheap to clone; can be shared between threads.
#[derive(Clone)]
pub struct Chunker {
    counter: Arc<dyn TokenCounter>,
    settings: ChunkSettings,
}

impl Chunker {
    /// Makes a chunker. Sizes in `settings` above the embedder's limit are lowered to that limit.
    pub fn new(counter: Arc<dyn TokenCounter>, settings: ChunkSettings) -> Chunker {
        let settings = settings.clamped(counter.max_chunk_tokens());
        Chunker { counter, settings }
    }

    /// Splits a document into chunks, in reading order. Every character of every block, except white space, is in at least
    /// one chunk. `hash` is the hash of the file's content and goes into the chunk ids.
    pub fn chunk(&self, document: &Document, hash: &ContentHash) -> Vec<Chunk> {
        let limit = self.settings.max_tokens - self.settings.max_tokens / CONTEXT_SHARE;
        let segments = segment::cut_into_segments(document, self.counter.as_ref(), limit);
        let outline = Outline::new(document, &segments);
        let context = self.settings.max_tokens / CONTEXT_SHARE;
        let builder = Builder::new(document, &outline, &segments, self.counter.as_ref(), context);
        let ranges = pack::pack(&builder, &self.settings);
        let mut chunks = Vec::with_capacity(ranges.len());
        for range in ranges {
            self.add_chunk(&builder, range, &mut chunks);
        }
        for (ordinal, chunk) in (0..).zip(&mut chunks) {
            chunk.ordinal = ordinal;
            chunk.id = self.chunk_id(hash, ordinal);
        }
        chunks
    }

    /// Splits the result of a skill into chunks of tier L2. A table, a list of facts and a signature each form a chunk of
    /// their own, with its position on the page, below the headings of that part. Running text is split as in
    /// [`Self::chunk`]. Ordinals begin at `first_ordinal`, so that ids differ from those of the file's own text. Each
    /// heading path begins with `skill`, the name of the skill, which is not part of the text.
    pub fn chunk_skill_result(
        &self,
        document: &Document,
        hash: &ContentHash,
        skill: &str,
        first_ordinal: u32,
    ) -> Vec<Chunk> {
        let mut chunks: Vec<Chunk> =
            skill_parts::split_document(document).iter().flat_map(|part| self.chunk(part, hash)).collect();
        for (ordinal, chunk) in (first_ordinal..).zip(&mut chunks) {
            chunk.ordinal = ordinal;
            chunk.id = self.chunk_id(hash, ordinal);
            chunk.tier = Tier::L2;
            chunk.heading_path.insert(0, skill.to_owned());
        }
        chunks
    }

    /// Adds the chunk of a range of segments. If its text exceeds `max_tokens`, splits the range into several chunks.
    fn add_chunk(&self, builder: &Builder, range: Range<usize>, chunks: &mut Vec<Chunk>) {
        let Some(chunk) = builder.chunk(range.clone()) else { return };
        if chunk.tokens as usize <= self.settings.max_tokens {
            chunks.push(chunk);
        } else if range.len() > 1 {
            let middle = range.start + range.len() / 2;
            self.add_chunk(builder, range.start..middle, chunks);
            self.add_chunk(builder, middle..range.end, chunks);
        } else {
            chunks.extend(builder.split_segment(range.start, self.settings.max_tokens));
        }
    }

    fn chunk_id(&self, hash: &ContentHash, ordinal: u32) -> ChunkId {
        let ChunkSettings { target_tokens, max_tokens, overlap_tokens } = &self.settings;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&hash.0);
        hasher.update(&ordinal.to_le_bytes());
        hasher.update(format!("{CUT_VERSION}/{target_tokens}/{max_tokens}/{overlap_tokens}").as_bytes());
        ChunkId(hasher.finalize().to_hex()[..32].to_owned())
    }
}
