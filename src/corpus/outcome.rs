//! The outcome of a verb, and the reply to a call.

use serde_json::Value;

use crate::corpus::api::answer::Answer;
use crate::corpus::verbs::ingest_run::RunningIngest;
use crate::error::ErrorCode;

/// The outcome of a verb.
pub(crate) enum VerbOutcome {
    /// An answer with its result id, its view, the share of documents that were read, and the serialized list of the
    /// documents that it used.
    Answer { id: String, view: Value, coverage: f64, documents: String, answer: Box<Answer> },
    /// The view is too large to wait for: number of documents for the job.
    NeedsJob(usize),
    /// The call becomes a job; indexing has already started.
    IngestStarted(Box<RunningIngest>),
}

/// The envelope, the error code if the request was rejected, and whether the work goes on in a job.
pub(super) type CallReply = (Value, Option<ErrorCode>, bool);
