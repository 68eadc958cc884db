//! Runs over everything that is pending, asked for or not, and over everything that is gone.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::debug;

use crate::error::{ErrorCode, Result};
use crate::index::missing::Places;
use crate::index::pipeline::{Pass, Pipeline, Run};
use crate::index::{Inner, blocking, scan};
use crate::model::{Phase, Root};
use crate::warehouse::silence;

/// The longest that it is looked for what is missing, at some ten thousand files a second.
const LOOKED_FOR: Duration = Duration::from_secs(60);

/// Runs of one drain at most, each after a walk for files that were gone: a folder that moves all the time must not hold it.
const LOOKS_FOR_MOVED: usize = 3;
/// More files than there are.
const EVERY: usize = 1 << 40;

/// How soon what failed is tried again, at first and at last.
const AGAIN: (Duration, Duration) =
    (if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(15) }, Duration::from_secs(600));

/// What failed when a run without a job did.
pub(super) const CANNOT_INDEX: &str = "cannot index what changed";

/// The part whose problem is that files which are gone from the catalog are in the store.
const BURY: &str = "bury";

/// When what has failed again is tried again, after it had waited for so long before.
pub(super) fn longer(before: Option<Duration>) -> Duration {
    before.map_or(AGAIN.0, |it| (2 * it).min(AGAIN.1))
}

impl Inner {
    /// Waits until somebody tells, or what failed is to be tried again; false once the daemon ends.
    pub(super) async fn is_told(&self, by: &Notify, again: Option<Duration>) -> bool {
        tokio::select! {
            () = by.notified() => true,
            () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => true,
            () = self.shutdown.cancelled() => false,
        }
    }

    /// Runs the whole pipeline over everything pending, and leaves to another run what was read and has changed again and again.
    /// One at a time.
    pub(crate) async fn drain(&self, run: &Run) -> Result<()> {
        self.forgive_if_interrupted().await?;
        run.waiting.begin_run();
        let pipeline = self.pipeline();
        loop {
            for _ in 0..LOOKS_FOR_MOVED {
                let pass = pipeline.first_pass(run).await?;
                let outcome = pipeline.run(&Run { pass, ..run.clone() }).await;
                self.settle_tries(run, outcome).await?;
                if !self.look_for_moved(run).await? {
                    break;
                }
            }
            scan::bury(&self.catalog, &pipeline.table).await?;
            if self.bring_in_vectors(&pipeline, run).await? {
                break;
            }
            run.progress.enter(Phase::Indexing);
        }
        if run.waiting.has_left() && !run.cancel.is_cancelled() && run.max_files.is_none() {
            // Not everything that is to be read again was told by the watcher.
            self.changed.notify_one();
        }
        if self.is_new_table_complete().await? {
            if self.gate.pause().is_some() {
                // Nothing is rewritten in a pause: the old table answers until it ends.
                self.owe_upkeep();
            } else {
                run.progress.enter(Phase::Finishing);
                self.bring_in_order(&pipeline.table).await?;
            }
        }
        Ok(())
    }

    /// Embeds what is found by its words so far, until there is none of it left; what a broken off run left, too. Returns
    /// false when files came meanwhile that nobody can find yet: those go first.
    async fn bring_in_vectors(&self, pipeline: &Pipeline, run: &Run) -> Result<bool> {
        let run = Run { pass: Pass::Vectors, ..run.clone() };
        let left = pipeline.unread(&run, EVERY).await?;
        let mut before = u64::MAX;
        while !run.cancel.is_cancelled() {
            let catalog = self.catalog.clone();
            let awaiting = blocking(move || catalog.awaiting_chunks()).await?;
            // A round that brought nothing in is the last: what is left has changed meanwhile, and has a run of its own.
            if awaiting == 0 || awaiting >= before {
                break;
            }
            before = awaiting;
            run.progress.begin_vectors(awaiting);
            pipeline.run_vectors(&run, left).await?;
            if run.max_files.is_some() {
                break;
            }
            if pipeline.unread(&run, left).await? > left {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Walks the roots in which files were gone from their places when they were to be read: they have moved, and the
    /// watcher is about to say so, or they are deleted. What is missing after that is left alone. Returns whether the walks
    /// may have changed anything.
    async fn look_for_moved(&self, run: &Run) -> Result<bool> {
        let mut gone = std::mem::take(&mut *run.gone.lock().unwrap_or_else(PoisonError::into_inner));
        if run.cancel.is_cancelled() {
            return Ok(false);
        }
        let mut have_looked = false;
        for root in self.roots().await? {
            let Some(mut files) = gone.remove(&root.id) else { continue };
            files.extend(self.missing.take(root.id));
            match self.scan(&root, None, &run.cancel).await {
                Ok(_) => {
                    have_looked = true;
                    files = still_missing(&root, files).await?;
                }
                Err(error) if error.code == ErrorCode::Cancelled => return Err(error),
                // One that is away keeps nothing of the others waiting; the status tells of it.
                Err(error) => debug!(%error, root = %root.path.display(), "its files wait until it is back"),
            }
            self.missing.add(root.id, files);
        }
        Ok(have_looked)
    }

    /// Takes back the tries after a run that broke off. The daemon lives: whatever was under way is not to blame.
    pub(super) async fn settle_tries(&self, run: &Run, outcome: Result<()>) -> Result<()> {
        if outcome.is_ok() && !run.cancel.is_cancelled() {
            return Ok(());
        }
        // A full disk may keep us from saying so now.
        self.interrupted.store(true, Ordering::Relaxed);
        outcome.and(self.forgive_if_interrupted().await)
    }

    /// Takes back the tries of files that a failed or cancelled run left.
    async fn forgive_if_interrupted(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            let catalog = self.catalog.clone();
            blocking(move || catalog.clear_tries()).await?;
            self.interrupted.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Runs the pipeline for what the watcher found and no urgent run took, without a job of its own. However often it is
    /// told while the engine is busy, it waits once. What failed is tried again without being told: the server of a model
    /// that was away says nothing when it is back.
    pub(super) async fn drain_when_told(self: Arc<Inner>) {
        let mut again = None;
        while self.is_told(&self.changed, again).await {
            let _engine = self.engine.lock().await;
            let outcome = self.drain_pending().await;
            if self.note_outcome("watch", CANNOT_INDEX, outcome) {
                again = None;
                self.upkeep_if_due().await;
                self.pictures.arrived.notify_one();
            } else {
                again = Some(longer(again));
            }
        }
    }

    async fn drain_pending(&self) -> Result<()> {
        let catalog = self.catalog.clone();
        let is_done = move || Ok(catalog.pending_count(None)? + catalog.awaiting_chunks()? == 0);
        if self.shutdown.is_cancelled() || blocking(is_done).await? {
            return Ok(());
        }
        self.drain(&Run { ocr: self.config.ocr, ..Run::quiet(self.shutdown.clone()) }).await
    }

    /// Deletes from the store what is gone from the catalog. It waits for the commit at hand, never for a job. At the start
    /// it is told of what the last run left; what failed is tried again.
    pub(super) async fn bury_when_told(self: Arc<Inner>) {
        let mut again = None;
        self.buried.notify_one();
        while self.is_told(&self.buried, again).await {
            again = (!self.bury().await).then(|| longer(again));
        }
    }

    /// Deletes from the store what is gone from the catalog, and notes whether that worked; returns it, too.
    pub(super) async fn bury(&self) -> bool {
        let outcome = scan::bury(&self.catalog, &self.tables.writing()).await.map(drop);
        self.note_outcome(BURY, "cannot delete from the index", outcome)
    }
}

/// Those of these files of a root that are not at their places; all of them where it does not answer.
async fn still_missing(root: &Root, files: Places) -> Result<Places> {
    let (path, looked_for) = (root.path.clone(), files.clone());
    let looking = blocking(move || {
        let is_missing = |it: &Path| path.join(it).symlink_metadata().is_err();
        Ok(looked_for.into_iter().filter(|(_, it)| is_missing(it)).collect())
    });
    silence::unless_silent(&root.path, LOOKED_FOR, looking).await.unwrap_or(Ok(files))
}
