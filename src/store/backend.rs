//! The traits `Store`, a table of chunks, and `Backend`, the place of all tables, with the types of their queries and
//! statistics.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
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

/// A keyword query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeywordQuery {
    /// The terms of the query, as [`vic_words::question_terms`] returns them. A chunk matches if it contains any of them;
    /// more and rarer matches rank higher.
    pub terms: Vec<String>,
}

/// Size and maintenance of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// The backend with its version and place, and what it lacks.
    pub backend: String,
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
    /// Why answers may lack text at the moment, if they may.
    pub warning: Option<&'static str>,
}

impl StoreStats {
    /// Returns whether the table has so few rows per fragment that maintenance would merge its fragments.
    pub fn is_scattered(&self) -> bool {
        compaction::is_scattered(self.fragments, self.chunks)
    }
}

/// What a backend guarantees. Callers ask it instead of assuming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The failure that an acknowledged change survives.
    pub durability: Durability,
    /// Maximum number of rows of a change that the backend writes at once; it splits larger changes.
    pub max_batch_rows: usize,
    /// Whether a vector search compares every vector, and not only those of an approximate index.
    pub is_exact: bool,
    /// Maximum number of files that one search takes as a list; the backend splits longer lists or filters afterwards.
    pub max_filter_files: usize,
    /// Where keywords are searched.
    pub keywords: KeywordSearch,
    /// Whether chunks may be stored now and get their vectors later.
    pub allows_missing_vectors: bool,
}

/// The failure that an acknowledged change survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of any process, but not always a power failure: the server syncs to disk later.
    ProcessExit,
    /// A power failure.
    PowerFailure,
}

/// Where keywords are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeywordSearch {
    /// In the table itself.
    Table,
    /// In an index on this machine, because the server has none.
    Local,
}

/// A part of the maintenance of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// Updates the indexes, merges fragments and prunes old versions, each where the benefit exceeds the cost.
    Full,
    /// Adds all rows to the keyword index.
    Keywords,
    /// Prunes old versions. Needs hardly any disk space.
    Prune,
}

/// What opening a table had to repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// New paths of the damaged parts that were renamed.
    pub quarantined: Vec<PathBuf>,
    /// Files with vectors that were damaged. They must be indexed again.
    pub damaged: BTreeSet<FileId>,
    /// Whether durable commits were lost. What the catalog records about this table is then wrong. Stays true across
    /// restarts until [`Store::accept_loss`].
    pub has_lost_commits: bool,
}

/// What an inspection found in a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Number of chunks of each file.
    pub rows: BTreeMap<FileId, u64>,
    /// Files with a damaged vector.
    pub damaged: BTreeSet<FileId>,
    /// Number of versions on disk.
    pub versions: u64,
    /// Number of versions that an interrupted commit left. The next start quarantines them.
    pub unsynced: u64,
    /// Paths of quarantined and temporary files.
    pub leftovers: Vec<PathBuf>,
}

/// The place of all tables of chunks: one table for each embedding model that is in use.
#[async_trait::async_trait]
pub trait Backend: Send + Sync {
    /// Opens the table of a model, or creates it, and repairs what an interrupted change or a failure of the disk left:
    /// see [`Store::recovery`]. `fingerprint` identifies the model and its settings, `dimension` is the length of its
    /// vectors.
    async fn open(&self, fingerprint: &str, dimension: usize) -> Result<Arc<dyn Store>>;

    /// Names the place of the tables. Tables at another place know nothing of the changes since.
    fn place(&self) -> String;

    /// Records that the table of this model answers queries, for programs that read the backend without vic.
    async fn set_serving(&self, fingerprint: &str) -> Result<()>;

    /// Drops the tables of all models but these, with all their data. Other tables and files are not vic's and stay.
    async fn drop_tables_except(&self, kept: &[&str]) -> Result<()>;

    /// Reads every row of a model's table without changing it. Returns `None` if there is no table. A damaged table is
    /// an error with code [`crate::error::ErrorCode::DataLoss`].
    async fn inspect(&self, fingerprint: &str, dimension: usize) -> Result<Option<Inspection>>;
}

/// A table with the chunks of one embedding model. One write runs at a time; reads never wait for a write.
#[async_trait::async_trait]
pub trait Store: Send + Sync {
    /// Returns what the table guarantees now; its size may change this.
    fn capabilities(&self) -> Capabilities;

    /// Replaces all chunks of these files. The change is durable on return. Chunks without a vector are found by keywords
    /// only.
    async fn replace(&self, files: Vec<FileChunks>) -> Result<()>;

    /// Replaces the chunks of this file whose ordinals are in `ordinals`. The change is durable on return. Returns how
    /// many chunks the file then has.
    async fn replace_part(&self, file: FileChunks, ordinals: Range<u32>) -> Result<u64>;

    /// Deletes all chunks of these files.
    async fn delete(&self, files: &[FileId]) -> Result<()>;

    /// For each pair of files, replaces the chunks of the second file by copies of the chunks of the first. The change is
    /// durable on return. Returns how many chunks each second file then has. Used for a file whose content is already
    /// indexed in another file.
    async fn copy(&self, copies: &[(FileId, FileId)]) -> Result<Vec<u64>>;

    /// Returns the `limit` chunks whose vectors have the highest cosine similarity to `vector`, best first.
    async fn vector_leg(&self, vector: &[f32], files: &FileSet, limit: usize) -> Result<Vec<LegHit>>;

    /// Returns the `limit` chunks that match the words best, by BM25, best first.
    async fn keyword_leg(&self, query: &KeywordQuery, files: &FileSet, limit: usize) -> Result<Vec<LegHit>>;

    /// Returns up to `limit` chunks with a term that differs from `term` in at most two characters, but not in the first. A
    /// backend that cannot search so returns none.
    async fn chunks_with_similar_term(&self, _term: &str, _files: &FileSet, _limit: usize) -> Result<Vec<LegHit>> {
        Ok(Vec::new())
    }

    /// Returns up to `limit` chunks with a term that begins with `prefix`, for a word that is being typed. A backend that
    /// cannot search so returns none.
    async fn chunks_with_prefix(&self, _prefix: &str, _files: &FileSet, _limit: usize) -> Result<Vec<LegHit>> {
        Ok(Vec::new())
    }

    /// Returns the chunks with these ids, unordered. Skips missing chunks.
    async fn chunks(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<StoredChunk>>;

    /// Returns the cosine similarity of `vector` to each of these chunks, unordered. Skips missing chunks.
    async fn similarities(&self, vector: &[f32], ids: &[(FileId, ChunkId)]) -> Result<Vec<LegHit>>;

    /// Returns the vectors of these chunks (norm 1), unordered. Skips missing chunks and chunks without a vector.
    async fn vectors(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<((FileId, ChunkId), Vec<f32>)>>;

    /// Returns the files with a chunk that contains at least one term of each of these words, as
    /// [`vic_words::required_words`] returns them. Returns no file if there are no words. Sorted.
    async fn files_with(&self, words: &[Vec<String>], files: &FileSet) -> Result<Vec<FileId>>;

    /// Calls `each` with every chunk of these files, file by file and unordered, until it returns false.
    async fn scan(&self, files: &FileSet, each: &mut (dyn FnMut(StoredChunk) -> bool + Send)) -> Result<()>;

    /// Returns all chunks of these files, unordered.
    async fn chunks_of(&self, mut files: Vec<FileId>) -> Result<Vec<StoredChunk>> {
        let mut found = Vec::new();
        files.sort_unstable();
        let mut add = |it| {
            found.push(it);
            true
        };
        self.scan(&FileSet::Only(files.into()), &mut add).await?;
        Ok(found)
    }

    /// Returns the vectors of a file's chunks, unordered. Skips chunks without a vector.
    async fn file_vectors(&self, file: FileId) -> Result<Vec<Vec<f32>>>;

    /// Returns the number of chunks of each file that has any, from memory.
    fn rows_by_file(&self) -> BTreeMap<FileId, u64>;

    /// Returns the ids of all files with chunks, sorted, from memory.
    fn file_ids(&self) -> Vec<FileId> {
        self.rows_by_file().into_keys().collect()
    }

    /// Returns whether the table has chunks of a file, from memory.
    fn has_file(&self, file: FileId) -> bool;

    /// Runs maintenance. Uses bounded memory.
    async fn maintain(&self, part: Maintenance) -> Result<()>;

    /// Removes deleted text from all data of the table, except for reads that run. Returns a version number: the text is
    /// gone when [`Store::prune_before`] returns true for it.
    async fn purge(&self) -> Result<u64>;

    /// Prunes every version before this one, of any age, unless a read needs it. Returns whether all are pruned.
    async fn prune_before(&self, version: u64) -> Result<bool>;

    /// Prepares the table for its first query.
    async fn preload(&self) -> Result<()>;

    /// Returns what opening the table had to repair.
    fn recovery(&self) -> Recovery;

    /// Records that the loss of commits was handled. Must be called after all files that may be missing were requeued.
    async fn accept_loss(&self) -> Result<()>;

    /// Returns whether a keyword query ran within the last half minute.
    fn is_queried(&self) -> bool;

    /// Returns the number of the version of the table that reads see. Every change increases it.
    fn version(&self) -> u64;

    /// Returns the number of versions that the table keeps.
    fn version_count(&self) -> Result<u64>;

    /// Returns the number of chunks, from memory.
    fn chunk_count(&self) -> u64;

    /// Returns counts and sizes of the table. Reads the disk or asks the server for its health, so it must not be called
    /// during a query.
    async fn stats(&self) -> Result<StoreStats>;
}
