//! The steps of a run over all pending files, the loop of runs without a job, and the deletion of removed files from
//! the store.

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

/// Maximum time to check which files are missing, at about ten thousand files a second.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);

/// Stands for no limit on the number of files: no catalog has this many.
const NO_LIMIT: usize = 1 << 40;

impl IndexState {
    /// Embeds the files that are indexed by keywords only, including those of an interrupted run, until none remains.
    /// Returns false if new files, which are not searchable at all, arrived meanwhile: those go first.
    pub(super) async fn backfill_vectors(&self, pipeline: &Pipeline, run: &Run) -> Result<bool> {
        let run = Run { pass: Pass::Vectors, ..run.clone() };
        let left = pipeline.count_unread(&run, NO_LIMIT).await?;
        let mut before = u64::MAX;
        while !run.cancel.is_cancelled() {
            let catalog = self.catalog.clone();
            let awaiting = blocking(move || catalog.awaiting_chunks()).await?;
            // Stops after a round without progress: the remaining files changed meanwhile and are indexed by a run of
            // their own.
            if awaiting == 0 || awaiting >= before {
                break;
            }
            if before == u64::MAX && !pipeline.table.may_lose_rows() {
                // Until the first vectors are committed, every query would scan the rows outside the keyword index.
                pipeline.catch_up(true).await;
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

    /// Walks the roots in which files were missing when they were read. Such files moved (the watcher is about to
    /// report it) or were deleted. Files that are still missing after the walk are skipped. Returns whether a walk was
    /// made, which may have changed the pending files.
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
                // Goes on with the other roots; the status reports the unavailable one.
                Err(error) => debug!(%error, root = %root.path.display(), "files of an unavailable root stay pending"),
            }
            self.runs.vanished.add(root.id, files);
        }
        Ok(have_looked)
    }

    /// Takes back the counted attempts if the run was interrupted. The daemon did not die, so the files in progress are
    /// not suspected of a crash.
    pub(in crate::index) async fn clear_attempts_on_interrupt(&self, run: &Run, outcome: Result<()>) -> Result<()> {
        if outcome.is_ok() && !run.cancel.is_cancelled() {
            return Ok(());
        }
        // Records the interruption in memory first, because a full disk may prevent the write to the catalog now.
        self.runs.set_interrupted(true);
        outcome.and(self.clear_attempts_if_interrupted().await)
    }

    /// Takes back the counted attempts that a failed or cancelled run left in the catalog.
    pub(super) async fn clear_attempts_if_interrupted(&self) -> Result<()> {
        if self.runs.is_interrupted() {
            let catalog = self.catalog.clone();
            blocking(move || catalog.clear_tries()).await?;
            self.runs.set_interrupted(false);
        }
        Ok(())
    }

    /// Runs the pipeline, without a job, for watched changes that no urgent run took, until the daemon ends.
    /// Notifications while another run holds the engine lock lead to one run. Failures are retried on a timer, because
    /// no event reports that a model server is back.
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

    /// Deletes removed files from the store, until the daemon ends. Waits for the current commit, never for a job. Also
    /// runs once at startup, for files that the last daemon left, and retries failures.
    pub(in crate::index) async fn delete_tombstoned_loop(self: Arc<IndexState>) {
        let mut again = None;
        self.runs.tombstones_ready.notify_one();
        while self.wait_for_wake(&self.runs.tombstones_ready, again).await {
            again = (!self.delete_tombstoned().await).then(|| next_backoff(again));
        }
    }

    /// Deletes removed files from the store. Records a failure for the status, and returns whether the deletion
    /// succeeded.
    pub(in crate::index) async fn delete_tombstoned(&self) -> bool {
        let outcome = scan::delete_tombstoned(&self.catalog, &self.tables.writing()).await.map(drop);
        self.note_outcome(TOMBSTONES_KEY, "cannot delete from the index", outcome)
    }
}

/// Returns those of `files` that are missing at their paths, or all of them if the root does not respond.
async fn still_missing(root: &Root, files: Places) -> Result<Places> {
    let (path, looked_for) = (root.path.clone(), files.clone());
    let looking = blocking(move || {
        let is_missing = |it: &Path| path.join(it).symlink_metadata().is_err();
        Ok(looked_for.into_iter().filter(|(_, it)| is_missing(it)).collect())
    });
    unresponsive::timeout_if_unresponsive(&root.path, CHECK_TIMEOUT, looking).await.unwrap_or(Ok(files))
}
