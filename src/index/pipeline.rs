//! Defines the order of all indexing work: the phases of a job, the steps of a run, the stages of the pipeline.
//!
//! ```text
//! job     scan ──> delete ──> run ──> maintain ──> OCR                          IndexState::run_job
//!         walks    removed     │
//!         roots    files       │
//!                              V
//! run     files ──> walk ──> delete ──> vectors ──> switch                      IndexState::run_pending
//!           │       for      removed    │           to the new model's table
//!           │       moved    files      │
//!           V       files               V
//! stages  feed ──> read ─────────> embed ────────> commit                       Pipeline::run_stages
//!         pending  open, hash,     cache, then     one for many files,
//!         files    extract, chunk  the embedder    then update the catalog
//! ```
//!
//! A large batch of new files passes through the stages twice, so that every file can be found by keywords long before
//! the last one is embedded. The first pass skips the embedder. The second reads the chunks back from the store
//! (`backfill_vectors`).
//!
//! Each stage owns the receiving end of a bounded queue and the sending end of the next. A slow stage therefore
//! throttles the stages before it. When a stage fails, its queue closes and the other stages end. A file stays
//! pending until the commit stage has recorded its result in the catalog.

pub(in crate::index) mod backfill_vectors;
pub(in crate::index) mod commit;
pub(in crate::index) mod context;
pub(in crate::index) mod deferral;
pub(in crate::index) mod embed;
pub(in crate::index) mod feed;
pub(in crate::index) mod read;
pub(in crate::index) mod run_control;
pub(in crate::index) mod run_pending;
pub(in crate::index) mod urgent_queue;
pub(in crate::index) mod urgent_run;
pub(in crate::index) mod vanished;

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::error::{Error, ErrorCode, Result};
use crate::index::clock::now_ms;
use crate::index::jobs::phases::{self, Job};
use crate::index::pipeline::context::{Pipeline, Run};
use crate::index::pipeline::read::{ReadFile, TextBudget};
use crate::index::pipeline::urgent_queue::URGENT_RUNS;
use crate::index::roots::scan;
use crate::index::state::IndexState;
use crate::model::{FileRecord, JobState, MemoryCap, Phase};

/// Maximum passes over the pending files in one run. Each further pass follows a walk that looks for moved files; the
/// limit ends the run even if a folder is moved all the time.
const MAX_RUNS_AFTER_MOVES: usize = 3;
/// Capacity of the queue of files to read, in files. Large enough that a reader never waits for the catalog.
const READ_QUEUE_CAPACITY: usize = 64;
/// Capacity of the queue of documents to embed. [`TEXT_IN_FLIGHT_KIB`] bounds the memory of these documents.
const EMBED_QUEUE_CAPACITY: usize = 256;
/// Capacity of the queue to the store, in groups of embedded files: one group being written, one ready.
const COMMIT_QUEUE_CAPACITY: usize = 2;
/// Maximum chunk text, in KiB, between the read stage and the store. With its vector and copies a chunk takes about
/// four times its text, so this keeps the pipeline below about 150 MiB.
const TEXT_IN_FLIGHT_KIB: usize = 32 << 10;
/// Like [`TEXT_IN_FLIGHT_KIB`], for a run over urgent (just-saved) files.
const URGENT_TEXT_IN_FLIGHT_KIB: usize = 4 << 10;
/// Memory of a chunk as a multiple of the memory of its text.
const CHUNK_MEMORY_FACTOR: usize = 4;

/// Returns the memory limits of the pipeline, for the status.
pub(crate) fn memory_caps() -> Vec<MemoryCap> {
    let cap = |part: &str, kib: usize| MemoryCap { part: part.into(), mib: (CHUNK_MEMORY_FACTOR * kib / 1024) as u64 };
    vec![
        cap("text being indexed", TEXT_IN_FLIGHT_KIB),
        cap("text of urgent files being indexed", URGENT_RUNS * URGENT_TEXT_IN_FLIGHT_KIB),
    ]
}

impl IndexState {
    /// Runs the phases of a job in order. All phases except OCR hold the engine lock.
    pub(in crate::index) async fn run_job(self: &Arc<IndexState>, job: &Job) -> Result<()> {
        let before = self.jobs.unattended.totals();
        let engine = tokio::select! {
            engine = self.runs.lock_engine() => engine,
            () = job.cancel.cancelled() => {
                return Err(Error::new(ErrorCode::Cancelled, "the job was cancelled while it was queued"));
            }
        };
        job.progress.update(|job| {
            job.state = JobState::Running;
            job.started_ms = Some(now_ms());
        });
        let outcome = self.run_locked_phases(job).await;
        // Counts files that other runs indexed since the job was requested, because the job would have indexed them.
        let now = self.jobs.unattended.totals();
        job.progress.add_from_other_runs(now.0 - before.0, now.1 - before.1);
        self.note_full(&outcome);
        if outcome.as_ref().is_err_and(|it| phases::should_continue(it, &job.request())) && !job.cancel.is_cancelled() {
            // Wakes a run without a job for the files that this job left pending, because no watcher event will report
            // them. That run retries itself with growing delays.
            self.runs.changed.notify_one();
        }
        // Releases the engine lock before OCR, which takes long, so that all other changes are indexed first.
        drop(engine);
        outcome?;
        phases::run_ocr(self, job).await
    }

    async fn run_locked_phases(self: &Arc<IndexState>, job: &Job) -> Result<()> {
        let (request, progress) = (job.request(), &job.progress);
        progress.enter(Phase::Scanning);
        phases::scan_parts(self, job, &request).await?;
        scan::delete_tombstoned(&self.catalog, &self.tables.writing()).await?;
        let (pending, awaiting) = phases::count_work(self, &request).await?;
        if request.metadata_only || (pending + awaiting == 0 && !self.tables.is_switching()) {
            return Ok(());
        }
        progress.update(|job| job.files_total = pending.min(job.request.max_files.unwrap_or(u64::MAX)));
        progress.enter(Phase::Indexing);
        let run = Run::of_job(&request, progress.clone(), job.cancel.clone());
        self.run_pending(&run).await?;
        if phases::have_urgent_runs_left_files(self, job).await? {
            self.run_pending(&run).await?;
        }
        progress.enter(Phase::Finishing);
        self.maintain().await;
        Ok(())
    }

    /// Runs all stages over all pending files. Files that keep changing are left to a later run. The caller holds the
    /// engine lock.
    pub(crate) async fn run_pending(&self, run: &Run) -> Result<()> {
        self.clear_attempts_if_interrupted().await?;
        run.deferral.begin_run();
        let pipeline = self.pipeline();
        loop {
            for _ in 0..MAX_RUNS_AFTER_MOVES {
                let pass = pipeline.first_pass(run).await?;
                let outcome = pipeline.run(&Run { pass, ..run.clone() }).await;
                self.clear_attempts_on_interrupt(run, outcome).await?;
                if !self.walk_for_moved(run).await? {
                    break;
                }
            }
            scan::delete_tombstoned(&self.catalog, &pipeline.table).await?;
            if self.backfill_vectors(&pipeline, run).await? {
                break;
            }
            run.progress.enter(Phase::Indexing);
        }
        if run.deferral.has_skipped() && !run.cancel.is_cancelled() && run.max_files.is_none() {
            // Requests another run for the skipped files, because the watcher does not report all of them.
            self.runs.changed.notify_one();
        }
        if self.is_new_table_complete().await? {
            if self.pause.pause().is_some() {
                // Leaves the switch to the new model's table to the maintenance after the pause, because the switch
                // rewrites data. Until then the old table answers queries.
                self.defer_maintenance();
            } else {
                run.progress.enter(Phase::Finishing);
                self.maintain_and_switch(&pipeline.table).await?;
            }
        }
        Ok(())
    }
}

impl Pipeline {
    /// Indexes every pending file. Returns when only skipped files are left.
    ///
    /// # Errors
    /// The catalog, the embedder or the store fails. A file that cannot be read is never an error.
    pub(crate) async fn run(&self, run: &Run) -> Result<()> {
        let (to_read, queued) = mpsc::channel(READ_QUEUE_CAPACITY);
        let budget = TextBudget::new(TEXT_IN_FLIGHT_KIB);
        let (to_embed, embedding) = mpsc::channel(EMBED_QUEUE_CAPACITY);
        let read = read::read(self, run, budget, queued, to_embed);
        self.run_stages(run, feed::feed(self, run, to_read), read, embedding).await
    }

    /// Embeds the files that are indexed by keywords only. Returns when all have vectors, or earlier, when more than `left`
    /// pending files wait to be read, because reading precedes embedding.
    ///
    /// # Errors
    /// As [`Pipeline::run`].
    pub(crate) async fn run_vectors(&self, run: &Run, left: usize) -> Result<()> {
        let (to_read, queued) = mpsc::channel(backfill_vectors::BACKFILL_BATCH_FILES);
        let budget = TextBudget::new(TEXT_IN_FLIGHT_KIB);
        let (to_embed, embedding) = mpsc::channel(EMBED_QUEUE_CAPACITY);
        let read = backfill_vectors::read(self, run, budget, queued, to_embed);
        self.run_stages(run, backfill_vectors::feed(self, run, left, to_read), read, embedding).await
    }

    /// Indexes these files. The caller has already counted a read attempt for each of them in the catalog.
    ///
    /// # Errors
    /// As [`Pipeline::run`].
    pub(crate) async fn run_files(&self, run: &Run, files: Vec<FileRecord>) -> Result<()> {
        let (to_read, queued) = mpsc::channel(READ_QUEUE_CAPACITY);
        let budget = TextBudget::new(URGENT_TEXT_IN_FLIGHT_KIB);
        let (to_embed, embedding) = mpsc::channel(EMBED_QUEUE_CAPACITY);
        let read = read::read(self, run, budget, queued, to_embed);
        self.run_stages(run, feed::feed_files(files, to_read), read, embedding).await
    }

    async fn run_stages(
        &self,
        run: &Run,
        feed: impl Future<Output = Result<()>>,
        read: impl Future<Output = Result<()>>,
        embedding: mpsc::Receiver<ReadFile>,
    ) -> Result<()> {
        let (to_store, storing) = mpsc::channel(COMMIT_QUEUE_CAPACITY);
        tokio::try_join!(
            feed,
            read,
            embed::embed(self, run, embedding, to_store),
            commit::commit_batches(self, run, storing),
        )?;
        Ok(())
    }
}
