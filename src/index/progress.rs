//! Counts the progress of a run, and publishes it as snapshots, for example to clients that watch a job.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::index::clock::now_ms;
use crate::model::{IndexRequest, JobSnapshot, JobState, Phase};

/// Time over which the tokens per second are averaged.
const RATE_SPAN: Duration = Duration::from_secs(5);

/// Number of tokens embedded by all runs of this process.
static TOKENS: AtomicU64 = AtomicU64::new(0);

/// Returns how many tokens this process has embedded for the index.
pub(crate) fn tokens_embedded() -> u64 {
    TOKENS.load(Ordering::Relaxed)
}

/// Progress counts of one indexing run. Every change is published as a snapshot.
pub(crate) struct Progress {
    state: Mutex<State>,
    snapshot: watch::Sender<JobSnapshot>,
}

/// Files and chunks indexed by runs without a job.
#[derive(Debug, Default)]
pub(crate) struct UnattendedTotals {
    files: AtomicU64,
    chunks: AtomicU64,
}

impl UnattendedTotals {
    /// Adds files and chunks that a run has recorded in the catalog, unless the run belongs to a job.
    pub(crate) fn count(&self, progress: &Progress, files: u64, chunks: u64) {
        if progress.job_id().is_empty() {
            self.files.fetch_add(files, Ordering::Relaxed);
            self.chunks.fetch_add(chunks, Ordering::Relaxed);
        }
    }

    /// Returns the files and chunks counted since the daemon started.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.files.load(Ordering::Relaxed), self.chunks.load(Ordering::Relaxed))
    }
}

/// Returns the snapshot of a run without a job, such as the watcher's.
pub(super) fn snapshot_without_job() -> JobSnapshot {
    JobSnapshot {
        job_id: String::new(),
        state: JobState::Queued,
        phase: Phase::Waiting,
        request: IndexRequest::default(),
        created_ms: now_ms(),
        started_ms: None,
        finished_ms: None,
        files_found: 0,
        files_total: 0,
        files_done: 0,
        files_failed: 0,
        files_removed: 0,
        chunks_written: 0,
        chunks_embedded: 0,
        chunks_awaiting: 0,
        tokens_embedded: 0,
        tokens_per_second: 0.0,
        eta_seconds: None,
        last_error: None,
        error: None,
        error_exit_code: None,
    }
}

#[derive(Default)]
struct State {
    /// Files sent into the pipeline.
    expected: u64,
    /// Files that have passed the last stage of the pipeline, which records their results in the catalog.
    marked: u64,
    /// When the current phase (indexing or embedding) began.
    begun: Option<Instant>,
    /// Number of chunks without vectors when the phase began.
    awaiting: u64,
    /// Samples of the last [`RATE_SPAN`]: a time, and the total number of tokens embedded by then.
    recent: VecDeque<(Instant, u64)>,
}

impl Progress {
    /// Creates the progress of a run, beginning with this snapshot.
    pub(crate) fn new(snapshot: JobSnapshot) -> Progress {
        Progress { state: Mutex::default(), snapshot: watch::Sender::new(snapshot) }
    }

    /// Returns a receiver of all later snapshots.
    pub(crate) fn watch(&self) -> watch::Receiver<JobSnapshot> {
        self.snapshot.subscribe()
    }

    /// Returns the current snapshot.
    pub(crate) fn snapshot(&self) -> JobSnapshot {
        self.snapshot.borrow().clone()
    }

    /// Returns the id of the job, empty for a run without one.
    pub(crate) fn job_id(&self) -> String {
        self.snapshot.borrow().job_id.clone()
    }

    /// Changes the snapshot and publishes it.
    pub(crate) fn update(&self, change: impl FnOnce(&mut JobSnapshot)) {
        self.snapshot.send_modify(change);
    }

    /// Records that the run enters this phase.
    pub(crate) fn enter(&self, phase: Phase) {
        if phase == Phase::Indexing {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).begun = Some(Instant::now());
        }
        self.update(|job| job.phase = phase);
    }

    /// Counts files sent into the pipeline.
    pub(crate) fn add_expected(&self, files: u64) {
        let expected = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.expected += files;
            state.expected
        };
        self.update(|job| job.files_total = job.files_total.max(expected));
    }

    /// Counts files sent into the pipeline a second time, to be embedded. `files_total` already includes them.
    pub(crate) fn add_resent(&self, files: u64) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).expected += files;
    }

    /// Lowers the number of files sent into the pipeline by `files`, which left the pipeline without a result.
    pub(crate) fn remove_expected(&self, files: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.expected = state.expected.saturating_sub(files);
        drop(state);
        // Publishes an unchanged snapshot, because `drained` checks the counts only when a snapshot is published.
        self.update(|_| ());
    }

    /// Returns how many files are in the pipeline.
    pub(crate) fn in_progress(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.expected.saturating_sub(state.marked)
    }

    /// Counts embedded chunks with their tokens, and updates the tokens per second.
    pub(crate) fn add_embedded(&self, chunks: u64, tokens: u64) {
        let now = Instant::now();
        TOKENS.fetch_add(tokens, Ordering::Relaxed);
        self.snapshot.send_modify(|job| {
            job.chunks_embedded += chunks;
            job.tokens_embedded += tokens;
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            job.tokens_per_second = state.rate(now, job.tokens_embedded);
        });
    }

    /// Counts files that passed the last stage of the pipeline, and updates the estimated time left.
    pub(crate) fn add_done(&self, files: u64, chunks: u64, failures: &[String]) {
        self.snapshot.send_modify(|job| {
            job.files_done += files;
            job.files_failed += failures.len() as u64;
            job.chunks_written += chunks;
            if let Some(last) = failures.last() {
                job.last_error = Some(last.clone());
            }
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.marked += files;
            job.eta_seconds = state.eta(job.files_done, job.files_total);
        });
    }

    /// Adds files and chunks that other runs indexed while the job waited for them.
    pub(crate) fn add_from_other_runs(&self, files: u64, chunks: u64) {
        self.update(|job| {
            job.files_done += files;
            job.files_total = job.files_total.max(job.files_done);
            job.chunks_written += chunks;
        });
    }

    /// Begins the phase that embeds the chunks without vectors; `chunks` is their number.
    pub(crate) fn begin_vectors(&self, chunks: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.begun, state.awaiting) = (Some(Instant::now()), chunks);
        drop(state);
        self.update(|job| {
            (job.phase, job.chunks_awaiting, job.eta_seconds) = (Phase::Vectors, chunks, None);
        });
    }

    /// Counts files and chunks that have received their vectors.
    pub(crate) fn add_vectors(&self, files: u64, chunks: u64, failures: &[String]) {
        self.snapshot.send_modify(|job| {
            job.files_failed += failures.len() as u64;
            if let Some(last) = failures.last() {
                job.last_error = Some(last.clone());
            }
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.marked += files;
            job.chunks_awaiting = job.chunks_awaiting.saturating_sub(chunks);
            job.eta_seconds = state.eta(state.awaiting - job.chunks_awaiting, state.awaiting);
        });
    }

    /// Waits until every file that was sent into the pipeline has passed its last stage or left it earlier.
    pub(crate) async fn drained(&self) {
        let mut watch = self.snapshot.subscribe();
        // Ignores the result: waiting fails only if the sender is dropped, and `self` owns the sender.
        watch.wait_for(|_| self.in_progress() == 0).await.ok();
    }
}

impl State {
    /// Returns the tokens per second since the oldest moment in `recent`.
    fn rate(&mut self, now: Instant, tokens: u64) -> f64 {
        if self.recent.is_empty() {
            self.recent.push_back((self.begun.unwrap_or(now), 0));
        }
        self.recent.push_back((now, tokens));
        while self.recent.len() > 2 && now.duration_since(self.recent[0].0) > RATE_SPAN {
            self.recent.pop_front();
        }
        let (since, before) = self.recent[0];
        let seconds = now.duration_since(since).as_secs_f64();
        if seconds > 0.0 { (tokens - before) as f64 / seconds } else { 0.0 }
    }

    /// Estimates the seconds left, assuming that the remaining files or chunks take as long as those done so far.
    /// Returns `None` before the first is done.
    fn eta(&self, done: u64, total: u64) -> Option<f64> {
        let elapsed = self.begun?.elapsed().as_secs_f64();
        (done > 0).then(|| elapsed / done as f64 * total.saturating_sub(done) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watcher_files_count_for_waiting_job() {
        let (job, watcher) = (
            Progress::new(JobSnapshot { job_id: "1".into(), ..snapshot_without_job() }),
            Progress::new(snapshot_without_job()),
        );
        let unasked = UnattendedTotals::default();
        unasked.count(&job, 5, 50);
        unasked.count(&watcher, 2, 20);
        assert_eq!(unasked.totals(), (2, 20));
        job.add_done(1, 7, &[]);
        job.add_from_other_runs(2, 20);
        let told = job.snapshot();
        assert_eq!((told.files_done, told.files_total, told.chunks_written), (3, 3, 27));
    }
}
