//! Changes to a committed index: jobs, scans, watching, upkeep.
//!
//! Start reading at [`pipeline`]: it is the only file that knows the order of the stages. [`Index`] is what the daemon
//! and the services hold.

mod asked_tables;
mod draining;
mod embedding;
mod evidence;
mod feeding;
mod gate;
mod guard;
mod jobs;
mod lane;
mod leading;
mod looking;
mod lookout;
mod missing;
mod networks;
mod opening;
mod pace;
mod paths;
mod pictures;
mod pipeline;
mod progress;
mod reading;
mod reconcile;
mod renewal;
pub(crate) mod purge;
mod scan;
mod space;
mod storing;
mod syncing;
mod tables;
mod turn;
mod upkeep;
mod urgent;
mod verifying;
mod waiting;
mod walking;
mod watching;
mod words;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::catalog::{Catalog, CorpusBook, EvidenceCache, Jobs, VectorCache};
use crate::chunk::Chunker;
use crate::config::Config;
use crate::embed::Embedder;
use crate::embed::models::ModelStore;
use crate::error::{Error, ErrorCode, Result};
use crate::extract::WorkerPool;
use crate::index::asked_tables::AskedTables;
use crate::index::gate::Gate;
use crate::index::jobs::RunningJob;
use crate::index::lane::Pictures;
use crate::index::leading::Lost;
use crate::index::missing::Missing;
use crate::index::opening::Background;
use crate::index::progress::Unasked;
use crate::index::scan::Unseen;
use crate::index::syncing::Walks;
use crate::index::tables::Tables;
use crate::index::urgent::Urgent;
use crate::index::watching::Watching;
use crate::machine::Shares;
use crate::model::{
    ContentHash, Coverage, Document, Holder, IndexRequest, JobSnapshot, Root, RootId, Scope, WatchReport,
};
use crate::store::StoreStats;
use crate::warehouse::Rules;

pub use crate::index::opening::Parts;
pub(crate) use crate::index::paths::{Before, absolute, at_file, at_files, at_named_file, hash_of, locate, resolved};
pub use crate::index::pictures::ocr_tools;
pub(crate) use crate::index::pipeline::memory_caps;
pub(crate) use crate::index::space::Space;
pub use crate::index::tables::{Served, is_building, serving_table};

/// The index of all roots. Cheap to clone.
#[derive(Clone)]
pub struct Index {
    inner: Arc<Inner>,
    _background: Arc<Background>,
}

pub(crate) struct Inner {
    config: Config,
    catalog: Catalog,
    jobs: Jobs,
    vectors: Arc<VectorCache>,
    rules: Rules,
    pool: Arc<WorkerPool>,
    skills: Arc<WorkerPool>,
    evidence: Arc<EvidenceCache>,
    book: Arc<CorpusBook>,
    models: ModelStore,
    pictures: Arc<Pictures>,
    chunker: Arc<Chunker>,
    embedder: Arc<dyn Embedder>,
    tables: Tables,
    /// Tables that questions asked of.
    asked_tables: AskedTables,
    watching: Arc<Watching>,
    /// Where everything runs that nobody waits for.
    background: Handle,
    /// Whether files may be read.
    gate: Arc<Gate>,
    /// Whoever holds it runs the pipeline over all that is pending. Fair: jobs run in the order in which they were asked
    /// for.
    engine: tokio::sync::Mutex<()>,
    /// Files that do not wait for the engine.
    urgent: Arc<Urgent>,
    /// Held for reading by every run over urgent files.
    overtaking: tokio::sync::RwLock<()>,
    /// Room on the disk.
    space: Arc<Space>,
    /// Whoever holds it commits.
    committing: Arc<tokio::sync::Mutex<()>>,
    /// Tells that files are pending for which nobody asked.
    changed: Notify,
    /// Tells that files are gone from the catalog and not yet from the store.
    buried: Notify,
    /// Whoever holds it walks and applies what it saw.
    scanning: tokio::sync::Mutex<()>,
    /// Walks that nobody waits for any more, by their roots.
    stuck: Mutex<HashMap<RootId, Lost>>,
    /// Which roots were walked since they are watched.
    walks: Walks,
    /// What the runs of the watcher have done.
    unasked: Arc<Unasked>,
    /// Files that are left alone until a walk looks at their places.
    missing: Arc<Missing>,
    /// Whether a run of this daemon broke off and left tries in the catalog.
    interrupted: AtomicBool,
    /// Jobs that have not ended.
    running: Mutex<jobs::Running>,
    /// What of them a key may have begun.
    shares: Arc<Shares>,
    /// When an upkeep that was not done may be tried again.
    upkeep_owed: Mutex<Option<Instant>>,
    /// What is not as it should be, by part.
    degraded: Mutex<BTreeMap<String, String>>,
    /// What the walks could not see.
    unseen: Mutex<Unseen>,
    shutdown: CancellationToken,
}

impl Index {
    /// Begins a job for a caller who may know of `scope`, and returns at once. Folders of the owner's that lie in no root
    /// become roots.
    ///
    /// # Errors
    /// A path does not exist or cannot be read, or does not lie in the scope; [`crate::error::ErrorCode::StorageFull`]:
    /// there is no room to index; [`crate::error::ErrorCode::ResourceExhausted`]: too many have not ended, or too many that
    /// the holder of a key began.
    pub async fn start_job(&self, request: IndexRequest, scope: &Scope, holder: &Holder) -> Result<JobSnapshot> {
        self.inner.space.admit(scope)?;
        jobs::start(&self.inner, request, scope, holder).await
    }

    /// Watches a job that has not ended, or shows the end of one that has.
    ///
    /// # Errors
    /// There is no such job.
    pub fn watch_job(&self, id: &str) -> Result<tokio::sync::watch::Receiver<JobSnapshot>> {
        if let Some(job) = self.inner.running().get(id) {
            return Ok(job.progress.watch());
        }
        Ok(tokio::sync::watch::channel(self.job(id)?).1)
    }

    /// Returns a job as it stands.
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

    /// Asks a job to stop. What is done stays.
    ///
    /// # Errors
    /// There is no such job.
    pub fn cancel_job(&self, id: &str) -> Result<JobSnapshot> {
        if let Some(job) = self.inner.running().get(id) {
            job.cancel.cancel();
        }
        self.job(id)
    }

    /// Returns the ids of the jobs that a holder began and that have not ended.
    pub fn jobs_of(&self, holder: &Holder) -> Vec<String> {
        let running = self.inner.running();
        running.iter().filter(|(_, job)| job.holder == *holder).map(|(id, _)| id.clone()).collect()
    }

    /// Returns the roots, those that lie in others included.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub async fn roots(&self) -> Result<Vec<Root>> {
        self.inner.named_roots().await
    }

    /// Returns the roots that files belong to: none lies in another.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub async fn walked_roots(&self) -> Result<Vec<Root>> {
        self.inner.roots().await
    }

    /// Makes a folder a root and watches it. Nothing is read yet.
    ///
    /// # Errors
    /// It does not exist, is no folder, or cannot be read.
    pub async fn add_root(&self, path: &Path) -> Result<Root> {
        let walked = self.inner.add_root(path).await?;
        let path = resolved(path).await;
        let named = self.inner.named_roots().await?.into_iter().find(|it| it.path == path);
        Ok(named.unwrap_or(walked))
    }

    /// Forgets a root and everything indexed below it, save what lies in another root. The files themselves are not touched.
    /// What cannot leave the index now, because the disk is full or does not write, leaves it when it can, also after a
    /// restart; the status tells of it.
    ///
    /// # Errors
    /// It is no root, or the catalog cannot be written.
    pub async fn remove_root(&self, path: &Path) -> Result<()> {
        let roots = self.inner.named_roots().await?;
        let path = resolved(path).await;
        let Some(root) = roots.into_iter().find(|it| it.path == path) else {
            return Err(Error::not_found(format!("`{}` is not a root", path.display())).hint("`vic roots` lists them"));
        };
        self.inner.unwatch(root.id).await;
        self.inner.forget_walk(&root);
        self.inner.note(&format!("watch {}", root.path.display()), None);
        let catalog = self.inner.catalog.clone();
        blocking(move || catalog.remove_root(root.id)).await?;
        self.inner.fill_names();
        self.inner.unseen().replace(root.id, Path::new(""), &[]);
        self.inner.name_roots(None).await?;
        let (above, below) = (|it: &Root| path.starts_with(&it.path), |it: &Root| it.path.starts_with(&path));
        for left in self.inner.roots().await?.iter().filter(|it| above(it) || below(it)) {
            // One above it is watched by the rules of before.
            self.inner.unwatch(left.id).await;
            self.inner.watch(left).await;
        }
        if !self.inner.bury().await {
            // It is no root any more: whoever asks again would be told so, and nobody else may ever be told.
            self.inner.buried.notify_one();
        }
        Ok(())
    }

    /// Returns the files of a scope by state.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub async fn coverage(&self, scope: &Scope) -> Result<Coverage> {
        let (catalog, scope) = (self.inner.catalog.clone(), scope.clone());
        blocking(move || catalog.coverage_within(&scope)).await
    }

    /// Returns how many chunks the files of a scope have in the index; of all files, as the table that answers has it.
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
    pub fn serving(&self) -> Served {
        self.inner.tables.serving()
    }

    /// Adds to the text of a file with this content what was read out of its pictures before.
    ///
    /// # Errors
    /// None but a defect: what the cache cannot give is not added.
    pub async fn with_known_pictures(&self, hash: ContentHash, mut document: Document) -> Result<Document> {
        let cache = self.inner.evidence.clone();
        blocking(move || {
            pictures::add_known(&cache, hash, &mut document);
            Ok(document)
        })
        .await
    }

    /// Waits until nothing is being written, after the shutdown was asked for, but no longer than `limit`.
    pub async fn settle(&self, limit: Duration) {
        let idle = async { (self.inner.engine.lock().await, self.inner.overtaking.write().await) };
        if tokio::time::timeout(limit, idle).await.is_err() {
            warn!("ended while a commit was under way; what it held is read again at the next start");
        }
    }

    /// Notes what was damaged when a part was opened, to be told until the end of this run.
    pub fn note_damage(&self, part: &str, sentence: String) {
        self.inner.note(&format!("damage {part}"), Some(sentence));
    }

    /// Returns how many bytes are free on the disk of the index; 0 when the system does not tell.
    pub fn room(&self) -> u64 {
        space::room(&self.inner.config.db_path).map_or(0, |(free, _)| free)
    }

    /// Says whether the daemon is about to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.inner.shutdown.is_cancelled()
    }

    /// Returns how many files have text in pictures that is still to be read.
    pub fn unread_pictures(&self) -> u64 {
        self.inner.pictures.unread()
    }

    /// Returns how well changes of these roots are seen.
    pub fn watch_report(&self, roots: &[Root]) -> WatchReport {
        self.inner.watching.report(roots)
    }

    /// Returns how many tokens were embedded since the start.
    pub fn tokens_embedded(&self) -> u64 {
        progress::tokens_embedded()
    }

    /// Returns what is not as it should be, with cause and cure.
    pub fn degraded(&self) -> Vec<String> {
        let mut sentences: Vec<String> = self.inner.degraded().values().cloned().collect();
        sentences.extend(self.inner.watching.problems());
        sentences.extend(self.inner.unseen().sentences());
        sentences.extend(self.inner.pool.problems());
        let of_skills = self.inner.skills.problems();
        sentences.extend(of_skills.into_iter().filter(|it| !sentences.contains(it)).collect::<Vec<_>>());
        if self.inner.tables.is_switching() {
            sentences.push("another model's index answers until every file is in the new one; see `vic jobs`".into());
        }
        if let Some(why) = self.inner.tables.old_problem() {
            sentences.push(format!(
                "until the new model's index is whole, questions are answered by words alone, because the model of the one \
                 that answers cannot be loaded: {why}"
            ));
        }
        sentences
    }
}

impl Inner {
    /// Has the work that a full disk broke off taken up again later.
    pub(crate) fn note_full(&self, outcome: &Result<()>) {
        if let Err(error) = outcome {
            self.space.note(error);
        }
    }

    /// Notes that work of a part failed, with cause and cure, or takes that back; says whether it went well. What is tried again
    /// and again, and fails in the same words, is logged once.
    pub(crate) fn note_outcome(&self, part: &str, what: &str, outcome: Result<()>) -> bool {
        self.note_full(&outcome);
        self.tell_outcome(part, what, outcome)
    }

    /// As [`Inner::note_outcome`], of what takes nothing up again when there is room.
    fn tell_outcome(&self, part: &str, what: &str, outcome: Result<()>) -> bool {
        let problem = outcome.err().map(|error| format!("{what}: {}", error.with_cure()));
        if let Some(problem) = problem.as_ref().filter(|it| self.degraded().get(part) != Some(*it)) {
            warn!("{problem}");
        }
        let is_done = problem.is_none();
        self.note(part, problem);
        is_done
    }

    /// Notes, or takes back, that a part is not as it should be.
    pub(crate) fn note(&self, part: &str, problem: Option<String>) {
        let mut degraded = self.degraded();
        match problem {
            Some(sentence) => degraded.insert(part.to_string(), sentence),
            None => degraded.remove(part),
        };
    }

    async fn roots(&self) -> Result<Vec<Root>> {
        let catalog = self.catalog.clone();
        blocking(move || catalog.roots()).await
    }

    async fn named_roots(&self) -> Result<Vec<Root>> {
        let catalog = self.catalog.clone();
        blocking(move || catalog.named_roots()).await
    }

    /// Tells walks which folders are roots, and that this one is about to be.
    async fn name_roots(&self, next: Option<&Path>) -> Result<()> {
        let mut paths: Vec<PathBuf> = self.named_roots().await?.into_iter().map(|it| it.path).collect();
        paths.extend(next.map(Path::to_path_buf));
        self.rules.name_roots(paths);
        Ok(())
    }

    async fn add_root(&self, path: &Path) -> Result<Root> {
        let (own, pages) = (resolved(&self.config.data_dir).await, resolved(&self.config.pages_path()).await);
        let path = resolved(path).await;
        if path.starts_with(&own) && !path.starts_with(&pages) {
            return Err(Error::invalid(format!("`{}` is vic's own data", path.display())));
        }
        // Before a walk of the one above it begins without knowing.
        self.name_roots(Some(&path)).await?;
        let (catalog, named) = (self.catalog.clone(), path.clone());
        let added = blocking(move || catalog.add_root(&named)).await;
        self.name_roots(None).await?;
        let root = added?;
        self.fill_names();
        if root.path != path {
            // It is watched by the rules of before.
            self.unwatch(root.id).await;
        }
        let roots = self.roots().await?;
        self.unseen().keep_only(&roots);
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

    fn unseen(&self) -> std::sync::MutexGuard<'_, Unseen> {
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn degraded(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.degraded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs something that blocks (SQLite, files, tokenizers) off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_cancelled() => Err(Error::new(ErrorCode::Cancelled, "the daemon is ending")),
        // Its message may hold text of a document.
        Err(_) => Err(Error::new(ErrorCode::Internal, "a stage panicked; the log of vicd says where")),
    }
}

#[cfg(test)]
mod tests;
