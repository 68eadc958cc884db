//! The chunks of cached skill results, and the range of ordinals that each skill has in a file.

use std::ops::Range;
use std::sync::Arc;

use crate::catalog::EvidenceCache;
use crate::chunk::Chunker;
use crate::model::{Chunk, ContentHash, Document, SKILLS};

/// Number of chunk ordinals that each skill (deep extraction, such as OCR) has in a file. They follow the ordinals of the
/// file's own text.
const ORDINALS_PER_SKILL: u32 = 1 << 24;
/// Maximum chunks of one skill for one file; further chunks are dropped.
const MAX_SKILL_CHUNKS: usize = 2_000;

/// Returns the chunks of all skill results cached for this content.
pub(super) fn cached_chunks(cache: &Arc<EvidenceCache>, chunker: &Chunker, hash: &ContentHash) -> Vec<Chunk> {
    let found = cache.get_all(*hash);
    let chunks = found.iter().filter_map(|(skill, document)| {
        let ordinals = ordinal_range(skill)?;
        Some(chunk_document(chunker, document, hash, skill, ordinals.start))
    });
    chunks.flatten().collect()
}

/// Returns the chunks of one skill result.
pub(super) fn chunk_document(
    chunker: &Chunker,
    found: &Document,
    hash: &ContentHash,
    skill: &str,
    first_ordinal: u32,
) -> Vec<Chunk> {
    let mut chunks = chunker.chunk_skill_result(found, hash, skill, first_ordinal);
    chunks.truncate(MAX_SKILL_CHUNKS);
    chunks
}

/// Returns the range of chunk ordinals of a skill, or `None` for an unknown skill.
pub(super) fn ordinal_range(skill: &str) -> Option<Range<u32>> {
    let place = SKILLS.iter().position(|it| *it == skill)? as u32 + 1;
    Some(place * ORDINALS_PER_SKILL..(place + 1) * ORDINALS_PER_SKILL)
}
