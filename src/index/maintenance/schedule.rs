//! When the table is maintained: after jobs, after many single changes, and when old versions have expired.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tracing::{debug, info};

use crate::error::Result;
use crate::index::tables::{ATTENDED_ROWS, Table};
use crate::index::{Inner, blocking};

/// Rows outside the keyword index from which full maintenance runs.
const UPKEEP_ROWS: u64 = 2_000;
/// Rows left outside the keyword index while no queries run.
const LEFT_ROWS: u64 = 100;
/// Fragments from which reading the table slows down.
const UPKEEP_FRAGMENTS: u64 = 64;
/// Versions from which old ones are pruned: they keep data alive that was deleted long ago.
const MANY_VERSIONS: u64 = 40;
/// The same limit when nothing changes.
const QUIET_VERSIONS: u64 = 20;
/// Key of the problem that full maintenance failed.
const WHOLE: &str = "upkeep";
/// Key of the problem that new rows were not added to the keyword index.
const WORDS: &str = "words";
/// Interval of the check of the version count.
const LOOK_AT_VERSIONS: Duration = Duration::from_secs(1);
/// Checks without a change until every row is added to the keyword index. A query over a hundred chunks takes 2.6 ms if
/// all are in it, 3.4 ms with one outside, and 5.7 ms with twenty that were saved one by one.
const LOOKS_TO_THE_WORDS: u32 = 3;
/// Checks without a change until even the last old versions have expired: six minutes.
const LOOKS_TO_THE_LAST: u32 = 360;
/// Failed maintenance is retried after this many times its duration. Maintenance that keeps failing, because it needs
/// more disk space than there is, thus takes a small part of the time.
const REST: u32 = 10;
/// Minimum delay of that retry.
const LEAST_REST: Duration = Duration::from_secs(5);

impl Inner {
    /// Runs maintenance if enough changes have gathered, because it rewrites data. Below that, it only adds new rows to
    /// the keyword index, which rewrites a small part of it.
    pub(crate) async fn upkeep_if_due(&self) {
        let left = if self.tables.writing().is_asked() { ATTENDED_ROWS } else { LEFT_ROWS };
        self.upkeep_beyond(left).await;
    }

    /// Runs the maintenance that is due and leaves up to `left` rows outside the keyword index. Returns false if that
    /// failed and no full maintenance is scheduled.
    async fn upkeep_beyond(&self, left: u64) -> bool {
        let table = self.tables.writing();
        let Ok(stats) = table.stats().await else { return false };
        // At rest, no scattered rows are left either.
        let is_scattered = left == 0 && stats.is_scattered();
        if stats.unindexed_rows > UPKEEP_ROWS || stats.fragments > UPKEEP_FRAGMENTS || is_scattered {
            self.upkeep().await;
        } else if stats.unindexed_rows <= left {
            self.note(WORDS, None);
        } else if self.may_rewrite() {
            let outcome = table.cover_words().await;
            // Reported apart from full maintenance, which may still be due.
            return self.note_outcome(WORDS, "new text was not added to the keyword index", outcome);
        } else {
            return false;
        }
        true
    }

    /// Returns whether there is disk space to rewrite data and indexing is not paused.
    fn may_rewrite(&self) -> bool {
        self.space.check().is_ok() && self.gate.pause().is_none()
    }

    /// Runs full maintenance and notes the outcome. With little disk space, or during a pause, it only prunes old
    /// versions. Skipped or failed maintenance is retried.
    pub(crate) async fn upkeep(&self) {
        let table = self.tables.writing();
        let (may_rewrite, begun) = (self.may_rewrite(), Instant::now());
        let outcome = if may_rewrite { self.bring_in_order(&table).await } else { table.prune().await };
        if outcome.is_err() {
            // The files written so far may be what fills the disk.
            table.prune().await.unwrap_or_else(|error| debug!("cannot prune old versions: {error}"));
        }
        let is_done = may_rewrite && outcome.is_ok();
        let rest = LEAST_REST.max(begun.elapsed() * REST);
        *self.owed() = (!is_done).then(|| Instant::now() + rest);
        if is_done {
            self.note(WORDS, None);
        }
        self.note_outcome(WHOLE, "upkeep of the index failed", outcome);
    }

    /// Runs full maintenance, then switches to the new model's table if it is complete: a pause may have delayed the
    /// switch.
    pub(in crate::index) async fn bring_in_order(&self, table: &Table) -> Result<()> {
        table.upkeep().await?;
        if self.is_new_table_complete().await? {
            self.tables.switch().await?;
            info!("the new model's index is complete and now answers queries");
        }
        Ok(())
    }

    /// Returns whether the old model's table still answers although every file is in the new one. Unavailable files are
    /// read when they are back, and do not delay the switch.
    pub(in crate::index) async fn is_new_table_complete(&self) -> Result<bool> {
        let (catalog, missing) = (self.catalog.clone(), self.missing.clone());
        Ok(self.tables.is_switching() && blocking(move || missing.are_all(&catalog)).await?)
    }

    /// Runs skipped maintenance when its retry is due. Never beside a job, which ends with maintenance.
    async fn make_up_for_upkeep(&self) {
        let is_time = self.owed().is_some_and(|it| Instant::now() >= it);
        if is_time
            && self.may_rewrite()
            && let Ok(_engine) = self.engine.try_lock()
        {
            self.upkeep().await;
        }
    }

    /// Schedules full maintenance as soon as possible.
    pub(in crate::index) fn owe_upkeep(&self) {
        self.owed().get_or_insert(Instant::now() + LEAST_REST);
    }

    /// When skipped maintenance may be retried, `None` if none is due.
    fn owed(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.upkeep_owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prunes old versions when they are many or have expired, which may happen when nothing changes any more. An idle
    /// check only counts files.
    pub(crate) async fn keep_small(self: Arc<Inner>) {
        let (mut before, mut left, mut quiet_looks, mut is_behind) = (0, 0, 0, true);
        while self.shutdown.run_until_cancelled(tokio::time::sleep(LOOK_AT_VERSIONS)).await.is_some() {
            let table = self.tables.writing();
            let versions = table.version_count().unwrap_or(0);
            quiet_looks = if versions == before { quiet_looks + 1 } else { 0 };
            before = versions;
            // An earlier daemon may have left unindexed rows, and nothing may ever change again.
            is_behind |= quiet_looks == 0;
            if is_behind
                && quiet_looks >= LOOKS_TO_THE_WORDS
                && let Ok(_engine) = self.engine.try_lock()
            {
                if !self.upkeep_beyond(0).await {
                    self.owe_upkeep();
                }
                is_behind = false;
            }
            self.make_up_for_upkeep().await;
            // Versions held by a long read are not examined again and again.
            let are_many = versions > MANY_VERSIONS.max(left + left / 2);
            let are_quiet = quiet_looks == 1 && versions > QUIET_VERSIONS;
            if are_many || are_quiet || (quiet_looks == LOOKS_TO_THE_LAST && versions > 1) {
                let outcome = table.prune().await;
                self.note_outcome("prune", "cannot prune the index", outcome);
                left = table.version_count().unwrap_or(0);
                before = left;
            }
        }
    }
}
