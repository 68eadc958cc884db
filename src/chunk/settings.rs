//! The sizes of chunks.

/// Largest text in tokens that stays whole: the input limit of the default model. Whole abstracts rank better than
/// halves (nDCG@10 on SciFact 0.734 against 0.726 at 384, all else equal).
pub const DEFAULT_MAX_TOKENS: usize = 510;

/// Size in tokens of the pieces of a text that is cut.
pub const DEFAULT_TARGET_TOKENS: usize = 384;

/// Tokens of running text shared with the previous chunk.
pub const DEFAULT_OVERLAP_TOKENS: usize = 32;

/// Smallest useful `max_tokens`: below it, overlap and context leave no space for text.
const MIN_MAX_TOKENS: usize = 16;

/// Chunk sizes in tokens of the embedder, without special tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkSettings {
    /// Target size when a text has to be cut.
    pub target_tokens: usize,
    /// Text up to this size stays whole; no chunk exceeds it.
    pub max_tokens: usize,
    /// Overlap where running text is cut.
    pub overlap_tokens: usize,
}

impl Default for ChunkSettings {
    fn default() -> ChunkSettings {
        ChunkSettings {
            target_tokens: DEFAULT_TARGET_TOKENS,
            max_tokens: DEFAULT_MAX_TOKENS,
            overlap_tokens: DEFAULT_OVERLAP_TOKENS,
        }
    }
}

impl ChunkSettings {
    /// Clamps the sizes to the embedder's limit and to each other.
    pub(super) fn clamped(self, limit: usize) -> ChunkSettings {
        let max_tokens = self.max_tokens.min(limit).max(MIN_MAX_TOKENS);
        let target_tokens = self.target_tokens.clamp(max_tokens / 2, max_tokens);
        ChunkSettings { max_tokens, target_tokens, overlap_tokens: self.overlap_tokens.min(target_tokens / 4) }
    }
}
