//! Runs over all pending files, with or without a job, and deletion of tombstoned files from the store.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::debug;

use crate::error::{ErrorCode, Result};
use crate::files::unresponsive;
use crate::index::pipeline::vanished::Places;
use crate::index::pipeline::{Pass, Pipeline, Run};
use crate::index::roots::scan;
use crate::index::{IndexState, blocking};
use crate::model::{Phase, Root};

/// The longest that missing files are checked, at about ten thousand files a second.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum runs per drain, each after a walk for moved files: a folder that moves all the time must not block it.
const MAX_RUNS_AFTER_MOVES: usize = 3;
/// More files than any catalog holds.
const NO_LIMIT: usize = 1 << 40;

/// Initial and maximum retry delay.
const RETRY_DELAYS: (Duration, Duration) =
    (if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(15) }, Duration::from_secs(600));

/// Prefix of the error of a failed run without a job.
pub(in crate::index) const CANNOT_INDEX: &str = "cannot index what changed";

/// Key of the problem that tombstoned files are still in the store.
const TOMBSTONES_KEY: &str = "bury";

/// Returns the next retry delay: twice the previous one, up to the maximum.
pub(in crate::index) fn next_backoff(before: Option<Duration>) -> Duration {
    before.map_or(RETRY_DELAYS.0, |it| (2 * it).min(RETRY_DELAYS.1))
}

impl IndexState {
    /// Waits for a notification or the retry delay. Returns false once the daemon shuts down.
    pub(in crate::index) async fn wait_for_wake(&self, by: &Notify, again: Option<Duration>) -> bool {
        tokio::select! {
            () = by.notified() => true,
            () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => true,
            () = self.shutdown.cancelled() => false,
        }
    }

    /// Runs the whole pipeline over all pending files. Files that keep changing are left to a later run. The caller
    /// holds the engine lock.
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
            // The watcher does not report every file that must be read again.
            self.changed.notify_one();
        }
        if self.is_new_table_complete().await? {
            if self.pause.pause().is_some() {
                // Nothing is rewritten in a pause: the old table answers until it ends.
                self.defer_maintenance();
            } else {
                run.progress.enter(Phase::Finishing);
                self.maintain_and_switch(&pipeline.table).await?;
            }
        }
        Ok(())
    }

    /// Embeds the files indexed by keywords only, including those that an interrupted run left, until none remains.
    /// Returns false if unsearchable files arrived meanwhile: those go first.
    async fn backfill_vectors(&self, pipeline: &Pipeline, run: &Run) -> Result<bool> {
        let run = Run { pass: Pass::Vectors, ..run.clone() };
        let left = pipeline.count_unread(&run, NO_LIMIT).await?;
        let mut before = u64::MAX;
        while !run.cancel.is_cancelled() {
            let catalog = self.catalog.clone();
            let awaiting = blocking(move || catalog.awaiting_chunks()).await?;
            // A round without progress is the last: the remaining files changed meanwhile and get a run of their own.
            if awaiting == 0 || awaiting >= before {
                break;
            }
            before = awaiting;
            run.progress.begin_vectors(awaiting);
            pipeline.run_vectors(&run, left).await?;
            if run.max_files.is_some() {
                break;
            }
            if pipeline.count_unread(&run, left).await? > left {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Walks the roots with files that were missing when they were read. Such files moved (the watcher is about to
    /// report it) or were deleted. Files still missing after the walk are skipped. Returns whether a walk may have
    /// changed anything.
    async fn walk_for_moved(&self, run: &Run) -> Result<bool> {
        let mut gone = std::mem::take(&mut *run.vanished.lock().unwrap_or_else(PoisonError::into_inner));
        if run.cancel.is_cancelled() {
            return Ok(false);
        }
        let mut have_looked = false;
        for root in self.roots().await? {
            let Some(mut files) = gone.remove(&root.id) else { continue };
            files.extend(self.vanished.take(root.id));
            match self.scan(&root, None, &run.cancel).await {
                Ok(_) => {
                    have_looked = true;
                    files = still_missing(&root, files).await?;
                }
                Err(error) if error.code == ErrorCode::Cancelled => return Err(error),
                // An unavailable root does not delay the others; the status reports it.
                Err(error) => debug!(%error, root = %root.path.display(), "files of an unavailable root stay pending"),
            }
            self.vanished.add(root.id, files);
        }
        Ok(have_looked)
    }

    /// Takes back the attempts of an interrupted run. The daemon survived, so the files in progress are not suspects.
    pub(in crate::index) async fn clear_attempts_on_interrupt(&self, run: &Run, outcome: Result<()>) -> Result<()> {
        if outcome.is_ok() && !run.cancel.is_cancelled() {
            return Ok(());
        }
        // A full disk may prevent the write now.
        self.interrupted.store(true, Ordering::Relaxed);
        outcome.and(self.clear_attempts_if_interrupted().await)
    }

    /// Takes back the attempts that a failed or cancelled run left.
    async fn clear_attempts_if_interrupted(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            let catalog = self.catalog.clone();
            blocking(move || catalog.clear_tries()).await?;
            self.interrupted.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Runs the pipeline, without a job, for watched changes that no urgent run took. Notifications during a busy
    /// engine coalesce into one run. Failures are retried on a timer, because a model server that comes back sends no
    /// event.
    pub(in crate::index) async fn run_pending_loop(self: Arc<IndexState>) {
        let mut again = None;
        while self.wait_for_wake(&self.changed, again).await {
            let _engine = self.engine.lock().await;
            let outcome = self.run_pending_if_any().await;
            if self.note_outcome("watch", CANNOT_INDEX, outcome) {
                again = None;
                self.maintain_if_due().await;
                self.ocr_queue.arrived.notify_one();
            } else {
                again = Some(next_backoff(again));
            }
        }
    }

    async fn run_pending_if_any(&self) -> Result<()> {
        let catalog = self.catalog.clone();
        let is_done = move || Ok(catalog.pending_count(None)? + catalog.awaiting_chunks()? == 0);
        if self.shutdown.is_cancelled() || blocking(is_done).await? {
            return Ok(());
        }
        self.run_pending(&Run { ocr: self.config.ocr, ..Run::background(self.shutdown.clone()) }).await
    }

    /// Deletes tombstoned files from the store. Waits for the current commit, never for a job. Runs once at startup for
    /// the previous run's tombstones, and retries failures.
    pub(in crate::index) async fn delete_tombstoned_loop(self: Arc<IndexState>) {
        let mut again = None;
        self.tombstones_ready.notify_one();
        while self.wait_for_wake(&self.tombstones_ready, again).await {
            again = (!self.delete_tombstoned().await).then(|| next_backoff(again));
        }
    }

    /// Deletes tombstoned files from the store, and notes and returns whether that worked.
    pub(in crate::index) async fn delete_tombstoned(&self) -> bool {
        let outcome = scan::delete_tombstoned(&self.catalog, &self.tables.writing()).await.map(drop);
        self.note_outcome(TOMBSTONES_KEY, "cannot delete from the index", outcome)
    }
}

/// Returns the files that are missing at their paths; all of them if the root does not respond.
async fn still_missing(root: &Root, files: Places) -> Result<Places> {
    let (path, looked_for) = (root.path.clone(), files.clone());
    let looking = blocking(move || {
        let is_missing = |it: &Path| path.join(it).symlink_metadata().is_err();
        Ok(looked_for.into_iter().filter(|(_, it)| is_missing(it)).collect())
    });
    unresponsive::timeout_if_unresponsive(&root.path, CHECK_TIMEOUT, looking).await.unwrap_or(Ok(files))
}
