//! Rules that a caller sets for a request: retries, stop sequences and tool rounds. Each emits an event when it applies.

use std::time::Duration;

use crate::error::{Error, ErrorCode, Result};

/// Maximum number of stop sequences: common servers accept no more.
const MAX_STOPS: usize = 4;
/// Maximum bytes of a stop sequence: each piece of an answer is compared with every prefix of the sequence.
const MAX_STOP_BYTES: usize = 1 << 10;
/// Maximum attempts that a retry policy may allow.
const MAX_ATTEMPTS: u32 = 10;

/// When and how often a request is retried. Retries stop after the first token, so that no text is delivered twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts, including the first.
    pub attempts: u32,
    /// Wait before the second attempt; it doubles before each further attempt.
    pub initial_backoff: Duration,
    /// Codes of the errors after which the request is retried.
    pub codes: Vec<ErrorCode>,
}

impl RetryPolicy {
    /// Creates a policy with this many attempts for errors that a retry may fix: a busy or unreachable server.
    pub fn with_attempts(attempts: u32) -> RetryPolicy {
        let codes = vec![ErrorCode::Unavailable, ErrorCode::ResourceExhausted];
        RetryPolicy { attempts, initial_backoff: Duration::from_millis(250), codes }
    }

    /// Returns the delay before the next attempt, at least as long as the backend requests; `None` if no attempts are left.
    pub fn next_delay(&self, tried: u32, error: &Error) -> Option<Duration> {
        let again = tried < self.attempts && self.codes.contains(&error.code);
        let own = self.initial_backoff.saturating_mul(1 << (tried - 1).min(16));
        again.then(|| own.max(error.retry_after.unwrap_or_default()))
    }
}

/// Rules for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guardrails {
    /// Stop sequences: the answer ends before the first one that the model writes.
    pub stop: Vec<String>,
    /// Retry policy; `None` means one attempt.
    pub retry: Option<RetryPolicy>,
    /// Maximum rounds of tool calls; if the model then calls another tool, the stream ends with an error.
    pub max_tool_rounds: u32,
}

impl Default for Guardrails {
    fn default() -> Guardrails {
        Guardrails { stop: Vec::new(), retry: None, max_tool_rounds: 8 }
    }
}

impl Guardrails {
    /// Checks that the numbers and lengths are within their limits.
    pub fn validate(&self) -> Result<()> {
        let sequence = |it: &String| (1..=MAX_STOP_BYTES).contains(&it.len());
        if self.stop.len() > MAX_STOPS || !self.stop.iter().all(sequence) {
            let text = format!("`guardrails.stop` allows at most {MAX_STOPS} sequences of 1 to {MAX_STOP_BYTES} bytes");
            return Err(Error::invalid(text).field("guardrails.stop"));
        }
        match &self.retry {
            Some(policy) if !(1..=MAX_ATTEMPTS).contains(&policy.attempts) => {
                let text = format!("`guardrails.retry` has {} attempts; use 1 to {MAX_ATTEMPTS}", policy.attempts);
                Err(Error::invalid(text).field("guardrails.retry"))
            }
            _ => Ok(()),
        }
    }
}

/// Passes on the text of an answer up to the first stop sequence, even one that is split across pieces.
pub struct StopFilter {
    stops: Vec<String>,
    held: String,
}

impl StopFilter {
    /// Creates a filter for these stop sequences.
    pub fn new(stops: &[String]) -> StopFilter {
        StopFilter { stops: stops.to_vec(), held: String::new() }
    }

    /// Adds a piece; returns the text that is safe to show, and whether a stop sequence was found.
    pub fn push(&mut self, piece: &str) -> (String, bool) {
        self.held.push_str(piece);
        if let Some(at) = self.stops.iter().filter_map(|it| self.held.find(it)).min() {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let kept = self.stops.iter().map(|it| partial_stop_len(&self.held, it)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// Returns, at the end of the answer, the text that was held back as a possible start of a stop sequence.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Returns the length of the longest suffix of `text` that is a prefix of `stop`.
fn partial_stop_len(text: &str, stop: &str) -> usize {
    let starts = stop.char_indices().map(|(at, _)| at).skip(1).filter(|at| text.ends_with(&stop[..*at]));
    starts.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stops: &[&str], pieces: &[&str], shown: &str, stopped: bool) {
        let mut filter = StopFilter::new(&stops.iter().map(|it| it.to_string()).collect::<Vec<_>>());
        let (mut out, mut end) = (String::new(), false);
        for piece in pieces {
            let (text, stop) = filter.push(piece);
            out.push_str(&text);
            end = stop;
            if stop {
                break;
            }
        }
        if !end {
            out.push_str(&filter.finish());
        }
        assert_eq!((out.as_str(), end), (shown, stopped), "{pieces:?}");
    }

    #[test]
    fn split_stop_sequence_ends_answer() {
        check(&["END"], &["one EN", "D two"], "one ", true);
        check(&["END"], &["one E", "N two"], "one EN two", false);
        check(&["\n\n", "}"], &["a\n", "b}", "c"], "a\nb", true);
        check(&["ääb"], &["xä", "ä", "b"], "x", true);
        check(&[], &["a", "b"], "ab", false);
        check(&["aab"], &["aa", "ab"], "a", true);
    }

    #[test]
    fn backoff_doubles_and_only_listed_codes_retry() {
        let policy = RetryPolicy::with_attempts(3);
        let millis = |it: Option<Duration>| it.map(|it| it.as_millis());
        let away = Error::new(ErrorCode::Unavailable, "away");
        assert_eq!(millis(policy.next_delay(1, &away)), Some(250));
        assert_eq!(millis(policy.next_delay(2, &away)), Some(500));
        assert_eq!(policy.next_delay(3, &away), None);
        assert_eq!(policy.next_delay(1, &Error::not_found("model")), None);
        // If the server requests a longer delay than the policy, the server's delay applies.
        assert_eq!(millis(policy.next_delay(1, &away.clone().retry_after(Duration::from_secs(3)))), Some(3_000));
        assert_eq!(millis(policy.next_delay(2, &away.retry_after(Duration::from_millis(1)))), Some(500));
    }
}
