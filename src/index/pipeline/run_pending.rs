//! The steps of a run over all pending files, the runs without a job, and the deletion of tombstoned files from the
//! store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tracing::debug;

use crate::error::{ErrorCode, Result};
use crate::files::unresponsive;
use crate::index::background::next_backoff;
use crate::index::blocking_tasks::blocking;
use crate::index::pipeline::context::{Pass, Pipeline, Run};
use crate::index::pipeline::vanished::Places;
use crate::index::problems::{CANNOT_INDEX, INDEXING_KEY, TOMBSTONES_KEY};
use crate::index::roots::scan;
use crate::index::state::IndexState;
use crate::model::Root;

/// The longest that missing files are checked, at about ten thousand files a second.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);

/// More files than any catalog holds.
const NO_LIMIT: usize = 1 << 40;

impl IndexState {
    /// Embeds the files indexed by keywords only, including those that an interrupted run left, until none remains.
    /// Returns false if unsearchable files arrived meanwhile: those go first.
    pub(super) async fn backfill_vectors(&self, pipeline: &Pipeline, run: &Run) -> Result<bool> {
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
    pub(super) async fn walk_for_moved(&self, run: &Run) -> Result<bool> {
        let mut gone = run.take_vanished();
        if run.cancel.is_cancelled() {
            return Ok(false);
        }
        let mut have_looked = false;
        for root in self.roots().await? {
            let Some(mut files) = gone.remove(&root.id) else { continue };
            files.extend(self.runs.vanished.take(root.id));
            match self.scan(&root, None, &run.cancel).await {
                Ok(_) => {
                    have_looked = true;
                    files = still_missing(&root, files).await?;
                }
                Err(error) if error.code == ErrorCode::Cancelled => return Err(error),
                // An unavailable root does not delay the others; the status reports it.
                Err(error) => debug!(%error, root = %root.path.display(), "files of an unavailable root stay pending"),
            }
            self.runs.vanished.add(root.id, files);
        }
        Ok(have_looked)
    }

    /// Takes back the attempts of an interrupted run. The daemon survived, so the files in progress are not suspects.
    pub(in crate::index) async fn clear_attempts_on_interrupt(&self, run: &Run, outcome: Result<()>) -> Result<()> {
        if outcome.is_ok() && !run.cancel.is_cancelled() {
            return Ok(());
        }
        // A full disk may prevent the write now.
        self.runs.set_interrupted(true);
        outcome.and(self.clear_attempts_if_interrupted().await)
    }

    /// Takes back the attempts that a failed or cancelled run left.
    pub(super) async fn clear_attempts_if_interrupted(&self) -> Result<()> {
        if self.runs.is_interrupted() {
            let catalog = self.catalog.clone();
            blocking(move || catalog.clear_tries()).await?;
            self.runs.set_interrupted(false);
        }
        Ok(())
    }

    /// Runs the pipeline, without a job, for watched changes that no urgent run took. Notifications during a busy
    /// engine coalesce into one run. Failures are retried on a timer, because a model server that comes back sends no
    /// event.
    pub(in crate::index) async fn run_pending_loop(self: Arc<IndexState>) {
        let mut again = None;
        while self.wait_for_wake(&self.runs.changed, again).await {
            let _engine = self.runs.lock_engine().await;
            let outcome = self.run_pending_if_any().await;
            if self.note_outcome(INDEXING_KEY, CANNOT_INDEX, outcome) {
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
        self.runs.tombstones_ready.notify_one();
        while self.wait_for_wake(&self.runs.tombstones_ready, again).await {
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
