//! Runs OCR on the queued files, one after the other, beside the pipeline, and has the text indexed.

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

/// File records read from the catalog at a time.
const PAGE: usize = 1_000;
/// Maximum files whose OCR text is indexed together.
const BATCH_FILES: usize = 32;
/// Maximum time that OCR text waits until the batch is full.
const MAX_BATCH_DELAY: Duration = Duration::from_secs(5);
/// Key under which the status reports that OCR failed, or that its text could not be indexed.
const OCR_KEY: &str = "pictures";
/// Interval between checks for idle OCR workers.
const TICK: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(60) };

/// Queues the files with unread images below these folders, for a job.
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

/// Runs OCR on the files that the watcher queues and that ended jobs left, until the daemon ends. Retries failures.
pub(crate) async fn ocr_loop(inner: Arc<IndexState>) {
    let mut again = None;
    while inner.wait_for_wake(&inner.ocr_queue.arrived, again).await {
        let progress = Arc::new(Progress::new(snapshot_without_job()));
        let outcome = read_queue(&inner, inner.config.ocr, &progress, &inner.shutdown.clone()).await;
        let is_done = inner.note_outcome(OCR_KEY, "cannot index OCR text", outcome);
        again = (!is_done).then(|| next_backoff(again));
    }
}

/// Ends idle OCR workers, until the daemon ends. Runs in its own task, because the task that reads the queue may wait
/// through a pause while workers keep hundreds of MiB of models in memory.
pub(crate) async fn end_idle_workers_loop(inner: Arc<IndexState>) {
    let mut ticks = tokio::time::interval(TICK);
    while inner.shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
        inner.workers.skills.end_idle_workers();
    }
}

/// Runs OCR on all queued files and indexes the text in batches. After cancellation, drops the requests of this job
/// only.
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
        // Wakes the OCR task for the other requesters and a run that indexes the remaining text, because no other event
        // wakes them.
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
        // Tries to load the models for a job, because its user may have just repaired them.
        availability::try_load(inner).await;
    }
    let Some(tools) = availability::installed_tools(inner).filter(|_| !availability::failed_to_load(inner)) else {
        return Ok(());
    };
    let mut early = Vec::new();
    let outcome = read_waiting(inner, mode, &tools, (progress, cancel), &mut early).await;
    let outcome = requeue_early(inner, early).await.and(outcome);
    // No file is in progress now: on success and on failure, all files that were not read are back in the queue.
    inner.ocr_queue.finish_all();
    outcome
}

/// Puts files that are not indexed yet back into the OCR queue. The run that indexes them wakes the queue; if it has
/// already ended, the queue is woken here.
async fn requeue_early(inner: &IndexState, early: Vec<QueuedFile>) -> Result<()> {
    let (catalog, ids): (Catalog, Vec<FileId>) = (inner.catalog.clone(), early.iter().map(|it| it.id).collect());
    let count = ids.len();
    for QueuedFile { id, requesters: by } in early {
        // The watcher takes over the requests of a job that has ended.
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

/// Runs OCR on the queued files. Files that are not in the index yet are moved to `early`.
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
                // Keeps this file in the queue and indexes the text read so far, so that neither has to wait for the
                // next walk.
                inner.ocr_queue.requeue_last(wanted);
                index_text(inner, &run, ready).await?;
                return Err(error);
            }
            not_read => {
                inner.ocr_queue.requeue(wanted);
                // Stops if the models cannot be loaded, because every other file would fail too. All files stay queued
                // until they load.
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

/// Returns whether a requester still wants OCR. A job may have been cancelled meanwhile; the watcher always wants it.
fn still_waits(inner: &IndexState, job: &str) -> bool {
    job.is_empty() || inner.jobs.is_wanted(job)
}

/// Makes these files pending and runs the pipeline, which finds their OCR text in the cache. After cancellation, the
/// files stay queued for the other requesters.
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
        // Keeps the files in the queue, because their text is only in the cache and would never be indexed.
        ready.into_iter().for_each(|it| inner.ocr_queue.requeue(it));
        return Err(error);
    }
    // If this run fails, wakes the background run, because no other event reports the pending files.
    inner.run_pending(run).await.inspect_err(|_| inner.runs.changed.notify_one())?;
    inner.maintain_if_due().await;
    Ok(())
}
