//! Implements [`Store`] for a collection.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::model::{ChunkId, FileChunks, FileId, LegHit, StoredChunk};
use crate::store::backend::{
    Capabilities, Durability, FileSet, KeywordQuery, KeywordSearch, Maintenance, Recovery, Store, StoreStats,
};
use crate::store::fsync;
use crate::store::milvus::clean::MAX_LIST;
use crate::store::milvus::errors::from_client;
use crate::store::milvus::search::MAX_FILTER_FILES;
use crate::store::milvus::table::MilvusStore;
use crate::store::milvus::write::MAX_BATCH_ROWS;

/// What the status says until the rows are compared with the ledger, some seconds after the last change.
const UNCOMPARED: &str =
    "Milvus Lite has started, and vic has not yet checked that all rows are there; answers may lack text";

#[async_trait::async_trait]
impl Store for MilvusStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durability: Durability::ProcessExit,
            max_batch_rows: MAX_BATCH_ROWS,
            is_exact: false,
            max_filter_files: MAX_FILTER_FILES,
            keywords: if self.has_words() { KeywordSearch::Table } else { KeywordSearch::Local },
            allows_missing_vectors: true,
        }
    }

    async fn replace(&self, files: Vec<FileChunks>) -> Result<()> {
        self.write_files(files, None).await
    }

    async fn replace_part(&self, file: FileChunks, ordinals: Range<u32>) -> Result<u64> {
        let file_id = file.file_id;
        self.write_files(vec![file], Some(ordinals)).await?;
        Ok(self.live().chunks_of(file_id))
    }

    async fn delete(&self, files: &[FileId]) -> Result<()> {
        self.delete_files(files).await
    }

    async fn copy(&self, copies: &[(FileId, FileId)]) -> Result<Vec<u64>> {
        self.copy_files(copies).await
    }

    async fn vector_leg(&self, vector: &[f32], files: &FileSet, limit: usize) -> Result<Vec<LegHit>> {
        self.search_vector(vector, files, limit).await
    }

    async fn keyword_leg(&self, query: &KeywordQuery, files: &FileSet, limit: usize) -> Result<Vec<LegHit>> {
        self.search_keywords(query, files, limit).await
    }

    async fn chunks(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<StoredChunk>> {
        self.read_chunks(ids).await
    }

    async fn similarities(&self, vector: &[f32], ids: &[(FileId, ChunkId)]) -> Result<Vec<LegHit>> {
        self.read_similarities(vector, ids).await
    }

    async fn vectors(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<((FileId, ChunkId), Vec<f32>)>> {
        self.read_vectors(ids).await
    }

    async fn files_with(&self, words: &[Vec<String>], files: &FileSet) -> Result<Vec<FileId>> {
        self.files_with_words(words, files).await
    }

    async fn scan(&self, files: &FileSet, each: &mut (dyn FnMut(StoredChunk) -> bool + Send)) -> Result<()> {
        self.scan_files(files, each).await
    }

    async fn file_vectors(&self, file: FileId) -> Result<Vec<Vec<f32>>> {
        self.vectors_of_file(file).await
    }

    fn rows_by_file(&self) -> BTreeMap<FileId, u64> {
        self.live().rows_by_file()
    }

    fn file_ids(&self) -> Vec<FileId> {
        self.live().file_ids()
    }

    fn has_file(&self, file: FileId) -> bool {
        self.live().has_file(file)
    }

    /// Deletes invalid rows; except for `Prune`, also makes the server build its indexes for new rows. `Full`, and the first
    /// run, then compare the rows with the ledger.
    async fn maintain(&self, part: Maintenance) -> Result<()> {
        let _writing = self.writer.lock().await;
        let done = async {
            self.clean_all().await?;
            if part != Maintenance::Prune {
                self.set_step(Some("writing new rows to segments"));
                self.flush().await?;
            }
            if part == Maintenance::Full || (part == Maintenance::Keywords && !self.is_compared()) {
                self.set_step(Some("comparing the rows of the server"));
                self.reconcile().await?;
            }
            if let Some(local) = &self.local_keywords {
                local.maintain(part).await?;
            }
            Ok(())
        };
        let done = done.await;
        self.end_upkeep(&done);
        done
    }

    async fn purge(&self) -> Result<u64> {
        let _writing = self.writer.lock().await;
        self.clean_all().await?;
        self.flush().await?;
        if let Some(local) = &self.local_keywords {
            return local.purge().await;
        }
        Ok(self.version())
    }

    async fn prune_before(&self, version: u64) -> Result<bool> {
        match &self.local_keywords {
            Some(local) => local.prune_before(version).await,
            None => Ok(self.with_ledger(|ledger| ledger.unclean(1)).await?.is_empty()),
        }
    }

    async fn preload(&self) -> Result<()> {
        match &self.local_keywords {
            Some(local) => local.preload().await,
            None => Ok(()),
        }
    }

    fn recovery(&self) -> Recovery {
        Recovery { has_lost_commits: self.has_lost_rows.load(Ordering::Relaxed), ..Recovery::default() }
    }

    async fn accept_loss(&self) -> Result<()> {
        self.has_lost_rows.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn is_queried(&self) -> bool {
        self.was_queried()
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    fn version_count(&self) -> Result<u64> {
        Ok(1)
    }

    fn chunk_count(&self) -> u64 {
        self.live().chunk_count()
    }

    async fn stats(&self) -> Result<StoreStats> {
        self.client.check_health().await.map_err(from_client)?;
        let bytes = match &self.lite {
            Some(lite) => fsync::bytes_below(lite.dir()).await?,
            None => 0,
        };
        // Rows that are to be flushed or deleted, and a comparison that is due, are work for maintenance.
        let unclean = self.with_ledger(|ledger| ledger.unclean(MAX_LIST)).await?.len() as u64;
        let unindexed_rows = self.unflushed.load(Ordering::Relaxed) + unclean + u64::from(!self.is_compared());
        let (upkeep_now, upkeep_error) = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(StoreStats {
            backend: self.describe(),
            chunks: self.chunk_count(),
            bytes,
            fragments: 1,
            versions: 1,
            unindexed_rows,
            upkeep_now,
            upkeep_error,
            warning: (self.lite.is_some() && !self.is_compared()).then_some(UNCOMPARED),
        })
    }
}

impl MilvusStore {
    /// Returns the server with its version and place, and what it lacks.
    fn describe(&self) -> String {
        let (version, address) = (self.client.version(), self.client.address());
        match (&self.lite, self.has_words()) {
            (Some(lite), _) => format!("Milvus Lite ({version}) in {}", lite.dir().display()),
            (None, true) => format!("Milvus {version} at {address}"),
            (None, false) => {
                format!("Milvus {version} at {address} has no keyword search: keywords are searched on this machine")
            }
        }
    }

    fn set_step(&self, step: Option<&'static str>) {
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner).0 = step;
    }

    fn end_upkeep(&self, done: &Result<()>) {
        let error = done.as_ref().err().map(Error::to_string);
        *self.upkeep.lock().unwrap_or_else(PoisonError::into_inner) = (None, error);
    }
}
