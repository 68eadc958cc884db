//! Bounds of the attempts of one call.

use std::time::Duration;

use tokio::time::Instant;

/// The wait before the second attempt: longer than a restart of a network connection.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// The longest wait between two attempts, so that a server that comes back is noticed soon.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Attempts of one call. With the waits above they take about two minutes: a full server needs one to restart.
const MAX_ATTEMPTS: u32 = 64;

/// Counts the attempts of a call, and waits between them.
#[derive(Debug)]
pub(crate) struct Attempts {
    deadline: Instant,
    used: u32,
    wait: Duration,
}

impl Attempts {
    pub(crate) fn until(deadline: Instant) -> Self {
        Self { deadline, used: 1, wait: FIRST_WAIT }
    }

    /// Waits for the next attempt. Returns `false` if there is none: the deadline would pass during the wait.
    pub(crate) async fn wait(&mut self) -> bool {
        let Some(wait) = self.next_wait(Instant::now()) else { return false };
        tokio::time::sleep(wait).await;
        true
    }

    /// Counts an attempt. Returns the wait before it; `None` if there is none.
    fn next_wait(&mut self, now: Instant) -> Option<Duration> {
        let wait = self.wait;
        if self.used >= MAX_ATTEMPTS || now + wait >= self.deadline {
            return None;
        }
        self.used += 1;
        self.wait = (wait * 2).min(LONGEST_WAIT);
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of attempts and the time that they take, if each ends at once.
    fn attempts_within(limit: Duration) -> (u32, Duration) {
        let (start, mut passed) = (Instant::now(), Duration::ZERO);
        let mut attempts = Attempts::until(start + limit);
        while let Some(wait) = attempts.next_wait(start + passed) {
            passed += wait;
        }
        (attempts.used, passed)
    }

    #[test]
    fn attempts_end_at_the_count_and_at_the_deadline() {
        assert_eq!(attempts_within(Duration::from_secs(3600)).0, MAX_ATTEMPTS);
        assert!((100..=130).contains(&attempts_within(Duration::from_secs(3600)).1.as_secs()));
        assert_eq!(attempts_within(Duration::from_millis(200)), (3, Duration::from_millis(150)));
    }
}
