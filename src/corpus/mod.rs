//! The corpus API for programs that reason: eleven verbs over views of documents.
//!
//! `validate` checks a request against the closed `registry`. `select` and `view` resolve its view to documents.
//! `reader` parses each document in the jailed worker and caches the result by content hash. The verb, one file each, works
//! on the parsed documents in memory and in a fixed order. `envelope` wraps the answer.
//!
//! The same request on the same view gives the same bytes: ids are hashes and lists are sorted. Only the diff has a
//! time limit; the answer reports what it cut.
//!
//! `shapes` and `schema` publish the requests and responses. `prose` limits the tokens of answers, errors and help.
//! `objects` finds objects, with exact places from `place`; `claims` finds statements; `dates` finds dates. No step
//! asks a model.

mod analysis;
pub mod api;
mod document;
mod objects;
mod filter;
mod jobs;
#[cfg(test)]
mod tests;
mod text;
mod verbs;
mod views;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::OwnedSemaphorePermit;

use crate::catalog::StoredResult;
use crate::corpus::api::answer::{Answer, Unknown};
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::output_budget::TokenRuler;
use crate::corpus::api::request::ValidRequest;
use crate::corpus::document::loader::DocumentLoader;
use crate::corpus::jobs::Jobs;
use crate::corpus::verbs::delta::DeltaBaseline;
use crate::corpus::views::documents::Corpus;
use crate::corpus::views::select::WorkMode;
use crate::error::{Error, ErrorCode, Result};
use crate::index::blocking;
use crate::model::{CorpusReply, CorpusRequest, Principal, Scope};

pub use crate::corpus::document::loader::CorpusServices;

/// Most documents of a call that is answered while the client waits. A larger view runs as a job.
const MAX_SYNC_DOCUMENTS: usize = 100;

/// Most documents of a job that starts by itself. A larger view needs `async`.
const MAX_DOCUMENTS_WITHOUT_ASYNC: usize = 5_000;

/// Bytes kept of a rejected request.
const MAX_STORED_REQUEST_BYTES: usize = 4 << 10;

/// Characters kept of a rejected verb; every real verb is shorter.
const MAX_VERB_CHARS: usize = 40;

/// The corpus API for one caller. Cheap to clone.
#[derive(Clone)]
pub struct CorpusApi {
    reader: Arc<DocumentLoader>,
    scope: Scope,
    /// The caller.
    holder: Principal,
    jobs: Arc<Jobs>,
    /// The permit of the running job, if this is one. A running computation holds it to its end, even after its job was
    /// cancelled, so that starting and cancelling jobs gives a caller no more concurrency.
    job_permit: Option<Arc<OwnedSemaphorePermit>>,
}

/// The outcome of a verb.
pub(crate) enum VerbOutcome {
    /// An answer with its result id, its view, the share of documents that were read, and the serialized list of the
    /// documents that it used.
    Answer { id: String, view: Value, coverage: f64, documents: String, answer: Box<Answer> },
    /// The view is too large to wait for: number of documents for the job.
    NeedsJob(usize),
    /// The call becomes a job; indexing has already started.
    IngestStarted(Box<verbs::ingest::RunningIngest>),
}

impl CorpusApi {
    /// Creates the API of the owner.
    pub fn new(parts: CorpusServices) -> CorpusApi {
        let (reader, jobs) = (Arc::new(DocumentLoader::new(parts)), Arc::new(Jobs::new()));
        CorpusApi { reader, scope: Scope::All, holder: Principal::Owner, jobs, job_permit: None }
    }

    /// Returns the same API for a caller who sees only the files in `scope`.
    #[must_use]
    pub fn scoped_to(&self, scope: Scope, holder: Principal) -> CorpusApi {
        CorpusApi { scope, holder, ..self.clone() }
    }

    /// The key under which views, sessions and results of this scope are stored.
    fn storage_owner(&self) -> String {
        match &self.scope {
            Scope::All => String::new(),
            Scope::Folders(folders) => {
                let mut names: Vec<String> = folders.iter().map(|it| it.to_string_lossy().into_owned()).collect();
                names.sort();
                names.join("\n")
            }
        }
    }

    /// Answers a call. A rejected request is also a reply, with the error in its envelope.
    ///
    /// # Errors
    /// Only errors that are independent of the request: a full disk, a damaged database, too many jobs.
    pub async fn call(&self, call: CorpusRequest) -> Result<CorpusReply> {
        let format = call.request.get("format").and_then(Value::as_str).map(str::to_lowercase);
        let verb = canonical_verb(&call.verb);
        let (envelope, refused, accepted) = match verb.as_str() {
            "VIEW" | "JOB" | "RESULT" | "HELP" | "SCHEMA" => self.manage(&verb, &call.request).await?,
            _ => self.run_verb(&verb, call.request).await?,
        };
        let rendered = match api::render::render_envelope(&envelope, format.as_deref()) {
            Ok(rendered) => (rendered, refused),
            Err(refusal) => {
                let envelope = self.error_envelope(None, &verb, &refusal);
                (("application/json", envelope.to_string()), Some(refusal.code))
            }
        };
        let ((media_type, text), refused) = rendered;
        Ok(CorpusReply { media_type: media_type.into(), text, error_code: refused, accepted })
    }

    fn error_envelope(&self, id: Option<&str>, verb: &str, refusal: &ApiError) -> Value {
        api::envelope::wrap_error(
            id,
            &text::words::truncate_to_line(verb, MAX_VERB_CHARS),
            &Value::Null,
            self.short_error(refusal),
        )
    }

    /// The error, cut to its token limit.
    fn short_error(&self, refusal: &ApiError) -> Value {
        api::output_budget::limit_error(refusal, TokenRuler(&*self.reader.parts.embedder.token_counter()))
    }

    async fn run_verb(&self, verb: &str, given: Map<String, Value>) -> Result<CallReply> {
        let asked = json!({"verb": verb, "fields": given});
        let id = hash_result_id(&asked, "");
        let request = match api::validate::validate_request(verb, given) {
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

    async fn store_error(&self, id: String, verb: &str, asked: &Value, refusal: ApiError) -> Result<CallReply> {
        let envelope = self.error_envelope(Some(&id), verb, &refusal);
        let result =
            StoredResult { request: bounded_request(asked), envelope: envelope.to_string(), ..Default::default() };
        self.store_result(id, result).await?;
        Ok((envelope, Some(refusal.code), false))
    }

    async fn store_result(&self, id: String, result: StoredResult) -> Result<bool> {
        let (reader, owner) = (self.reader.clone(), self.storage_owner());
        blocking(move || reader.parts.book.put_result(&owner, &id, &result)).await
    }

    /// Wraps an answer in its envelope and stores it with the list of its documents.
    async fn store_answer(
        &self,
        request: &ValidRequest,
        id: &str,
        (view, coverage): (&Value, f64),
        documents: String,
        answer: &Answer,
    ) -> Result<Value> {
        let mut envelope = api::envelope::wrap_answer(id, request.verb.name, request.form.name, view, coverage, answer);
        let counter = self.reader.parts.embedder.token_counter();
        let (verbose, offset) = (request.flag("verbose"), request.page().1);
        let (id, request) = (id.to_string(), request.canonical().to_string());
        let mut envelope = blocking(move || {
            api::envelope::shorten(&mut envelope, verbose, offset, TokenRuler(&*counter));
            Ok(envelope)
        })
        .await?;
        if !self.store_result(id, StoredResult { request, envelope: envelope.to_string(), documents }).await?
            && let Some(unknowns) = envelope["unknowns"].as_array_mut()
        {
            let told = Unknown::new("result_not_kept", 1).detail("it is too large to store, so its id does not work");
            unknowns.push(told.value());
        }
        Ok(envelope)
    }

    /// Runs a checked request, or reports that it needs a job.
    async fn dispatch(&self, request: &ValidRequest, patient: bool) -> ApiResult<VerbOutcome> {
        match request.verb.name {
            "INGEST" => return self.ingest(request, patient).await,
            "QUERY" => return self.query(request, patient).await,
            "EXPLAIN_FAILURE" if verbs::explain_failure::result_id(request).is_some() => {
                let id = verbs::explain_failure::result_id(request).unwrap_or_default();
                let booked = self.stored_result(id).await?.ok_or_else(|| views::snapshot::unknown_result(id, "id"))?;
                return Ok(answer_about_result(request, verbs::explain_failure::explain_result(request, &booked)?));
            }
            "SCORE" if request.form.name == "confidence" => {
                let id = request.text("extraction").unwrap_or_default();
                let booked =
                    self.stored_result(id).await?.ok_or_else(|| views::snapshot::unknown_result(id, "extraction"))?;
                let envelope = parse_stored(&booked.envelope)?;
                return Ok(answer_about_result(
                    request,
                    verbs::score::run(request, &Corpus::default(), Some(&envelope))?,
                ));
            }
            _ => {}
        }
        if patient {
            return Ok(VerbOutcome::NeedsJob(0));
        }
        self.read_and_run(request, WorkMode::CallerWaits).await
    }

    /// Reads the view and runs the verb on it.
    async fn read_and_run(&self, request: &ValidRequest, size: WorkMode) -> ApiResult<VerbOutcome> {
        let (mut selection, earlier) = match request.verb.name {
            "DELTA" => self.resolve_baseline(request).await?,
            _ => (self.resolve_view(request).await?, None),
        };
        views::snapshot::check_has_text(request, &selection)?;
        self.narrow_to_named(request, &mut selection).await?;
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
            // An empty view is valid for DELTA: the documents may have been deleted since.
            Some(earlier) => Some(
                self.load_baseline_texts(earlier, &corpus, request.text("only") == Some("new-contradictions")).await?,
            ),
            None if request.verb.name == "EXPLAIN_FAILURE" => None,
            None => views::select::check_not_empty(&corpus).map(|()| None)?,
        };
        let (id, coverage, view) =
            (views::select::view_result_id(request, &corpus, earlier.as_ref()), corpus.coverage(), corpus.view.clone());
        let documents = views::snapshot::serialize_corpus(&corpus);
        let (request, held) = (request.clone(), self.job_permit.clone());
        let answer = tokio::task::spawn_blocking(move || {
            let _held = held;
            let mut answer = run_verb_on_corpus(&request, &corpus, earlier.as_ref())?;
            views::select::report_unread(&mut answer, &corpus);
            verbs::summarize::check_wording(request.verb, &answer)?;
            Ok::<_, ApiError>(answer)
        });
        let answer = answer
            .await
            .map_err(|_| ApiError::from(Error::internal("a verb panicked; the log of vicd says where")))??;
        Ok(VerbOutcome::Answer { id, view, coverage, documents, answer: Box::new(answer) })
    }
}

/// The verb in the registry's spelling. Only ASCII letters change case: Unicode case mapping could turn another word
/// into a verb that the permission check did not see.
fn canonical_verb(verb: &str) -> String {
    verb.trim().to_ascii_uppercase().replace('-', "_")
}

/// The envelope, the error code if the request was rejected, and whether the work goes on in a job.
type CallReply = (Value, Option<ErrorCode>, bool);

/// Runs a verb on the documents of its view.
fn run_verb_on_corpus(request: &ValidRequest, corpus: &Corpus, earlier: Option<&DeltaBaseline>) -> ApiResult<Answer> {
    match request.verb.name {
        "EXTRACT" => verbs::extract::run(request, corpus),
        "NORMALIZE" => verbs::normalize::run(request, corpus),
        "COMPARE" => verbs::compare::run(request, corpus),
        "DETECT" => verbs::detect::run(request, corpus),
        "TRACE" => verbs::trace::run(request, corpus),
        "SCORE" => verbs::score::run(request, corpus, None),
        "DELTA" => verbs::delta::run(request, corpus, earlier),
        "SUMMARIZE" => verbs::summarize::run(request, corpus),
        "EXPLAIN_FAILURE" => verbs::explain_failure::explain_document(request, corpus),
        other => Err(ApiError::new(ApiErrorKind::UnknownVerb, format!("`{other}` does not work on documents"))),
    }
}

fn answer_about_result(request: &ValidRequest, answer: Answer) -> VerbOutcome {
    let id = hash_result_id(&request.canonical(), &answer.data.to_string());
    VerbOutcome::Answer { id, view: Value::Null, coverage: 1.0, documents: String::new(), answer: Box::new(answer) }
}

/// Decides whether a call with this many documents must become a job.
fn job_needed(size: WorkMode, documents: usize) -> ApiResult<Option<VerbOutcome>> {
    match documents {
        _ if size == WorkMode::InJob => Ok(None),
        many if many > MAX_DOCUMENTS_WITHOUT_ASYNC => Err(too_many_documents(many)),
        many if many > MAX_SYNC_DOCUMENTS => Ok(Some(VerbOutcome::NeedsJob(many))),
        _ => Ok(None),
    }
}

/// Parses JSON from the database.
fn parse_stored(text: &str) -> ApiResult<Value> {
    serde_json::from_str(text).map_err(|error| ApiError::from(Error::internal(error)))
}

/// Nanoseconds since the epoch, for features that depend on the clock by nature.
fn now_ns() -> i64 {
    chrono::Utc::now().timestamp_nanos_opt().unwrap_or(i64::MAX)
}

fn too_many_documents(documents: usize) -> ApiError {
    ApiError::new(ApiErrorKind::TooManyDocuments, format!("the view holds {documents} documents"))
        .field("async")
        .action("set `async` to take the time")
        .action("or name a smaller `view`")
}

/// The id of a result: a hash of the request and of the state that it was asked about.
fn hash_result_id(request: &Value, state: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(request.to_string().as_bytes()).update(&[0]).update(state.as_bytes());
    format!("r-{}", &hasher.finalize().to_hex()[..16])
}

/// The request as stored with an error: its first 4 KiB, and a mark if it was cut.
fn bounded_request(asked: &Value) -> String {
    let text = asked.to_string();
    if text.len() <= MAX_STORED_REQUEST_BYTES {
        return text;
    }
    let verb = asked["verb"].as_str().map(|it| text::words::truncate_to_line(it, MAX_VERB_CHARS));
    let beginning = &text[..text.floor_char_boundary(MAX_STORED_REQUEST_BYTES)];
    json!({"verb": verb, "cut": true, "bytes": text.len(), "beginning": beginning}).to_string()
}

fn random_id() -> Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(Error::internal)?;
    Ok(u64::from_le_bytes(bytes))
}
