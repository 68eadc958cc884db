//! The public API of the index, which the daemon and the services call: jobs, roots, statistics, pause and status.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::warn;

use crate::config::EmbedBackend;
use crate::embed::suggest_model;
use crate::error::Result;
use crate::index::background::BackgroundRuntime;
use crate::index::blocking_tasks::blocking;
use crate::index::clock::now_ms;
use crate::index::jobs::run;
use crate::index::languages::count_languages;
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

/// Handle of the index of all roots. Cheap to clone.
#[derive(Clone)]
pub struct Index {
    pub(super) inner: Arc<IndexState>,
    pub(super) _background: Arc<BackgroundRuntime>,
}

impl Index {
    /// Starts an indexing job for a caller who may see only the files in `scope`, and returns without waiting for the
    /// job. If the owner requests a folder that is in no root, the folder becomes a root.
    ///
    /// # Errors
    /// A path does not exist, cannot be read or is outside the scope. [`crate::error::ErrorCode::StorageFull`]: there
    /// is too little disk space to index. [`crate::error::ErrorCode::ResourceExhausted`]: too many jobs have not ended,
    /// in total or of this `holder`.
    pub async fn start_job(&self, request: IndexRequest, scope: &Scope, holder: &Principal) -> Result<JobSnapshot> {
        self.inner.disk_space.admit(scope)?;
        run::start(&self.inner, request, scope, holder).await
    }

    /// Returns a receiver of the snapshots of a job. If the job has ended, the receiver holds its last snapshot.
    ///
    /// # Errors
    /// No job has this id.
    pub fn watch_job(&self, id: &str) -> Result<watch::Receiver<JobSnapshot>> {
        self.inner.jobs.watch(id)
    }

    /// Returns the current snapshot of a job.
    ///
    /// # Errors
    /// No job has this id.
    pub fn job(&self, id: &str) -> Result<JobSnapshot> {
        self.inner.jobs.snapshot(id)
    }

    /// Returns the latest `limit` jobs, newest first.
    ///
    /// # Errors
    /// The job database cannot be read.
    pub fn jobs(&self, limit: u32) -> Result<Vec<JobSnapshot>> {
        self.inner.jobs.list(limit as usize)
    }

    /// Returns the snapshots of the jobs that have not ended, queued or running.
    pub fn running_jobs(&self) -> Vec<JobSnapshot> {
        self.inner.jobs.running()
    }

    /// Cancels a job. Files that the job has indexed stay in the index.
    ///
    /// # Errors
    /// No job has this id.
    pub fn cancel_job(&self, id: &str) -> Result<JobSnapshot> {
        self.inner.jobs.cancel(id);
        self.job(id)
    }

    /// Returns the ids of the jobs that this holder (the owner or an API key) started and that have not ended.
    pub fn jobs_of(&self, holder: &Principal) -> Vec<String> {
        self.inner.jobs.ids_of(holder)
    }

    /// Returns all roots, including roots nested in other roots.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub async fn roots(&self) -> Result<Vec<Root>> {
        self.inner.all_roots().await
    }

    /// Returns the roots that are walked on their own: all except those nested in another root.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub async fn walked_roots(&self) -> Result<Vec<Root>> {
        self.inner.roots().await
    }

    /// Adds a folder as a root and starts to watch it. Indexes no file yet.
    ///
    /// # Errors
    /// The folder does not exist, is not a folder, or cannot be read.
    pub async fn add_root(&self, path: &Path) -> Result<Root> {
        let walked = self.inner.add_root(path).await?;
        let path = resolve_or_keep(path).await;
        let named = self.inner.all_roots().await?.into_iter().find(|it| it.path == path);
        Ok(named.unwrap_or(walked))
    }

    /// Removes a root and the index entries of all files below it, except files that another root contains. The files
    /// on disk stay. If the disk is full or fails, the entries are deleted later, also after a restart, and until then
    /// the status reports the failure.
    ///
    /// # Errors
    /// The path is not a root, or the catalog cannot be written.
    pub async fn remove_root(&self, path: &Path) -> Result<()> {
        self.inner.remove_root(path).await
    }

    /// Replaces the globs of `VIC_IGNORE`. Files that they exclude now leave the index, and files that they no longer
    /// exclude enter it, by a job in the background.
    ///
    /// # Errors
    /// A glob is invalid.
    pub fn set_ignore(&self, globs: Vec<String>) -> Result<()> {
        self.inner.walks.rules.set_ignore(globs)?;
        self.inner.background.spawn(self.inner.clone().follow_new_rules());
        Ok(())
    }

    /// Returns the globs of `VIC_IGNORE` that walks follow.
    pub fn ignore(&self) -> Vec<String> {
        self.inner.walks.rules.ignore()
    }

    /// Counts the files in a scope by state: pending, indexed, skipped, failed.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub async fn coverage(&self, scope: &Scope) -> Result<Coverage> {
        let (catalog, scope) = (self.inner.catalog.clone(), scope.clone());
        blocking(move || catalog.coverage_within(&scope)).await
    }

    /// Returns the number of indexed chunks in a scope. A scope of all files is counted in the table that answers
    /// queries, any other scope in the catalog.
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

    /// Returns counts and sizes of the chunk table that answers queries.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn store_stats(&self) -> Result<StoreStats> {
        self.inner.tables.serving().store.stats().await
    }

    /// Returns the chunk table that answers queries, and the embedder that made its vectors.
    pub fn serving(&self) -> ServingTable {
        self.inner.tables.serving()
    }

    /// Adds to `document` the OCR text that is cached for the file content with this hash.
    ///
    /// # Errors
    /// Only internal errors. If no OCR text is cached, the document is returned unchanged.
    pub async fn with_known_pictures(&self, hash: ContentHash, mut document: Document) -> Result<Document> {
        let cache = self.inner.caches.evidence.clone();
        blocking(move || {
            merge::add_cached_ocr(&cache, hash, &mut document);
            Ok(document)
        })
        .await
    }

    /// Returns the tables in the current content of a file; the name of the file precedes the name of each table.
    /// Returns `None` if the file is unreadable, larger than 2 MiB, of a kind without tables, or takes longer to parse
    /// than `patience`. Parsing then continues in the background, and the next query gets the tables at once.
    pub async fn tables_of(&self, record: &FileRecord, patience: Duration) -> Option<Arc<Vec<Table>>> {
        self.inner.caches.tables.tables_of(&self.inner.workers.pool, record, patience).await
    }

    /// Pauses indexing for the requested time or, without a time, until [`Index::resume`]; a restart does not end the
    /// pause. Returns the current pause.
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

    /// Ends the pause that the user requested. Returns the pause that remains if the machine runs on battery.
    ///
    /// # Errors
    /// The catalog cannot be written.
    pub async fn resume(&self) -> Result<Option<Pause>> {
        self.set_requested(None).await
    }

    /// Returns the pause that is in effect, with its reason and end, or `None`.
    pub fn paused(&self) -> Option<Pause> {
        self.inner.pause.pause()
    }

    async fn set_requested(&self, asked: Option<Option<i64>>) -> Result<Option<Pause>> {
        let (gate, catalog) = (self.inner.pause.clone(), self.inner.catalog.clone());
        blocking(move || gate.set_requested(&catalog, asked)).await?;
        Ok(self.paused())
    }

    /// Waits, for at most `limit`, until no indexing run is in progress. Called after shutdown was requested.
    pub async fn wait_idle(&self, limit: Duration) {
        let idle = async { (self.inner.runs.lock_engine().await, self.inner.runs.block_urgent_runs().await) };
        if tokio::time::timeout(limit, idle).await.is_err() {
            warn!("shut down during a commit; the files of this commit are read again at the next start");
        }
    }

    /// Makes the status report damaged data until the daemon ends. `part` names the damaged part, such as the catalog;
    /// `sentence` is the text of the report.
    pub fn note_damage(&self, part: &str, sentence: String) {
        self.inner.problems.set(&format!("damage {part}"), Some(sentence));
    }

    /// Returns the free bytes on the disk of the index, or 0 if they cannot be determined.
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

    /// Returns how these roots are watched: which of them are polled, how many events were lost, and so on.
    pub fn watch_report(&self, roots: &[Root]) -> WatchReport {
        self.inner.walks.watching.report(roots)
    }

    /// Returns the number of tokens embedded since the daemon started.
    pub fn tokens_embedded(&self) -> u64 {
        progress::tokens_embedded()
    }

    /// Returns the number of chunks by language (ISO 639-1) in a sample of the index. Empty if the store cannot be read,
    /// which the status reports otherwise.
    pub async fn languages(&self) -> BTreeMap<String, u64> {
        let store = self.inner.tables.serving().store;
        let chunks = store.chunk_count();
        if let Some(counts) = self.inner.languages.recent(chunks) {
            return counts;
        }
        match count_languages(&*store).await {
            Ok(counts) => {
                self.inner.languages.keep(chunks, counts.clone());
                counts
            }
            Err(error) => {
                tracing::debug!(%error, "cannot sample the languages of the index");
                BTreeMap::new()
            }
        }
    }

    /// Returns a sentence that suggests another model if most of the text is in languages that the current one was not
    /// trained for. `None` if a server computes the vectors, because its models are not known.
    pub fn model_advice(&self, languages: &BTreeMap<String, u64>) -> Option<String> {
        let embed = &self.inner.config.embed;
        if embed.backend != EmbedBackend::Onnx {
            return None;
        }
        let entries = self.inner.workers.models.entries().ok()?;
        suggest_model(&entries, &embed.model, languages).map(|it| it.sentence())
    }

    /// Returns one sentence for each current problem of the index, with its cause and a hint.
    pub fn degraded(&self) -> Vec<String> {
        let mut sentences = self.inner.problems.sentences();
        sentences.extend(self.inner.walks.watching.problems());
        sentences.extend(self.inner.walks.unreadable.sentences());
        sentences.extend(self.inner.workers.pool.problems());
        let of_skills = self.inner.workers.skills.problems();
        sentences.extend(of_skills.into_iter().filter(|it| !sentences.contains(it)).collect::<Vec<_>>());
        if self.inner.tables.is_switching() {
            sentences.push("the old model's index answers until the new one has every file; see `vic jobs`".into());
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
