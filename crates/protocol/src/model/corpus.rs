//! A call of the corpus API and its reply. Requests and replies of the verbs themselves are JSON objects.

use serde_json::{Map, Value};

use crate::error::ErrorCode;

/// A request to the corpus API.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CorpusRequest {
    /// One of the eleven verbs, or `VIEW`, `JOB`, `RESULT`, `HELP`, `SCHEMA`. Case is ignored, and `-` equals `_`.
    pub verb: String,
    /// The fields of the request, as a JSON object.
    pub request: Map<String, Value>,
}

/// A reply of the corpus API.
#[derive(Clone, Debug, PartialEq)]
pub struct CorpusReply {
    /// `application/json`, `application/yaml` or `text/csv`.
    pub media_type: String,
    /// The envelope (JSON or YAML) or the table (CSV).
    pub text: String,
    /// The error code of a rejected call; the full reason is in the envelope (`text`).
    pub error_code: Option<ErrorCode>,
    /// Whether the call started a job that still runs.
    pub accepted: bool,
}
