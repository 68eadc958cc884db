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
use crate::corpus::running_jobs::{CANCELLED, RUNNING, RunningGuard, record_and_spawn};
use crate::corpus::text::words;
use crate::corpus::verbs::ingest_run::RunningIngest;
use crate::error::{Error, ErrorCode, Result};
use crate::index::blocking;
use crate::model::Principal;

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
        let (reader, own, first) = (self.reader.clone(), self.job_owner(), job.clone());
        let open = RunningGuard::new(self.jobs.clone(), &job.id);
        let mut told = Answer::new("the work continues as a job");
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
        let (reader, own) = (self.reader.clone(), self.job_owner());
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
            // Load the job again, because it may have ended after it was loaded and before the check.
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

    /// Loads a job of the caller; the owner can load the jobs of every key.
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

    /// Returns the key under which the database stores the caller's jobs.
    fn job_owner(&self) -> String {
        match &self.holder {
            Principal::Owner => String::new(),
            Principal::Key(hash) => hash.to_string(),
        }
    }

    /// Cancels a job that the caller may see. Has no effect on a job that has ended.
    async fn cancel_job(&self, id: &str) {
        let Some(begun) = self.jobs.running().get(id).cloned() else { return };
        begun.cancel.cancel();
        // Wait, because the job itself records its end a moment later.
        tokio::time::timeout(CANCEL_TIMEOUT, begun.ended.cancelled()).await.ok();
    }
}

fn random_id() -> Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(Error::internal)?;
    Ok(u64::from_le_bytes(bytes))
}
