//! The files and facts of a session, as recorded when it was made.

use serde_json::Value;

use crate::catalog::SessionFile;
use crate::corpus::api::answer::Unknown;
use crate::corpus::document::metadata::Facts;

/// The files and facts of a session, as recorded when it was made.
#[derive(Clone, Debug)]
pub(crate) struct SessionSnapshot {
    pub(crate) session: i64,
    /// Whether the session has no texts, because it was made in mode `minimal`.
    pub(crate) metadata_only: bool,
    /// Absolute paths that were ingested.
    pub(crate) paths: Vec<String>,
    /// Files of the session, sorted by id.
    pub(crate) files: Vec<SessionFile>,
    /// Facts of each file in `files`, in the same order.
    pub(crate) facts: Vec<Option<Facts>>,
}

impl SessionSnapshot {
    /// Creates a snapshot from a stored session; `body` is its JSON.
    pub(crate) fn new(session: i64, body: &str, files: Vec<SessionFile>) -> SessionSnapshot {
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let places = body["paths"].as_array().into_iter().flatten().filter_map(|it| it.as_str().map(String::from));
        let facts = files.iter().map(|it| serde_json::from_str(it.facts.as_deref()?).ok()).collect();
        SessionSnapshot { session, metadata_only: body["mode"] == "minimal", paths: places.collect(), files, facts }
    }
}

/// Returns the entry for the answer's `unknowns` that reports the missing facts of a session in mode `minimal`.
pub(crate) fn missing_facts(past: &SessionSnapshot) -> Option<Unknown> {
    let detail = "the session was ingested in mode minimal: metadata of texts is not known";
    past.metadata_only.then(|| Unknown::new("metadata_only", past.files.len()).detail(detail))
}
