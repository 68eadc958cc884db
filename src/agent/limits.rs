//! Limits of an agent.

use std::time::Duration;

use crate::error::{Error, ErrorCode, Result};

/// Default time for a file of proposals, which is read as a whole.
pub(super) const PROPOSALS_TIME: Duration = Duration::from_secs(600);

/// Estimated bytes of a token.
const BYTES_PER_TOKEN: usize = 4;

/// Estimates the tokens of a value as JSON.
pub(super) fn estimate_tokens(value: &impl serde::Serialize) -> u64 {
    serde_json::to_string(value).map_or(0, |it| (it.len() / BYTES_PER_TOKEN) as u64)
}

/// The time limit of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimeLimit {
    /// Limit for the whole task.
    pub(super) time: Duration,
    /// Note if the limit is below the requested time.
    pub(super) note: Option<String>,
}

impl TimeLimit {
    /// Takes the requested time, else the default, and at most `most`.
    ///
    /// # Errors
    /// `InvalidArgument` if the time is zero.
    pub(super) fn new(wanted: Option<Duration>, usual: Duration, most: Duration) -> Result<TimeLimit> {
        let wanted = wanted.unwrap_or(usual);
        if wanted.is_zero() {
            return Err(Error::invalid("`timeout_seconds` is 0").field("timeout_seconds"));
        }
        let note =
            (wanted > most).then(|| format!("{most:?} instead of {wanted:?}: VIC_LLM_MAX_SECONDS allows no more"));
        Ok(TimeLimit { time: wanted.min(most), note })
    }

    /// Runs work with the time limit.
    ///
    /// # Errors
    /// `DeadlineExceeded`, and errors of the work.
    pub(super) async fn run_within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::time::timeout(self.time, work).await.unwrap_or_else(|_| {
            let text = format!("no answer within {:?}", self.time);
            Err(Error::new(ErrorCode::DeadlineExceeded, text).hint("allow more with --seconds, or take a faster model"))
        })
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
