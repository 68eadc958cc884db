//! The jobs of the corpus API that have not ended, and the task that runs each of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::catalog::StoredJob;
use crate::error::{Error, Result};
use crate::machine::FairSlots;

/// Maximum number of jobs, running or queued. Each holds its request and may take minutes: a longer queue would mean hours
/// of waiting, so further jobs are rejected at once. One API key may have half of them.
const MAX_JOBS: usize = 64;

/// States as stored in the database: of a job that has not ended, and of a cancelled job.
pub(super) const RUNNING: &str = "running";
pub(super) const CANCELLED: &str = "cancelled";

/// Maximum number of calls that wait for the end of a job. Each such call occupies a slot for reads, and a small machine
/// has only two of these slots. A further call does not wait: it returns the id of its job at once.
const MAX_WAITING_CALLS: usize = 1;

/// The jobs of all callers.
pub(super) struct Jobs {
    pub(super) slots: Arc<FairSlots>,
    waits: Semaphore,
    /// Allows one job at a time: jobs take long, and interactive requests need the CPU too.
    pub(super) run_permit: Arc<Semaphore>,
    /// Jobs that have not ended, by job id.
    running: Mutex<HashMap<String, RunningJob>>,
}

/// A job that has not ended.
#[derive(Clone, Default)]
pub(super) struct RunningJob {
    pub(super) cancel: CancellationToken,
    pub(super) ended: CancellationToken,
}

/// Keeps a job registered as running until its task is dropped, even by a panic.
pub(super) struct RunningGuard {
    jobs: Arc<Jobs>,
    id: String,
    pub(super) begun: RunningJob,
}

impl RunningGuard {
    pub(super) fn new(jobs: Arc<Jobs>, id: &str) -> RunningGuard {
        let open = RunningGuard { jobs, id: id.into(), begun: RunningJob::default() };
        open.jobs.running().insert(open.id.clone(), open.begun.clone());
        open
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.jobs.running().remove(&self.id);
        self.begun.ended.cancel();
    }
}

impl Jobs {
    pub(super) fn new() -> Jobs {
        Jobs {
            slots: FairSlots::with_half_each(MAX_JOBS),
            waits: Semaphore::new(MAX_WAITING_CALLS),
            run_permit: Arc::new(Semaphore::new(1)),
            running: Mutex::default(),
        }
    }

    pub(super) fn running(&self) -> MutexGuard<'_, HashMap<String, RunningJob>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a job has ended or the time is over; not at all if too many calls wait already.
    pub(super) async fn wait_for_end(&self, job: &RunningJob, time: Duration) {
        if let Ok(_place) = self.waits.try_acquire() {
            tokio::time::timeout(time, job.ended.cancelled()).await.ok();
        }
    }

    /// Returns whether a job is running according to the database, but no task runs it, because its end was not recorded.
    pub(super) fn is_orphaned(&self, job: &StoredJob) -> bool {
        job.state == RUNNING && !self.running().contains_key(&job.id)
    }
}

/// Records a job and runs it in its own task, which continues if the caller disconnects, so that its end is always
/// recorded. If the caller disconnects before it receives the job id, the job is cancelled: no client knows its id.
pub(super) async fn record_and_spawn(
    cancel: CancellationToken,
    noted: impl Future<Output = Result<()>> + Send + 'static,
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let (tell, told) = oneshot::channel();
    // Cancel the job when the caller is dropped. The task cannot do this: its reply may be sent but never received.
    let unheard = cancel.drop_guard();
    tokio::spawn(async move {
        let noted = noted.await;
        let is_noted = noted.is_ok();
        tell.send(noted).ok();
        if is_noted {
            work.await;
        }
    });
    let told = told.await;
    unheard.disarm();
    told.map_err(Error::internal)?
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Poll;

    use tokio::sync::Notify;

    use super::*;
    use crate::catalog::CorpusStore;
    use crate::index::blocking;

    /// Records and runs a job, and returns its final state. If `caller_leaves`, the caller disconnects while the job is
    /// recorded; else it waits.
    async fn final_job_state(caller_leaves: bool) -> String {
        let dir = tempfile::tempdir().unwrap();
        let book = Arc::new(CorpusStore::open(&dir.path().join("corpus.sqlite")).unwrap());
        let (jobs, noting, may_note) = (Arc::new(Jobs::new()), Arc::new(Notify::new()), Arc::new(Notify::new()));
        let open = RunningGuard::new(jobs.clone(), "j");
        let (begun, cancel) = (open.begun.clone(), open.begun.cancel.clone());
        let note = |book: Arc<CorpusStore>, state: &str| {
            let job = StoredJob { id: "j".into(), state: state.into(), body: "{}".into() };
            blocking(move || book.put_job("", &job))
        };
        let (first, reached, gate) = (note(book.clone(), RUNNING), noting.clone(), may_note.clone());
        let noted = async move {
            reached.notify_one();
            gate.notified().await;
            first.await
        };
        let own = book.clone();
        let work = async move {
            let state = open.begun.cancel.run_until_cancelled(async { "completed" }).await.unwrap_or(CANCELLED);
            note(own, state).await.unwrap();
            drop(open);
        };
        let caller = tokio::spawn(record_and_spawn(cancel, noted, work));
        noting.notified().await;
        if caller_leaves {
            caller.abort();
            assert!(caller.await.unwrap_err().is_cancelled());
            may_note.notify_one();
        } else {
            may_note.notify_one();
            caller.await.unwrap().unwrap();
        }
        tokio::time::timeout(Duration::from_secs(30), begun.ended.cancelled()).await.expect("it ends");
        assert!(jobs.running().is_empty());
        book.job("", "j").unwrap().unwrap().state
    }

    #[tokio::test]
    async fn job_is_cancelled_if_caller_leaves_while_recording() {
        assert_eq!(final_job_state(true).await, CANCELLED);
        assert_eq!(final_job_state(false).await, "completed");
    }

    #[tokio::test]
    async fn job_is_cancelled_if_caller_leaves_before_reply() {
        let jobs = Arc::new(Jobs::new());
        let open = RunningGuard::new(jobs.clone(), "j");
        let (begun, working) = (open.begun.clone(), Arc::new(Notify::new()));
        let reached = working.clone();
        let work = async move {
            reached.notify_one();
            open.begun.cancel.cancelled().await;
        };
        let mut caller = Box::pin(record_and_spawn(begun.cancel.clone(), async { Ok(()) }, work));
        let polled = poll_fn(|context| Poll::Ready(caller.as_mut().poll(context))).await;
        assert!(polled.is_pending());
        // The work starts only after the reply was sent. The caller is dropped without being polled to receive it.
        working.notified().await;
        drop(caller);
        tokio::time::timeout(Duration::from_secs(30), begun.ended.cancelled()).await.expect("it ends");
        assert!(jobs.running().is_empty());
    }

    #[tokio::test]
    async fn waits_are_bounded_in_time_and_number() {
        let jobs = Jobs::new();
        let running = RunningJob::default();
        jobs.wait_for_end(&running, Duration::from_millis(1)).await;
        let places: Vec<_> = (0..MAX_WAITING_CALLS).map(|_| jobs.waits.try_acquire().unwrap()).collect();
        let hour = Duration::from_secs(3_600);
        tokio::time::timeout(Duration::from_secs(30), jobs.wait_for_end(&running, hour))
            .await
            .expect("it does not wait");
        drop(places);
        let (waits, ends) = (jobs.wait_for_end(&running, hour), async { running.ended.cancel() });
        tokio::time::timeout(Duration::from_secs(30), async { tokio::join!(waits, ends) }).await.expect("it ends");
        assert_eq!(jobs.waits.available_permits(), MAX_WAITING_CALLS);
    }

    #[tokio::test]
    async fn job_that_cannot_be_recorded_does_not_run() {
        let jobs = Arc::new(Jobs::new());
        let open = RunningGuard::new(jobs.clone(), "j");
        let is_worked_on = Arc::new(AtomicBool::new(false));
        let begun = is_worked_on.clone();
        let work = async move {
            begun.store(true, Ordering::SeqCst);
            drop(open);
        };
        let refused =
            record_and_spawn(CancellationToken::new(), async { Err(Error::internal("a full disk")) }, work).await;
        assert!(refused.is_err());
        // Wait for the task to drop the work, shortly after it reports the failure.
        let over = async {
            while !jobs.running().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), over).await.expect("it ends");
        assert!(!is_worked_on.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn job_with_dead_task_is_not_reported_running() {
        let jobs = Arc::new(Jobs::new());
        let booked = StoredJob { id: "j".into(), state: RUNNING.into(), body: "{}".into() };
        let open = RunningGuard::new(jobs.clone(), &booked.id);
        let ended = open.begun.ended.clone();
        assert!(!jobs.is_orphaned(&booked));
        let work = async move {
            let _open = open;
            panic!("a defect");
        };
        record_and_spawn(CancellationToken::new(), async { Ok(()) }, work).await.unwrap();
        ended.cancelled().await;
        assert!(jobs.is_orphaned(&booked));
        assert!(!jobs.is_orphaned(&StoredJob { state: CANCELLED.into(), ..booked }));
    }
}
