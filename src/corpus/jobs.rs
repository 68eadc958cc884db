//! Background jobs for verbs that take too long to wait for. One job runs at a time. A job is visible to the key that
//! started it and to the owner; both can cancel it. For every other key it does not exist, even for keys with the same
//! folders.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::catalog::StoredJob;
use crate::corpus::api::answer::Answer;
use crate::corpus::api::envelope;
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::management::{check_fields, flag_field, text_field};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::text::words;
use crate::corpus::verbs::ingest;
use crate::corpus::views::select::WorkMode;
use crate::corpus::{CallReply, CorpusApi, VerbOutcome, random_id};
use crate::error::{Error, ErrorCode, Result};
use crate::index::blocking;
use crate::machine::FairSlots;
use crate::model::Principal;

/// Most jobs, the running one and those in the queue. Each holds its request and may take minutes: a longer queue would
/// mean hours of waiting, so further jobs are rejected at once. One key may take half of them.
const MAX_JOBS: usize = 64;

/// Longest time that a cancel waits for the end of the job to be recorded.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// Job states: not ended, cancelled, failed.
const RUNNING: &str = "running";
const CANCELLED: &str = "cancelled";
const FAILED: &str = "failed";

/// The jobs of all callers.
pub(super) struct Jobs {
    slots: Arc<FairSlots>,
    /// One job at a time: jobs are long, and interactive requests need the CPU too.
    run_permit: Arc<Semaphore>,
    /// Jobs that have not ended, by id.
    running: Mutex<HashMap<String, RunningJob>>,
}

/// A job that has not ended.
#[derive(Clone, Default)]
struct RunningJob {
    cancel: CancellationToken,
    ended: CancellationToken,
}

/// Registers a job as running until its task is dropped, even by a panic.
struct RunningGuard {
    jobs: Arc<Jobs>,
    id: String,
    begun: RunningJob,
}

impl RunningGuard {
    fn new(jobs: Arc<Jobs>, id: &str) -> RunningGuard {
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
            run_permit: Arc::new(Semaphore::new(1)),
            running: Mutex::default(),
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, RunningJob>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the database calls a job running but no task works on it: its end could not be recorded.
    fn is_orphaned(&self, job: &StoredJob) -> bool {
        job.state == RUNNING && !self.running().contains_key(&job.id)
    }
}

impl CorpusApi {
    /// Continues a request as a job, unless the queue is full. In that case, files that INGEST has
    /// indexed by then stay in the index; only its session is not created.
    pub(super) async fn start_job(
        &self,
        request: ValidRequest,
        documents: usize,
        going: Option<ingest::RunningIngest>,
    ) -> Result<CallReply> {
        let place = self.jobs.slots.acquire(&self.holder, "verbs in jobs have not ended")?;
        let job = StoredJob { id: format!("j-{:016x}", random_id()?), state: RUNNING.into(), body: "{}".into() };
        let (reader, own, first) = (self.reader.clone(), self.job_owner(), job.clone());
        let open = RunningGuard::new(self.jobs.clone(), &job.id);
        let mut told = Answer::new("the work goes on in a job");
        told.data =
            json!({"job_id": job.id, "state": RUNNING, "documents": documents, "ask": format!("job {}", job.id)});
        let envelope = envelope::wrap_answer("", request.verb.name, request.form.name, &Value::Null, 0.0, &told);
        let (contract, cancel) = (self.clone(), open.begun.cancel.clone());
        let noted = blocking(move || reader.parts.book.put_job(&own, &first));
        let work = async move {
            contract.run_to_end(request, job, going, &open.begun.cancel).await;
            drop((place, open));
        };
        record_and_spawn(cancel, noted, work).await?;
        Ok((envelope, None, true))
    }

    async fn run_to_end(
        mut self,
        request: ValidRequest,
        mut job: StoredJob,
        going: Option<ingest::RunningIngest>,
        cancel: &CancellationToken,
    ) {
        let worked = async {
            // Waits for the turn of the job; the semaphore is never closed.
            self.job_permit = self.jobs.run_permit.clone().acquire_owned().await.ok().map(Arc::new);
            self.run_job(&request, going).await
        };
        let (state, body) = cancel.run_until_cancelled(worked).await.unwrap_or_else(|| (CANCELLED, json!({})));
        job.state = state.into();
        job.body = body.to_string();
        let (reader, own) = (self.reader.clone(), self.job_owner());
        if let Err(error) = blocking(move || reader.parts.book.put_job(&own, &job)).await {
            tracing::warn!(%error, "cannot record the end of a corpus job");
        }
    }

    /// Runs the work of a job. Returns its final state, with the result id or the error.
    async fn run_job(&self, request: &ValidRequest, going: Option<ingest::RunningIngest>) -> (&'static str, Value) {
        let done = match request.verb.name {
            "INGEST" => self.ingest_in_job(request, going).await,
            "QUERY" => self.query_in_job(request).await,
            _ => self.read_and_run(request, WorkMode::InJob).await,
        };
        let outcome = match done {
            Ok(VerbOutcome::Answer { id, view, coverage, documents, answer }) => {
                let kept = self.store_answer(request, &id, (&view, coverage), documents, &answer).await;
                kept.map(|_| ("completed", json!({"result": id})))
            }
            Ok(VerbOutcome::NeedsJob(_) | VerbOutcome::IngestStarted(_)) => {
                Err(Error::internal("a running job asked for another job"))
            }
            // Also if the index job that it waited for was cancelled: a client may cancel either one first.
            Err(refusal) if refusal.code == ErrorCode::Cancelled && !self.reader.parts.index.is_ending() => {
                Ok((CANCELLED, json!({})))
            }
            Err(refusal) => Ok((FAILED, json!({"error": self.short_error(&refusal)}))),
        };
        outcome.unwrap_or_else(|error| (FAILED, json!({"error": self.short_error(&ApiError::from(error))})))
    }

    /// Returns the state of a job, after cancelling it if `cancel` is set.
    pub(super) async fn job_status(&self, given: &Map<String, Value>) -> ApiResult<Value> {
        check_fields(given, &["id", "cancel", "format"])?;
        let id = text_field(given, "id")?
            .ok_or_else(|| ApiError::new(ApiErrorKind::MissingField, "`id` is missing").field("id"))?;
        let cancel = flag_field(given, "cancel")?;
        let mut job = self.load_job(id).await?;
        if cancel {
            self.cancel_job(&job.id).await;
            job = self.load_job(id).await?;
        }
        if self.jobs.is_orphaned(&job) {
            // The job may have ended after the first query.
            job = self.load_job(id).await?;
        }
        if self.jobs.is_orphaned(&job) {
            job.state = FAILED.into();
        }
        let mut shown = json!({"job_id": job.id, "state": job.state});
        let body: Value = serde_json::from_str(&job.body).unwrap_or_default();
        for name in ["result", "error"] {
            if !body[name].is_null() {
                shown[name] = body[name].clone();
            }
        }
        Ok(shown)
    }

    /// Loads a job of the caller; the owner can load the job of any key.
    async fn load_job(&self, id: &str) -> ApiResult<StoredJob> {
        let (reader, holder, own, wanted) =
            (self.reader.clone(), self.holder.clone(), self.job_owner(), id.to_string());
        let found = blocking(move || match holder {
            Principal::Owner => reader.parts.book.job_of_any_owner(&wanted),
            Principal::Key(_) => reader.parts.book.job(&own, &wanted),
        });
        found.await?.ok_or_else(|| {
            ApiError::new(ApiErrorKind::UnknownResult, format!("there is no job `{}`", words::truncate_to_line(id, 40)))
                .field("id")
        })
    }

    /// The key under which the database stores the caller's jobs.
    fn job_owner(&self) -> String {
        match &self.holder {
            Principal::Owner => String::new(),
            Principal::Key(hash) => hash.to_string(),
        }
    }

    /// Cancels a job that the caller may see. A job that has ended stays as it is.
    async fn cancel_job(&self, id: &str) {
        let Some(begun) = self.jobs.running().get(id).cloned() else { return };
        begun.cancel.cancel();
        // The job records its end itself, a moment later.
        tokio::time::timeout(CANCEL_TIMEOUT, begun.ended.cancelled()).await.ok();
    }
}

/// Records a job and runs it in its own task, which survives the caller, so that its end is always recorded. If the
/// caller disconnects before it learns the job id, the job is cancelled, because no client could ask for it.
async fn record_and_spawn(
    cancel: CancellationToken,
    noted: impl Future<Output = Result<()>> + Send + 'static,
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let (tell, told) = oneshot::channel();
    // A sent reply may never be received: only the caller can tell, so only the caller disarms the guard.
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

    /// Starts a job; the caller disconnects while the job is being recorded, or waits. Returns the final state.
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
        // The caller has been sent the reply, but was not polled again to receive it.
        working.notified().await;
        drop(caller);
        tokio::time::timeout(Duration::from_secs(30), begun.ended.cancelled()).await.expect("it ends");
        assert!(jobs.running().is_empty());
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
        // The task drops the work shortly after it reports the failure.
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
