//! What a store of chunks does, and the types of its queries and of its state.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::model::{ChunkId, FileChunks, FileId, LegHit, StoredChunk};
use crate::store::compaction;

/// The files that a search leg may return. Applied before the top k are chosen, so that a narrow filter loses no
/// recall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSet {
    /// Every file.
    All,
    /// Only these, sorted.
    Only(Arc<Vec<FileId>>),
}

impl FileSet {
    /// Returns whether a file is in the set.
    pub fn contains(&self, file: FileId) -> bool {
        match self {
            FileSet::All => true,
            FileSet::Only(files) => files.binary_search(&file).is_ok(),
        }
    }
}

/// A keyword query, already parsed by the query planner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeywordQuery {
    /// Words, any of them may match. More and rarer matches rank higher.
    pub text: String,
}

/// State of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Rows of the table.
    pub chunks: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Data fragments; many small ones slow queries down.
    pub fragments: u64,
    /// Versions on disk. Each costs a file, and the data that only it refers to.
    pub versions: u64,
    /// Rows that the keyword index does not cover yet; queries scan them.
    pub unindexed_rows: u64,
    /// The current maintenance step.
    pub upkeep_now: Option<&'static str>,
    /// Error of the last maintenance, if it failed.
    pub upkeep_error: Option<String>,
}

impl StoreStats {
    /// Returns whether maintenance would merge the fragments of a small table. The same number is low for a large one.
    pub fn is_scattered(&self) -> bool {
        compaction::is_scattered(self.fragments, self.chunks)
    }
}

/// A table of chunks of one model. One writer at a time; readers never block.
#[async_trait::async_trait]
pub trait Store: Send + Sync {
    /// Replaces all chunks of these files, and syncs them to disk. Chunks without a vector are found by keywords only.
    async fn replace(&self, files: Vec<FileChunks>) -> Result<()>;

    /// Replaces the chunks of this file with ordinals in that range, and syncs them to disk. Returns how many chunks
    /// the file has then.
    async fn replace_part(&self, file: FileChunks, ordinals: Range<u32>) -> Result<u64>;

    /// Deletes all chunks of these files.
    async fn delete(&self, files: &[FileId]) -> Result<()>;

    /// Replaces the chunks of each second file by copies of the chunks of the first, and syncs them to disk. Returns
    /// how many each has then. Used for content that is indexed already.
    async fn copy(&self, copies: &[(FileId, FileId)]) -> Result<Vec<u64>>;

    /// Returns the `limit` chunks nearest to `vector` by cosine similarity, best first.
    async fn vector_leg(&self, vector: &[f32], files: &FileSet, limit: usize) -> Result<Vec<LegHit>>;

    /// Returns the `limit` best matches by BM25, best first.
    async fn keyword_leg(&self, query: &KeywordQuery, files: &FileSet, limit: usize) -> Result<Vec<LegHit>>;

    /// Returns these chunks, unordered; missing ones are skipped.
    async fn chunks(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<StoredChunk>>;

    /// Returns the cosine similarity of `vector` to each of these chunks, unordered; missing ones are skipped.
    async fn similarities(&self, vector: &[f32], ids: &[(FileId, ChunkId)]) -> Result<Vec<LegHit>>;

    /// Returns the vectors of these chunks (norm 1), unordered. Skips missing chunks and chunks without a vector.
    async fn vectors(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<((FileId, ChunkId), Vec<f32>)>>;

    /// Returns the files with a chunk that contains all these words, by stems and ignoring stop words. Sorted.
    async fn files_with(&self, words: &str, files: &FileSet) -> Result<Vec<FileId>>;

    /// Passes every chunk of these files to `each`, file by file and unordered, until it returns false.
    async fn scan(&self, files: &FileSet, each: &mut (dyn FnMut(StoredChunk) -> bool + Send)) -> Result<()>;

    /// Returns the vectors of a file's chunks that have one, unordered.
    async fn file_vectors(&self, file: FileId) -> Result<Vec<Vec<f32>>>;

    /// Returns the ids of all files with chunks, sorted, for the reconciliation at startup.
    async fn file_ids(&self) -> Result<Vec<FileId>>;

    /// Updates indexes, compacts and prunes, as far as it pays off. Bounded in memory.
    async fn maintain(&self) -> Result<()>;

    /// Returns the version that reads see. Every change increases it.
    fn version(&self) -> u64;

    /// Returns the number of chunks without reading the disk.
    fn chunk_count(&self) -> u64;

    /// Returns counts and sizes. Reads the disk: not for use during a query.
    async fn stats(&self) -> Result<StoreStats>;
}
