//! When the table is brought in order: after jobs, after many single changes, and when old versions have aged.

use std::sync::Arc;
use std::time::Duration;

use crate::index::Inner;

/// Rows outside the keyword index that a query still scans in a few milliseconds.
const UPKEEP_ROWS: u64 = 2_000;
/// Fragments from which on reading the table slows down.
const UPKEEP_FRAGMENTS: u64 = 64;
/// Versions from which on the old ones are pruned: they keep data alive that was deleted long ago.
const MANY_VERSIONS: u64 = 40;
/// The same when nothing changes.
const QUIET_VERSIONS: u64 = 20;
/// How often somebody looks how many versions there are.
const LOOK_AT_VERSIONS: Duration = Duration::from_secs(1);
/// Looks without a change until even the last old versions are old enough to go: six minutes.
const LOOKS_TO_THE_LAST: u32 = 360;

impl Inner {
    /// Upkeep rewrites data: after single files it waits until enough has gathered.
    pub(crate) async fn upkeep_if_due(&self) {
        let due = match self.tables.writing().stats().await {
            Ok(stats) => stats.unindexed_rows > UPKEEP_ROWS || stats.fragments > UPKEEP_FRAGMENTS,
            Err(_) => false,
        };
        if due {
            self.upkeep().await;
        }
    }

    /// Brings the table in order, and notes whether that worked. Where there is little room, nothing is rewritten, but what
    /// is old goes.
    pub(crate) async fn upkeep(&self) {
        let table = self.tables.writing();
        let outcome = match self.space.check() {
            Ok(()) => table.upkeep().await,
            Err(_) => table.prune().await,
        };
        self.note_full(&outcome);
        self.note("upkeep", outcome.err().map(|error| format!("upkeep of the index failed: {}", error.message)));
    }

    /// Old versions are pruned when they are many, or old enough, which may be when nothing changes any more. Looks at the
    /// number of some files, and does nothing when there is nothing to do.
    pub(crate) async fn keep_small(self: Arc<Inner>) {
        let (mut before, mut left, mut quiet_looks, mut is_behind) = (0, 0, 0, true);
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_AT_VERSIONS) => (),
                () = self.shutdown.cancelled() => return,
            }
            let table = self.tables.writing();
            let versions = table.version_count().unwrap_or(0);
            quiet_looks = if versions == before { quiet_looks + 1 } else { 0 };
            before = versions;
            // An earlier run may have left rows outside the indexes, and nothing else may ever change.
            if quiet_looks == 1 && std::mem::take(&mut is_behind) {
                let _engine = self.engine.lock().await;
                self.upkeep_if_due().await;
            }
            // What a long read holds is not looked through again and again.
            let are_many = versions > MANY_VERSIONS.max(left + left / 2);
            let are_quiet = quiet_looks == 1 && versions > QUIET_VERSIONS;
            if are_many || are_quiet || (quiet_looks == LOOKS_TO_THE_LAST && versions > 1) {
                let outcome = table.prune().await;
                self.note("upkeep", outcome.err().map(|error| format!("cannot prune the index: {}", error.message)));
                left = table.version_count().unwrap_or(0);
                before = left;
            }
        }
    }
}
