//! CPU throttle of OCR. One worker call uses several processors for seconds; a sleep after the call keeps OCR within
//! its CPU limit.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::machine::Budget;

/// Maximum CPU time that one sleep compensates for. Short, because queries may begin or end during the sleep and change
/// the CPU limit.
const MAX_STEP: Duration = Duration::from_millis(100);

/// CPU time of OCR for which the throttle has not slept yet.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<Duration>);

impl Throttle {
    /// Adds the CPU time of a worker call.
    pub(in crate::index) fn add_work(&self, worked: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += worked;
    }

    /// Sleeps until OCR has used no more than its share of the CPU. If the call is cancelled, the next call sleeps for
    /// the remaining work.
    pub(in crate::index) async fn sleep_off(&self, budget: &Budget) {
        while let Some(part) = self.take_step() {
            tokio::time::sleep(budget.spend_background(part)).await;
        }
    }

    fn take_step(&self) -> Option<Duration> {
        let mut owed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let part = (*owed).min(MAX_STEP);
        *owed -= part;
        (!part.is_zero()).then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Measures the sleep after 300 ms of work on a machine with two processors.
    async fn time_slept(percent: u32, is_attended: bool) -> Duration {
        let (pace, budget) = (Throttle::default(), Budget::new(percent, 2));
        let _asks = is_attended.then(|| budget.begin_question());
        (0..2).for_each(|_| pace.add_work(Duration::from_millis(150)));
        let begun = Instant::now();
        pace.sleep_off(&budget).await;
        let rested = begun.elapsed();
        pace.sleep_off(&budget).await;
        assert!(begun.elapsed() - rested < Duration::from_millis(100), "all is paid");
        rested
    }

    #[tokio::test]
    async fn throttle_sleeps_by_cpu_share_and_attendance() {
        let (limited, attended, free) =
            tokio::join!(time_slept(25, false), time_slept(100, true), time_slept(100, false));
        assert!(limited >= Duration::from_millis(500), "half a processor: {limited:?}");
        assert!(attended >= Duration::from_millis(1_000), "a quarter of one: {attended:?}");
        assert!(free < Duration::from_millis(400), "{free:?}");
    }
}
