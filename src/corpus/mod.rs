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
//! `extract` finds objects, with exact places from `place`; `claims` finds statements; `dates` finds dates. No step
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

use crate::catalog::BookedResult;
use crate::corpus::api::answer::{Answer, Unknown};
use crate::corpus::api::error::{Cause, Outcome, Refusal};
use crate::corpus::api::output_budget::Ruler;
use crate::corpus::api::validate::Request;
use crate::corpus::document::loader::Reader;
use crate::corpus::jobs::Jobs;
use crate::corpus::verbs::delta::Earlier;
use crate::corpus::views::documents::Corpus;
use crate::corpus::views::select::Size;
use crate::error::{Error, ErrorCode, Result};
use crate::index::blocking;
use crate::model::{CorpusCall, CorpusReply, Holder, Scope};

pub use crate::corpus::document::loader::Parts;

/// Most documents of a call that is answered while the client waits. A larger view runs as a job.
const SYNCHRONOUS: usize = 100;

/// Most documents of a job that starts by itself. A larger view needs `async`.
const UNASKED: usize = 5_000;

/// Bytes kept of a rejected request.
const MOST_REFUSED: usize = 4 << 10;

/// Characters kept of a rejected verb; every real verb is shorter.
const LONGEST_VERB: usize = 40;

/// The corpus API for one caller. Cheap to clone.
#[derive(Clone)]
pub struct Contract {
    reader: Arc<Reader>,
    scope: Scope,
    /// The caller.
    holder: Holder,
    jobs: Arc<Jobs>,
    /// The permit of the running job, if this is one. A running computation holds it to its end, even after its job was
    /// cancelled, so that starting and cancelling jobs gives a caller no more concurrency.
    held: Option<Arc<OwnedSemaphorePermit>>,
}

/// The outcome of a verb.
pub(crate) enum Done {
    /// An answer with its result id, its view, the share of documents that were read, and the serialized list of the
    /// documents that it used.
    Answer { id: String, view: Value, coverage: f64, documents: String, answer: Box<Answer> },
    /// The view is too large to wait for: number of documents for the job.
    Later(usize),
    /// The call becomes a job; indexing has already started.
    Ingesting(Box<verbs::ingest::Going>),
}

impl Contract {
    /// Creates the API of the owner.
    pub fn new(parts: Parts) -> Contract {
        let (reader, jobs) = (Arc::new(Reader::new(parts)), Arc::new(Jobs::new()));
        Contract { reader, scope: Scope::All, holder: Holder::Owner, jobs, held: None }
    }

    /// Returns the same API for a caller who sees only the files in `scope`.
    #[must_use]
    pub fn within(&self, scope: Scope, holder: Holder) -> Contract {
        Contract { scope, holder, ..self.clone() }
    }

    /// The key under which views, sessions and results of this scope are stored.
    fn owner(&self) -> String {
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
    pub async fn call(&self, call: CorpusCall) -> Result<CorpusReply> {
        let format = call.request.get("format").and_then(Value::as_str).map(str::to_lowercase);
        let verb = spelled(&call.verb);
        let (envelope, refused, accepted) = match verb.as_str() {
            "VIEW" | "JOB" | "RESULT" | "HELP" | "SCHEMA" => self.beside(&verb, &call.request).await?,
            _ => self.verb(&verb, call.request).await?,
        };
        let rendered = match api::render::render(&envelope, format.as_deref()) {
            Ok(rendered) => (rendered, refused),
            Err(refusal) => {
                let envelope = self.refused(None, &verb, &refusal);
                (("application/json", envelope.to_string()), Some(refusal.code))
            }
        };
        let ((media_type, text), refused) = rendered;
        Ok(CorpusReply { media_type: media_type.into(), text, refused, accepted })
    }

    fn refused(&self, id: Option<&str>, verb: &str, refusal: &Refusal) -> Value {
        api::envelope::refusal(id, &text::words::short(verb, LONGEST_VERB), &Value::Null, self.short(refusal))
    }

    /// The error, cut to its token limit.
    fn short(&self, refusal: &Refusal) -> Value {
        api::output_budget::short_error(refusal, Ruler(&*self.reader.parts.embedder.token_counter()))
    }

    async fn verb(&self, verb: &str, given: Map<String, Value>) -> Result<Made> {
        let asked = json!({"verb": verb, "fields": given});
        let id = result_id(&asked, "");
        let request = match api::validate::request(verb, given) {
            Ok(request) => request,
            Err(refusal) => return self.keep_refusal(id, verb, &asked, refusal).await,
        };
        match self.answer(&request, request.flag("async")).await {
            Ok(Done::Answer { id, view, coverage, documents, answer }) => {
                self.keep(&request, &id, (&view, coverage), documents, &answer).await.map(|it| (it, None, false))
            }
            Ok(Done::Later(documents)) => self.later(request, documents, None).await,
            Ok(Done::Ingesting(going)) => self.later(request, SYNCHRONOUS + 1, Some(*going)).await,
            Err(refusal) => self.keep_refusal(id, verb, &asked, refusal).await,
        }
    }

    async fn keep_refusal(&self, id: String, verb: &str, asked: &Value, refusal: Refusal) -> Result<Made> {
        let envelope = self.refused(Some(&id), verb, &refusal);
        let result = BookedResult { request: bounded(asked), envelope: envelope.to_string(), ..Default::default() };
        self.book(id, result).await?;
        Ok((envelope, Some(refusal.code), false))
    }

    async fn book(&self, id: String, result: BookedResult) -> Result<bool> {
        let (reader, owner) = (self.reader.clone(), self.owner());
        blocking(move || reader.parts.book.put_result(&owner, &id, &result)).await
    }

    /// Wraps an answer in its envelope and stores it with the list of its documents.
    async fn keep(
        &self,
        request: &Request,
        id: &str,
        (view, coverage): (&Value, f64),
        documents: String,
        answer: &Answer,
    ) -> Result<Value> {
        let mut envelope = api::envelope::answer(id, request.verb.name, request.form.name, view, coverage, answer);
        let counter = self.reader.parts.embedder.token_counter();
        let (verbose, offset) = (request.flag("verbose"), request.page().1);
        let (id, request) = (id.to_string(), request.canonical().to_string());
        let mut envelope = blocking(move || {
            api::envelope::finish(&mut envelope, verbose, offset, Ruler(&*counter));
            Ok(envelope)
        })
        .await?;
        if !self.book(id, BookedResult { request, envelope: envelope.to_string(), documents }).await?
            && let Some(unknowns) = envelope["unknowns"].as_array_mut()
        {
            let told = Unknown::new("result_not_kept", 1).detail("it is too large to store, so its id does not work");
            unknowns.push(told.value());
        }
        Ok(envelope)
    }

    /// Runs a checked request, or reports that it needs a job.
    async fn answer(&self, request: &Request, patient: bool) -> Outcome<Done> {
        match request.verb.name {
            "INGEST" => return self.ingest(request, patient).await,
            "QUERY" => return self.query(request, patient).await,
            "EXPLAIN_FAILURE" if verbs::explain_failure::result_id(request).is_some() => {
                let id = verbs::explain_failure::result_id(request).unwrap_or_default();
                let booked = self.booked(id).await?.ok_or_else(|| views::snapshot::no_result(id, "id"))?;
                return Ok(about_result(request, verbs::explain_failure::result(request, &booked)?));
            }
            "SCORE" if request.form.name == "confidence" => {
                let id = request.text("extraction").unwrap_or_default();
                let booked = self.booked(id).await?.ok_or_else(|| views::snapshot::no_result(id, "extraction"))?;
                let envelope = parsed(&booked.envelope)?;
                return Ok(about_result(request, verbs::score::run(request, &Corpus::default(), Some(&envelope))?));
            }
            _ => {}
        }
        if patient {
            return Ok(Done::Later(0));
        }
        self.work(request, Size::WhileWaiting).await
    }

    /// Reads the view and runs the verb on it.
    async fn work(&self, request: &Request, size: Size) -> Outcome<Done> {
        let (mut selection, earlier) = match request.verb.name {
            "DELTA" => self.baseline(request).await?,
            _ => (self.selection(request).await?, None),
        };
        views::snapshot::refuse_without_text(request, &selection)?;
        self.narrow(request, &mut selection).await?;
        let unknown = self.unknown(&selection, &selection.filters).await?;
        if let Some(later) = later_than(size, unknown.len())? {
            return Ok(later);
        }
        self.read_all(&unknown).await?;
        let ids = self.select(&selection).await?;
        if let Some(later) = later_than(size, ids.len())? {
            return Ok(later);
        }
        let corpus = self.load(&selection, &ids).await?;
        let earlier = match earlier {
            // An empty view is valid for DELTA: the documents may have been deleted since.
            Some(earlier) => {
                Some(self.recall(earlier, &corpus, request.text("only") == Some("new-contradictions")).await?)
            }
            None if request.verb.name == "EXPLAIN_FAILURE" => None,
            None => views::select::refuse_empty(&corpus).map(|()| None)?,
        };
        let (id, coverage, view) =
            (views::select::id(request, &corpus, earlier.as_ref()), corpus.coverage(), corpus.view.clone());
        let documents = views::snapshot::remembered_corpus(&corpus);
        let (request, held) = (request.clone(), self.held.clone());
        let answer = tokio::task::spawn_blocking(move || {
            let _held = held;
            let mut answer = run(&request, &corpus, earlier.as_ref())?;
            views::select::note_unread(&mut answer, &corpus);
            api::validate::wording(request.verb, &answer)?;
            Ok::<_, Refusal>(answer)
        });
        let answer = answer
            .await
            .map_err(|_| Refusal::from(Error::internal("a verb panicked; the log of vicd says where")))??;
        Ok(Done::Answer { id, view, coverage, documents, answer: Box::new(answer) })
    }
}

/// The verb in the registry's spelling. Only ASCII letters change case: Unicode case mapping could turn another word
/// into a verb that the permission check did not see.
fn spelled(verb: &str) -> String {
    verb.trim().to_ascii_uppercase().replace('-', "_")
}

/// The envelope, the error code if the request was rejected, and whether the work goes on in a job.
type Made = (Value, Option<ErrorCode>, bool);

/// Runs a verb on the documents of its view.
fn run(request: &Request, corpus: &Corpus, earlier: Option<&Earlier>) -> Outcome<Answer> {
    match request.verb.name {
        "EXTRACT" => objects::run(request, corpus),
        "NORMALIZE" => verbs::normalize::run(request, corpus),
        "COMPARE" => verbs::compare::run(request, corpus),
        "DETECT" => verbs::detect::run(request, corpus),
        "TRACE" => verbs::trace::run(request, corpus),
        "SCORE" => verbs::score::run(request, corpus, None),
        "DELTA" => verbs::delta::run(request, corpus, earlier),
        "SUMMARIZE" => verbs::summarize::run(request, corpus),
        "EXPLAIN_FAILURE" => verbs::explain_failure::document(request, corpus),
        other => Err(Refusal::new(Cause::UnknownVerb, format!("`{other}` does not work on documents"))),
    }
}

fn about_result(request: &Request, answer: Answer) -> Done {
    let id = result_id(&request.canonical(), &answer.data.to_string());
    Done::Answer { id, view: Value::Null, coverage: 1.0, documents: String::new(), answer: Box::new(answer) }
}

/// Decides whether a call with this many documents must become a job.
fn later_than(size: Size, documents: usize) -> Outcome<Option<Done>> {
    match documents {
        _ if size == Size::AtLeisure => Ok(None),
        many if many > UNASKED => Err(too_many(many)),
        many if many > SYNCHRONOUS => Ok(Some(Done::Later(many))),
        _ => Ok(None),
    }
}

/// Parses JSON from the database.
fn parsed(text: &str) -> Outcome<Value> {
    serde_json::from_str(text).map_err(|error| Refusal::from(Error::internal(error)))
}

/// Nanoseconds since the epoch, for features that depend on the clock by nature.
fn now_ns() -> i64 {
    chrono::Utc::now().timestamp_nanos_opt().unwrap_or(i64::MAX)
}

fn too_many(documents: usize) -> Refusal {
    Refusal::new(Cause::TooManyDocuments, format!("the view holds {documents} documents"))
        .field("async")
        .action("set `async` to take the time")
        .action("or name a smaller `view`")
}

/// The id of a result: a hash of the request and of the state that it was asked about.
fn result_id(request: &Value, state: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(request.to_string().as_bytes()).update(&[0]).update(state.as_bytes());
    format!("r-{}", &hasher.finalize().to_hex()[..16])
}

/// The request as stored with an error: its first 4 KiB, and a mark if it was cut.
fn bounded(asked: &Value) -> String {
    let text = asked.to_string();
    if text.len() <= MOST_REFUSED {
        return text;
    }
    let verb = asked["verb"].as_str().map(|it| text::words::short(it, LONGEST_VERB));
    let beginning = &text[..text.floor_char_boundary(MOST_REFUSED)];
    json!({"verb": verb, "cut": true, "bytes": text.len(), "beginning": beginning}).to_string()
}

fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(Error::internal)?;
    Ok(u64::from_le_bytes(bytes))
}
