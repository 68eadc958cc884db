//! A share of the processors for the work that nobody waits for.
//!
//! Whoever computes says afterwards how long it took, and is told how long to rest so that all together stay within the
//! share. There is one budget for the process, because there is one machine.
//!
//! While somebody asks, the share is smaller: to stand behind in the queues of the machine is not enough. A question goes
//! through many threads, each of which may have to wait until the clock ticks before it takes a processor from whoever has
//! one.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What may be saved up while nothing is done, and owed at most: longer pieces of work are not paid for later.
const MOST_SAVED: Duration = Duration::from_secs(1);

/// How long somebody is taken to be asking after a question: who asks often asks again.
const ATTENTION: Duration = Duration::from_secs(1);

/// Processors that are left to whoever asks, and the least part of all that is not.
const LEFT: f64 = 2.0;
const LEAST_PART: f64 = 0.125;

/// Processor time that comes back at a steady rate.
#[derive(Debug)]
pub struct Budget {
    /// Processor seconds in a second; none is no limit.
    rate: Option<f64>,
    /// The same while somebody asks.
    attended: f64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Seconds; below zero they are owed.
    left: f64,
    refilled: Instant,
    /// When the last question came.
    asked: Option<Instant>,
}

impl Budget {
    /// A budget of `percent` of so many processors; 100 and more is no limit.
    pub fn new(percent: u32, processors: usize) -> Budget {
        let processors = processors.max(1) as f64;
        let rate = (percent < 100).then(|| f64::from(percent.max(1)) / 100.0 * processors);
        let attended = (processors - LEFT).max(processors * LEAST_PART);
        let state = State { left: 0.0, refilled: Instant::now(), asked: None };
        Budget { rate, attended: rate.map_or(attended, |it| it.min(attended)), state: Mutex::new(state) }
    }

    /// Whether there is a limit, whoever asks.
    pub fn is_limited(&self) -> bool {
        self.rate.is_some()
    }

    /// Takes note of a question.
    pub fn attend(&self) {
        self.state().asked = Some(Instant::now());
    }

    /// Pays for work that somebody waits for, and returns how long to rest before the next.
    pub fn spend(&self, worked: Duration) -> Duration {
        self.spend_at(Instant::now(), worked, self.rate)
    }

    /// Pays for work that nobody waits for, and returns how long to rest before the next: at most a second more than
    /// [`Budget::spend`] would say.
    pub fn spend_behind(&self, worked: Duration) -> Duration {
        self.spend_behind_at(Instant::now(), worked)
    }

    fn spend_behind_at(&self, now: Instant, worked: Duration) -> Duration {
        let is_attended = self.state().asked.is_some_and(|it| now.saturating_duration_since(it) < ATTENTION);
        let rest = self.spend_at(now, worked, if is_attended { Some(self.attended) } else { self.rate });
        // Nobody may ask any more by then.
        if self.rate.is_none() { rest.min(ATTENTION) } else { rest }
    }

    fn spend_at(&self, now: Instant, worked: Duration, rate: Option<f64>) -> Duration {
        let mut state = self.state();
        let passed = now.saturating_duration_since(state.refilled).as_secs_f64();
        state.refilled = state.refilled.max(now);
        let Some(rate) = rate else {
            state.left = 0.0;
            return Duration::ZERO;
        };
        // What nobody bounded before was not saved, and is not owed for long.
        let (least, most) = match self.rate {
            Some(_) => (f64::NEG_INFINITY, MOST_SAVED.as_secs_f64()),
            None => (-rate * ATTENTION.as_secs_f64(), 0.0),
        };
        state.left = ((state.left + passed * rate).min(most) - worked.as_secs_f64()).max(least);
        Duration::from_secs_f64((-state.left / rate).max(0.0))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static BUDGET: OnceLock<Budget> = OnceLock::new();

/// Sets the share of all processors that this process may use for indexing, in percent. Only the first call counts.
pub fn cap_processors(percent: u32) {
    let _again = BUDGET.set(Budget::new(percent, processors()));
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The budget of this process; without a limit unless [`cap_processors`] set one.
pub fn budget() -> &'static Budget {
    BUDGET.get_or_init(|| Budget::new(100, processors()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works in pieces of 20 ms for 100 s, on so many threads by turns, while somebody asks or not; gives the processor
    /// seconds used in a second.
    fn used(percent: u32, processors: usize, is_attended: bool) -> f64 {
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
            budget.state().asked = is_attended.then_some(done);
            *next = done + budget.spend_behind_at(done, piece);
        }
    }

    #[test]
    fn all_together_stay_within_the_share() {
        for (percent, processors, expected) in [(25, 1, 0.25), (25, 2, 0.5), (50, 4, 2.0), (10, 8, 0.8)] {
            let used = used(percent, processors, false);
            assert!((used - expected).abs() < 0.05 * expected + 0.02, "{percent} % of {processors}: {used}");
        }
    }

    #[test]
    fn while_somebody_asks_two_processors_are_left_to_them_but_never_all() {
        for (percent, processors, expected) in [(100, 1, 0.125), (100, 2, 0.25), (100, 8, 6.0), (10, 8, 0.8)] {
            let used = used(percent, processors, true);
            assert!((used - expected).abs() < 0.05 * expected + 0.02, "{percent} % of {processors}: {used}");
        }
        assert!(used(100, 2, false) > 1.9);
    }

    #[test]
    fn a_second_after_the_last_question_all_is_as_before() {
        let (budget, long) = (Budget::new(100, 2), Duration::from_secs(60));
        budget.attend();
        assert_eq!(budget.spend_behind(long), ATTENTION, "however long the work was");
        assert_eq!(budget.spend(long), Duration::ZERO, "of what somebody waits for");
        assert_eq!(budget.spend_behind_at(Instant::now() + ATTENTION, long), Duration::ZERO);
    }

    #[test]
    fn without_a_limit_nobody_rests() {
        assert_eq!(Budget::new(100, 2).spend_behind(Duration::from_secs(9)), Duration::ZERO);
    }
}
