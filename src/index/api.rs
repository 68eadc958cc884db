//! The index as the daemon and the services use it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::warn;

use crate::error::Result;
use crate::index::background::BackgroundRuntime;
use crate::index::blocking_tasks::blocking;
use crate::index::clock::now_ms;
use crate::index::jobs::run;
use crate::index::ocr::merge;
use crate::index::paths::resolve_or_keep;
use crate::index::state::IndexState;
use crate::index::tables::ServingTable;
use crate::index::{disk_space, progress};
use crate::model::{
    ContentHash, Coverage, Document, FileRecord, IndexRequest, JobSnapshot, Pause, PauseRequest, Principal, Root,
    Scope, WatchReport,
};
use crate::store::StoreStats;
use crate::table::Table;

/// The index of all roots. Cheap to clone.
#[derive(Clone)]
pub struct Index {
    pub(super) inner: Arc<IndexState>,
    pub(super) _background: Arc<BackgroundRuntime>,
}

impl Index {
    /// Starts a job for a caller limited to `scope`, and returns at once. The owner's folders outside all roots become
    /// roots.
    ///
    /// # Errors
    /// A path does not exist, cannot be read or is outside the scope. [`crate::error::ErrorCode::StorageFull`]: there
    /// is no disk space to index. [`crate::error::ErrorCode::ResourceExhausted`]: too many jobs have not ended, in
    /// total or for this key.
    pub async fn start_job(&self, request: IndexRequest, scope: &Scope, holder: &Principal) -> Result<JobSnapshot> {
        self.inner.disk_space.admit(scope)?;
        run::start(&self.inner, request, scope, holder).await
    }

    /// Returns a receiver of snapshots of a job; of an ended job, its last one.
    ///
    /// # Errors
    /// There is no such job.
    pub fn watch_job(&self, id: &str) -> Result<watch::Receiver<JobSnapshot>> {
        self.inner.jobs.watch(id)
    }

    /// Returns the current snapshot of a job.
    ///
    /// # Errors
    /// There is no such job.
    pub fn job(&self, id: &str) -> Result<JobSnapshot> {
        self.inner.jobs.snapshot(id)
    }

    /// Returns the latest jobs, newest first.
    ///
    /// # Errors
    /// The job file cannot be read.
    pub fn jobs(&self, limit: u32) -> Result<Vec<JobSnapshot>> {
        self.inner.jobs.list(limit as usize)
    }

    /// Returns the jobs that have not ended.
    pub fn running_jobs(&self) -> Vec<JobSnapshot> {
        self.inner.jobs.running()
    }

    /// Cancels a job. Its work so far is kept.
    ///
    /// # Errors
    /// There is no such job.
    pub fn cancel_job(&self, id: &str) -> Result<JobSnapshot> {
        self.inner.jobs.cancel(id);
        self.job(id)
    }

    /// Returns the ids of the unended jobs that a holder started.
    pub fn jobs_of(&self, holder: &Principal) -> Vec<String> {
        self.inner.jobs.ids_of(holder)
    }

    /// Returns the roots, including those nested in others.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub async fn roots(&self) -> Result<Vec<Root>> {
        self.inner.all_roots().await
    }

    /// Returns the roots that are walked: none is nested in another.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub async fn walked_roots(&self) -> Result<Vec<Root>> {
        self.inner.roots().await
    }

    /// Adds a folder as a root and watches it. Reads nothing yet.
    ///
    /// # Errors
    /// The folder does not exist, is not a folder, or cannot be read.
    pub async fn add_root(&self, path: &Path) -> Result<Root> {
        let walked = self.inner.add_root(path).await?;
        let path = resolve_or_keep(path).await;
        let named = self.inner.all_roots().await?.into_iter().find(|it| it.path == path);
        Ok(named.unwrap_or(walked))
    }

    /// Removes a root and everything indexed below it, except files of other roots. The files on disk stay. If the disk
    /// is full or fails, the index entries are deleted later, also after a restart, and the status reports it.
    ///
    /// # Errors
    /// The path is not a root, or the catalog cannot be written.
    pub async fn remove_root(&self, path: &Path) -> Result<()> {
        self.inner.remove_root(path).await
    }

    /// Counts the files of a scope by state.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub async fn coverage(&self, scope: &Scope) -> Result<Coverage> {
        let (catalog, scope) = (self.inner.catalog.clone(), scope.clone());
        blocking(move || catalog.coverage_within(&scope)).await
    }

    /// Returns the number of indexed chunks in a scope; for all files, that of the table that answers.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub async fn chunks(&self, scope: &Scope) -> Result<u64> {
        if scope.is_all() {
            return Ok(self.serving().store.chunk_count());
        }
        let (catalog, scope) = (self.inner.catalog.clone(), scope.clone());
        blocking(move || catalog.chunks_within(&scope)).await
    }

    /// Returns counts and sizes of the table that answers.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn store_stats(&self) -> Result<StoreStats> {
        self.inner.tables.serving().store.stats().await
    }

    /// Returns the table that answers, with its embedder.
    pub fn serving(&self) -> ServingTable {
        self.inner.tables.serving()
    }

    /// Adds cached OCR text of this content to a document.
    ///
    /// # Errors
    /// Only internal errors: text missing in the cache is not added.
    pub async fn with_known_pictures(&self, hash: ContentHash, mut document: Document) -> Result<Document> {
        let cache = self.inner.caches.evidence.clone();
        blocking(move || {
            merge::add_cached_ocr(&cache, hash, &mut document);
            Ok(document)
        })
        .await
    }

    /// Returns the tables of a file in its current state, each named after the file too. Returns `None` if the file is
    /// unreadable, larger than 2 MiB, of a kind without tables, or takes longer than `patience`. Parsing then
    /// continues, and the next query gets the tables at once.
    pub async fn tables_of(&self, record: &FileRecord, patience: Duration) -> Option<Arc<Vec<Table>>> {
        self.inner.caches.tables.tables_of(&self.inner.workers.pool, record, patience).await
    }

    /// Pauses indexing, for a while or until [`Index::resume`], also across restarts. Returns the pause.
    ///
    /// # Errors
    /// The catalog cannot be written.
    pub async fn pause(&self, request: PauseRequest) -> Result<Option<Pause>> {
        let until = request.seconds.map(|seconds| {
            let milliseconds = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000);
            now_ms().saturating_add(milliseconds)
        });
        self.set_requested(Some(until)).await
    }

    /// Ends a requested pause. Returns the pause that remains because of the battery.
    ///
    /// # Errors
    /// The catalog cannot be written.
    pub async fn resume(&self) -> Result<Option<Pause>> {
        self.set_requested(None).await
    }

    /// Returns the current pause.
    pub fn paused(&self) -> Option<Pause> {
        self.inner.pause.pause()
    }

    async fn set_requested(&self, asked: Option<Option<i64>>) -> Result<Option<Pause>> {
        let (gate, catalog) = (self.inner.pause.clone(), self.inner.catalog.clone());
        blocking(move || gate.set_requested(&catalog, asked)).await?;
        Ok(self.paused())
    }

    /// Waits until no write is in progress, up to `limit`. Called after shutdown was requested.
    pub async fn wait_idle(&self, limit: Duration) {
        let idle = async { (self.inner.runs.lock_engine().await, self.inner.runs.block_urgent_runs().await) };
        if tokio::time::timeout(limit, idle).await.is_err() {
            warn!("shut down during a commit; its files are read again at the next start");
        }
    }

    /// Reports damage found when a part was opened, for the rest of this run.
    pub fn note_damage(&self, part: &str, sentence: String) {
        self.inner.problems.set(&format!("damage {part}"), Some(sentence));
    }

    /// Returns the free bytes on the disk of the index, 0 if unknown.
    pub fn free_bytes(&self) -> u64 {
        disk_space::disk_space(&self.inner.config.db_path).map_or(0, |(free, _)| free)
    }

    /// Returns whether the daemon is shutting down.
    pub(crate) fn is_ending(&self) -> bool {
        self.inner.shutdown.is_cancelled()
    }

    /// Returns how many files wait for OCR.
    pub fn unread_pictures(&self) -> u64 {
        self.inner.ocr_queue.unread()
    }

    /// Returns the state of watching these roots.
    pub fn watch_report(&self, roots: &[Root]) -> WatchReport {
        self.inner.walks.watching.report(roots)
    }

    /// Returns the number of tokens embedded since the start.
    pub fn tokens_embedded(&self) -> u64 {
        progress::tokens_embedded()
    }

    /// Returns the current problems, with cause and hint.
    pub fn degraded(&self) -> Vec<String> {
        let mut sentences = self.inner.problems.sentences();
        sentences.extend(self.inner.walks.watching.problems());
        sentences.extend(self.inner.walks.unreadable.sentences());
        sentences.extend(self.inner.workers.pool.problems());
        let of_skills = self.inner.workers.skills.problems();
        sentences.extend(of_skills.into_iter().filter(|it| !sentences.contains(it)).collect::<Vec<_>>());
        if self.inner.tables.is_switching() {
            sentences.push("another model's index answers until every file is in the new one; see `vic jobs`".into());
        }
        if let Some(why) = self.inner.tables.old_problem() {
            sentences.push(format!(
                "until the new model's index is complete, queries use keywords only, because the old model \
                 cannot be loaded: {why}"
            ));
        }
        sentences
    }
}
