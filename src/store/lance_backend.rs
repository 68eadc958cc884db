//! Implements [`Backend`] for a directory of LanceDB, and [`Store`] for an open table: each read pins a version and runs a
//! query, each write runs a change.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::model::{ChunkId, FileChunks, FileId, LegHit, StoredChunk};
use crate::store::backend::{
    Backend, Capabilities, Durability, FileSet, Inspection, KeywordQuery, KeywordSearch, Maintenance, Recovery, Store,
    StoreStats,
};
use crate::store::lance::LanceStore;
use crate::store::lance_error::StoreContext;
use crate::store::recovery::INDEX_CACHE_BYTES;
use crate::store::{fsync, indexes, maintenance, manifests, prefix_search, purge, queries, schema};

/// The tables of LanceDB in one directory.
#[derive(Clone, Debug)]
pub struct LanceBackend {
    dir: PathBuf,
}

impl LanceBackend {
    /// Creates the backend for the tables below `dir`.
    pub fn new(dir: PathBuf) -> LanceBackend {
        LanceBackend { dir }
    }
}

#[async_trait::async_trait]
impl Backend for LanceBackend {
    async fn open(&self, fingerprint: &str, dimension: usize) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(LanceStore::open(&self.dir, fingerprint, dimension).await?))
    }

    fn place(&self) -> String {
        "lance".into()
    }

    /// Does nothing, because no other program reads the directory.
    async fn set_serving(&self, _fingerprint: &str) -> Result<()> {
        Ok(())
    }

    async fn drop_tables_except(&self, kept: &[&str]) -> Result<()> {
        let kept: Vec<String> = kept.iter().map(|it| LanceStore::table_of(it)).collect();
        let mut tables = LanceStore::tables(&self.dir).await?;
        tables.retain(|it| LanceStore::is_model_table(it) && !kept.contains(it));
        for table in tables {
            tracing::info!(table, "removing the index of an unused model");
            LanceStore::drop_table(&self.dir, &table).await?;
        }
        Ok(())
    }

    async fn inspect(&self, fingerprint: &str, dimension: usize) -> Result<Option<Inspection>> {
        LanceStore::inspect(&self.dir, fingerprint, dimension).await
    }
}

#[async_trait::async_trait]
impl Store for LanceStore {
    fn capabilities(&self) -> Capabilities {
        let is_in_memory = self.has_vectors_in_memory();
        Capabilities {
            durability: Durability::PowerFailure,
            max_batch_rows: usize::MAX,
            is_exact: is_in_memory,
            max_filter_files: usize::MAX,
            keywords: KeywordSearch::Table,
            // The approximate index of a larger table is built from the existing vectors.
            allows_missing_vectors: is_in_memory,
        }
    }

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

    async fn chunks_with_similar_term(&self, term: &str, files: &FileSet, limit: usize) -> Result<Vec<LegHit>> {
        let _reading = self.version_pins.pin();
        queries::similar_term_search(self, term, files, limit).await.map(|it| retain_files(files, it))
    }

    async fn chunks_with_prefix(&self, prefix: &str, files: &FileSet, limit: usize) -> Result<Vec<LegHit>> {
        let _reading = self.version_pins.pin();
        prefix_search::prefix_search(self, prefix, files, limit).await.map(|it| retain_files(files, it))
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

    async fn files_with(&self, words: &[Vec<String>], files: &FileSet) -> Result<Vec<FileId>> {
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

    async fn chunks_of(&self, mut files: Vec<FileId>) -> Result<Vec<StoredChunk>> {
        let _reading = self.version_pins.pin();
        if let Some(Ok(found)) = self.memory().passages().map(|it| it.of_files(&files)) {
            return Ok(found);
        }
        let mut found = Vec::new();
        let mut add = |it| {
            found.push(it);
            true
        };
        files.sort_unstable();
        queries::scan(self, &FileSet::Only(files.into()), &mut add).await?;
        Ok(found)
    }

    fn rows_by_file(&self) -> BTreeMap<FileId, u64> {
        self.rows().clone()
    }

    fn file_ids(&self) -> Vec<FileId> {
        self.rows().keys().copied().collect()
    }

    fn has_file(&self, file: FileId) -> bool {
        self.rows().contains_key(&file)
    }

    async fn maintain(&self, part: Maintenance) -> Result<()> {
        let done = match part {
            Maintenance::Full => self.run_change(maintenance::maintain(self)).await,
            Maintenance::Keywords => self.run_change(maintenance::cover_keywords(self)).await,
            Maintenance::Prune => self.run_change(maintenance::make_durable_and_prune(self)).await,
        };
        self.end_maintenance(&done);
        done
    }

    async fn purge(&self) -> Result<u64> {
        let done = self.run_change(purge::rewrite_deleted(self)).await;
        self.end_maintenance(&done.as_ref().map(drop).map_err(Clone::clone));
        done
    }

    async fn prune_before(&self, version: u64) -> Result<bool> {
        self.run_change(purge::prune_unread(self)).await?;
        Ok(manifests::list(&self.place.table_dir())?.iter().all(|it| it.version >= version))
    }

    /// Loads the keyword index into memory, so that no query waits for the disk. Does nothing if the index would not
    /// fit.
    async fn preload(&self) -> Result<()> {
        let _reading = self.version_pins.pin();
        let indices = self.place.table_dir().join("_indices");
        let mut bytes = 0;
        for dir in indexes::keyword_part_dirs(&self.published).await.on("read the index of", &self.dir)? {
            bytes += fsync::bytes_below(&indices.join(dir)).await?;
        }
        // An index takes about twice as much space in memory as on disk.
        if bytes * 2 <= INDEX_CACHE_BYTES as u64 {
            indexes::preload_keyword_index(&self.published).await.on("read the index of", &self.dir)?;
        }
        Ok(())
    }

    fn recovery(&self) -> Recovery {
        Recovery {
            quarantined: self.quarantined.clone(),
            damaged: self.damaged.clone(),
            has_lost_commits: self.has_lost_commits.load(Ordering::Relaxed),
        }
    }

    async fn accept_loss(&self) -> Result<()> {
        self.durable.record(&self.table, &self.dir).await?;
        self.has_lost_commits.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn is_queried(&self) -> bool {
        self.was_queried()
    }

    fn version_count(&self) -> Result<u64> {
        Ok(manifests::list(&self.place.table_dir())?.len() as u64)
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
            backend: "LanceDB".into(),
            chunks: self.chunk_count(),
            bytes: fsync::bytes_below(&self.place.table_dir()).await?,
            fragments: fragments as u64,
            versions: self.version_count()?,
            unindexed_rows: indexes::unindexed_rows(&self.published).await.on("read", &self.dir)?,
            upkeep_now: upkeep.now,
            upkeep_error: upkeep.error,
            warning: None,
        })
    }
}

/// Keeps only the hits in files of the filter. A commit may happen between making the filter and the search, and a file
/// that is new since then must not pass the filter.
fn retain_files(files: &FileSet, mut hits: Vec<LegHit>) -> Vec<LegHit> {
    hits.retain(|it| files.contains(it.file_id));
    hits
}
