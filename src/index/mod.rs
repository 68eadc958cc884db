//! Keeps the index up to date: jobs, scans, watching, maintenance.
//!
//! Start reading at [`pipeline`]: it is the only file that knows the order of the stages. The daemon and the services
//! use [`Index`].

pub(crate) mod maintenance;
mod ocr;
mod roots;
mod table_cache;
mod skill_evidence;
mod pause;
mod jobs;
mod open;
mod paths;
mod pipeline;
mod progress;
mod disk_space;
mod sync_barrier;
mod tables;
mod watch;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::catalog::{Catalog, CorpusStore, EvidenceCache, JobLog, VectorCache};
use crate::chunk::Chunker;
use crate::config::Config;
use crate::embed::Embedder;
use crate::embed::models::ModelStore;
use crate::error::{Error, ErrorCode, Result};
use crate::extract::WorkerPool;
use crate::files::Rules;
use crate::index::jobs::RunningJob;
use crate::index::ocr::queue::OcrQueue;
use crate::index::open::BackgroundRuntime;
use crate::index::pause::PauseGate;
use crate::index::pipeline::urgent_queue::UrgentQueue;
use crate::index::pipeline::vanished::Vanished;
use crate::index::progress::UnattendedTotals;
use crate::index::roots::scan::UnreadablePaths;
use crate::index::roots::walk_watchdog::AbandonedWalk;
use crate::index::sync_barrier::CatchUp;
use crate::index::table_cache::TableCache;
use crate::index::tables::Tables;
use crate::index::watch::Watching;
use crate::machine::FairSlots;
use crate::model::{
    ContentHash, Coverage, Document, IndexRequest, JobSnapshot, Principal, Root, RootId, Scope, WatchReport,
};
use crate::store::StoreStats;

pub(crate) use crate::index::disk_space::DiskSpace;
pub use crate::index::ocr::merge::ocr_tools;
pub use crate::index::open::IndexParts;
pub(crate) use crate::index::paths::{
    StatBefore, blocking_at_file, blocking_at_path, blocking_with_timeout, content_hash, find_record, resolve,
    resolve_or_keep,
};
pub(crate) use crate::index::pipeline::memory_caps;
pub use crate::index::tables::{ServingTable, is_building, serving_table};

/// The index of all roots. Cheap to clone.
#[derive(Clone)]
pub struct Index {
    inner: Arc<IndexState>,
    _background: Arc<BackgroundRuntime>,
}

pub(crate) struct IndexState {
    config: Config,
    catalog: Catalog,
    jobs: JobLog,
    vectors: Arc<VectorCache>,
    rules: Rules,
    pool: Arc<WorkerPool>,
    skills: Arc<WorkerPool>,
    evidence: Arc<EvidenceCache>,
    corpus_cache: Arc<CorpusStore>,
    models: ModelStore,
    ocr_queue: Arc<OcrQueue>,
    chunker: Arc<Chunker>,
    embedder: Arc<dyn Embedder>,
    tables: Tables,
    /// Parsed tables of files, for queries.
    table_cache: TableCache,
    watching: Arc<Watching>,
    /// Runtime of all background work.
    background: Handle,
    /// Pauses reading and embedding.
    pause: Arc<PauseGate>,
    /// Held while the pipeline runs over all pending files. Fair: jobs run in the order in which they were requested.
    engine: tokio::sync::Mutex<()>,
    /// Queue of just-saved files, which do not wait for the engine.
    urgent: Arc<UrgentQueue>,
    /// Held for reading by every run over urgent files.
    urgent_runs: tokio::sync::RwLock<()>,
    /// Checks free disk space.
    disk_space: Arc<DiskSpace>,
    /// Held during a commit.
    committing: Arc<tokio::sync::Mutex<()>>,
    /// Notified when files are pending without a job.
    changed: Notify,
    /// Notified when files are deleted from the catalog but not yet from the store.
    tombstones_ready: Notify,
    /// Held while a walk runs and is applied.
    scanning: tokio::sync::Mutex<()>,
    /// Abandoned walks, by root.
    abandoned_walks: Mutex<HashMap<RootId, AbandonedWalk>>,
    /// Whether each root was walked since it is watched.
    catch_up: CatchUp,
    /// Totals of runs without a job.
    unattended: Arc<UnattendedTotals>,
    /// Vanished files, skipped until a walk covers their paths.
    vanished: Arc<Vanished>,
    /// Whether an interrupted run of this daemon left attempts in the catalog.
    interrupted: AtomicBool,
    /// Jobs that have not ended.
    running: Mutex<jobs::Running>,
    /// Limit of unended jobs per key.
    job_shares: Arc<FairSlots>,
    /// When skipped maintenance may be retried.
    maintenance_due: Mutex<Option<Instant>>,
    /// Problems for the status, by key.
    problems: Mutex<BTreeMap<String, String>>,
    /// Paths that walks could not read.
    unreadable: Mutex<UnreadablePaths>,
    shutdown: CancellationToken,
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
        jobs::start(&self.inner, request, scope, holder).await
    }

    /// Returns a receiver of snapshots of a job; of an ended job, its last one.
    ///
    /// # Errors
    /// There is no such job.
    pub fn watch_job(&self, id: &str) -> Result<tokio::sync::watch::Receiver<JobSnapshot>> {
        if let Some(job) = self.inner.running().get(id) {
            return Ok(job.progress.watch());
        }
        Ok(tokio::sync::watch::channel(self.job(id)?).1)
    }

    /// Returns the current snapshot of a job.
    ///
    /// # Errors
    /// There is no such job.
    pub fn job(&self, id: &str) -> Result<JobSnapshot> {
        if let Some(job) = self.inner.running().get(id) {
            return Ok(job.progress.snapshot());
        }
        let unknown = || Error::not_found(format!("there is no job `{id}`")).hint("`vic jobs` lists them");
        self.inner.jobs.get(id)?.ok_or_else(unknown)
    }

    /// Returns the latest jobs, newest first.
    ///
    /// # Errors
    /// The job file cannot be read.
    pub fn jobs(&self, limit: u32) -> Result<Vec<JobSnapshot>> {
        let mut jobs = self.inner.jobs.list(limit as usize)?;
        let running = self.inner.running();
        for job in &mut jobs {
            if let Some(RunningJob { progress, .. }) = running.get(&job.job_id) {
                *job = progress.snapshot();
            }
        }
        Ok(jobs)
    }

    /// Returns the jobs that have not ended.
    pub fn running_jobs(&self) -> Vec<JobSnapshot> {
        self.inner.running().values().map(|it| it.progress.snapshot()).collect()
    }

    /// Cancels a job. Its work so far is kept.
    ///
    /// # Errors
    /// There is no such job.
    pub fn cancel_job(&self, id: &str) -> Result<JobSnapshot> {
        if let Some(job) = self.inner.running().get(id) {
            job.cancel.cancel();
        }
        self.job(id)
    }

    /// Returns the ids of the unended jobs that a holder started.
    pub fn jobs_of(&self, holder: &Principal) -> Vec<String> {
        let running = self.inner.running();
        running.iter().filter(|(_, job)| job.holder == *holder).map(|(id, _)| id.clone()).collect()
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
        let roots = self.inner.all_roots().await?;
        let path = resolve_or_keep(path).await;
        let Some(root) = roots.into_iter().find(|it| it.path == path) else {
            return Err(Error::not_found(format!("`{}` is not a root", path.display())).hint("`vic roots` lists them"));
        };
        self.inner.unwatch(root.id).await;
        self.inner.forget_abandoned_walk(&root);
        self.inner.note(&format!("watch {}", root.path.display()), None);
        let catalog = self.inner.catalog.clone();
        blocking(move || catalog.remove_root(root.id)).await?;
        self.inner.fill_names();
        self.inner.unreadable().replace(root.id, Path::new(""), &[]);
        self.inner.set_rule_roots(None).await?;
        let (above, below) = (|it: &Root| path.starts_with(&it.path), |it: &Root| it.path.starts_with(&path));
        for left in self.inner.roots().await?.iter().filter(|it| above(it) || below(it)) {
            // A root above it is still watched by the old rules.
            self.inner.unwatch(left.id).await;
            self.inner.watch(left).await;
        }
        if !self.inner.delete_tombstoned().await {
            // The root is removed already, so a retry by the caller would fail: the background task retries.
            self.inner.tombstones_ready.notify_one();
        }
        Ok(())
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
        let cache = self.inner.evidence.clone();
        blocking(move || {
            ocr::merge::add_cached_ocr(&cache, hash, &mut document);
            Ok(document)
        })
        .await
    }

    /// Waits until no write is in progress, up to `limit`. Called after shutdown was requested.
    pub async fn wait_idle(&self, limit: Duration) {
        let idle = async { (self.inner.engine.lock().await, self.inner.urgent_runs.write().await) };
        if tokio::time::timeout(limit, idle).await.is_err() {
            warn!("shut down during a commit; its files are read again at the next start");
        }
    }

    /// Reports damage found when a part was opened, for the rest of this run.
    pub fn note_damage(&self, part: &str, sentence: String) {
        self.inner.note(&format!("damage {part}"), Some(sentence));
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
        self.inner.watching.report(roots)
    }

    /// Returns the number of tokens embedded since the start.
    pub fn tokens_embedded(&self) -> u64 {
        progress::tokens_embedded()
    }

    /// Returns the current problems, with cause and hint.
    pub fn degraded(&self) -> Vec<String> {
        let mut sentences: Vec<String> = self.inner.problems().values().cloned().collect();
        sentences.extend(self.inner.watching.problems());
        sentences.extend(self.inner.unreadable().sentences());
        sentences.extend(self.inner.pool.problems());
        let of_skills = self.inner.skills.problems();
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

impl IndexState {
    /// Records a full disk, so that the interrupted work resumes later.
    pub(crate) fn note_full(&self, outcome: &Result<()>) {
        if let Err(error) = outcome {
            self.disk_space.note_error(error);
        }
    }

    /// Sets or clears the problem of a part, with cause and hint. Returns whether the work succeeded. Repeated failures
    /// with the same text are logged once.
    pub(crate) fn note_outcome(&self, part: &str, what: &str, outcome: Result<()>) -> bool {
        self.note_full(&outcome);
        self.report_outcome(part, what, outcome)
    }

    /// As [`IndexState::note_outcome`], for work that free disk space does not resume.
    fn report_outcome(&self, part: &str, what: &str, outcome: Result<()>) -> bool {
        let problem = outcome.err().map(|error| format!("{what}: {}", error.message_with_hint()));
        if let Some(problem) = problem.as_ref().filter(|it| self.problems().get(part) != Some(*it)) {
            warn!("{problem}");
        }
        let is_done = problem.is_none();
        self.note(part, problem);
        is_done
    }

    /// Sets or clears a problem of a part.
    pub(crate) fn note(&self, part: &str, problem: Option<String>) {
        let mut degraded = self.problems();
        match problem {
            Some(sentence) => degraded.insert(part.to_string(), sentence),
            None => degraded.remove(part),
        };
    }

    async fn roots(&self) -> Result<Vec<Root>> {
        let catalog = self.catalog.clone();
        blocking(move || catalog.roots()).await
    }

    async fn all_roots(&self) -> Result<Vec<Root>> {
        let catalog = self.catalog.clone();
        blocking(move || catalog.named_roots()).await
    }

    /// Sets the roots in the walk rules, including one about to be added.
    async fn set_rule_roots(&self, next: Option<&Path>) -> Result<()> {
        let mut paths: Vec<PathBuf> = self.all_roots().await?.into_iter().map(|it| it.path).collect();
        paths.extend(next.map(Path::to_path_buf));
        self.rules.set_roots(paths);
        Ok(())
    }

    async fn add_root(&self, path: &Path) -> Result<Root> {
        let (own, pages) =
            (resolve_or_keep(&self.config.data_dir).await, resolve_or_keep(&self.config.pages_path()).await);
        let path = resolve_or_keep(path).await;
        if path.starts_with(&own) && !path.starts_with(&pages) {
            return Err(Error::invalid(format!("`{}` is vic's own data", path.display())));
        }
        // Before a walk of a root above it begins without knowing it.
        self.set_rule_roots(Some(&path)).await?;
        let (catalog, named) = (self.catalog.clone(), path.clone());
        let added = blocking(move || catalog.add_root(&named)).await;
        self.set_rule_roots(None).await?;
        let root = added?;
        self.fill_names();
        if root.path != path {
            // The absorbing root is still watched by the old rules.
            self.unwatch(root.id).await;
        }
        let roots = self.roots().await?;
        self.unreadable().keep_only(&roots);
        let watching = self.watching.clone();
        blocking(move || {
            watching.keep_only(&roots);
            Ok(())
        })
        .await?;
        self.watch(&root).await;
        Ok(root)
    }

    fn running(&self) -> std::sync::MutexGuard<'_, jobs::Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unreadable(&self) -> std::sync::MutexGuard<'_, UnreadablePaths> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn problems(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs blocking work (SQLite, files, tokenizers) off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_cancelled() => Err(Error::new(ErrorCode::Cancelled, "the daemon is ending")),
        // The panic message may hold text of a document.
        Err(_) => Err(Error::new(ErrorCode::Internal, "a stage panicked; see the log of vicd")),
    }
}

#[cfg(test)]
mod tests;
