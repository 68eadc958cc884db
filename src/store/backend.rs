//! The trait `Store`, the interface of a store of chunks, with the types of its queries and statistics.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::model::{ChunkId, FileChunks, FileId, LegHit, StoredChunk};
use crate::store::compaction;

/// The files that a search may return. The filter applies before the best hits are selected, so that a search in a few
/// files still returns as many hits as requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSet {
    /// Every file.
    All,
    /// Only these files, sorted by id.
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
    /// The words of the query. A chunk matches if it contains any of them; more and rarer matches rank higher.
    pub text: String,
}

/// Size and maintenance of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Number of chunks; each is one row of the table.
    pub chunks: u64,
    /// Size of the table on disk, in bytes.
    pub bytes: u64,
    /// Number of data fragments (groups of rows); many small ones slow queries down.
    pub fragments: u64,
    /// Number of versions of the table on disk. Each version has its own manifest file, and keeps old data on disk
    /// until the version is pruned.
    pub versions: u64,
    /// Number of rows that the keyword index does not cover yet; every query scans them.
    pub unindexed_rows: u64,
    /// The maintenance step that is running, if any.
    pub upkeep_now: Option<&'static str>,
    /// Error of the last maintenance, if that failed.
    pub upkeep_error: Option<String>,
}

impl StoreStats {
    /// Returns whether the table has so few rows per fragment that maintenance would merge its fragments.
    pub fn is_scattered(&self) -> bool {
        compaction::is_scattered(self.fragments, self.chunks)
    }
}

/// A table with the chunks of one embedding model. One write runs at a time; reads never wait for a write.
#[async_trait::async_trait]
pub trait Store: Send + Sync {
    /// Replaces all chunks of these files and syncs the change to disk. Chunks without a vector are found by keywords
    /// only.
    async fn replace(&self, files: Vec<FileChunks>) -> Result<()>;

    /// Replaces the chunks of this file whose ordinals are in `ordinals`, and syncs the change to disk. Returns how
    /// many chunks the file then has.
    async fn replace_part(&self, file: FileChunks, ordinals: Range<u32>) -> Result<u64>;

    /// Deletes all chunks of these files.
    async fn delete(&self, files: &[FileId]) -> Result<()>;

    /// For each pair of files, replaces the chunks of the second file by copies of the chunks of the first, and syncs
    /// the change to disk. Returns how many chunks each second file then has. Used for a file whose content is already
    /// indexed in another file.
    async fn copy(&self, copies: &[(FileId, FileId)]) -> Result<Vec<u64>>;

    /// Returns the `limit` chunks whose vectors have the highest cosine similarity to `vector`, best first.
    async fn vector_leg(&self, vector: &[f32], files: &FileSet, limit: usize) -> Result<Vec<LegHit>>;

    /// Returns the `limit` chunks that match the words best, by BM25, best first.
    async fn keyword_leg(&self, query: &KeywordQuery, files: &FileSet, limit: usize) -> Result<Vec<LegHit>>;

    /// Returns the chunks with these ids, unordered. Skips missing chunks.
    async fn chunks(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<StoredChunk>>;

    /// Returns the cosine similarity of `vector` to each of these chunks, unordered. Skips missing chunks.
    async fn similarities(&self, vector: &[f32], ids: &[(FileId, ChunkId)]) -> Result<Vec<LegHit>>;

    /// Returns the vectors of these chunks (norm 1), unordered. Skips missing chunks and chunks without a vector.
    async fn vectors(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<((FileId, ChunkId), Vec<f32>)>>;

    /// Returns the files with a chunk that contains all these words, by stems and ignoring stop words. Sorted.
    async fn files_with(&self, words: &str, files: &FileSet) -> Result<Vec<FileId>>;

    /// Calls `each` with every chunk of these files, file by file and unordered, until it returns false.
    async fn scan(&self, files: &FileSet, each: &mut (dyn FnMut(StoredChunk) -> bool + Send)) -> Result<()>;

    /// Returns the vectors of a file's chunks, unordered. Skips chunks without a vector.
    async fn file_vectors(&self, file: FileId) -> Result<Vec<Vec<f32>>>;

    /// Returns the ids of all files with chunks, sorted. The startup compares them with the catalog.
    async fn file_ids(&self) -> Result<Vec<FileId>>;

    /// Updates the indexes, merges fragments and prunes old versions, each where the benefit exceeds the cost. Uses
    /// bounded memory.
    async fn maintain(&self) -> Result<()>;

    /// Returns the number of the version of the table that reads see. Every change increases it.
    fn version(&self) -> u64;

    /// Returns the number of chunks, from memory.
    fn chunk_count(&self) -> u64;

    /// Returns counts and sizes of the table. Reads the disk, so it must not be called during a query.
    async fn stats(&self) -> Result<StoreStats>;
}
