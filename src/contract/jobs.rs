//! Verbs that take longer than anybody waits: jobs. They are worked on one after the other. Whoever began one sees where it
//! stands and may end it, and so does the owner; for everybody else it does not exist, also for those who may know of the
//! same folders.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::catalog::BookedJob;
use crate::contract::answer::Answer;
use crate::contract::refusal::{Cause, Outcome, Refusal};
use crate::contract::select::Size;
use crate::contract::validate::Request;
use crate::contract::views::{flag, one_of, text};
use crate::contract::{Contract, Done, Made, envelope, ingest, random, words};
use crate::error::{Error, ErrorCode, Result};
use crate::index::blocking;
use crate::machine::Shares;
use crate::model::Holder;

/// Verbs in jobs: the one at work, and those that wait for their turn. Each holds its request, and may take minutes: who
/// comes after so many would wait for hours, and is told at once. A key has half of them.
const MOST_JOBS: usize = 64;

/// The longest that whoever ends a job waits for its end to be noted.
const NOTED: Duration = Duration::from_secs(2);

/// What a job stands as that has not ended, that was ended, and that came to nothing.
const RUNNING: &str = "running";
const CANCELLED: &str = "cancelled";
const FAILED: &str = "failed";

/// The jobs of everybody.
pub(super) struct Jobs {
    places: Arc<Shares>,
    /// One job at a time: they are long, and others wait for an answer.
    turn: Arc<Semaphore>,
    /// Those that have not ended, by their ids.
    running: Mutex<HashMap<String, Begun>>,
}

/// A job that has not ended.
#[derive(Clone, Default)]
struct Begun {
    cancel: CancellationToken,
    ended: CancellationToken,
}

/// Keeps a job among those that have not ended, until its task is over, however that happens.
struct Open {
    jobs: Arc<Jobs>,
    id: String,
    begun: Begun,
}

impl Open {
    fn new(jobs: Arc<Jobs>, id: &str) -> Open {
        let open = Open { jobs, id: id.into(), begun: Begun::default() };
        open.jobs.running().insert(open.id.clone(), open.begun.clone());
        open
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.jobs.running().remove(&self.id);
        self.begun.ended.cancel();
    }
}

impl Jobs {
    pub(super) fn new() -> Jobs {
        Jobs { places: Shares::halves(MOST_JOBS), turn: Arc::new(Semaphore::new(1)), running: Mutex::default() }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, Begun>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the book says of a job that it runs, and nobody works on it: its end could not be noted.
    fn is_lost(&self, job: &BookedJob) -> bool {
        job.state == RUNNING && !self.running().contains_key(&job.id)
    }
}

impl Contract {
    /// Goes on in a job, unless too many wait. What INGEST has begun by then stays in the index; only its session is not
    /// made.
    pub(super) async fn later(&self, request: Request, documents: usize, going: Option<ingest::Going>) -> Result<Made> {
        let place = self.jobs.places.take(&self.holder, "verbs in jobs have not ended")?;
        let job = BookedJob { id: format!("j-{:016x}", random()?), state: RUNNING.into(), body: "{}".into() };
        let (reader, own, first) = (self.reader.clone(), self.own_name(), job.clone());
        let open = Open::new(self.jobs.clone(), &job.id);
        let mut told = Answer::new("the work goes on in a job");
        told.data =
            json!({"job_id": job.id, "state": RUNNING, "documents": documents, "ask": format!("job {}", job.id)});
        let envelope = envelope::answer("", request.verb.name, request.form.name, &Value::Null, 0.0, &told);
        let (contract, cancel) = (self.clone(), open.begun.cancel.clone());
        let noted = blocking(move || reader.parts.book.put_job(&own, &first));
        let work = async move {
            contract.see_to_its_end(request, job, going, &open.begun.cancel).await;
            drop((place, open));
        };
        begin(cancel, noted, work).await?;
        Ok((envelope, None, true))
    }

    async fn see_to_its_end(
        mut self,
        request: Request,
        mut job: BookedJob,
        going: Option<ingest::Going>,
        cancel: &CancellationToken,
    ) {
        let worked = async {
            // Its place in the queue; the semaphore is never closed.
            self.held = self.jobs.turn.clone().acquire_owned().await.ok().map(Arc::new);
            self.carry_out(&request, going).await
        };
        let (state, body) = cancel.run_until_cancelled(worked).await.unwrap_or_else(|| (CANCELLED, json!({})));
        job.state = state.into();
        job.body = body.to_string();
        let (reader, own) = (self.reader.clone(), self.own_name());
        if let Err(error) = blocking(move || reader.parts.book.put_job(&own, &job)).await {
            tracing::warn!(%error, "cannot note the end of a job of the contract");
        }
    }

    /// Does the work of a job; says how it stands then, with its result or why there is none.
    async fn carry_out(&self, request: &Request, going: Option<ingest::Going>) -> (&'static str, Value) {
        let done = match request.verb.name {
            "INGEST" => self.ingest_at_leisure(request, going).await,
            "QUERY" => self.query_at_leisure(request).await,
            _ => self.work(request, Size::AtLeisure).await,
        };
        let outcome = match done {
            Ok(Done::Answer { id, view, coverage, documents, answer }) => {
                let kept = self.keep(request, &id, (&view, coverage), documents, &answer).await;
                kept.map(|_| ("completed", json!({"result": id})))
            }
            Ok(Done::Later(_) | Done::Ingesting(_)) => Err(Error::internal("a job that was put off")),
            // Also where it was the job of the index that it waits for: whoever ends both may begin with either.
            Err(refusal) if refusal.code == ErrorCode::Cancelled && !self.reader.parts.index.is_ending() => {
                Ok((CANCELLED, json!({})))
            }
            Err(refusal) => Ok((FAILED, json!({"error": self.short(&refusal)}))),
        };
        outcome.unwrap_or_else(|error| (FAILED, json!({"error": self.short(&Refusal::from(error))})))
    }

    /// Says where a job stands, and ends it before where that is asked for.
    pub(super) async fn job(&self, given: &Map<String, Value>) -> Outcome<Value> {
        one_of(given, &["id", "cancel", "format"])?;
        let id = text(given, "id")?.ok_or_else(|| Refusal::new(Cause::MissingField, "which job?").field("id"))?;
        let cancel = flag(given, "cancel")?;
        let mut job = self.booked_job(id).await?;
        if cancel {
            self.end(&job.id).await;
            job = self.booked_job(id).await?;
        }
        if self.jobs.is_lost(&job) {
            // It may have ended since the book was asked.
            job = self.booked_job(id).await?;
        }
        if self.jobs.is_lost(&job) {
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

    /// A job of whoever asks; to the owner that of everybody.
    async fn booked_job(&self, id: &str) -> Outcome<BookedJob> {
        let (reader, holder, own, wanted) = (self.reader.clone(), self.holder.clone(), self.own_name(), id.to_string());
        let found = blocking(move || match holder {
            Holder::Owner => reader.parts.book.any_job(&wanted),
            Holder::Key(_) => reader.parts.book.job(&own, &wanted),
        });
        found.await?.ok_or_else(|| {
            Refusal::new(Cause::UnknownResult, format!("there is no job `{}`", words::short(id, 40))).field("id")
        })
    }

    /// Under which name the book keeps the jobs of whoever asks.
    fn own_name(&self) -> String {
        match &self.holder {
            Holder::Owner => String::new(),
            Holder::Key(hash) => hash.to_string(),
        }
    }

    /// Ends a job that whoever asks may see. One that has ended is left as it is.
    async fn end(&self, id: &str) {
        let Some(begun) = self.jobs.running().get(id).cloned() else { return };
        begun.cancel.cancel();
        // It is noted by the job itself, a moment later.
        tokio::time::timeout(NOTED, begun.ended.cancelled()).await.ok();
    }
}

/// Notes a job and works on it in a task of its own, which goes on whatever becomes of its caller: what is noted as running
/// has somebody who notes its end. A caller who left before they were told that the job is noted never learns its id, so it
/// is ended at once.
async fn begin(
    cancel: CancellationToken,
    noted: impl Future<Output = Result<()>> + Send + 'static,
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let (tell, told) = oneshot::channel();
    // What is sent is not yet heard: the caller may leave in between, so it is they who end the job.
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
    use crate::catalog::CorpusBook;

    /// Begins a job whose caller leaves while it is noted, or waits; returns what it stands as when its task is over.
    async fn state_at_the_end(caller_leaves: bool) -> String {
        let dir = tempfile::tempdir().unwrap();
        let book = Arc::new(CorpusBook::open(&dir.path().join("corpus.sqlite")).unwrap());
        let (jobs, noting, may_note) = (Arc::new(Jobs::new()), Arc::new(Notify::new()), Arc::new(Notify::new()));
        let open = Open::new(jobs.clone(), "j");
        let (begun, cancel) = (open.begun.clone(), open.begun.cancel.clone());
        let note = |book: Arc<CorpusBook>, state: &str| {
            let job = BookedJob { id: "j".into(), state: state.into(), body: "{}".into() };
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
        let caller = tokio::spawn(begin(cancel, noted, work));
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
    async fn a_job_whose_caller_leaves_while_it_is_noted_does_not_run_for_ever() {
        assert_eq!(state_at_the_end(true).await, CANCELLED);
        assert_eq!(state_at_the_end(false).await, "completed");
    }

    #[tokio::test]
    async fn a_job_whose_caller_leaves_before_they_hear_that_it_is_noted_is_ended() {
        let jobs = Arc::new(Jobs::new());
        let open = Open::new(jobs.clone(), "j");
        let (begun, working) = (open.begun.clone(), Arc::new(Notify::new()));
        let reached = working.clone();
        let work = async move {
            reached.notify_one();
            open.begun.cancel.cancelled().await;
        };
        let mut caller = Box::pin(begin(begun.cancel.clone(), async { Ok(()) }, work));
        let polled = poll_fn(|context| Poll::Ready(caller.as_mut().poll(context))).await;
        assert!(polled.is_pending());
        // By now the caller was told, but not asked again whether they heard it.
        working.notified().await;
        drop(caller);
        tokio::time::timeout(Duration::from_secs(30), begun.ended.cancelled()).await.expect("it ends");
        assert!(jobs.running().is_empty());
    }

    #[tokio::test]
    async fn a_job_that_could_not_be_noted_is_not_worked_on() {
        let jobs = Arc::new(Jobs::new());
        let open = Open::new(jobs.clone(), "j");
        let is_worked_on = Arc::new(AtomicBool::new(false));
        let begun = is_worked_on.clone();
        let work = async move {
            begun.store(true, Ordering::SeqCst);
            drop(open);
        };
        let refused = begin(CancellationToken::new(), async { Err(Error::internal("a full disk")) }, work).await;
        assert!(refused.is_err());
        // The task drops the work a moment after it told.
        let over = async {
            while !jobs.running().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), over).await.expect("it ends");
        assert!(!is_worked_on.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn a_job_whose_task_is_gone_is_not_said_to_run() {
        let jobs = Arc::new(Jobs::new());
        let booked = BookedJob { id: "j".into(), state: RUNNING.into(), body: "{}".into() };
        let open = Open::new(jobs.clone(), &booked.id);
        let ended = open.begun.ended.clone();
        assert!(!jobs.is_lost(&booked));
        let work = async move {
            let _open = open;
            panic!("a defect");
        };
        begin(CancellationToken::new(), async { Ok(()) }, work).await.unwrap();
        ended.cancelled().await;
        assert!(jobs.is_lost(&booked));
        assert!(!jobs.is_lost(&BookedJob { state: CANCELLED.into(), ..booked }));
    }
}
