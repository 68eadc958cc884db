//! The clock of a model client, for event times, latencies and waits between attempts. Tests replace it.

use std::time::{Duration, Instant, SystemTime};

/// A source of time, which tests can replace.
#[async_trait::async_trait]
pub trait Clock: Send + Sync {
    /// Returns the current time in milliseconds since the epoch.
    fn now_ms(&self) -> i64;

    /// Returns the time since a fixed moment in the past; it never decreases.
    fn elapsed(&self) -> Duration;

    /// Waits for the duration `time`.
    async fn sleep(&self, time: Duration);
}

/// The clock of the system.
#[derive(Debug)]
pub struct SystemClock {
    begun: Instant,
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock { begun: Instant::now() }
    }
}

#[async_trait::async_trait]
impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A clock for tests that returns from waits at once and records them.
    #[derive(Debug, Default)]
    pub(crate) struct ManualClock {
        pub(crate) slept: Mutex<Vec<Duration>>,
    }

    #[async_trait::async_trait]
    impl Clock for ManualClock {
        fn now_ms(&self) -> i64 {
            1_700_000_000_000
        }

        fn elapsed(&self) -> Duration {
            self.slept.lock().unwrap().iter().sum()
        }

        async fn sleep(&self, time: Duration) {
            self.slept.lock().unwrap().push(time);
        }
    }
}
