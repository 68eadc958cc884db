//! Verbs that take longer than anybody waits: jobs. They are worked on one after the other. Whoever began one sees where it
//! stands and may end it, and so does the owner; for everybody else it does not exist, also for those who may know of the
//! same folders.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::catalog::BookedJob;
use crate::contract::answer::Answer;
use crate::contract::refusal::{Cause, Outcome, Refusal};
use crate::contract::select::Size;
use crate::contract::validate::Request;
use crate::contract::views::{flag, one_of, text};
use crate::contract::{Contract, Done, Made, envelope, ingest, random, words};
use crate::error::{Error, Result};
use crate::index::blocking;
use crate::machine::Shares;
use crate::model::Holder;

/// Verbs in jobs: the one at work, and those that wait for their turn. Each holds its request, and may take minutes: who
/// comes after so many would wait for hours, and is told at once. A key has half of them.
const MOST_JOBS: usize = 64;

/// The longest that whoever ends a job waits for its end to be noted.
const NOTED: Duration = Duration::from_secs(2);

/// What a job that was ended stands as.
const CANCELLED: &str = "cancelled";

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

impl Jobs {
    pub(super) fn new() -> Jobs {
        Jobs { places: Shares::halves(MOST_JOBS), turn: Arc::new(Semaphore::new(1)), running: Mutex::default() }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, Begun>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contract {
    /// Goes on in a job, unless too many wait. What INGEST has begun by then stays in the index; only its session is not
    /// made.
    pub(super) async fn later(&self, request: Request, documents: usize, going: Option<ingest::Going>) -> Result<Made> {
        let place = self.jobs.places.take(&self.holder, "verbs in jobs have not ended")?;
        let job = BookedJob { id: format!("j-{:016x}", random()?), state: "running".into(), body: "{}".into() };
        let (reader, own, first) = (self.reader.clone(), self.own_name(), job.clone());
        blocking(move || reader.parts.book.put_job(&own, &first)).await?;
        let mut told = Answer::new("the work goes on in a job");
        told.data =
            json!({"job_id": job.id, "state": "running", "documents": documents, "ask": format!("job {}", job.id)});
        let envelope = envelope::answer("", request.verb.name, request.form.name, &Value::Null, 0.0, &told);
        let begun = Begun::default();
        self.jobs.running().insert(job.id.clone(), begun.clone());
        let contract = self.clone();
        tokio::spawn(async move {
            contract.see_to_its_end(request, job, going, &begun.cancel).await;
            drop(place);
            begun.ended.cancel();
        });
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
        let (reader, own, id) = (self.reader.clone(), self.own_name(), job.id.clone());
        if let Err(error) = blocking(move || reader.parts.book.put_job(&own, &job)).await {
            tracing::warn!(%error, "cannot note the end of a job of the contract");
        }
        self.jobs.running().remove(&id);
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
            Err(refusal) => Ok(("failed", json!({"error": self.short(&refusal)}))),
        };
        outcome.unwrap_or_else(|error| ("failed", json!({"error": self.short(&Refusal::from(error))})))
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
