//! First stage of the pipeline: takes pending files from the catalog and sends them to the read stage.

use std::cmp::Reverse;

use tokio::sync::mpsc;

use crate::error::Result;
use crate::files::unresponsive;
use crate::index::blocking_tasks::blocking;
use crate::index::pipeline::context::{Pipeline, Run};
use crate::model::{FileId, FileRecord, FileState};

/// Files taken from the catalog and counted as attempted in one transaction.
const FEED_BATCH: usize = 64;

/// Sends pending files in the order of their ids, within a batch the largest first. Ends after a round over the catalog
/// that finds only skipped files.
///
/// The attempt is counted before the file is read. A pending file with an earlier attempt was in progress when the
/// daemon died, and may be the cause. Such suspects go last and one at a time, so that another crash leads to rejecting
/// only the file that caused it. Files that are likely to time out go last too.
pub(crate) async fn feed(pipeline: &Pipeline, run: &Run, to_read: mpsc::Sender<FileRecord>) -> Result<()> {
    let mut left = run.max_files.unwrap_or(u64::MAX);
    let mut after = 0;
    let mut sent_this_round = false;
    run.deferral.begin_round();
    while left > 0 && !run.cancel.is_cancelled() {
        // Without disk space, no further files are sent. Files in progress are finished: the reserve has space for
        // them.
        pipeline.disk_space.check()?;
        let (batch, last) = next_batch(pipeline, run, after, left.min(FEED_BATCH as u64) as usize).await?;
        let Some(last) = last else {
            if !sent_this_round && !run.deferral.next_rank() {
                break;
            }
            // Starts the next round, because files that changed during this one are pending again under small ids.
            // Waits until this round's files are marked, or they would be read twice.
            wait_until_drained(&to_read, run).await;
            if run.has_vanished_files() {
                // Ends here so that a walk comes first: the vanished files are still pending and would be sent again
                // and again.
                break;
            }
            (after, sent_this_round) = (0, false);
            run.deferral.begin_round();
            continue;
        };
        after = last;
        if batch.is_empty() {
            continue;
        }
        left -= batch.len() as u64;
        sent_this_round = true;
        // Sends a suspect (a file that may have crashed the daemon) only after all other files are marked, and nothing
        // after it until it is marked.
        let suspect = batch.iter().any(|it| it.tries > 0);
        if suspect {
            wait_until_drained(&to_read, run).await;
        }
        run.progress.add_expected(batch.len() as u64);
        for record in batch {
            run.deferral.note_sent(record.id);
            if to_read.send(record).await.is_err() {
                return Ok(());
            }
        }
        if suspect {
            wait_until_drained(&to_read, run).await;
        }
    }
    Ok(())
}

pub(crate) async fn feed_files(files: Vec<FileRecord>, to_read: mpsc::Sender<FileRecord>) -> Result<()> {
    for record in files {
        if to_read.send(record).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Takes the next files from the catalog and counts a read attempt for each. Skips files that are urgent, deferred,
/// vanished or constantly changing, and files on a disk that does not respond. A file suspected of a crash is returned
/// alone. Also returns the last id examined, `None` at the end of the round.
async fn next_batch(
    pipeline: &Pipeline,
    run: &Run,
    after: FileId,
    limit: usize,
) -> Result<(Vec<FileRecord>, Option<FileId>)> {
    let (catalog, urgent, waiting) = (pipeline.catalog.clone(), pipeline.runs.urgent.clone(), run.deferral.clone());
    let missing = pipeline.runs.vanished.clone();
    blocking(move || {
        urgent.excluding(|is_urgent| {
            let mut batch = catalog.next_pending(after, limit)?;
            debug_assert!(batch.iter().all(|it| it.state == FileState::Pending));
            let mut last = batch.last().map(|it| it.id);
            let is_silent = |it: &FileRecord| unresponsive::is_unresponsive_beneath(&it.root, &it.found.path);
            batch
                .retain(|it| !is_urgent(it.id) && !waiting.should_defer(it) && !missing.contains(it) && !is_silent(it));
            batch.retain(|it| !waiting.should_skip(it.id));
            if let Some(first_suspect) = batch.iter().position(|it| it.tries > 0) {
                batch.truncate(first_suspect.max(1));
                last = batch.last().map(|it| it.id);
            }
            let ids: Vec<FileId> = batch.iter().map(|it| it.id).collect();
            catalog.begin_try(&ids)?;
            // Large files come first: at the end, one of them would keep one reader busy while the others are idle.
            batch.sort_by_key(|it| Reverse(it.found.size));
            Ok((batch, last))
        })
    })
    .await
}

/// Waits until the pipeline has finished every file sent so far, or ends.
async fn wait_until_drained(to_read: &mpsc::Sender<FileRecord>, run: &Run) {
    tokio::select! {
        () = run.progress.drained() => (),
        () = to_read.closed() => (),
    }
}
