//! How much an agent may take.

use std::time::Duration;

use crate::error::{Error, ErrorCode, Result};

/// Usual time of a file of proposals, which is read as a whole.
pub(super) const PROPOSALS_TIME: Duration = Duration::from_secs(600);

/// Bytes of a token, as a rule of thumb.
const BYTES_A_TOKEN: usize = 4;

/// Tokens of a JSON text, estimated.
pub(super) fn tokens(value: &impl serde::Serialize) -> u64 {
    serde_json::to_string(value).map_or(0, |it| (it.len() / BYTES_A_TOKEN) as u64)
}

/// The time of a piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    /// For all of it.
    pub(super) time: Duration,
    /// That it is less than was asked for.
    pub(super) note: Option<String>,
}

impl Allowed {
    /// What was asked for, else what is usual, and never more than `most`.
    ///
    /// # Errors
    /// `InvalidArgument`: no time is no answer.
    pub(super) fn of(wanted: Option<Duration>, usual: Duration, most: Duration) -> Result<Allowed> {
        let wanted = wanted.unwrap_or(usual);
        if wanted.is_zero() {
            return Err(Error::invalid("`timeout_seconds` is 0").field("timeout_seconds"));
        }
        let note = (wanted > most).then(|| format!("{most:?} instead of {wanted:?}: VIC_LLM_MAX_SECONDS has no more"));
        Ok(Allowed { time: wanted.min(most), note })
    }

    /// Waits for work, and no longer.
    ///
    /// # Errors
    /// `DeadlineExceeded`, and as the work.
    pub(super) async fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::time::timeout(self.time, work).await.unwrap_or_else(|_| {
            let text = format!("there was no answer within {:?}", self.time);
            Err(Error::new(ErrorCode::DeadlineExceeded, text).hint("allow more with --seconds, or take a faster model"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::agent::QUESTION_TIME;

    #[test]
    fn work_has_the_time_that_was_asked_for_up_to_what_is_allowed() {
        let seconds = Duration::from_secs;
        for (wanted, time, is_less) in [(None, 180, false), (Some(20), 20, false), (Some(900), 300, true)] {
            let allowed = Allowed::of(wanted.map(seconds), QUESTION_TIME, seconds(300)).unwrap();
            assert_eq!((allowed.time, allowed.note.is_some()), (seconds(time), is_less), "{wanted:?}");
        }
        let error = Allowed::of(Some(Duration::ZERO), QUESTION_TIME, seconds(300)).unwrap_err();
        assert_eq!(error.field.as_deref(), Some("timeout_seconds"));
    }

    #[tokio::test]
    async fn work_that_takes_longer_is_left_with_a_typed_error() {
        let allowed = Allowed { time: Duration::from_millis(10), note: None };
        let error = allowed.wait(std::future::pending::<Result<()>>()).await.unwrap_err();
        assert!(error.code == ErrorCode::DeadlineExceeded && error.hint.is_some(), "{error}");
        assert_eq!(allowed.wait(async { Ok(7) }).await.unwrap(), 7);
    }
}
