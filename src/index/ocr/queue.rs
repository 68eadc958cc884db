//! OCR queue: reads the text in images beside the pipeline, one file at a time.
//!
//! [`OcrQueue`] holds the files to OCR and who requested each. Cancelling a job drops its requests; requests of the
//! watcher stay, even for a file that a job read first. An entry leaves only when its text is indexed: failed files,
//! and files that a failed job did not reach, stay queued. [`crate::index::ocr::merge`] merges the text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, RequeueScope};
use crate::error::Result;
use crate::extract::Tools;
use crate::index::ocr::throttle::Throttle;
use crate::index::ocr::{availability, file};
use crate::index::pipeline::Run;
use crate::index::pipeline::run_pending::next_backoff;
use crate::index::progress::Progress;
use crate::index::{IndexState, blocking};
use crate::machine;
use crate::model::{FileId, OcrMode, Phase};

/// Maximum queued files. The next job finds the files beyond it again.
const MAX_QUEUED_FILES: usize = 100_000;
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
/// Files to OCR, by requester (a job id, empty for the watcher) and file id. The flag is true for every page, false for
/// only pages without text.
type Requests = BTreeMap<String, BTreeMap<FileId, bool>>;

#[derive(Default)]
struct QueueState {
    now: Requests,
    /// Files that had a slice already. They continue when `now` is empty.
    later: Requests,
    /// Files that the watcher saw change and that the pipeline has not read since.
    changed: BTreeSet<FileId>,
    /// Files in progress, until their text is indexed.
    in_progress: BTreeSet<FileId>,
}

fn count(asked: &Requests) -> usize {
    asked.values().map(BTreeMap::len).sum()
}

/// The queue of files to OCR.
#[derive(Default)]
pub(crate) struct OcrQueue {
    /// OCR mode of the watcher's files.
    mode: OcrMode,
    queued: Mutex<QueueState>,
    /// Notified when a file is queued.
    pub(crate) arrived: Notify,
    /// CPU time still to be slept off.
    pub(in crate::index) throttle: Throttle,
    /// Held while reading.
    pub(in crate::index) reading: tokio::sync::Mutex<()>,
}

/// A file taken from the queue, with its requesters and whether each wants every page.
#[derive(Debug, PartialEq)]
struct QueuedFile {
    id: FileId,
    requesters: Vec<(String, bool)>,
}

impl QueuedFile {
    fn every_page(&self) -> bool {
        self.requesters.iter().any(|it| it.1)
    }
}

impl OcrQueue {
    /// Creates an empty queue. `mode` applies to the watcher's files.
    pub(crate) fn new(mode: OcrMode) -> OcrQueue {
        OcrQueue { mode, ..OcrQueue::default() }
    }

    /// Records files that the watcher saw change. A job may read them first, and be cancelled before OCR.
    pub(crate) fn note_changed(&self, files: impl IntoIterator<Item = FileId>) {
        if self.mode == OcrMode::Never {
            return;
        }
        let seen = &mut self.waiting().changed;
        if seen.len() >= MAX_QUEUED_FILES {
            // These files vanished before any run read them.
            seen.clear();
        }
        let room = MAX_QUEUED_FILES - seen.len();
        seen.extend(files.into_iter().take(room));
    }

    /// Removes the watcher's record of a file that is being read, and returns whether there was one.
    pub(crate) fn take_changed(&self, id: FileId) -> bool {
        self.waiting().changed.remove(&id)
    }

    /// Returns who requests OCR of a file that a job in this mode just read: the job, and the watcher if it saw the
    /// file. Each requester has a flag for every page.
    pub(crate) fn requesters(
        &self,
        (job, mode): (&str, OcrMode),
        is_seen: bool,
        wants: impl Fn(OcrMode) -> bool,
    ) -> Vec<(String, bool)> {
        let watcher = is_seen.then(|| (String::new(), self.mode));
        let both = std::iter::once((job.to_string(), mode)).chain(watcher);
        both.filter(|it| wants(it.1)).map(|(by, mode)| (by, mode == OcrMode::Always)).collect()
    }

    /// Queues a file for this job.
    pub(crate) fn push(&self, job: &str, id: FileId, every_page: bool) {
        let waiting = &mut *self.waiting();
        if count(&waiting.now) < MAX_QUEUED_FILES {
            let begun = waiting.later.get_mut(job).and_then(|it| it.remove(&id)).unwrap_or_default();
            *waiting.now.entry(job.to_string()).or_default().entry(id).or_default() |= every_page || begun;
        }
    }

    /// Queues a file behind all others, so that a long book does not block them.
    pub(crate) fn push_later(&self, job: &str, id: FileId, every_page: bool) {
        let waiting = &mut *self.waiting();
        if let Some(every) = waiting.now.get_mut(job).and_then(|it| it.get_mut(&id)) {
            *every |= every_page;
        } else if count(&waiting.later) < MAX_QUEUED_FILES {
            *waiting.later.entry(job.to_string()).or_default().entry(id).or_default() |= every_page;
        }
    }

    /// Returns how many files are queued or in progress.
    pub(crate) fn unread(&self) -> u64 {
        let waiting = self.waiting();
        let asked = waiting.now.values().chain(waiting.later.values()).flat_map(BTreeMap::keys);
        asked.chain(&waiting.in_progress).collect::<BTreeSet<_>>().len() as u64
    }

    /// Removes files from those in progress.
    fn finish(&self, files: impl IntoIterator<Item = FileId>) {
        let at_hand = &mut self.waiting().in_progress;
        for it in files {
            at_hand.remove(&it);
        }
    }

    /// Returns whether a file is queued.
    pub(crate) fn contains(&self, id: FileId) -> bool {
        let waiting = self.waiting();
        waiting.now.values().chain(waiting.later.values()).any(|it| it.contains_key(&id))
    }

    fn pop(&self) -> Option<QueuedFile> {
        let waiting = &mut *self.waiting();
        if count(&waiting.now) == 0 {
            waiting.now = std::mem::take(&mut waiting.later);
        }
        let id = *waiting.now.values().filter_map(|it| it.keys().next()).min()?;
        let by = waiting.now.iter_mut().filter_map(|(job, files)| Some((job.clone(), files.remove(&id)?))).collect();
        waiting.now.retain(|_, files| !files.is_empty());
        waiting.in_progress.insert(id);
        Some(QueuedFile { id, requesters: by })
    }

    /// Queues a file again that was not read.
    fn requeue(&self, wanted: QueuedFile) {
        wanted.requesters.iter().for_each(|(job, every_page)| self.push(job, wanted.id, *every_page));
    }

    /// Queues a file again behind all others, after its OCR failed.
    fn requeue_last(&self, wanted: QueuedFile) {
        wanted.requesters.iter().for_each(|(job, every_page)| self.push_later(job, wanted.id, *every_page));
    }

    /// Ends a job. Cancelling it drops its requests. Otherwise its remaining files become the watcher's, because no
    /// other event reports them.
    pub(crate) fn end_job(&self, job: &str, is_cancelled: bool) {
        let (now, later) = {
            let waiting = &mut *self.waiting();
            (waiting.now.remove(job).unwrap_or_default(), waiting.later.remove(job).unwrap_or_default())
        };
        if !is_cancelled && self.mode != OcrMode::Never {
            now.into_iter().for_each(|(id, every_page)| self.push("", id, every_page));
            later.into_iter().for_each(|(id, every_page)| self.push_later("", id, every_page));
        }
        if !self.is_empty() {
            self.arrived.notify_one();
        }
    }

    /// Drops the requests of this job only.
    fn drop_job(&self, job: &str) {
        let waiting = &mut *self.waiting();
        waiting.now.remove(job);
        waiting.later.remove(job);
    }

    fn is_empty(&self) -> bool {
        let waiting = self.waiting();
        count(&waiting.now) + count(&waiting.later) == 0
    }

    fn waiting(&self) -> MutexGuard<'_, QueueState> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
        let progress = Arc::new(Progress::new(crate::index::jobs::snapshot_without_job()));
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
        inner.skills.end_idle_workers();
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
        inner.changed.notify_one();
    }
    outcome
}

async fn read_exclusively(
    inner: &Arc<IndexState>,
    mode: OcrMode,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Result<()> {
    let Some(_lane) = cancel.run_until_cancelled(inner.ocr_queue.reading.lock()).await else { return Ok(()) };
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
    inner.ocr_queue.waiting().in_progress.clear();
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
    job.is_empty() || inner.running().get(job).is_some_and(|it| !it.cancel.is_cancelled())
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
    let _engine = inner.engine.lock().await;
    let (catalog, files) = (inner.catalog.clone(), ready.iter().map(|it| it.id).collect());
    if let Err(error) = blocking(move || catalog.requeue(&RequeueScope::Ids(files))).await {
        // Their text is only in the cache, and no index refers to it.
        ready.into_iter().for_each(|it| inner.ocr_queue.requeue(it));
        return Err(error);
    }
    // No other event reports the pending files.
    inner.run_pending(run).await.inspect_err(|_| inner.changed.notify_one())?;
    inner.maintain_if_due().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_job_keeps_files_of_other_requesters() {
        let pictures = OcrQueue::default();
        for (job, id, every_page) in [("", 1, false), ("", 3, false), ("a", 1, true), ("a", 2, true), ("b", 2, false)] {
            pictures.push(job, id, every_page);
        }
        assert_eq!(pictures.unread(), 3);
        let first = pictures.pop().unwrap();
        assert_eq!((first.id, first.every_page()), (1, true));
        assert_eq!(pictures.unread(), 3, "files in progress are not in the index yet");
        // The job is cancelled while the file is in progress.
        pictures.requeue(first);
        pictures.drop_job("a");
        let left: Vec<_> = std::iter::from_fn(|| pictures.pop()).map(|it| (it.id, it.every_page())).collect();
        assert_eq!(left, [(1, false), (2, false), (3, false)]);
        assert!(pictures.is_empty());
        pictures.finish([1, 2]);
        assert_eq!(pictures.unread(), 1);
    }

    #[test]
    fn file_after_its_slice_goes_behind_the_others() {
        let pictures = OcrQueue::default();
        let later = |id, every_page| pictures.push_later("a", id, every_page);
        later(1, false);
        pictures.push("a", 2, false);
        pictures.push("a", 3, false);
        later(3, true);
        let next = || pictures.pop().map(|it| (it.id, it.every_page()));
        assert!(pictures.contains(1) && pictures.contains(2) && !pictures.contains(4));
        assert_eq!([next(), next(), next()], [Some((2, false)), Some((3, true)), Some((1, false))]);
        later(1, true);
        assert!(!pictures.is_empty());
        pictures.push("a", 1, false);
        assert_eq!((next(), next()), (Some((1, true)), None));
        assert!(pictures.is_empty());
    }

    #[test]
    fn watched_file_stays_when_job_that_read_it_is_cancelled() {
        let pictures = OcrQueue::new(OcrMode::Auto);
        pictures.note_changed([1, 2]);
        let read = |job: &str, mode, id| {
            let is_seen = pictures.take_changed(id);
            let askers = pictures.requesters((job, mode), is_seen, |it| it != OcrMode::Never);
            askers.iter().for_each(|(by, every_page)| pictures.push(by, id, *every_page));
        };
        read("a", OcrMode::Always, 1);
        // A job without OCR.
        read("b", OcrMode::Never, 2);
        read("a", OcrMode::Always, 3);
        pictures.end_job("a", true);
        pictures.end_job("b", true);
        let left: Vec<_> = std::iter::from_fn(|| pictures.pop()).map(|it| (it.id, it.every_page())).collect();
        assert_eq!(left, [(1, false), (2, false)], "files of the job alone are dropped");
        assert!(!pictures.take_changed(1), "it was read");
    }

    #[test]
    fn files_of_failed_job_pass_to_watcher_unless_ocr_is_off() {
        for (mode, expected) in [(OcrMode::Auto, vec![(2, true), (1, false)]), (OcrMode::Never, vec![])] {
            let pictures = OcrQueue::new(mode);
            pictures.push_later("a", 1, false);
            pictures.push("a", 2, true);
            pictures.end_job("a", false);
            let left: Vec<_> = std::iter::from_fn(|| pictures.pop()).map(|it| (it.requesters, it.id)).collect();
            let expected: Vec<_> =
                expected.into_iter().map(|(id, every_page)| (vec![(String::new(), every_page)], id)).collect();
            assert_eq!(left, expected, "{mode:?}");
        }
    }
}
