//! The outcome of a verb, and the reply to a call of the corpus API.

use serde_json::Value;

use crate::corpus::api::answer::Answer;
use crate::corpus::verbs::ingest_run::RunningIngest;
use crate::error::ErrorCode;

/// What a verb produced: an answer, or a call that must become a job.
pub(crate) enum VerbOutcome {
    /// An answer with the id of its result, its view, the share of documents that were read, and the documents that it used,
    /// as JSON.
    Answer { id: String, view: Value, coverage: f64, documents: String, answer: Box<Answer> },
    /// The view has too many documents to answer while the caller waits: the call must become a job on this many documents.
    NeedsJob(usize),
    /// The call becomes a job that continues this INGEST, which has already started to index.
    IngestStarted(Box<RunningIngest>),
}

/// The envelope, the error code if the request was rejected, and whether a job continues the work.
pub(super) type CallReply = (Value, Option<ErrorCode>, bool);
