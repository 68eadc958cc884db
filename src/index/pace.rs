//! How reading pictures keeps to its share of the processors: a call of a reader takes seconds of several of them, and what
//! it took is rested off before the next one.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::machine::Budget;

/// So much is paid for at a time: somebody may begin to ask meanwhile, or nobody ask any more.
const PART: Duration = Duration::from_millis(100);

/// What is still to be rested off.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Duration>);

impl Pace {
    /// Notes so much time of processors.
    pub(super) fn owe(&self, worked: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += worked;
    }

    /// Rests until all of it is paid for. What is left when nobody waits any more is paid the next time.
    pub(super) async fn rest(&self, budget: &Budget) {
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

    /// How long is rested for work of 300 ms on a machine of two processors.
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
    async fn work_is_rested_off_at_the_rate_of_the_share_and_of_what_is_left_while_somebody_asks() {
        let (limited, attended, free) = tokio::join!(rests(25, false), rests(100, true), rests(100, false));
        assert!(limited >= Duration::from_millis(500), "half a processor: {limited:?}");
        assert!(attended >= Duration::from_millis(1_000), "a quarter of one: {attended:?}");
        assert!(free < Duration::from_millis(400), "{free:?}");
    }
}
