//! CPU throttle of OCR. A worker call uses several processors for seconds; sleeping after it keeps OCR within its CPU
//! share.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::machine::Budget;

/// Work accounted per sleep. Short, because queries may begin or end meanwhile and change the share.
const PART: Duration = Duration::from_millis(100);

/// Work time not yet slept off.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Duration>);

impl Pace {
    /// Adds this much processor time.
    pub(in crate::index) fn owe(&self, worked: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += worked;
    }

    /// Sleeps until all work is accounted for. A cancelled call leaves the rest to the next one.
    pub(in crate::index) async fn rest(&self, budget: &Budget) {
        while let Some(part) = self.take_part() {
            tokio::time::sleep(budget.spend_behind(part)).await;
        }
    }

    fn take_part(&self) -> Option<Duration> {
        let mut owed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let part = (*owed).min(PART);
        *owed -= part;
        (!part.is_zero()).then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Measures the sleep after 300 ms of work on a machine with two processors.
    async fn rests(percent: u32, is_attended: bool) -> Duration {
        let (pace, budget) = (Pace::default(), Budget::new(percent, 2));
        let _asks = is_attended.then(|| budget.attend());
        (0..2).for_each(|_| pace.owe(Duration::from_millis(150)));
        let begun = Instant::now();
        pace.rest(&budget).await;
        let rested = begun.elapsed();
        pace.rest(&budget).await;
        assert!(begun.elapsed() - rested < Duration::from_millis(100), "all is paid");
        rested
    }

    #[tokio::test]
    async fn throttle_sleeps_by_cpu_share_and_attendance() {
        let (limited, attended, free) = tokio::join!(rests(25, false), rests(100, true), rests(100, false));
        assert!(limited >= Duration::from_millis(500), "half a processor: {limited:?}");
        assert!(attended >= Duration::from_millis(1_000), "a quarter of one: {attended:?}");
        assert!(free < Duration::from_millis(400), "{free:?}");
    }
}
