//! Policies of the caller: how often to try, where to stop. None of them acts without an event that says so.

use std::time::Duration;

use crate::error::{Error, ErrorCode, Result};

/// Most stop sequences: what the common servers take.
const MAX_STOPS: usize = 4;
/// Bytes of a stop sequence: each piece of an answer is held against all of its beginnings.
const MAX_STOP_BYTES: usize = 1 << 10;
/// Most tries of a policy.
const MAX_ATTEMPTS: u32 = 10;

/// When and how often a request is sent again. Only before its first token: nobody reads the same twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries in all, the first among them.
    pub attempts: u32,
    /// Wait before the second; it doubles each time.
    pub first_wait: Duration,
    /// What is worth another try.
    pub codes: Vec<ErrorCode>,
}

impl RetryPolicy {
    /// So many tries of what another try may help: a server that is busy or away.
    pub fn attempts(attempts: u32) -> RetryPolicy {
        let codes = vec![ErrorCode::Unavailable, ErrorCode::ResourceExhausted];
        RetryPolicy { attempts, first_wait: Duration::from_millis(250), codes }
    }

    /// The wait before the next try after so many, at least as long as the backend asks for; None when there is none.
    pub fn wait(&self, tried: u32, error: &Error) -> Option<Duration> {
        let again = tried < self.attempts && self.codes.contains(&error.code);
        let own = self.first_wait.saturating_mul(1 << (tried - 1).min(16));
        again.then(|| own.max(error.retry_after.unwrap_or_default()))
    }
}

/// Policies of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guardrails {
    /// The answer ends before the first of these, and does not show it.
    pub stop: Vec<String>,
    /// Tries; None is one.
    pub retry: Option<RetryPolicy>,
    /// Most rounds in which the model calls tools; after the last, the stream ends with an error.
    pub max_tool_rounds: u32,
}

impl Default for Guardrails {
    fn default() -> Guardrails {
        Guardrails { stop: Vec::new(), retry: None, max_tool_rounds: 8 }
    }
}

impl Guardrails {
    /// Says whether they can be meant.
    pub fn check(&self) -> Result<()> {
        let sequence = |it: &String| (1..=MAX_STOP_BYTES).contains(&it.len());
        if self.stop.len() > MAX_STOPS || !self.stop.iter().all(sequence) {
            let text = format!("`guardrails.stop` takes at most {MAX_STOPS} sequences of 1 to {MAX_STOP_BYTES} bytes");
            return Err(Error::invalid(text).field("guardrails.stop"));
        }
        match &self.retry {
            Some(policy) if !(1..=MAX_ATTEMPTS).contains(&policy.attempts) => {
                let text = format!("`guardrails.retry` has {} attempts; 1 to {MAX_ATTEMPTS} can be", policy.attempts);
                Err(Error::invalid(text).field("guardrails.retry"))
            }
            _ => Ok(()),
        }
    }
}

/// Lets text through up to a stop sequence, also one that comes in pieces.
pub struct StopFilter {
    stops: Vec<String>,
    held: String,
}

impl StopFilter {
    pub fn new(stops: &[String]) -> StopFilter {
        StopFilter { stops: stops.to_vec(), held: String::new() }
    }

    /// Takes a piece; gives what can be shown, and whether a stop sequence has come.
    pub fn take(&mut self, piece: &str) -> (String, bool) {
        self.held.push_str(piece);
        if let Some(at) = self.stops.iter().filter_map(|it| self.held.find(it)).min() {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let kept = self.stops.iter().map(|it| begun(&self.held, it)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// What was held back, at the end.
    pub fn rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Bytes at the end of `text` that are the beginning of `stop`.
fn begun(text: &str, stop: &str) -> usize {
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
            let (text, stop) = filter.take(piece);
            out.push_str(&text);
            end = stop;
            if stop {
                break;
            }
        }
        if !end {
            out.push_str(&filter.rest());
        }
        assert_eq!((out.as_str(), end), (shown, stopped), "{pieces:?}");
    }

    #[test]
    fn a_stop_sequence_ends_the_answer_also_in_pieces() {
        check(&["END"], &["one EN", "D two"], "one ", true);
        check(&["END"], &["one E", "N two"], "one EN two", false);
        check(&["\n\n", "}"], &["a\n", "b}", "c"], "a\nb", true);
        check(&["ääb"], &["xä", "ä", "b"], "x", true);
        check(&[], &["a", "b"], "ab", false);
        check(&["aab"], &["aa", "ab"], "a", true);
    }

    #[test]
    fn waits_double_and_only_named_codes_are_tried_again() {
        let policy = RetryPolicy::attempts(3);
        let millis = |it: Option<Duration>| it.map(|it| it.as_millis());
        let away = Error::new(ErrorCode::Unavailable, "away");
        assert_eq!(millis(policy.wait(1, &away)), Some(250));
        assert_eq!(millis(policy.wait(2, &away)), Some(500));
        assert_eq!(policy.wait(3, &away), None);
        assert_eq!(policy.wait(1, &Error::not_found("model")), None);
        // A server that asks for longer has it.
        assert_eq!(millis(policy.wait(1, &away.clone().retry_after(Duration::from_secs(3)))), Some(3_000));
        assert_eq!(millis(policy.wait(2, &away.retry_after(Duration::from_millis(1)))), Some(500));
    }
}
