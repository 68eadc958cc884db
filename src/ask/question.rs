//! A planned question, and the limit of its hits.

use std::sync::Arc;

use crate::ask::terms::Terms;
use crate::error::{Error, Result};
use crate::model::{FileFilter, PrivacyMode, QueryPlan};

/// Hits when the request sets no limit.
const DEFAULT_LIMIT: u32 = 10;
/// Highest limit of a request.
const MAX_LIMIT: u32 = 1_000;

/// A planned question.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) plan: QueryPlan,
    /// Network limit: the stricter of the plan's and the configuration's privacy mode.
    pub(crate) privacy: PrivacyMode,
    /// Problems during planning.
    pub(crate) warnings: Vec<String>,
    /// Whether the planning model was unavailable.
    pub(crate) model_unavailable: bool,
    /// Required and excluded words.
    pub(crate) terms: Arc<Terms>,
    /// The content words, lower case.
    pub(crate) words: Vec<String>,
    /// The metadata filter, including the root.
    pub(crate) filter: FileFilter,
    pub(crate) limit: usize,
    pub(crate) explain: bool,
}

impl Question {
    /// Returns the text to search for, if any.
    pub(crate) fn text(&self) -> Option<&str> {
        self.plan.l1_query_text.as_deref().filter(|it| !it.trim().is_empty())
    }

    /// Returns whether the question lists files by metadata, without a text search.
    pub(super) fn is_listing(&self) -> bool {
        self.text().is_none()
    }
}

/// Returns the number of hits to return.
pub(super) fn checked_limit(wanted: Option<u32>) -> Result<usize> {
    match wanted.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit as usize),
        other => Err(Error::invalid(format!("limit {other} is not between 1 and {MAX_LIMIT}"))),
    }
}
