//! When the table is brought in order: after jobs, after many single changes, and when old versions have aged.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tracing::{debug, info};

use crate::error::Result;
use crate::index::tables::{ATTENDED_ROWS, Table};
use crate::index::{Inner, blocking};

/// Rows outside the keyword index that make the whole of upkeep worth while.
const UPKEEP_ROWS: u64 = 2_000;
/// Rows outside the keyword index that are left there while nobody asks.
const LEFT_ROWS: u64 = 100;
/// Fragments from which on reading the table slows down.
const UPKEEP_FRAGMENTS: u64 = 64;
/// Versions from which on the old ones are pruned: they keep data alive that was deleted long ago.
const MANY_VERSIONS: u64 = 40;
/// The same when nothing changes.
const QUIET_VERSIONS: u64 = 20;
/// The part whose problem is that the whole of upkeep failed.
const WHOLE: &str = "upkeep";
/// The part whose problem is that words were not indexed.
const WORDS: &str = "words";
/// How often somebody looks how many versions there are.
const LOOK_AT_VERSIONS: Duration = Duration::from_secs(1);
/// Looks without a change until no row is left outside the keyword index. Of a hundred chunks in it a question takes 2.6 ms,
/// with one beside it 3.4 ms, and with twenty that were saved one by one 5.7 ms.
const LOOKS_TO_THE_WORDS: u32 = 3;
/// Looks without a change until even the last old versions are old enough to go: six minutes.
const LOOKS_TO_THE_LAST: u32 = 360;
/// An upkeep that failed is made up for after so many times as long as it took: one that fails again and again, because it
/// wants more room than there is, takes a small part of the time.
const REST: u32 = 10;
/// And after this at least.
const LEAST_REST: Duration = Duration::from_secs(5);

impl Inner {
    /// Upkeep rewrites data: after single files it waits until enough has gathered. Before that their words are indexed, by a
    /// small part of the index.
    pub(crate) async fn upkeep_if_due(&self) {
        let left = if self.tables.writing().is_asked() { ATTENDED_ROWS } else { LEFT_ROWS };
        self.upkeep_beyond(left).await;
    }

    /// Does what is due, and leaves so many rows outside the keyword index. Returns false where that failed and is not owed as
    /// upkeep.
    async fn upkeep_beyond(&self, left: u64) -> bool {
        let table = self.tables.writing();
        let Ok(stats) = table.stats().await else { return false };
        // None are left when it is quiet.
        let is_scattered = left == 0 && stats.is_scattered();
        if stats.unindexed_rows > UPKEEP_ROWS || stats.fragments > UPKEEP_FRAGMENTS || is_scattered {
            self.upkeep().await;
        } else if stats.unindexed_rows <= left {
            self.note(WORDS, None);
        } else if self.may_rewrite() {
            let outcome = table.cover_words().await;
            // Apart from the whole of upkeep, which may be owed nevertheless.
            return self.note_outcome(WORDS, "the words of what is new were not indexed", outcome);
        } else {
            return false;
        }
        true
    }

    /// Says whether there is room to rewrite anything, and nobody wants the machine to be left alone.
    fn may_rewrite(&self) -> bool {
        self.space.check().is_ok() && self.gate.pause().is_none()
    }

    /// Brings the table in order, and notes whether that worked. Where there is little room, or while indexing pauses,
    /// nothing is rewritten, but what is old goes. What was not done is made up for.
    pub(crate) async fn upkeep(&self) {
        let table = self.tables.writing();
        let (may_rewrite, begun) = (self.may_rewrite(), Instant::now());
        let outcome = if may_rewrite { self.bring_in_order(&table).await } else { table.prune().await };
        if outcome.is_err() {
            // What it had written by then may be what takes the room.
            table.prune().await.unwrap_or_else(|error| debug!("nothing old goes: {error}"));
        }
        let is_done = may_rewrite && outcome.is_ok();
        let rest = LEAST_REST.max(begun.elapsed() * REST);
        *self.owed() = (!is_done).then(|| Instant::now() + rest);
        if is_done {
            self.note(WORDS, None);
        }
        self.note_outcome(WHOLE, "upkeep of the index failed", outcome);
    }

    /// Does the whole of upkeep. One that a pause kept from being done may have kept another model's table from taking over:
    /// that is made up for too.
    pub(super) async fn bring_in_order(&self, table: &Table) -> Result<()> {
        table.upkeep().await?;
        if self.is_new_table_complete().await? {
            self.tables.switch().await?;
            info!("the new model's index is complete and answers from now on");
        }
        Ok(())
    }

    /// Says whether another model's table answers although every file is in the new one. What is away is read into that when
    /// it is back, and keeps nobody at the old one.
    pub(super) async fn is_new_table_complete(&self) -> Result<bool> {
        let (catalog, missing) = (self.catalog.clone(), self.missing.clone());
        Ok(self.tables.is_switching() && blocking(move || missing.are_all(&catalog)).await?)
    }

    /// Makes up for an upkeep that was not done, once it may be. Not beside a job, which ends with one.
    async fn make_up_for_upkeep(&self) {
        let is_time = self.owed().is_some_and(|it| Instant::now() >= it);
        if is_time
            && self.may_rewrite()
            && let Ok(_engine) = self.engine.try_lock()
        {
            self.upkeep().await;
        }
    }

    /// Notes that the whole of upkeep is to be done as soon as it may be.
    pub(super) fn owe_upkeep(&self) {
        self.owed().get_or_insert(Instant::now() + LEAST_REST);
    }

    /// When the upkeep that was not done may be tried again; none when all is done.
    fn owed(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.upkeep_owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Old versions are pruned when they are many, or old enough, which may be when nothing changes any more. Looks at the
    /// number of some files, and does nothing when there is nothing to do.
    pub(crate) async fn keep_small(self: Arc<Inner>) {
        let (mut before, mut left, mut quiet_looks, mut is_behind) = (0, 0, 0, true);
        while self.shutdown.run_until_cancelled(tokio::time::sleep(LOOK_AT_VERSIONS)).await.is_some() {
            let table = self.tables.writing();
            let versions = table.version_count().unwrap_or(0);
            quiet_looks = if versions == before { quiet_looks + 1 } else { 0 };
            before = versions;
            // So may an earlier run have left some, and nothing else may ever change.
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
            // What a long read holds is not looked through again and again.
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
