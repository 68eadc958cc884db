//! Answers calls of the corpus API: runs a verb at once, or starts a job for it.

use serde_json::{Map, Value, json};

use crate::corpus::api::answer::Answer;
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::api::{render, validate};
use crate::corpus::context::CorpusApi;
use crate::corpus::limits::{MAX_DOCUMENTS_WITHOUT_ASYNC, MAX_SYNC_DOCUMENTS, WorkMode, too_many_documents};
use crate::corpus::outcome::{CallReply, VerbOutcome};
use crate::corpus::results::{hash_result_id, parse_stored, unknown_result};
use crate::corpus::verbs::{compare, delta, detect, explain_failure, extract, normalize, score, summarize, trace};
use crate::corpus::views::baseline::{DeltaBaseline, serialize_corpus};
use crate::corpus::views::documents::Corpus;
use crate::corpus::views::saved_view::Selection;
use crate::corpus::views::select;
use crate::corpus::views::sessions::check_has_text;
use crate::error::{Error, Result};
use crate::model::{CorpusReply, CorpusRequest};

impl CorpusApi {
    /// Answers a call. A rejected request also gets a reply, with the error in the envelope.
    ///
    /// # Errors
    /// Only errors that do not depend on the request: a full disk, a damaged database, too many jobs.
    pub async fn call(&self, call: CorpusRequest) -> Result<CorpusReply> {
        let format = call.request.get("format").and_then(Value::as_str).map(str::to_lowercase);
        let verb = canonical_verb(&call.verb);
        let (envelope, refused, accepted) = match verb.as_str() {
            "VIEW" | "JOB" | "RESULT" | "HELP" | "SCHEMA" => self.manage(&verb, &call.request).await?,
            _ => self.run_verb(&verb, call.request).await?,
        };
        let rendered = match render::render_envelope(&envelope, format.as_deref()) {
            Ok(rendered) => (rendered, refused),
            Err(refusal) => {
                let envelope = self.error_envelope(None, &verb, &refusal);
                (("application/json", envelope.to_string()), Some(refusal.code))
            }
        };
        let ((media_type, text), refused) = rendered;
        Ok(CorpusReply { media_type: media_type.into(), text, error_code: refused, accepted })
    }

    async fn run_verb(&self, verb: &str, given: Map<String, Value>) -> Result<CallReply> {
        let asked = json!({"verb": verb, "fields": given});
        let id = hash_result_id(&asked, "");
        let request = match validate::validate_request(verb, given) {
            Ok(request) => request,
            Err(refusal) => return self.store_error(id, verb, &asked, refusal).await,
        };
        match self.dispatch(&request, request.flag("async")).await {
            Ok(VerbOutcome::Answer { id, view, coverage, documents, answer }) => self
                .store_answer(&request, &id, (&view, coverage), documents, &answer)
                .await
                .map(|it| (it, None, false)),
            Ok(VerbOutcome::NeedsJob(documents)) => self.start_job(request, documents, None).await,
            Ok(VerbOutcome::IngestStarted(going)) => {
                self.start_job(request, MAX_SYNC_DOCUMENTS + 1, Some(*going)).await
            }
            Err(refusal) => self.store_error(id, verb, &asked, refusal).await,
        }
    }

    /// Runs a validated request, or reports that it needs a job.
    async fn dispatch(&self, request: &ValidRequest, patient: bool) -> ApiResult<VerbOutcome> {
        match request.verb.name {
            "INGEST" => return self.ingest(request, patient).await,
            "QUERY" => return self.query(request, patient).await,
            "EXPLAIN_FAILURE" if explain_failure::result_id(request).is_some() => {
                let id = explain_failure::result_id(request).unwrap_or_default();
                let booked = self.stored_result(id).await?.ok_or_else(|| unknown_result(id, "id"))?;
                return Ok(answer_about_result(request, explain_failure::explain_result(request, &booked)?));
            }
            "SCORE" if request.form.name == "confidence" => {
                let id = request.text("extraction").unwrap_or_default();
                let booked = self.stored_result(id).await?.ok_or_else(|| unknown_result(id, "extraction"))?;
                let envelope = parse_stored(&booked.envelope)?;
                return Ok(answer_about_result(request, score::run(request, &Corpus::default(), Some(&envelope))?));
            }
            _ => {}
        }
        if patient {
            self.resolve_names(request).await?;
            return Ok(VerbOutcome::NeedsJob(0));
        }
        self.read_and_run(request, WorkMode::CallerWaits).await
    }

    /// Resolves the view, the baseline and the documents that a request names. Reads no document, so that a wrong name is
    /// rejected before a job starts.
    async fn resolve_names(&self, request: &ValidRequest) -> ApiResult<(Selection, Option<DeltaBaseline>)> {
        let (mut selection, earlier) = match request.verb.name {
            "DELTA" => self.resolve_baseline(request).await?,
            _ => (self.resolve_view(request).await?, None),
        };
        check_has_text(request, &selection)?;
        self.narrow_to_named(request, &mut selection).await?;
        self.check_source(request, &selection).await?;
        Ok((selection, earlier))
    }

    /// Loads the documents of the view and runs the verb on them.
    pub(super) async fn read_and_run(&self, request: &ValidRequest, size: WorkMode) -> ApiResult<VerbOutcome> {
        let (selection, earlier) = self.resolve_names(request).await?;
        let unknown = self.files_without_facts(&selection, &selection.filters).await?;
        if let Some(later) = job_needed(size, unknown.len())? {
            return Ok(later);
        }
        self.parse_all(&unknown).await?;
        let ids = self.select_files(&selection).await?;
        if let Some(later) = job_needed(size, ids.len())? {
            return Ok(later);
        }
        let corpus = self.load_corpus(&selection, &ids).await?;
        let earlier = match earlier {
            // Skip `check_not_empty`, because all documents may have been deleted since the baseline of DELTA.
            Some(earlier) => Some(
                self.load_baseline_texts(earlier, &corpus, request.text("only") == Some("new-contradictions")).await?,
            ),
            None if request.verb.name == "EXPLAIN_FAILURE" => None,
            None => select::check_not_empty(&corpus).map(|()| None)?,
        };
        let (id, coverage, view) =
            (select::view_result_id(request, &corpus, earlier.as_ref()), corpus.coverage(), corpus.view.clone());
        let documents = serialize_corpus(&corpus);
        let (request, held) = (request.clone(), self.job_permit.clone());
        let answer = tokio::task::spawn_blocking(move || {
            let _held = held;
            let mut answer = run_verb_on_corpus(&request, &corpus, earlier.as_ref())?;
            select::report_unread(&mut answer, &corpus);
            summarize::check_wording(request.verb, &answer)?;
            Ok::<_, ApiError>(answer)
        });
        let answer =
            answer.await.map_err(|_| ApiError::from(Error::internal("a verb panicked; see the log of vicd")))??;
        Ok(VerbOutcome::Answer { id, view, coverage, documents, answer: Box::new(answer) })
    }
}

/// Returns the verb as `crate::verbs` spells it: in upper case, with `_` for `-`. Changes ASCII letters only: Unicode case
/// mapping could turn another word into a verb that the permission check did not recognize.
pub(super) fn canonical_verb(verb: &str) -> String {
    verb.trim().to_ascii_uppercase().replace('-', "_")
}

/// Runs a verb on the documents of its view.
pub(super) fn run_verb_on_corpus(
    request: &ValidRequest,
    corpus: &Corpus,
    earlier: Option<&DeltaBaseline>,
) -> ApiResult<Answer> {
    match request.verb.name {
        "EXTRACT" => extract::run(request, corpus),
        "NORMALIZE" => normalize::run(request, corpus),
        "COMPARE" => compare::run(request, corpus),
        "DETECT" => detect::run(request, corpus),
        "TRACE" => trace::run(request, corpus),
        "SCORE" => score::run(request, corpus, None),
        "DELTA" => delta::run(request, corpus, earlier),
        "SUMMARIZE" => summarize::run(request, corpus),
        "EXPLAIN_FAILURE" => explain_failure::explain_document(request, corpus),
        other => Err(ApiError::new(ApiErrorKind::UnknownVerb, format!("`{other}` does not work on documents"))),
    }
}

fn answer_about_result(request: &ValidRequest, answer: Answer) -> VerbOutcome {
    let id = hash_result_id(&request.canonical(), &answer.data.to_string());
    VerbOutcome::Answer { id, view: Value::Null, coverage: 1.0, documents: String::new(), answer: Box::new(answer) }
}

/// Decides whether a call on this many documents must become a job, or is rejected.
fn job_needed(size: WorkMode, documents: usize) -> ApiResult<Option<VerbOutcome>> {
    match documents {
        _ if size == WorkMode::InJob => Ok(None),
        many if many > MAX_DOCUMENTS_WITHOUT_ASYNC => Err(too_many_documents(many)),
        many if many > MAX_SYNC_DOCUMENTS => Ok(Some(VerbOutcome::NeedsJob(many))),
        _ => Ok(None),
    }
}
