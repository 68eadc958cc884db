//! Implements [`Store`] for the open table: each read pins a version and runs a query, each write runs a change.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::model::{ChunkId, FileChunks, FileId, LegHit, StoredChunk};
use crate::store::backend::{FileSet, KeywordQuery, Store, StoreStats};
use crate::store::lance::LanceStore;
use crate::store::lance_error::StoreContext;
use crate::store::{fsync, indexes, maintenance, queries, schema};

#[async_trait::async_trait]
impl Store for LanceStore {
    async fn replace(&self, files: Vec<FileChunks>) -> Result<()> {
        self.replace_files(&files).await
    }

    async fn replace_part(&self, file: FileChunks, ordinals: Range<u32>) -> Result<u64> {
        self.replace_ordinals(&file, &ordinals).await
    }

    async fn delete(&self, files: &[FileId]) -> Result<()> {
        self.delete_files(files).await
    }

    async fn copy(&self, copies: &[(FileId, FileId)]) -> Result<Vec<u64>> {
        self.copy_files(copies).await
    }

    async fn vector_leg(&self, vector: &[f32], files: &FileSet, limit: usize) -> Result<Vec<LegHit>> {
        let _reading = self.version_pins.pin();
        queries::vector_search(self, vector, files, limit).await.map(|it| retain_files(files, it))
    }

    async fn keyword_leg(&self, query: &KeywordQuery, files: &FileSet, limit: usize) -> Result<Vec<LegHit>> {
        self.note_query();
        let _reading = self.version_pins.pin();
        queries::keyword_search(self, query, files, limit).await.map(|it| retain_files(files, it))
    }

    async fn chunks(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<StoredChunk>> {
        if let Some(Ok(found)) = self.memory().passages().map(|it| it.get(ids)) {
            return Ok(found);
        }
        let _reading = self.version_pins.pin();
        let batches = queries::rows_by_id(self, ids, &schema::CHUNK_COLUMNS).await?;
        let mut chunks = Vec::with_capacity(ids.len());
        for batch in &batches {
            chunks.extend(schema::stored_chunks(batch)?);
        }
        queries::retain_requested(&mut chunks, ids, |it| (it.file_id, &it.chunk.id));
        Ok(chunks)
    }

    async fn similarities(&self, vector: &[f32], ids: &[(FileId, ChunkId)]) -> Result<Vec<LegHit>> {
        let _reading = self.version_pins.pin();
        queries::similarities(self, vector, ids).await
    }

    async fn vectors(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<((FileId, ChunkId), Vec<f32>)>> {
        let _reading = self.version_pins.pin();
        queries::vectors(self, ids).await
    }

    async fn files_with(&self, words: &str, files: &FileSet) -> Result<Vec<FileId>> {
        let _reading = self.version_pins.pin();
        let hits = retain_files(files, queries::chunks_with_all_words(self, words, files).await?);
        let files: BTreeSet<FileId> = hits.into_iter().map(|it| it.file_id).collect();
        Ok(files.into_iter().collect())
    }

    async fn scan(&self, files: &FileSet, each: &mut (dyn FnMut(StoredChunk) -> bool + Send)) -> Result<()> {
        let _reading = self.version_pins.pin();
        queries::scan(self, files, each).await
    }

    async fn file_vectors(&self, file: FileId) -> Result<Vec<Vec<f32>>> {
        let _reading = self.version_pins.pin();
        let mut vectors = Vec::new();
        for batch in self.rows_of(&self.published, &[file]).await? {
            vectors.extend(schema::vectors(&batch)?.filter(|it| !schema::is_missing_vector(it)).map(<[f32]>::to_vec));
        }
        Ok(vectors)
    }

    async fn file_ids(&self) -> Result<Vec<FileId>> {
        Ok(self.rows().keys().copied().collect())
    }

    async fn maintain(&self) -> Result<()> {
        let done = self.run_change(maintenance::maintain(self)).await;
        self.end_maintenance(&done);
        done
    }

    fn version(&self) -> u64 {
        self.version_pins.newest()
    }

    fn chunk_count(&self) -> u64 {
        self.chunks.load(Ordering::Relaxed)
    }

    async fn stats(&self) -> Result<StoreStats> {
        let _reading = self.version_pins.pin();
        let fragments = self.published.stats().await.on("read", &self.dir)?.fragment_stats.num_fragments;
        let upkeep = self.maintenance_state();
        Ok(StoreStats {
            chunks: self.chunk_count(),
            bytes: fsync::bytes_below(&self.place.table_dir()).await?,
            fragments: fragments as u64,
            versions: self.version_count()?,
            unindexed_rows: indexes::unindexed_rows(&self.published).await.on("read", &self.dir)?,
            upkeep_now: upkeep.now,
            upkeep_error: upkeep.error,
        })
    }
}

impl LanceStore {
    /// Returns all chunks of these files, unordered.
    ///
    /// # Errors
    /// The table cannot be read.
    pub async fn chunks_of(&self, mut files: Vec<FileId>) -> Result<Vec<StoredChunk>> {
        let _reading = self.version_pins.pin();
        if let Some(Ok(found)) = self.memory().passages().map(|it| it.of_files(&files)) {
            return Ok(found);
        }
        let mut found = Vec::new();
        let mut take = |it| {
            found.push(it);
            true
        };
        files.sort_unstable();
        queries::scan(self, &FileSet::Only(files.into()), &mut take).await?;
        Ok(found)
    }
}

/// Keeps only the hits in files of the filter. A commit may happen between making the filter and the search, and a file
/// that is new since then must not pass the filter.
fn retain_files(files: &FileSet, mut hits: Vec<LegHit>) -> Vec<LegHit> {
    hits.retain(|it| files.contains(it.file_id));
    hits
}
