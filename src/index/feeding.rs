//! First stage: pending files out of the catalog.

use std::cmp::Reverse;

use tokio::sync::mpsc;

use crate::error::Result;
use crate::index::blocking;
use crate::index::pipeline::{Pipeline, Run};
use crate::model::{FileId, FileRecord, FileState};
use crate::warehouse::silence;

/// Files taken from the catalog, and noted there as tried, in one transaction.
const FEED_BATCH: usize = 64;

/// Sends pending files in the order of their ids, of each batch the large ones first, until a whole round finds none but those
/// that are left alone.
///
/// A try is noted before the file is read. A file found pending with a try behind it was under way when the daemon
/// died, and may be why: such files go when no others are left, and one at a time, so that the next crash, if any,
/// condemns only the culprit. Files that are likely to use up their time go last too.
pub(crate) async fn feed(pipeline: &Pipeline, run: &Run, to_read: mpsc::Sender<FileRecord>) -> Result<()> {
    let mut left = run.max_files.unwrap_or(u64::MAX);
    let mut after = 0;
    let mut sent_this_round = false;
    run.waiting.begin_round();
    while left > 0 && !run.cancel.is_cancelled() {
        // What is under way is finished: the reserve has room for it.
        pipeline.space.check()?;
        let (batch, last) = next_batch(pipeline, run, after, left.min(FEED_BATCH as u64) as usize).await?;
        let Some(last) = last else {
            if !sent_this_round && !run.waiting.take_turn() {
                break;
            }
            // Files that changed while the round was under way have small ids again. Those of this round must be
            // marked before the catalog is asked anew, or they would be read twice.
            wait_until_drained(&to_read, run).await;
            if run.has_lost_files() {
                // They are pending still, and would be sent again and again: a walk comes first.
                break;
            }
            (after, sent_this_round) = (0, false);
            run.waiting.begin_round();
            continue;
        };
        after = last;
        if batch.is_empty() {
            continue;
        }
        left -= batch.len() as u64;
        sent_this_round = true;
        // A suspect goes when nothing else is under way, and nothing follows until it is marked.
        let suspect = batch.iter().any(|it| it.tries > 0);
        if suspect {
            wait_until_drained(&to_read, run).await;
        }
        run.progress.add_expected(batch.len() as u64);
        for record in batch {
            run.waiting.note_sent(record.id);
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

/// Sends these files.
pub(crate) async fn feed_these(files: Vec<FileRecord>, to_read: mpsc::Sender<FileRecord>) -> Result<()> {
    for record in files {
        if to_read.send(record).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Takes the next files and notes the try, except for urgent ones, which have a run of their own, those that are put off,
/// missing or left alone, and those whose disk does not answer. Suspects come alone. Also returns the last number that was
/// looked at; None at the end of the round.
async fn next_batch(
    pipeline: &Pipeline,
    run: &Run,
    after: FileId,
    limit: usize,
) -> Result<(Vec<FileRecord>, Option<FileId>)> {
    let (catalog, urgent, waiting) = (pipeline.catalog.clone(), pipeline.urgent.clone(), run.waiting.clone());
    let missing = pipeline.missing.clone();
    blocking(move || {
        urgent.without(|is_urgent| {
            let mut batch = catalog.next_pending(after, limit)?;
            debug_assert!(batch.iter().all(|it| it.state == FileState::Pending));
            let mut last = batch.last().map(|it| it.id);
            let is_silent = |it: &FileRecord| silence::holds_beneath(&it.root, &it.found.path);
            batch.retain(|it| !is_urgent(it.id) && !waiting.puts_off(it) && !missing.holds(it) && !is_silent(it));
            batch.retain(|it| !waiting.leaves(it.id));
            if let Some(first_suspect) = batch.iter().position(|it| it.tries > 0) {
                batch.truncate(first_suspect.max(1));
                last = batch.last().map(|it| it.id);
            }
            let ids: Vec<FileId> = batch.iter().map(|it| it.id).collect();
            catalog.begin_try(&ids)?;
            // Whoever is free takes the next: a large one that came last would have one reader alone, and the others idle.
            batch.sort_by_key(|it| Reverse(it.found.size));
            Ok((batch, last))
        })
    })
    .await
}

/// Waits until every file sent so far is marked, or the pipeline ends.
async fn wait_until_drained(to_read: &mpsc::Sender<FileRecord>, run: &Run) {
    tokio::select! {
        () = run.progress.drained() => (),
        () = to_read.closed() => (),
    }
}
