//! Chunks and vectors on disk: the keyword leg, the vector leg, and upkeep.
//!
//! Nothing here fuses legs, knows files by path, or decides what is stale: that is `ask` and `index`.
//! [`LanceStore`] is the implementation; start reading at [`Store`].

mod compacting;
mod computing;
mod failure;
mod hot;
mod inspect;
mod lance;
mod legs;
mod manifests;
mod opening;
mod purge;
mod readings;
mod schema;
mod settling;
mod sync;
mod synced;
#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod tests;
mod upkeep;
mod whole;
mod writing;

pub use computing::{bound_library, start_pool};
pub use inspect::Inspection;
pub use lance::{LanceStore, memory_caps};

use crate::error::Result;
use crate::model::{ChunkId, FileChunks, FileId, LegHit, StoredChunk};

/// Which files a leg may return. Applied before the top k are chosen, so that a narrow filter loses no recall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSet {
    /// Every file.
    All,
    /// Only these, sorted.
    Only(std::sync::Arc<Vec<FileId>>),
}

impl FileSet {
    /// Says whether a file is one of them.
    pub fn holds(&self, file: FileId) -> bool {
        match self {
            FileSet::All => true,
            FileSet::Only(files) => files.binary_search(&file).is_ok(),
        }
    }
}

/// A keyword query, already taken apart by the librarian.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeywordQuery {
    /// Words of which any may match; more and rarer ones rank higher.
    pub text: String,
}

/// The store at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Rows of the table.
    pub chunks: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Data fragments; many small ones slow queries down.
    pub fragments: u64,
    /// Versions that are kept; each costs a file, and what it alone refers to.
    pub versions: u64,
    /// Rows that the keyword index does not cover yet; they are scanned.
    pub unindexed_rows: u64,
    /// What upkeep does at this moment.
    pub upkeep_now: Option<&'static str>,
    /// Error of the last upkeep, if it failed.
    pub upkeep_error: Option<String>,
}

impl StoreStats {
    /// Says whether upkeep would fold the fragments of a small table, which are few for a large one.
    pub fn is_scattered(&self) -> bool {
        compacting::is_scattered(self.fragments, self.chunks)
    }
}

/// A table of chunks of one model. One writer at a time; readers are never blocked.
#[async_trait::async_trait]
pub trait Store: Send + Sync {
    /// Replaces all chunks of these files, and has them on disk (synced) when it returns. Chunks without a vector are found by
    /// their words alone.
    async fn replace(&self, files: Vec<FileChunks>) -> Result<()>;

    /// Replaces the chunks of this file whose ordinals lie in that range, leaves its others, and has them on disk when it
    /// returns. Returns how many chunks the file has then.
    async fn replace_part(&self, file: FileChunks, ordinals: std::ops::Range<u32>) -> Result<u64>;

    /// Deletes all chunks of these files.
    async fn delete(&self, files: &[FileId]) -> Result<()>;

    /// Gives each second file copies of all chunks of the first in place of its own, and has them on disk when it returns.
    /// Returns how many each has then. Used when a file's content is already known.
    async fn copy(&self, copies: &[(FileId, FileId)]) -> Result<Vec<u64>>;

    /// Returns the `limit` chunks nearest to `vector` by cosine, best first.
    async fn vector_leg(&self, vector: &[f32], files: &FileSet, limit: usize) -> Result<Vec<LegHit>>;

    /// Returns the `limit` chunks that match best by BM25, best first.
    async fn keyword_leg(&self, query: &KeywordQuery, files: &FileSet, limit: usize) -> Result<Vec<LegHit>>;

    /// Returns these chunks, in any order; missing ones are left out.
    async fn chunks(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<StoredChunk>>;

    /// Returns the cosine similarity of `vector` to each of these chunks, in any order; missing ones are left out.
    async fn similarities(&self, vector: &[f32], ids: &[(FileId, ChunkId)]) -> Result<Vec<LegHit>>;

    /// Returns the vectors of these chunks, of norm 1, in any order; missing ones, and those that wait for one, are left out.
    async fn vectors(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<((FileId, ChunkId), Vec<f32>)>>;

    /// Returns those of the files that have a chunk with all of these words, by their stems; stop words do not count. Sorted.
    async fn files_with(&self, words: &str, files: &FileSet) -> Result<Vec<FileId>>;

    /// Hands over every chunk of these files, file by file in no order, until `each` returns false.
    async fn scan(&self, files: &FileSet, each: &mut (dyn FnMut(StoredChunk) -> bool + Send)) -> Result<()>;

    /// Returns the vectors of those chunks of a file that have one, in no order.
    async fn file_vectors(&self, file: FileId) -> Result<Vec<Vec<f32>>>;

    /// Returns the ids of all files that have chunks, sorted: for the reconcile at start.
    async fn file_ids(&self) -> Result<Vec<FileId>>;

    /// Brings indexes up to date, compacts and prunes, as far as it is worth it. Bounded in memory.
    async fn upkeep(&self) -> Result<()>;

    /// The version that reads see: another after every change.
    fn version(&self) -> u64;

    /// Returns the number of chunks, at once.
    fn chunk_count(&self) -> u64;

    /// Returns counts and sizes. Looks at the disk: not for the path of a question.
    async fn stats(&self) -> Result<StoreStats>;
}
