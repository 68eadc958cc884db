//! Limits on the time of an agent's task and on the size of a request to a reasoner.

use std::time::Duration;

use serde::Serialize;

use crate::error::{Error, ErrorCode, Result};
use crate::llm::estimated_tokens;
use crate::llm::plugin::PluginTask;

/// Default time limit for adding to a file of proposals. It is long, because the reasoner reads the whole file.
pub(super) const PROPOSALS_TIME: Duration = Duration::from_secs(600);

/// Estimated bytes of JSON per token.
const BYTES_PER_TOKEN: usize = 4;

/// Estimates the tokens of a value as JSON.
pub(super) fn estimate_tokens(value: &impl Serialize) -> u64 {
    serde_json::to_string(value).map_or(0, |it| (it.len() / BYTES_PER_TOKEN) as u64)
}

/// The time limit of one task for a reasoner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimeLimit {
    /// Limit for the whole task.
    pub(super) time: Duration,
    /// Note for the caller, if the limit is below the requested time.
    pub(super) note: Option<String>,
}

impl TimeLimit {
    /// Takes the requested time `wanted`, else the default `usual`, and at most `most`.
    ///
    /// # Errors
    /// `InvalidArgument` if the time is zero.
    pub(super) fn new(wanted: Option<Duration>, usual: Duration, most: Duration) -> Result<TimeLimit> {
        let wanted = wanted.unwrap_or(usual);
        if wanted.is_zero() {
            return Err(Error::invalid("`timeout_seconds` must be more than 0").field("timeout_seconds"));
        }
        let note =
            (wanted > most).then(|| format!("time limit {most:?}, not {wanted:?}: VIC_LLM_MAX_SECONDS allows no more"));
        Ok(TimeLimit { time: wanted.min(most), note })
    }

    /// Runs `work`, and fails when the time limit is over.
    ///
    /// # Errors
    /// `DeadlineExceeded` if the time limit is reached, and errors of `work`.
    pub(super) async fn run_within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::time::timeout(self.time, work).await.unwrap_or_else(|_| {
            let text = format!("no answer within {:?}", self.time);
            Err(Error::new(ErrorCode::DeadlineExceeded, text).hint("raise --seconds, or use a faster model"))
        })
    }
}

/// The size limit of a request to a reasoner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextBudget {
    /// Requests of any size are accepted.
    Unlimited,
    /// A limit in bytes of JSON.
    Bytes(usize),
    /// A limit in tokens of JSON, see [`estimated_tokens`].
    Tokens(usize),
}

impl ContextBudget {
    pub(super) fn limit(self) -> usize {
        match self {
            ContextBudget::Unlimited => usize::MAX,
            ContextBudget::Bytes(most) | ContextBudget::Tokens(most) => most,
        }
    }

    pub(super) fn cost(self, it: &impl Serialize) -> usize {
        let text = || serde_json::to_string(it).unwrap_or_default();
        match self {
            ContextBudget::Unlimited => 0,
            ContextBudget::Bytes(_) => text().len(),
            ContextBudget::Tokens(_) => estimated_tokens(&text()),
        }
    }

    pub(super) fn fits(self, it: &impl Serialize) -> bool {
        self.cost(it) <= self.limit()
    }

    /// Returns how many of the first items fit in the budget, and the size used with them. `taken` is the size used
    /// before. Each item takes one unit more, for its comma.
    pub(super) fn prefix_that_fits<'a, T: Serialize + 'a>(
        self,
        things: impl IntoIterator<Item = &'a T>,
        taken: usize,
    ) -> (usize, usize) {
        let (mut count, mut taken) = (0, taken);
        for it in things {
            let cost = self.cost(it) + 1;
            if cost > self.limit().saturating_sub(taken) {
                break;
            }
            (count, taken) = (count + 1, taken + cost);
        }
        (count, taken)
    }

    pub(super) fn too_small_error(self, task: &PluginTask) -> Error {
        let (needed, most) = (self.cost(task), self.limit());
        let unit = if matches!(self, ContextBudget::Tokens(_)) { "tokens" } else { "bytes" };
        let text = format!("the question needs {needed} {unit}, but only {most} are free");
        let error = Error::new(ErrorCode::FailedPrecondition, text);
        match self {
            ContextBudget::Tokens(_) => error
                .hint("ask a shorter question, take a model with a larger context, or raise VIC_LLM_CONTEXT_TOKENS"),
            ContextBudget::Unlimited | ContextBudget::Bytes(_) => error.hint("ask a shorter question"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::agent::QUESTION_TIME;

    #[test]
    fn allowed_time_is_capped_with_a_note() {
        let seconds = Duration::from_secs;
        for (wanted, time, is_less) in [(None, 180, false), (Some(20), 20, false), (Some(900), 300, true)] {
            let allowed = TimeLimit::new(wanted.map(seconds), QUESTION_TIME, seconds(300)).unwrap();
            assert_eq!((allowed.time, allowed.note.is_some()), (seconds(time), is_less), "{wanted:?}");
        }
        let error = TimeLimit::new(Some(Duration::ZERO), QUESTION_TIME, seconds(300)).unwrap_err();
        assert_eq!(error.field.as_deref(), Some("timeout_seconds"));
    }

    #[tokio::test]
    async fn overdue_work_ends_with_deadline_exceeded() {
        let allowed = TimeLimit { time: Duration::from_millis(10), note: None };
        let error = allowed.run_within(std::future::pending::<Result<()>>()).await.unwrap_err();
        assert!(error.code == ErrorCode::DeadlineExceeded && error.hint.is_some(), "{error}");
        assert_eq!(allowed.run_within(async { Ok(7) }).await.unwrap(), 7);
    }
}
