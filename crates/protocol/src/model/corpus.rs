//! A call of the contract and its reply, as they travel: the verbs themselves are JSON on both sides.

use serde_json::{Map, Value};

use crate::error::ErrorCode;

/// What is asked of the contract.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CorpusCall {
    /// One of the eleven verbs, or `VIEW`, `JOB`, `RESULT`, `HELP`, `SCHEMA`; in any case, `-` and `_` alike.
    pub verb: String,
    /// The fields of the request.
    pub request: Map<String, Value>,
}

/// What the contract says.
#[derive(Clone, Debug, PartialEq)]
pub struct CorpusReply {
    /// `application/json`, `application/yaml` or `text/csv`.
    pub media_type: String,
    /// The envelope, or the table.
    pub text: String,
    /// Why it was refused; the reason in full is in the envelope.
    pub refused: Option<ErrorCode>,
    /// Whether the work goes on in a job.
    pub accepted: bool,
}
