//! The current problems of the index, which the status reports, by key.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::warn;

use crate::error::Result;

/// Key under which the status reports that changes of files could not be applied to the catalog, usually because a root
/// is unavailable.
pub(super) const CHANGES_KEY: &str = "changes";
/// Key under which the status reports that an indexing run without a job failed.
pub(super) const INDEXING_KEY: &str = "watch";
/// Prefix of the problem that the status reports when an indexing run without a job fails.
pub(super) const CANNOT_INDEX: &str = "cannot index the changed files";
/// Key under which the status reports that chunks of removed files are still in the store.
pub(super) const TOMBSTONES_KEY: &str = "bury";

/// The current problems: one sentence with cause and hint for each key.
#[derive(Default)]
pub(super) struct Problems(Mutex<BTreeMap<String, String>>);

impl Problems {
    /// Sets the problem with this key, or clears it with `None`.
    pub(super) fn set(&self, key: &str, problem: Option<String>) {
        let mut problems = self.lock();
        match problem {
            Some(sentence) => problems.insert(key.to_string(), sentence),
            None => problems.remove(key),
        };
    }

    /// Sets the problem with this key if `outcome` is an error, else clears it. `what` names the failed work in the
    /// problem's text. Returns whether the work succeeded. Repeated failures with the same text are logged once.
    pub(super) fn report(&self, key: &str, what: &str, outcome: Result<()>) -> bool {
        let problem = outcome.err().map(|error| format!("{what}: {}", error.message_with_hint()));
        if let Some(problem) = problem.as_ref().filter(|it| self.lock().get(key) != Some(*it)) {
            warn!("{problem}");
        }
        let is_done = problem.is_none();
        self.set(key, problem);
        is_done
    }

    /// Returns whether there is a problem with this key.
    pub(super) fn contains(&self, key: &str) -> bool {
        self.lock().contains_key(key)
    }

    /// Returns the sentence of the problem with the lowest key, if there is any problem.
    pub(super) fn first(&self) -> Option<String> {
        self.lock().values().next().cloned()
    }

    /// Returns the sentences of all problems, ordered by their keys.
    pub(super) fn sentences(&self) -> Vec<String> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
