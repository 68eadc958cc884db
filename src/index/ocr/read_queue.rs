//! Reads the text in images beside the pipeline, one file of the queue at a time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, RequeueScope};
use crate::error::Result;
use crate::extract::Tools;
use crate::index::background::next_backoff;
use crate::index::blocking_tasks::blocking;
use crate::index::ocr::queue::QueuedFile;
use crate::index::ocr::{availability, file};
use crate::index::pipeline::context::Run;
use crate::index::progress::{Progress, snapshot_without_job};
use crate::index::state::IndexState;
use crate::machine;
use crate::model::{FileId, OcrMode, Phase};

/// Files read from the catalog at a time.
const PAGE: usize = 1_000;
/// Files whose OCR text is indexed together, unless that takes too long.
const BATCH_FILES: usize = 32;
/// The longest that OCR text waits for a full batch.
const MAX_BATCH_DELAY: Duration = Duration::from_secs(5);
/// Key of the problem that OCR failed, or that its text could not be indexed.
const OCR_KEY: &str = "pictures";
/// Interval of the check for idle workers.
const TICK: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(60) };

/// Queues the files of a job: those below these folders with unread images.
pub(crate) async fn enqueue_folders(inner: &IndexState, job: &str, folders: &[PathBuf], mode: OcrMode) -> Result<()> {
    let every = mode == OcrMode::Always;
    for folder in folders {
        let mut after = 0;
        loop {
            let (catalog, folder): (Catalog, PathBuf) = (inner.catalog.clone(), folder.clone());
            let page = blocking(move || catalog.unread_pictures(Some(&folder), every, after, PAGE)).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            page.iter().for_each(|it| inner.ocr_queue.push(job, it.id, every));
        }
    }
    Ok(())
}

/// Reads what the watcher queues and what jobs left, for the life of the daemon. Failures are retried.
pub(crate) async fn ocr_loop(inner: Arc<IndexState>) {
    let mut again = None;
    while inner.wait_for_wake(&inner.ocr_queue.arrived, again).await {
        let progress = Arc::new(Progress::new(snapshot_without_job()));
        let outcome = read_queue(&inner, inner.config.ocr, &progress, &inner.shutdown.clone()).await;
        let is_done = inner.note_outcome(OCR_KEY, "cannot index OCR text", outcome);
        again = (!is_done).then(|| next_backoff(again));
    }
}

/// Ends idle workers, for the life of the daemon. A separate task, because the reader may wait through a pause with
/// hundreds of MiB of models in memory.
pub(crate) async fn end_idle_workers_loop(inner: Arc<IndexState>) {
    let mut ticks = tokio::time::interval(TICK);
    while inner.shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
        inner.workers.skills.end_idle_workers();
    }
}

/// Reads everything queued and indexes the text as it comes. On cancellation, requests of this job alone are dropped.
pub(crate) async fn read_queue(
    inner: &Arc<IndexState>,
    mode: OcrMode,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Result<()> {
    if inner.ocr_queue.is_empty() {
        return Ok(());
    }
    let outcome = read_exclusively(inner, mode, progress, cancel).await;
    if cancel.is_cancelled() {
        inner.ocr_queue.drop_job(&progress.job_id());
        // No other event reports the files of other requesters, or the text not yet indexed.
        inner.ocr_queue.arrived.notify_one();
        inner.runs.changed.notify_one();
    }
    outcome
}

async fn read_exclusively(
    inner: &Arc<IndexState>,
    mode: OcrMode,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Result<()> {
    let Some(_lane) = cancel.run_until_cancelled(inner.ocr_queue.lock_reading()).await else { return Ok(()) };
    if availability::failed_to_load(inner) && !progress.job_id().is_empty() {
        // A user waits, who may have repaired the models just now.
        availability::try_load(inner).await;
    }
    let Some(tools) = availability::installed_tools(inner).filter(|_| !availability::failed_to_load(inner)) else {
        return Ok(());
    };
    let mut early = Vec::new();
    let outcome = read_waiting(inner, mode, &tools, (progress, cancel), &mut early).await;
    let outcome = requeue_early(inner, early).await.and(outcome);
    // The remaining files are queued after every kind of end.
    inner.ocr_queue.finish_all();
    outcome
}

/// Requeues files that were not in the index yet. The run that indexes them wakes the queue, unless it already ended.
async fn requeue_early(inner: &IndexState, early: Vec<QueuedFile>) -> Result<()> {
    let (catalog, ids): (Catalog, Vec<FileId>) = (inner.catalog.clone(), early.iter().map(|it| it.id).collect());
    let count = ids.len();
    for QueuedFile { id, requesters: by } in early {
        // Requests of an ended job become the watcher's.
        let heir = |(job, every): (String, bool)| match still_waits(inner, &job) {
            true => Some((job, every)),
            false => (inner.config.ocr != OcrMode::Never).then(|| (String::new(), every)),
        };
        let by = by.into_iter().filter_map(heir).collect();
        inner.ocr_queue.requeue(QueuedFile { id, requesters: by });
    }
    if count > 0 && blocking(move || catalog.still_pending(ids)).await?.len() < count {
        inner.ocr_queue.arrived.notify_one();
    }
    Ok(())
}

/// Reads the queue. Files that are not in the index yet go to `early`.
async fn read_waiting(
    inner: &Arc<IndexState>,
    mode: OcrMode,
    tools: &Tools,
    (progress, cancel): (&Arc<Progress>, &CancellationToken),
    early: &mut Vec<QueuedFile>,
) -> Result<()> {
    progress.enter(Phase::Indexing);
    let run = Run { ocr: mode, progress: progress.clone(), ..Run::background(cancel.clone()) };
    let mut ready: Vec<QueuedFile> = Vec::new();
    let mut since = Instant::now();
    while let Some(wanted) = inner.ocr_queue.pop() {
        let read = cancel.run_until_cancelled(async {
            inner.ocr_queue.throttle.sleep_off(machine::budget()).await;
            inner.pause.wait_until_open().await;
            file::advance(inner, tools, wanted.id, wanted.every_page()).await
        });
        let looked = match read.await {
            Some(Ok(looked)) if looked.unloaded.is_none() => looked,
            Some(Err(error)) => {
                // Neither this file nor the text read before it may wait for the next walk.
                inner.ocr_queue.requeue_last(wanted);
                index_text(inner, &run, ready).await?;
                return Err(error);
            }
            not_read => {
                inner.ocr_queue.requeue(wanted);
                // Every other file would fail alike: all stay queued until the models load.
                if let Some(why) = not_read.and_then(Result::ok).and_then(|it| it.unloaded) {
                    availability::note_load_failure(inner, tools, &why);
                }
                break;
            }
        };
        if looked.is_early {
            early.push(wanted);
            continue;
        }
        if looked.continues {
            let living = wanted.requesters.iter().filter(|(job, _)| still_waits(inner, job));
            living.for_each(|(job, every)| inner.ocr_queue.push_later(job, wanted.id, *every));
        }
        if !looked.has_new_text {
            inner.ocr_queue.finish([wanted.id]);
        } else {
            if ready.is_empty() {
                since = Instant::now();
            }
            ready.push(wanted);
        }
        if ready.len() >= BATCH_FILES || (!ready.is_empty() && since.elapsed() > MAX_BATCH_DELAY) {
            index_text(inner, &run, std::mem::take(&mut ready)).await?;
        }
    }
    index_text(inner, &run, ready).await
}

/// Returns whether a requester still waits: a job may have been cancelled during OCR; the watcher always waits.
fn still_waits(inner: &IndexState, job: &str) -> bool {
    job.is_empty() || inner.jobs.is_wanted(job)
}

/// Makes these files pending and runs the pipeline, which finds their text in the cache. After cancellation, the files
/// stay queued for other requesters.
async fn index_text(inner: &Arc<IndexState>, run: &Run, ready: Vec<QueuedFile>) -> Result<()> {
    let files: Vec<FileId> = ready.iter().map(|it| it.id).collect();
    let outcome = requeue_and_run(inner, run, ready).await;
    inner.ocr_queue.finish(files);
    outcome
}

async fn requeue_and_run(inner: &Arc<IndexState>, run: &Run, ready: Vec<QueuedFile>) -> Result<()> {
    if run.cancel.is_cancelled() {
        ready.into_iter().for_each(|it| inner.ocr_queue.requeue(it));
        return Ok(());
    }
    if ready.is_empty() {
        return Ok(());
    }
    let _engine = inner.runs.lock_engine().await;
    let (catalog, files) = (inner.catalog.clone(), ready.iter().map(|it| it.id).collect());
    if let Err(error) = blocking(move || catalog.requeue(&RequeueScope::Ids(files))).await {
        // Their text is only in the cache, and no index refers to it.
        ready.into_iter().for_each(|it| inner.ocr_queue.requeue(it));
        return Err(error);
    }
    // No other event reports the pending files.
    inner.run_pending(run).await.inspect_err(|_| inner.runs.changed.notify_one())?;
    inner.maintain_if_due().await;
    Ok(())
}
