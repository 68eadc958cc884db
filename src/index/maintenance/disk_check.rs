//! The periodic check of free disk space, which reports a lack of space and resumes indexing when there is space again.

use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use crate::error::ErrorCode;
use crate::index::problems::{CHANGES_KEY, INDEXING_KEY, TOMBSTONES_KEY};
use crate::index::state::IndexState;

/// Interval between checks of free disk space. Short, because a check (`statvfs`) takes a few microseconds.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Checks free disk space until the daemon ends: reports a lack of space, and resumes work when there is space again.
pub(in crate::index) async fn check_loop(inner: Arc<IndexState>) {
    let mut looks = tokio::time::interval(CHECK_INTERVAL);
    while inner.shutdown.run_until_cancelled(looks.tick()).await.is_some() {
        check_and_resume(&inner);
    }
}

fn check_and_resume(inner: &Arc<IndexState>) {
    let space = &inner.disk_space;
    match space.check_folders() {
        Ok(()) => {
            inner.problems.set("disk", None);
            // Events of the watcher may have been lost while the disk was full, so all roots are walked.
            if space.take_was_full() {
                let walk = inner.clone();
                inner.background.spawn(async move { walk.reconcile_roots().await });
            }
            if space.take_waiting_work() {
                info!("disk space is free again; indexing resumes");
                inner.problems.set(INDEXING_KEY, None);
                inner.problems.set(CHANGES_KEY, None);
                inner.problems.set(TOMBSTONES_KEY, None);
                inner.runs.urgent.wake();
                inner.runs.changed.notify_one();
                inner.runs.tombstones_ready.notify_one();
            }
        }
        Err(error) if error.code == ErrorCode::StorageFull => {
            inner.problems.set("disk", Some(error.message_with_hint()));
        }
        Err(error) => warn!(%error, "cannot check free disk space"),
    }
}
