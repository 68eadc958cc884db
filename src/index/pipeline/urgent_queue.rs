//! Urgent queue of just-saved files. They become searchable at once, although a job may have hours to go.
//!
//! Files that the watcher reports wait here and go through short runs of the same pipeline, at the same time as the
//! background run. Commits are serialised, and each keeps only what the catalog still wants. A file in both runs is
//! therefore stored once, in its current state (see `commit`). A token bucket limits this queue to the rate at which
//! people save files; all other files wait for the background run. Thus neither ten thousand copied files nor a log
//! rewritten every second can delay a job.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::catalog::Catalog;
use crate::error::Result;
use crate::model::{FileId, FileRecord};

/// Number of concurrent urgent runs. With two, one large file does not delay the small ones behind it.
pub(crate) const URGENT_RUNS: usize = 2;

/// Capacity of the token bucket. A small file costs little more than one token, so a program or a checkout may save
/// about this many files at once.
const BUCKET_CAPACITY: f64 = 64.0;

/// Tokens refilled per second. With [`BYTES_PER_TOKEN`] this pays for about 30 chunks a second, a fifth of what two
/// cores embed, and leaves the rest of the capacity to the job.
const REFILL_PER_SECOND: f64 = 4.0;

/// After the bucket was too empty for a small file, no file is admitted until the bucket holds this many tokens.
/// Otherwise each file of a flood would spend the refill at once and make its own commit: at four commits a second
/// every query would open a table version that it has not cached.
const RESUME_THRESHOLD: f64 = 32.0;

/// Maximum cost, in tokens, of a small file. Only the refusal of a small file marks the bucket as spent, so that no file
/// is admitted before `RESUME_THRESHOLD`. A single small file, saved twice a second, is always admitted.
const SMALL_FILE_COST: f64 = 2.0;

/// Tokens that larger files must leave for small ones, so that a log that is written constantly does not block small
/// files.
const SMALL_FILE_RESERVE: f64 = 4.0;

/// Bytes that cost one token, in addition to one token per file.
const BYTES_PER_TOKEN: f64 = 8192.0;

/// Files larger than this are never admitted: they would not be searchable soon anyway.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Maximum files per urgent run; further files wait for the next one.
const FILES_PER_RUN: usize = 64;

/// Maximum files examined per reported change: more are a bulk change, left to the background run.
pub(crate) const MAX_FILES_PER_CHANGE: usize = BUCKET_CAPACITY as usize + 1;

/// Interval at which [`UrgentQueue::wait_idle`] checks the queue.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The urgent files, queued and in progress.
pub(crate) struct UrgentQueue {
    state: Mutex<State>,
    arrived: Notify,
}

struct State {
    tokens: f64,
    /// Whether a small file was refused since the bucket last held [`RESUME_THRESHOLD`] tokens.
    is_spent: bool,
    refilled: Instant,
    queued: BTreeSet<FileId>,
    in_progress: BTreeSet<FileId>,
}

impl UrgentQueue {
    pub(crate) fn new() -> UrgentQueue {
        let state = State {
            tokens: BUCKET_CAPACITY,
            is_spent: false,
            refilled: Instant::now(),
            queued: BTreeSet::new(),
            in_progress: BTreeSet::new(),
        };
        UrgentQueue { state: Mutex::new(state), arrived: Notify::new() }
    }

    /// Queues these files (id and size in bytes) until the tokens run out. Returns whether all were queued.
    pub(crate) fn admit(&self, files: &[(FileId, u64)]) -> bool {
        self.admit_at(Instant::now(), files)
    }

    /// Queues these files regardless of the tokens, because a caller waits for them.
    pub(crate) fn force(&self, files: &[FileId]) {
        let mut state = self.lock();
        // Queues files in progress too, because the current read may see an older content.
        state.queued.extend(files);
        drop(state);
        self.arrived.notify_one();
    }

    fn admit_at(&self, now: Instant, files: &[(FileId, u64)]) -> bool {
        let mut state = self.lock();
        let all = state.spend_tokens(now, files);
        let any = !state.queued.is_empty();
        drop(state);
        if any {
            self.arrived.notify_one();
        }
        all
    }

    /// Waits until there may be files in the queue.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Wakes the urgent runs, so that they check the queue again.
    pub(crate) fn wake(&self) {
        self.arrived.notify_one();
    }

    /// Calls `work` with a function that tells whether a file is queued or in progress in this queue. Until `work`
    /// returns, no file is taken from the queue.
    pub(crate) fn excluding<T>(&self, work: impl FnOnce(&dyn Fn(FileId) -> bool) -> T) -> T {
        let state = self.lock();
        work(&|id| state.queued.contains(&id) || state.in_progress.contains(&id))
    }

    /// Waits, for at most `most`, until every file that is queued or in progress now has been through a run. A file
    /// need not be indexed then: what a run cannot finish goes to the background run, which may be the caller. Returns
    /// whether there were any files.
    pub(crate) async fn wait_idle(&self, most: Duration) -> bool {
        let all = |state: &State| -> BTreeSet<FileId> { state.queued.union(&state.in_progress).copied().collect() };
        let before = all(&self.lock());
        let through = async {
            while !all(&self.lock()).is_disjoint(&before) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let _late = tokio::time::timeout(most, through).await;
        !before.is_empty()
    }

    /// Takes the files of one run from the queue and counts the attempt for each. Files that the background run has
    /// begun stay with that run. Also returns whether there were such files, because that run may have skipped them
    /// while they were queued here.
    pub(super) fn take_run(&self, catalog: &Catalog) -> Result<(Vec<FileRecord>, bool)> {
        let mut state = self.lock();
        let State { queued: waiting, in_progress: under_way, .. } = &mut *state;
        let ids: Vec<FileId> =
            waiting.iter().filter(|id| !under_way.contains(id)).take(FILES_PER_RUN).copied().collect();
        waiting.retain(|id| !ids.contains(id));
        let files = catalog.begin_untried(&ids)?;
        under_way.extend(files.iter().map(|it| it.id));
        let are_left = files.len() < ids.len();
        Ok((files, are_left))
    }

    /// Marks the files of a run as no longer in progress.
    pub(super) fn end_run(&self, ids: &[FileId]) {
        let mut state = self.lock();
        ids.iter().for_each(|id| {
            state.in_progress.remove(id);
        });
        if !state.queued.is_empty() {
            self.arrived.notify_one();
        }
    }

    /// Locks the state. Ignores poisoning, because the state is consistent at every moment.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn spend_tokens(&mut self, now: Instant, files: &[(FileId, u64)]) -> bool {
        let gained = now.saturating_duration_since(self.refilled).as_secs_f64() * REFILL_PER_SECOND;
        self.tokens = (self.tokens + gained).min(BUCKET_CAPACITY);
        self.refilled = now;
        self.is_spent &= self.tokens < RESUME_THRESHOLD;
        let mut all = true;
        for (id, bytes) in files {
            if self.queued.contains(id) {
                continue;
            }
            let price = (1.0 + *bytes as f64 / BYTES_PER_TOKEN).min(BUCKET_CAPACITY - SMALL_FILE_RESERVE);
            let needed = if price <= SMALL_FILE_COST { price } else { price + SMALL_FILE_RESERVE };
            if *bytes <= MAX_FILE_BYTES && needed <= self.tokens && !self.is_spent {
                self.tokens -= price;
                self.queued.insert(*id);
            } else {
                self.is_spent |= price <= SMALL_FILE_COST && self.tokens < RESUME_THRESHOLD;
                all = false;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Saves `files` files of `bytes` bytes, `rounds` times, `pause` seconds apart. Returns how many were queued.
    fn check(files: i64, bytes: u64, rounds: i64, pause: f64) -> usize {
        let urgent = UrgentQueue::new();
        let begin = Instant::now();
        let mut admitted = 0;
        for round in 0..rounds {
            let saved: Vec<(FileId, u64)> = (0..files).map(|it| (it, bytes)).collect();
            let all = urgent.admit_at(begin + Duration::from_secs_f64(pause * round as f64), &saved);
            let state = &mut *urgent.lock();
            assert_eq!(all, state.queued.len() == files as usize);
            admitted += std::mem::take(&mut state.queued).len();
        }
        admitted
    }

    #[test]
    fn single_files_qualify_bulk_partly_large_never() {
        assert_eq!(check(1, 2_000, 1_000, 1.0), 1_000);
        assert_eq!(check(30, 2_000, 100, 60.0), 3_000);
        assert_eq!(check(10_000, 2_000, 1, 0.0), 51);
        assert_eq!(check(1, MAX_FILE_BYTES, 1, 0.0), 1);
        assert_eq!(check(1, MAX_FILE_BYTES + 1, 1, 0.0), 0);
    }

    #[test]
    fn large_file_rewritten_every_second_qualifies_at_times() {
        assert_eq!(check(1, 1 << 20, 160, 1.0), 11);
    }

    #[test]
    fn growing_log_does_not_block_small_files() {
        for log in [30 << 10, 64 << 10, 256 << 10, 1 << 20] {
            let urgent = UrgentQueue::new();
            let begin = Instant::now();
            let overtakes = |second: u64| {
                urgent.admit_at(begin + Duration::from_secs(second), &[(1, log)]);
                urgent.admit_at(begin + Duration::from_secs(second), &[(2, 1_000)]);
                std::mem::take(&mut urgent.lock().queued).contains(&2)
            };
            assert_eq!((0..300).filter(|it| !overtakes(*it)).count(), 0, "beside a log of {log} bytes");
        }
    }

    #[test]
    fn flooded_bucket_admits_files_in_batches() {
        let urgent = UrgentQueue::new();
        let begin = Instant::now();
        let overtakes = |round: u64| {
            let files: Vec<(FileId, u64)> = (0..50).map(|it| (it, 10)).collect();
            urgent.admit_at(begin + Duration::from_millis(round * 10), &files);
            std::mem::take(&mut urgent.lock().queued).len()
        };
        let sizes: Vec<usize> = (0..3_000).map(overtakes).filter(|it| *it > 0).collect();
        assert_eq!(sizes, [50, 13, 31, 31, 31], "at once, and every eight seconds");
    }

    #[test]
    fn queued_file_pays_once_and_is_reserved() {
        let urgent = UrgentQueue::new();
        for _ in 0..1_000 {
            assert!(urgent.admit(&[(7, 100)]));
        }
        assert!(urgent.lock().tokens > BUCKET_CAPACITY - 2.0);
        assert!(urgent.excluding(|is_taken| is_taken(7) && !is_taken(8)));
    }

    #[test]
    fn attempted_file_is_left_to_background_run() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = crate::index::maintenance::retry::tests::catalog(folder.path());
        catalog.requeue(&crate::catalog::RequeueScope::All).unwrap();
        let file = catalog.next_pending(0, 1).unwrap()[0].id;
        let urgent = UrgentQueue::new();
        // A sync waits for the file, and the daemon was killed while reading it.
        urgent.force(&[file]);
        catalog.begin_try(&[file]).unwrap();
        let (files, are_left) = urgent.take_run(&catalog).unwrap();
        assert!(files.is_empty() && are_left);
        assert!(urgent.excluding(|is_taken| !is_taken(file)));
    }

    #[tokio::test]
    async fn settle_waits_for_current_urgent_files_only() {
        const FOREVER: Duration = Duration::from_secs(600);
        let urgent = Arc::new(UrgentQueue::new());
        urgent.wait_idle(FOREVER).await;
        urgent.force(&[1, 2]);
        urgent.lock().in_progress.insert(1);
        let waits = tokio::spawn({
            let urgent = urgent.clone();
            async move { urgent.wait_idle(FOREVER).await }
        });
        tokio::time::sleep(POLL_INTERVAL).await;
        urgent.force(&[3]);
        urgent.lock().queued.clear();
        tokio::time::sleep(POLL_INTERVAL * 3).await;
        assert!(!waits.is_finished(), "a run still holds file 1");
        // Ends the run without indexing file 1: `wait_idle` waits for the run, not for the state in the catalog.
        urgent.end_run(&[1]);
        urgent.force(&[3]);
        tokio::time::timeout(FOREVER / 60, waits).await.expect("the runs have ended").unwrap();
        let began = Instant::now();
        urgent.wait_idle(POLL_INTERVAL).await;
        assert!(began.elapsed() < FOREVER / 60, "a run that never ends is not waited for");
    }
}
