//! The in-memory part of a table that is not too large: [`vectors`] for vector search, `passages` (the texts of chunks)
//! for results.
//!
//! A query of the table on disk takes milliseconds, however few rows it reads: planning, tasks, decoding of whole
//! pages. At 20,000 rows, reading the vectors from the table took ten times as long as comparing them. Reading the
//! passages of the best files took a third of a query's time.

mod row_ids;
mod top_k;
mod chunk_key;
mod parallel;
mod passage_cache;
mod candidates;
mod vectors;

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::Path;

use arrow::array::RecordBatch;
use lancedb::query::Select;

use crate::error::Result;
use crate::model::{ChunkId, Embedded, FileChunks, FileId};
use crate::store::schema;

pub(super) use crate::store::memory::parallel::start_threads;
pub(super) use crate::store::memory::passage_cache::PassageCache;
pub(super) use crate::store::memory::row_ids::RowIds;
pub(super) use crate::store::memory::vectors::Vectors;

/// Maximum memory of the vectors, including ids and binary codes: enough for 1.3 million vectors of 384 numbers. With
/// more vectors, all are dropped from memory and queries use the index of the table.
pub(super) const MAX_VECTOR_BYTES: usize = 704 << 20;

/// Maximum total bytes of cached passages, enough for a million short ones. Beyond it, the cache is dropped and queries
/// read the table. The passages are in a file and use memory only as page cache; their locations take 16 to 75 bytes
/// each.
pub(super) const MAX_PASSAGE_BYTES: u64 = 768 << 20;

/// Assumed minimum bytes of a passage: ids, anchor and a few words.
const MIN_PASSAGE_BYTES: u64 = 200;

/// The part of a table that is in memory. Each component is complete or absent.
#[derive(Debug, Default)]
pub(super) struct MemoryIndex {
    vectors: Option<Vectors>,
    passages: Option<PassageCache>,
    /// Row ids known so far, or `None` for a table that is too large.
    addresses: Option<RowIds>,
    /// Files with vectors in the table that vic never writes, so that they must be damaged.
    damaged: BTreeSet<FileId>,
}

impl MemoryIndex {
    /// Creates an empty index for a table in this folder, with this many rows and vectors of this length. In contrast,
    /// the default value of this type keeps nothing in memory.
    pub(super) fn new(dir: &Path, rows: u64, dimension: usize) -> MemoryIndex {
        let vectors = (rows <= max_rows(dimension) as u64).then(|| Vectors::new(dimension));
        let addresses = vectors.is_some().then(RowIds::default);
        let mut hot = MemoryIndex { vectors, passages: None, addresses, damaged: BTreeSet::new() };
        // Caches passages only if it caches vectors: a table with too many vectors is never loaded, so that its
        // existing passages would be missing from the cache.
        if hot.vectors.is_some() && rows * MIN_PASSAGE_BYTES <= MAX_PASSAGE_BYTES {
            match PassageCache::new(dir) {
                Ok(passages) => hot.passages = Some(passages),
                Err(error) => log_no_passages(&error),
            }
        }
        hot
    }

    /// Returns the columns of the table that must be loaded into memory.
    pub(super) fn columns(&self) -> Select {
        match (&self.vectors, &self.passages) {
            (_, Some(_)) => Select::All,
            _ => Select::columns(&["chunk_id", "file_id", "vector"]),
        }
    }

    /// Returns the files that had a damaged vector when their rows were added.
    pub(super) fn damaged(&self) -> &BTreeSet<FileId> {
        &self.damaged
    }

    /// Returns the vectors, or `None` if there are too many.
    pub(super) fn vectors(&self) -> Option<&Vectors> {
        self.vectors.as_ref()
    }

    /// Returns the passages, or `None` if they are too large or the disk failed.
    pub(super) fn passages(&self) -> Option<&PassageCache> {
        self.passages.as_ref()
    }

    /// Returns the map from row ids to chunks, or `None` if the table is too large.
    pub(super) fn row_ids(&self) -> Option<&RowIds> {
        self.addresses.as_ref()
    }

    /// Adds the row ids of batches that have chunk ids and row ids.
    ///
    /// # Errors
    /// A column holds a value that vic never writes.
    pub(super) fn add_row_ids(&mut self, batches: &[RecordBatch]) -> Result<()> {
        self.addresses.iter_mut().try_for_each(|it| batches.iter().try_for_each(|batch| it.add(batch)))
    }

    /// Adds the row ids of a batch that holds all rows of this fragment, in order.
    ///
    /// # Errors
    /// A column holds a value that vic never writes.
    pub(super) fn add_fragment_row_ids(&mut self, fragment: u32, batch: &RecordBatch) -> Result<()> {
        self.addresses.iter_mut().try_for_each(|it| it.add_fragment(fragment, batch))
    }

    /// Replaces all row ids, after compaction has changed them.
    pub(super) fn set_row_ids(&mut self, addresses: RowIds) {
        if self.addresses.is_some() {
            self.addresses = Some(addresses);
        }
    }

    /// Adds the chunks of a file to the data in memory.
    pub(super) fn add(&mut self, file_id: FileId, chunks: &[Embedded]) {
        for it in chunks {
            if let Some(vectors) = &mut self.vectors {
                vectors.push(file_id, &it.chunk.id.0, &it.vector);
            }
            self.change_passages(|passages| passages.add(file_id, &it.chunk));
        }
        self.drop_oversized();
    }

    /// Replaces the chunks of these files.
    pub(super) fn replace(&mut self, files: &[FileChunks]) {
        self.remove(&files.iter().map(|it| it.file_id).collect::<Vec<_>>());
        files.iter().for_each(|it| self.add(it.file_id, &it.chunks));
    }

    /// Reserves space for this many rows, which are loaded next. [`MemoryIndex::end_load`] must follow.
    pub(super) fn begin_load(&mut self, rows: u64) {
        if let Some(vectors) = &mut self.vectors {
            vectors.begin_load(usize::try_from(rows).unwrap_or_default());
        }
    }

    /// Ends the loading of rows and prepares the vectors for search.
    pub(super) fn end_load(&mut self) {
        if let Some(vectors) = &mut self.vectors {
            vectors.end_load();
        }
    }

    /// Adds rows of the table that have at least the columns of [`MemoryIndex::columns`].
    ///
    /// # Errors
    /// A column holds a value that vic never writes.
    pub(super) fn add_rows(&mut self, batch: &RecordBatch) -> Result<()> {
        if let Some(vectors) = &mut self.vectors {
            for ((file_id, id), vector) in schema::keys(batch)?.zip(schema::vectors(batch)?) {
                if schema::is_valid(vector) {
                    vectors.push(file_id, id, vector);
                } else {
                    self.damaged.insert(file_id);
                }
            }
        }
        self.add_row_ids(std::slice::from_ref(batch))?;
        if self.passages.is_some() {
            let chunks = schema::columns(batch)?;
            self.change_passages(|passages| passages.add_all(chunks));
        }
        self.drop_oversized();
        Ok(())
    }

    /// Removes the chunks of these files from the data in memory.
    pub(super) fn remove(&mut self, files: &[FileId]) {
        if let Some(vectors) = &mut self.vectors {
            vectors.remove(files);
        }
        self.change_passages(|passages| passages.remove(files));
    }

    /// Removes these chunks of a file from the data in memory.
    pub(super) fn remove_chunks(&mut self, file_id: FileId, chunks: &HashSet<ChunkId>) {
        if let Some(vectors) = &mut self.vectors {
            vectors.remove_chunks(file_id, chunks);
        }
        self.change_passages(|passages| passages.remove_chunks(file_id, chunks));
    }

    /// Changes the cached passages. If the disk fails, the cache is dropped and the table is read instead.
    fn change_passages(&mut self, change: impl FnOnce(&mut PassageCache) -> io::Result<()>) {
        if let Some(Err(error)) = self.passages.as_mut().map(change) {
            log_no_passages(&error);
            self.passages = None;
        }
    }

    /// Drops the vectors or the passages if they exceed their maximum size.
    fn drop_oversized(&mut self) {
        if self.vectors.take_if(|it| it.len() > max_rows(it.dimension())).is_some() {
            self.addresses = None;
        }
        self.passages.take_if(|it| it.bytes() > MAX_PASSAGE_BYTES);
    }
}

/// Returns the maximum number of vectors of this length that are kept in memory.
pub(super) fn max_rows(dimension: usize) -> usize {
    MAX_VECTOR_BYTES / vectors::row_bytes(dimension)
}

fn log_no_passages(error: &io::Error) {
    tracing::warn!(%error, "passages are not cached; queries are slower");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_large_table_keeps_nothing_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let rows = max_rows(768) as u64;
        let kept = |rows| MemoryIndex::new(dir.path(), rows, 768);
        assert!(kept(rows).vectors().is_some() && kept(rows).passages().is_some());
        assert!(kept(rows + 1).vectors().is_none() && kept(rows + 1).passages().is_none());
    }
}
