//! A question with its plan, filters and limit, and the validation of the limit.

use std::sync::Arc;

use crate::ask::terms::Terms;
use crate::error::{Error, Result};
use crate::model::{FileFilter, PrivacyMode, QueryPlan};

/// Maximum number of hits when the request sets no limit.
const DEFAULT_LIMIT: u32 = 10;
/// Highest limit that a request may set; a higher one is an error.
const MAX_LIMIT: u32 = 1_000;

/// A question with its plan, ready for the search.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) plan: QueryPlan,
    /// Privacy mode for network access: the stricter one of the plan's and the configuration's.
    pub(crate) privacy: PrivacyMode,
    /// Warnings for the user that arose during planning.
    pub(crate) warnings: Vec<String>,
    /// Whether the language model that plans questions was unavailable.
    pub(crate) model_unavailable: bool,
    /// Words and phrases that a hit must contain or must not contain.
    pub(crate) terms: Arc<Terms>,
    /// The content words of the question, in lower case.
    pub(crate) words: Vec<String>,
    /// The metadata filter, including the searched folder.
    pub(crate) filter: FileFilter,
    pub(crate) limit: usize,
    /// Number of best hits that a model reranks; 0 without one.
    pub(crate) reranked_hits: usize,
    pub(crate) explain: bool,
    /// Whether words and names alone are searched, without vectors and skills.
    pub(crate) words_only: bool,
}

impl Question {
    /// Returns the text to search for; `None` for a question that lists files by metadata.
    pub(crate) fn text(&self) -> Option<&str> {
        self.plan.l1_query_text.as_deref().filter(|it| !it.trim().is_empty())
    }

    /// Returns whether the question lists files by metadata, without a text search.
    pub(super) fn is_listing(&self) -> bool {
        self.text().is_none()
    }
}

/// Returns the wanted limit of hits, or the default one. Fails if it is not between 1 and `MAX_LIMIT`.
pub(super) fn checked_limit(wanted: Option<u32>) -> Result<usize> {
    match wanted.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit as usize),
        other => Err(Error::invalid(format!("limit {other} is not between 1 and {MAX_LIMIT}"))),
    }
}
