//! Reading every file again, once a day, for content that changed under the same size and times.
//!
//! Nothing but its content tells of such a change: a disk image restored over the file, a clock that went back, a
//! network file system that keeps times as it likes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::info;

use crate::catalog::RequeueScope;
use crate::error::Result;
use crate::index::jobs::now_ms;
use crate::index::{Inner, at_file, blocking};
use crate::machine;
use crate::model::{FileId, FileRecord};
use crate::warehouse;

/// Where the catalog keeps when the last round ended, in milliseconds.
const KEY: &str = "verified_ms";

/// Files taken from the catalog at a time.
const PAGE: usize = 256;

/// Rest after each file, as a multiple of the time that reading it took: there is a day for it.
const REST: u32 = 3;

/// Rest after a round that failed, which begins anew.
const AFTER_FAILURE: Duration = Duration::from_secs(1_800);

/// Goes round for as long as the daemon lives.
pub(crate) async fn follow(inner: Arc<Inner>) {
    let every = inner.config.background.verify_seconds;
    if every == 0 {
        return;
    }
    let mut rest = Duration::ZERO;
    loop {
        let wait = until_next(&inner, every).await.unwrap_or(Duration::from_secs(every));
        tokio::select! {
            () = tokio::time::sleep(wait.max(rest)) => (),
            () = inner.shutdown.cancelled() => return,
        }
        let verified = verify(&inner).await;
        if let Ok(changed @ 1..) = verified {
            info!(files = changed, "had changed under the same size and times; they are read again");
            inner.changed.notify_one();
        }
        let is_done =
            inner.note_outcome("verify", "cannot look whether files are as they were read", verified.map(drop));
        rest = if is_done { Duration::ZERO } else { AFTER_FAILURE };
    }
}

/// How long it is to the next round. The first one is a whole interval after the first start.
async fn until_next(inner: &Inner, every: u64) -> Result<Duration> {
    let catalog = inner.catalog.clone();
    blocking(move || {
        let Some(last) = catalog.meta_get(KEY)?.and_then(|it| it.parse::<i64>().ok()) else {
            catalog.meta_set(KEY, &now_ms().to_string())?;
            return Ok(Duration::from_secs(every));
        };
        let gone = Duration::from_millis(now_ms().saturating_sub(last).max(0).cast_unsigned());
        Ok(Duration::from_secs(every).saturating_sub(gone))
    })
    .await
}

/// One round; returns how many files are to be read again.
async fn verify(inner: &Arc<Inner>) -> Result<u64> {
    let (mut after, mut changed): (FileId, u64) = (0, 0);
    loop {
        let catalog = inner.catalog.clone();
        let page = blocking(move || catalog.indexed_after(after, PAGE)).await?;
        let Some(last) = page.last() else { break };
        after = last.id;
        for record in page {
            tokio::select! {
                () = inner.gate.passed() => (),
                () = inner.shutdown.cancelled() => return Ok(changed),
            }
            changed += u64::from(verify_one(inner, record).await?);
        }
    }
    let catalog = inner.catalog.clone();
    blocking(move || catalog.meta_set(KEY, &now_ms().to_string())).await?;
    Ok(changed)
}

async fn verify_one(inner: &Inner, record: FileRecord) -> Result<bool> {
    let begun = Instant::now();
    let looked_at = record.clone();
    // A disk that does not answer says nothing of its files.
    let is_other = at_file(&record, move || Ok(differs(&looked_at))).await?.unwrap_or(false);
    let catalog = inner.catalog.clone();
    let changed = is_other && blocking(move || catalog.requeue(&RequeueScope::Ids(vec![record.id]))).await? > 0;
    let took = begun.elapsed();
    tokio::time::sleep((took * REST).max(machine::budget().spend_behind(took))).await;
    Ok(changed)
}

/// Says whether a file holds something else than what was read. What is gone or cannot be read is the walk's business.
fn differs(record: &FileRecord) -> bool {
    let Some(hash) = record.hash else { return false };
    let Ok(file) = warehouse::open_beneath(&record.root, &record.found.path) else { return false };
    warehouse::hash(&file).is_ok_and(|now| now != hash)
}
