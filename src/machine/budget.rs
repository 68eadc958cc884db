//! A share of the processors for the work that nobody waits for.
//!
//! Whoever computes says afterwards how long it took, and is told how long to rest so that all together stay within the
//! share. There is one budget for the process, because there is one machine.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What may be saved up while nothing is done, and owed at most: longer pieces of work are not paid for later.
const MOST_SAVED: Duration = Duration::from_secs(1);

/// Processor time that comes back at a steady rate.
#[derive(Debug)]
pub struct Budget {
    /// Processor seconds in a second; none is no limit.
    rate: Option<f64>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Seconds; below zero they are owed.
    left: f64,
    refilled: Instant,
}

impl Budget {
    /// A budget of `percent` of so many processors; 100 and more is no limit.
    pub fn new(percent: u32, processors: usize) -> Budget {
        let rate = (percent < 100).then(|| f64::from(percent.max(1)) / 100.0 * processors.max(1) as f64);
        Budget { rate, state: Mutex::new(State { left: 0.0, refilled: Instant::now() }) }
    }

    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        self.rate.is_some()
    }

    /// Pays for work that was done, and returns how long to rest before the next.
    pub fn spend(&self, worked: Duration) -> Duration {
        self.spend_at(Instant::now(), worked)
    }

    fn spend_at(&self, now: Instant, worked: Duration) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let most = MOST_SAVED.as_secs_f64();
        let gained = now.saturating_duration_since(state.refilled).as_secs_f64() * rate;
        state.refilled = state.refilled.max(now);
        state.left = (state.left + gained).min(most) - worked.as_secs_f64();
        Duration::from_secs_f64((-state.left / rate).max(0.0))
    }
}

static BUDGET: OnceLock<Budget> = OnceLock::new();

/// Sets the share of all processors that this process may use for indexing, in percent. Only the first call counts.
pub fn cap_processors(percent: u32) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let _again = BUDGET.set(Budget::new(percent, processors));
}

/// The budget of this process; without a limit unless [`cap_processors`] set one.
pub fn budget() -> &'static Budget {
    BUDGET.get_or_init(|| Budget::new(100, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works in pieces of 20 ms for 100 s, on so many threads by turns; gives the processor seconds used in a second.
    fn used(percent: u32, processors: usize) -> f64 {
        let budget = Budget::new(percent, processors);
        let (begin, piece) = (Instant::now(), Duration::from_millis(20));
        let mut free = vec![begin; processors];
        let mut worked = 0.0;
        loop {
            let next = free.iter_mut().min().unwrap();
            let done = *next + piece;
            if done > begin + Duration::from_secs(100) {
                return worked / 100.0;
            }
            worked += piece.as_secs_f64();
            *next = done + budget.spend_at(done, piece);
        }
    }

    #[test]
    fn all_together_stay_within_the_share() {
        for (percent, processors, expected) in [(25, 1, 0.25), (25, 2, 0.5), (50, 4, 2.0), (10, 8, 0.8)] {
            let used = used(percent, processors);
            assert!((used - expected).abs() < 0.05 * expected + 0.02, "{percent} % of {processors}: {used}");
        }
    }

    #[test]
    fn without_a_limit_nobody_rests() {
        assert_eq!(Budget::new(100, 2).spend(Duration::from_secs(9)), Duration::ZERO);
    }
}
