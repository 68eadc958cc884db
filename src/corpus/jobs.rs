//! Background jobs for verbs that take too long to wait for. One job runs at a time. Only the API key that started a job
//! and the owner see the job, and both can cancel it. For every other key the job does not exist, even if that key gives
//! access to the same folders.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::catalog::StoredJob;
use crate::corpus::api::answer::Answer;
use crate::corpus::api::envelope;
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::management::{check_fields, flag_field, text_field};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::context::CorpusApi;
use crate::corpus::limits::WorkMode;
use crate::corpus::outcome::{CallReply, VerbOutcome};
use crate::corpus::results::parse_stored;
use crate::corpus::running_jobs::{CANCELLED, RUNNING, RunningGuard, RunningJob, record_and_spawn};
use crate::corpus::text::words;
use crate::corpus::verbs::ingest_run::RunningIngest;
use crate::error::{Error, ErrorCode, Result};
use crate::index::blocking;
use crate::model::Principal;
use crate::verbs::MAX_WAIT_MS;

/// Maximum time that a cancel request waits until the end of the job is recorded.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// Name of the state of a failed job.
const FAILED: &str = "failed";

impl CorpusApi {
    /// Continues a request as a job, unless the queue is full. If it is full, files that INGEST has already indexed stay in
    /// the index; only the session is not created.
    pub(super) async fn start_job(
        &self,
        request: ValidRequest,
        documents: usize,
        going: Option<RunningIngest>,
    ) -> Result<CallReply> {
        let place = self.jobs.slots.acquire(&self.holder, "verbs in jobs have not ended")?;
        let job = StoredJob { id: format!("j-{:016x}", random_id()?), state: RUNNING.into(), body: "{}".into() };
        let (reader, own, first) = (self.reader.clone(), self.storage_owner(), job.clone());
        let open = RunningGuard::new(self.jobs.clone(), &job.id);
        let mut told = Answer::new("the work continues as a job");
        told.data =
            json!({"job_id": job.id, "state": RUNNING, "documents": documents, "ask": format!("job {}", job.id)});
        let (contract, begun, wait) = (self.clone(), open.begun.clone(), request.wait());
        let (id, verb, form) = (job.id.clone(), request.verb.name, request.form.name);
        let noted = blocking(move || reader.parts.book.put_job(&own, &first));
        let work = async move {
            contract.run_to_end(request, job, going, &open.begun.cancel).await;
            drop((place, open));
        };
        record_and_spawn(begun.cancel.clone(), noted, work).await?;
        if !wait.is_zero() {
            // Cancel the job when the caller is dropped while it waits: no client knows the id of the job.
            let unheard = begun.cancel.clone().drop_guard();
            self.jobs.wait_for_end(&begun, wait).await;
            self.add_outcome(&id, &mut told).await?;
            unheard.disarm();
        }
        let goes_on = told.data["state"] == RUNNING;
        Ok((envelope::wrap_answer("", verb, form, &Value::Null, 0.0, &told), None, goes_on))
    }

    /// Adds the final state of a job, with its result or error, to `told`, the answer that contains the id of the job. Adds
    /// nothing if the job is still running.
    async fn add_outcome(&self, id: &str, told: &mut Answer) -> Result<()> {
        let job = self.load_job_state(id).await.map_err(|refusal| Error::internal(refusal.message))?;
        if job.state == RUNNING {
            return Ok(());
        }
        let shown = self.job_value(&job, true).await.map_err(|refusal| Error::internal(refusal.message))?;
        told.method = "a job that has ended".into();
        told.confidence = shown["answer"]["confidence"].as_f64().unwrap_or(0.0);
        told.coverage = shown["answer"]["coverage"].as_f64();
        if let (Some(data), Value::Object(shown)) = (told.data.as_object_mut(), shown) {
            data.extend(shown);
        }
        Ok(())
    }

    async fn run_to_end(
        mut self,
        request: ValidRequest,
        mut job: StoredJob,
        going: Option<RunningIngest>,
        cancel: &CancellationToken,
    ) {
        let worked = async {
            // Wait until no other job runs; the semaphore is never closed, so this does not fail.
            self.job_permit = self.jobs.run_permit.clone().acquire_owned().await.ok().map(Arc::new);
            self.run_job(&request, going).await
        };
        let (state, body) = cancel.run_until_cancelled(worked).await.unwrap_or_else(|| (CANCELLED, json!({})));
        job.state = state.into();
        job.body = body.to_string();
        let (reader, own) = (self.reader.clone(), self.storage_owner());
        if let Err(error) = blocking(move || reader.parts.book.put_job(&own, &job)).await {
            tracing::warn!(%error, "cannot record the end of a corpus job");
        }
    }

    /// Runs the work of a job. Returns the final state, with the id of the result or the error.
    async fn run_job(&self, request: &ValidRequest, going: Option<RunningIngest>) -> (&'static str, Value) {
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
                Err(Error::internal("a job cannot start another job"))
            }
            // Record `cancelled` also if the index job that this job waits for was cancelled: a client may cancel either.
            Err(refusal) if refusal.code == ErrorCode::Cancelled && !self.reader.parts.index.is_ending() => {
                Ok((CANCELLED, json!({})))
            }
            Err(refusal) => Ok((FAILED, json!({"error": self.short_error(&refusal)}))),
        };
        outcome.unwrap_or_else(|error| (FAILED, json!({"error": self.short_error(&ApiError::from(error))})))
    }

    /// Returns the state of a job; first cancels the job if the request sets `cancel`.
    pub(super) async fn job_status(&self, given: &Map<String, Value>) -> ApiResult<Value> {
        check_fields(given, &["id", "cancel", "wait_ms", "format"])?;
        let id = text_field(given, "id")?.ok_or_else(|| {
            ApiError::new(ApiErrorKind::MissingField, "`id` is missing")
                .field("id")
                .action("give the `job_id` of an answer")
        })?;
        let cancel = flag_field(given, "cancel")?;
        let wait = wait_field(given)?;
        let job = self.load_job(id).await?;
        if cancel {
            self.cancel_job(&job.id).await;
        } else if let (false, Some(begun)) = (wait.is_zero(), self.running_job(&job.id)) {
            self.jobs.wait_for_end(&begun, wait).await;
        }
        let job = self.load_job_state(id).await?;
        self.job_value(&job, !wait.is_zero()).await
    }

    /// Loads a job of the caller. A job that no task runs any more, and whose end was not recorded, has failed.
    async fn load_job_state(&self, id: &str) -> ApiResult<StoredJob> {
        let job = self.load_job(id).await?;
        if !self.jobs.is_orphaned(&job) {
            return Ok(job);
        }
        // Load the job again, because it may have ended after it was loaded and before the check.
        let mut job = self.load_job(id).await?;
        if self.jobs.is_orphaned(&job) {
            job.state = FAILED.into();
        }
        Ok(job)
    }

    /// Returns the state of a job with the id of its result or its error; if `whole`, also with the result itself.
    async fn job_value(&self, job: &StoredJob, whole: bool) -> ApiResult<Value> {
        let mut shown = json!({"job_id": job.id, "state": job.state});
        let body: Value = serde_json::from_str(&job.body).unwrap_or_default();
        for name in ["result", "error"] {
            if !body[name].is_null() {
                shown[name] = body[name].clone();
            }
        }
        // An answer that is too large to be stored has an id, but no result.
        if let (true, Some(id)) = (whole, body["result"].as_str())
            && let Some(kept) = self.stored_result(id).await?
        {
            shown["answer"] = parse_stored(&kept.envelope)?;
        }
        Ok(shown)
    }

    /// Returns a job that has not ended. The lock is not held afterwards.
    fn running_job(&self, id: &str) -> Option<RunningJob> {
        self.jobs.running().get(id).cloned()
    }

    /// Loads a job of the caller; the owner can load the jobs of every key.
    async fn load_job(&self, id: &str) -> ApiResult<StoredJob> {
        let (reader, holder, own, wanted) =
            (self.reader.clone(), self.holder.clone(), self.storage_owner(), id.to_string());
        let found = blocking(move || match holder {
            Principal::Owner => reader.parts.book.job_of_any_owner(&wanted),
            Principal::Key(_) => reader.parts.book.job(&own, &wanted),
        });
        found.await?.ok_or_else(|| {
            let shown = words::truncate_to_line(id, 40);
            let error = ApiError::new(ApiErrorKind::UnknownResult, format!("there is no job `{shown}`")).field("id");
            match id.starts_with("r-") {
                true => error.action("this is the id of an answer: use RESULT"),
                false => error.action("give the `job_id` of an answer"),
            }
        })
    }

    /// Cancels a job that the caller may see. Has no effect on a job that has ended.
    async fn cancel_job(&self, id: &str) {
        let Some(begun) = self.running_job(id) else { return };
        begun.cancel.cancel();
        // Wait, because the job itself records its end a moment later.
        tokio::time::timeout(CANCEL_TIMEOUT, begun.ended.cancelled()).await.ok();
    }
}

/// Returns the time that a call of JOB waits.
fn wait_field(given: &Map<String, Value>) -> ApiResult<Duration> {
    let Some(given) = given.get("wait_ms").filter(|it| !it.is_null()) else { return Ok(Duration::ZERO) };
    let number = given.as_i64().or_else(|| given.as_str()?.trim().parse().ok());
    let fits = number.filter(|it| (0..=MAX_WAIT_MS).contains(it)).and_then(|it| u64::try_from(it).ok());
    fits.map(Duration::from_millis).ok_or_else(|| {
        let kind = if number.is_some() { ApiErrorKind::OutOfRange } else { ApiErrorKind::TypeError };
        ApiError::new(kind, "`wait_ms` is not a number of milliseconds that a call may wait")
            .field("wait_ms")
            .action(format!("give 0 to {MAX_WAIT_MS}"))
    })
}

fn random_id() -> Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(Error::internal)?;
    Ok(u64::from_le_bytes(bytes))
}
