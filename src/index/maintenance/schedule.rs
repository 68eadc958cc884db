//! Decides when the table is maintained: after jobs, after many single changes, and when old versions have expired.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{debug, info};

use crate::error::Result;
use crate::index::blocking_tasks::blocking;
use crate::index::state::IndexState;
use crate::index::tables::{ATTENDED_ROWS, TableWriter};

/// Full maintenance runs if more rows than this are outside the keyword index.
const MAINTENANCE_ROWS: u64 = 2_000;
/// Maximum rows outside the keyword index while no queries run.
const IDLE_UNINDEXED_ROWS: u64 = 100;
/// Full maintenance runs if the table has more fragments than this, because reading it then slows down.
const MAINTENANCE_FRAGMENTS: u64 = 64;
/// Old versions are pruned above this number of versions: they keep data on disk that was deleted long ago.
const MANY_VERSIONS: u64 = 40;
/// Old versions are pruned above this number when the table has stopped changing.
const IDLE_VERSIONS: u64 = 20;
/// Key under which the status reports that full maintenance failed.
const MAINTENANCE_KEY: &str = "upkeep";
/// Key under which the status reports that new rows were not added to the keyword index.
const KEYWORDS_KEY: &str = "words";
/// Key under which the status reports that the comparison of store and catalog failed.
const LOST_ROWS_KEY: &str = "lost rows";
/// Interval between checks of the number of table versions.
const VERSION_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// After this many checks without a change of the table, all remaining rows are added to the keyword index. A query
/// over a hundred chunks takes 2.6 ms if all are in the index, 3.4 ms with one outside, and 5.7 ms with twenty that
/// were saved one by one.
const CHECKS_BEFORE_KEYWORDS: u32 = 3;
/// After this many checks without a change (six minutes), even the last old versions have expired and are pruned.
const CHECKS_BEFORE_LAST_PRUNE: u32 = 360;
/// Failed maintenance is retried after this many times its duration. Maintenance that keeps failing, because it needs
/// more disk space than is free, thus takes a small part of the time.
const RETRY_FACTOR: u32 = 10;
/// Minimum delay before failed maintenance is retried.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(5);

impl IndexState {
    /// Runs full maintenance, which rewrites data, if enough changes have gathered. If not, only adds new rows to the
    /// keyword index, which rewrites a small part of the index.
    pub(crate) async fn maintain_if_due(&self) {
        let left = if self.tables.writing().is_queried() { ATTENDED_ROWS } else { IDLE_UNINDEXED_ROWS };
        self.maintain_beyond(left).await;
    }

    /// Runs the maintenance that is due, so that at most `left` rows are outside the keyword index. Returns false only
    /// if the update of the keyword index was skipped or failed; full maintenance schedules its own retry.
    async fn maintain_beyond(&self, left: u64) -> bool {
        let table = self.tables.writing();
        let Ok(stats) = table.stats().await else { return false };
        // `left` is 0 only when the table is idle. Fragments with few rows are then merged as well.
        let is_scattered = left == 0 && stats.is_scattered();
        if stats.unindexed_rows > MAINTENANCE_ROWS || stats.fragments > MAINTENANCE_FRAGMENTS || is_scattered {
            self.maintain().await;
        } else if stats.unindexed_rows <= left {
            self.problems.set(KEYWORDS_KEY, None);
        } else if self.may_rewrite() {
            let version = table.version();
            let outcome = table.cover_keywords().await;
            self.requeue_lost(&table, version).await;
            // Uses its own problem key, because full maintenance may have failed and still be due.
            return self.note_outcome(KEYWORDS_KEY, "new text was not added to the keyword index", outcome);
        } else {
            return false;
        }
        true
    }

    /// Returns whether data may be rewritten: there is disk space and indexing is not paused.
    fn may_rewrite(&self) -> bool {
        self.disk_space.check().is_ok() && self.pause.pause().is_none()
    }

    /// Runs full maintenance and records the outcome for the status. With little disk space, or during a pause, only
    /// prunes old versions. Skipped or failed maintenance is retried.
    pub(crate) async fn maintain(&self) {
        let table = self.tables.writing();
        let (may_rewrite, begun, version) = (self.may_rewrite(), Instant::now(), table.version());
        let outcome = if may_rewrite { self.maintain_and_switch(&table).await } else { table.prune().await };
        if outcome.is_err() {
            // Prunes old versions after a failure, because files that the failed maintenance wrote may fill the disk.
            table.prune().await.unwrap_or_else(|error| debug!("cannot prune old index versions: {error}"));
        }
        let is_done = may_rewrite && outcome.is_ok();
        let rest = MIN_RETRY_DELAY.max(begun.elapsed() * RETRY_FACTOR);
        self.maintenance_due.set((!is_done).then(|| Instant::now() + rest));
        if is_done {
            self.problems.set(KEYWORDS_KEY, None);
            self.requeue_lost(&table, version).await;
        }
        self.note_outcome(MAINTENANCE_KEY, "maintenance of the index failed", outcome);
    }

    /// Requeues files with rows that a server has lost. Maintenance removes such files from the table, which makes another
    /// version than `version`.
    async fn requeue_lost(&self, table: &TableWriter, version: u64) {
        if table.may_lose_rows() && table.version() != version {
            self.note_outcome(LOST_ROWS_KEY, "files with lost chunks were not found", self.reconcile_store().await);
            // Indexes the requeued files now: no watcher reports them.
            self.runs.changed.notify_one();
        }
    }

    /// Runs full maintenance. Then switches to the new model's table if that is complete, because a pause may have
    /// delayed the switch.
    pub(in crate::index) async fn maintain_and_switch(&self, table: &TableWriter) -> Result<()> {
        table.maintain().await?;
        if self.is_new_table_complete().await? {
            self.tables.switch().await?;
            info!("the new model's index is complete and now answers queries");
        }
        Ok(())
    }

    /// Returns whether the new model's table is complete while the old one still answers queries. Unavailable files do
    /// not delay the switch; they are read when they are back.
    pub(in crate::index) async fn is_new_table_complete(&self) -> Result<bool> {
        let (catalog, missing) = (self.catalog.clone(), self.runs.vanished.clone());
        Ok(self.tables.is_switching() && blocking(move || missing.covers_all_pending(&catalog)).await?)
    }

    /// Runs skipped or failed maintenance when its retry is due. Does nothing while a job or run holds the engine lock,
    /// because a job ends with maintenance.
    async fn run_deferred_maintenance(&self) {
        if self.maintenance_due.is_now()
            && self.may_rewrite()
            && let Some(_engine) = self.runs.try_lock_engine()
        {
            self.maintain().await;
        }
    }

    /// Schedules full maintenance as soon as possible.
    pub(in crate::index) fn defer_maintenance(&self) {
        self.maintenance_due.set_if_none(Instant::now() + MIN_RETRY_DELAY);
    }

    /// Updates the indexes of a table that has changed since its version `covered`, if queries run. They scan all rows outside
    /// the keyword index, and the next commit of a job may be minutes away. Returns the version that is covered now.
    async fn catch_up_for_queries(&self, table: &TableWriter, covered: u64) -> u64 {
        let version = table.version();
        // Rows that a server has lost are requeued by maintenance that holds the engine lock.
        if version == covered || !table.is_queried() || table.may_lose_rows() || !self.may_rewrite() {
            return covered;
        }
        table.catch_up(true).await;
        version
    }

    /// Checks the number of table versions until the daemon ends. Prunes old versions when there are many or when they
    /// have expired, and adds all rows to the keyword index when the table is queried or idle. A check without changes
    /// only counts files.
    pub(crate) async fn maintenance_loop(self: Arc<IndexState>) {
        let (mut before, mut left, mut quiet_looks, mut is_behind) = ((0, 0), 0, 0, true);
        let mut covered = 0;
        while self.shutdown.run_until_cancelled(tokio::time::sleep(VERSION_CHECK_INTERVAL)).await.is_some() {
            let table = self.tables.writing();
            covered = self.catch_up_for_queries(&table, covered).await;
            let versions = table.version_count().unwrap_or(0);
            // A backend may keep a single version, so the number of the newest one counts too.
            let state = (table.version(), versions);
            quiet_looks = if state == before { quiet_looks + 1 } else { 0 };
            before = state;
            // `is_behind` is also true at the start, because an earlier daemon may have left rows outside the keyword
            // index, and the table may never change again.
            is_behind |= quiet_looks == 0;
            if is_behind
                && quiet_looks >= CHECKS_BEFORE_KEYWORDS
                && let Some(_engine) = self.runs.try_lock_engine()
            {
                if !self.maintain_beyond(0).await {
                    self.defer_maintenance();
                }
                is_behind = false;
            }
            self.run_deferred_maintenance().await;
            // Versions that a long read holds (`left`) do not trigger the pruning again.
            let are_many = versions > MANY_VERSIONS.max(left + left / 2);
            let are_quiet = quiet_looks == 1 && versions > IDLE_VERSIONS;
            if are_many || are_quiet || (quiet_looks == CHECKS_BEFORE_LAST_PRUNE && versions > 1) {
                let outcome = table.prune().await;
                self.note_outcome("prune", "cannot remove old versions of the index", outcome);
                left = table.version_count().unwrap_or(0);
                before = (table.version(), left);
            }
        }
    }
}
