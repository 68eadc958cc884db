//! The queue of files that wait for OCR, and who requested it.
//!
//! [`OcrQueue`] holds the files to OCR with their requesters: jobs, or the watcher. Cancelling a job drops its
//! requests. Requests of the watcher stay, even for a file that a job read first. An entry leaves only when its text is
//! indexed: failed files, and files that a failed job did not reach, stay queued.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, Notify};

use crate::index::ocr::throttle::Throttle;
use crate::model::{FileId, OcrMode};

/// Maximum queued files. Further files are not queued; the next job finds them again.
const MAX_QUEUED_FILES: usize = 100_000;
/// Files to OCR, by requester (a job id, or empty for the watcher) and file id. The flag is true if OCR must read every
/// page, false for only the pages without text.
type Requests = BTreeMap<String, BTreeMap<FileId, bool>>;

#[derive(Default)]
struct QueueState {
    now: Requests,
    /// Files that already had a time slice of OCR. They continue when `now` is empty.
    later: Requests,
    /// Files that the watcher saw change and that the pipeline has not read since then.
    changed: BTreeSet<FileId>,
    /// Files taken from the queue whose OCR text is not indexed yet.
    in_progress: BTreeSet<FileId>,
}

fn count(asked: &Requests) -> usize {
    asked.values().map(BTreeMap::len).sum()
}

/// The queue of files that wait for OCR.
#[derive(Default)]
pub(crate) struct OcrQueue {
    /// OCR mode of the files that the watcher requests.
    mode: OcrMode,
    queued: Mutex<QueueState>,
    /// Notified when files may be waiting in the queue.
    pub(in crate::index) arrived: Notify,
    /// Measures CPU time of OCR and sleeps accordingly.
    pub(in crate::index) throttle: Throttle,
    /// Held while a task reads files of the queue, because only one task may do so.
    reading: AsyncMutex<()>,
}

/// A file taken from the queue. Each requester has a flag that tells whether it wants every page.
#[derive(Debug, PartialEq)]
pub(super) struct QueuedFile {
    pub(super) id: FileId,
    pub(super) requesters: Vec<(String, bool)>,
}

impl QueuedFile {
    pub(super) fn every_page(&self) -> bool {
        self.requesters.iter().any(|it| it.1)
    }
}

impl OcrQueue {
    /// Creates an empty queue. `mode` is the OCR mode of the files that the watcher requests.
    pub(crate) fn new(mode: OcrMode) -> OcrQueue {
        OcrQueue { mode, ..OcrQueue::default() }
    }

    /// Records files that the watcher saw change. Their requests must not be lost if a job reads them first and is then
    /// cancelled before OCR.
    pub(crate) fn note_changed(&self, files: impl IntoIterator<Item = FileId>) {
        if self.mode == OcrMode::Never {
            return;
        }
        let seen = &mut self.waiting().changed;
        if seen.len() >= MAX_QUEUED_FILES {
            // Clears the full set. So many files stay in it only if they vanished before any run read them.
            seen.clear();
        }
        let room = MAX_QUEUED_FILES - seen.len();
        seen.extend(files.into_iter().take(room));
    }

    /// Removes the record that the watcher saw a file change, because a run now reads the file. Returns whether there
    /// was one.
    pub(crate) fn take_changed(&self, id: FileId) -> bool {
        self.waiting().changed.remove(&id)
    }

    /// Returns the requesters of OCR for a file that a job in this mode has just read: the job, and the watcher if it
    /// saw the file change. The flag of each requester is true if it wants OCR of every page.
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

    /// Queues a file for this requester: a job, or the watcher if the id is empty.
    pub(crate) fn push(&self, job: &str, id: FileId, every_page: bool) {
        let waiting = &mut *self.waiting();
        if count(&waiting.now) < MAX_QUEUED_FILES {
            let begun = waiting.later.get_mut(job).and_then(|it| it.remove(&id)).unwrap_or_default();
            *waiting.now.entry(job.to_string()).or_default().entry(id).or_default() |= every_page || begun;
        }
    }

    /// Queues a file behind all others, so that, for example, a long book does not delay them.
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

    /// Marks these files as no longer in progress.
    pub(super) fn finish(&self, files: impl IntoIterator<Item = FileId>) {
        let at_hand = &mut self.waiting().in_progress;
        for it in files {
            at_hand.remove(&it);
        }
    }

    /// Marks all files as no longer in progress.
    pub(super) fn finish_all(&self) {
        self.waiting().in_progress.clear();
    }

    /// Waits until no other task reads files of the queue, and lets none do so until the guard is dropped.
    pub(in crate::index) async fn lock_reading(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.reading.lock().await
    }

    /// Returns whether a file is queued.
    pub(crate) fn contains(&self, id: FileId) -> bool {
        let waiting = self.waiting();
        waiting.now.values().chain(waiting.later.values()).any(|it| it.contains_key(&id))
    }

    /// Takes the file with the lowest id from the queue and counts it as in progress.
    pub(super) fn pop(&self) -> Option<QueuedFile> {
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

    /// Puts a file that was not read back into the queue.
    pub(super) fn requeue(&self, wanted: QueuedFile) {
        wanted.requesters.iter().for_each(|(job, every_page)| self.push(job, wanted.id, *every_page));
    }

    /// Puts a file back into the queue behind all others, after its OCR failed.
    pub(super) fn requeue_last(&self, wanted: QueuedFile) {
        wanted.requesters.iter().for_each(|(job, every_page)| self.push_later(job, wanted.id, *every_page));
    }

    /// Removes the requests of a job that has ended. If it was not cancelled, the watcher takes them over, because no
    /// other event reports these files.
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

    /// Drops the OCR requests of this job. Requests of other jobs or of the watcher for the same files stay.
    pub(super) fn drop_job(&self, job: &str) {
        let waiting = &mut *self.waiting();
        waiting.now.remove(job);
        waiting.later.remove(job);
    }

    pub(super) fn is_empty(&self) -> bool {
        let waiting = self.waiting();
        count(&waiting.now) + count(&waiting.later) == 0
    }

    fn waiting(&self) -> MutexGuard<'_, QueueState> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
