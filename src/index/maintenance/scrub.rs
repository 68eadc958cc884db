//! Daily check of file contents: reads every indexed file again to find content that changed although size and times of
//! the file did not.
//!
//! Causes of such a change are a disk image restored over the file, a clock that was set back, and a network file
//! system with unreliable times.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::info;

use crate::catalog::{Catalog, RequeueScope};
use crate::error::Result;
use crate::index::blocking_tasks::blocking;
use crate::index::clock::now_ms;
use crate::index::paths::blocking_at_file;
use crate::index::state::IndexState;
use crate::model::{FileId, FileRecord};
use crate::{files, machine};

/// Catalog key of the end of the last round over all files, in milliseconds since the epoch.
const LAST_ROUND_KEY: &str = "verified_ms";

/// Catalog key of the last file id that an unfinished round checked; empty between rounds. It lets a round continue
/// after a restart, because many machines run for less time than a round takes.
const POSITION_KEY: &str = "verified_up_to";

/// File records read from the catalog at a time.
const PAGE: usize = 256;

/// Rest after each file, as a multiple of the time to read it: a round may take a whole day.
const REST_FACTOR: u32 = 3;

/// Maximum sleep before the due time is checked again: a timer does not advance while the machine sleeps.
const CLOCK_CHECK: Duration = Duration::from_secs(600);

/// Rest after a failed round. The round then continues with the next file.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(1_800);

/// Checks all files once per interval, until the daemon ends.
pub(crate) async fn verify_loop(inner: Arc<IndexState>) {
    let every = inner.config.background.verify_seconds;
    if every == 0 {
        return;
    }
    let mut rest = Duration::ZERO;
    loop {
        let wait = until_next(&inner, every).await.unwrap_or(Duration::from_secs(every)).max(rest);
        tokio::select! {
            () = tokio::time::sleep(wait.min(CLOCK_CHECK)) => (),
            () = inner.shutdown.cancelled() => return,
        }
        if wait > CLOCK_CHECK {
            rest = rest.saturating_sub(CLOCK_CHECK);
            continue;
        }
        let verified = verify_round(&inner).await;
        if let Ok(changed @ 1..) = verified {
            info!(files = changed, "the content of files changed but their size and times did not; re-indexing them");
            inner.runs.changed.notify_one();
        }
        let is_done = inner.note_outcome("verify", "cannot verify file contents", verified.map(drop));
        rest = if is_done { Duration::ZERO } else { REST_AFTER_FAILURE };
    }
}

/// Returns the time until the next round. The first round begins a full interval after the first start.
async fn until_next(inner: &IndexState, every: u64) -> Result<Duration> {
    let catalog = inner.catalog.clone();
    blocking(move || time_left(&catalog, Duration::from_secs(every), now_ms())).await
}

fn time_left(catalog: &Catalog, every: Duration, now_ms: i64) -> Result<Duration> {
    let last = catalog.meta_get(LAST_ROUND_KEY)?.and_then(|it| it.parse::<i64>().ok());
    // A time in the future means that the clock was set back. Starts a new interval, or the next round would wait until
    // the clock reaches that time.
    let Some(last) = last.filter(|it| *it <= now_ms) else {
        catalog.meta_set(LAST_ROUND_KEY, &now_ms.to_string())?;
        return Ok(every);
    };
    Ok(every.saturating_sub(Duration::from_millis(now_ms.saturating_sub(last).cast_unsigned())))
}

/// Runs one round over all indexed files and returns how many were requeued.
async fn verify_round(inner: &Arc<IndexState>) -> Result<u64> {
    let mut changed = 0;
    loop {
        let catalog = inner.catalog.clone();
        let page = blocking(move || next_page(&catalog)).await?;
        let Some(last) = page.last().map(|it| it.id) else { break };
        for record in page {
            if inner.shutdown.run_until_cancelled(inner.pause.wait_until_open()).await.is_none() {
                return Ok(changed);
            }
            changed += u64::from(verify_file(inner, record).await?);
        }
        let catalog = inner.catalog.clone();
        blocking(move || catalog.meta_set(POSITION_KEY, &last.to_string())).await?;
    }
    let catalog = inner.catalog.clone();
    blocking(move || {
        catalog.meta_set(POSITION_KEY, "")?;
        catalog.meta_set(LAST_ROUND_KEY, &now_ms().to_string())
    })
    .await?;
    Ok(changed)
}

/// Returns the next files that the round must check.
fn next_page(catalog: &Catalog) -> Result<Vec<FileRecord>> {
    let after: FileId = catalog.meta_get(POSITION_KEY)?.and_then(|it| it.parse().ok()).unwrap_or_default();
    catalog.indexed_after(after, PAGE)
}

async fn verify_file(inner: &IndexState, record: FileRecord) -> Result<bool> {
    let begun = Instant::now();
    let looked_at = record.clone();
    // A file on a disk that does not respond counts as unchanged, because its content is unknown.
    let is_other = blocking_at_file(&record, move || Ok(content_differs(&looked_at))).await?.unwrap_or(false);
    let catalog = inner.catalog.clone();
    let changed = is_other && blocking(move || catalog.requeue(&RequeueScope::Ids(vec![record.id]))).await? > 0;
    let took = begun.elapsed();
    tokio::time::sleep((took * REST_FACTOR).max(machine::budget().spend_background(took))).await;
    Ok(changed)
}

/// Returns whether a file's content differs from what was indexed. Returns false for missing and unreadable files,
/// which the next walk handles.
fn content_differs(record: &FileRecord) -> bool {
    let Some(hash) = record.hash else { return false };
    let Ok(file) = files::open_beneath(&record.root, &record.found.path) else { return false };
    match files::hash(&file) {
        Ok(now) => now != hash,
        // A file that is too large now was smaller when it was indexed, so its content differs.
        Err(error) => error.kind() == std::io::ErrorKind::FileTooLarge,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case A13
    #[test]
    fn clock_set_back_delays_next_round_by_one_interval() {
        let dir = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(&dir.path().join("catalog.sqlite")).unwrap();
        let left = |hours: i64| {
            time_left(&catalog, Duration::from_secs(24 * 3_600), hours * 3_600_000).unwrap().as_secs() / 3_600
        };
        assert_eq!((left(1_000), left(1_006), left(1_030)), (24, 18, 0));
        // Each call simulates a daemon start at this second, and returns how many files are left to verify.
        assert_eq!((left(500), left(510), left(524)), (24, 14, 0));
    }
}
