//! Limits the processor time of indexing, and reserves processors for questions.
//!
//! A worker reports how long it computed and is told how long to sleep, so that all workers together stay within the limit.
//! There is one budget per process.
//!
//! While a question runs, the limit of background work is lower. Low thread priority alone is not enough: a question passes
//! through many threads, and each may wait for the next scheduler tick before it preempts a background thread.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Maximum processor time that workers can save up while they are idle.
const MAX_CREDIT: Duration = Duration::from_secs(1);

/// How long a question still counts as active after it ended, because questions come in bursts.
const ATTENTION_SPAN: Duration = Duration::from_secs(1);

/// Number of processors that background work leaves free while a question runs.
const RESERVED_PROCESSORS: f64 = 2.0;
/// Background work may use at least this share of all processors, even while a question runs.
const MIN_SHARE: f64 = 0.125;

/// A balance of processor time that refills at a steady rate.
#[derive(Debug)]
pub struct Budget {
    /// Refill rate in processor seconds per second; `None` means no limit.
    rate: Option<f64>,
    /// The refill rate for background work while a question runs.
    attended_rate: f64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Unused processor seconds; negative if workers used more than was refilled.
    balance: f64,
    refilled: Instant,
    /// Number of questions in progress.
    active_questions: usize,
    /// When the last question ended.
    last_question: Option<Instant>,
}

impl State {
    /// Refills the balance at `rate`, subtracts `worked`, keeps the balance between `least` and `most` seconds, and returns
    /// how long to sleep until the balance is 0 again.
    fn pay(&mut self, now: Instant, worked: Duration, rate: f64, least: f64, most: f64) -> Duration {
        let passed = now.saturating_duration_since(self.refilled).as_secs_f64();
        self.refilled = self.refilled.max(now);
        self.balance = ((self.balance + passed * rate).min(most) - worked.as_secs_f64()).max(least);
        Duration::from_secs_f64((-self.balance / rate).max(0.0))
    }
}

impl Budget {
    /// Makes a budget of `percent` of all `processors`; 100 and more means no limit.
    pub fn new(percent: u32, processors: usize) -> Budget {
        let processors = processors.max(1) as f64;
        let rate = (percent < 100).then(|| f64::from(percent.max(1)) / 100.0 * processors);
        let attended = (processors - RESERVED_PROCESSORS).max(processors * MIN_SHARE);
        let state = State { balance: 0.0, refilled: Instant::now(), active_questions: 0, last_question: None };
        Budget { rate, attended_rate: rate.map_or(attended, |it| it.min(attended)), state: Mutex::new(state) }
    }

    /// Returns whether processor time is limited even while no question runs.
    pub fn is_limited(&self) -> bool {
        self.rate.is_some()
    }

    /// Counts a question as active until the returned guard drops.
    pub fn begin_question(&self) -> ActiveQuestion<'_> {
        self.state().active_questions += 1;
        ActiveQuestion(self)
    }

    /// Reports `worked` processor time of foreground work. Returns how long to sleep before the next piece of work.
    pub fn spend(&self, worked: Duration) -> Duration {
        self.spend_at(Instant::now(), worked)
    }

    fn spend_at(&self, now: Instant, worked: Duration) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        self.state().pay(now, worked, rate, f64::NEG_INFINITY, MAX_CREDIT.as_secs_f64())
    }

    /// Reports `worked` processor time of background work. Returns how long to sleep before the next piece of work: at most
    /// one second longer than after [`Budget::spend`], because a running question may have ended by then.
    pub fn spend_background(&self, worked: Duration) -> Duration {
        self.spend_background_at(Instant::now(), worked)
    }

    fn spend_background_at(&self, now: Instant, worked: Duration) -> Duration {
        let rest = self.spend_at(now, worked);
        let mut state = self.state();
        let lately = |it: Instant| now.saturating_duration_since(it) < ATTENTION_SPAN;
        let is_attended = state.active_questions > 0 || state.last_question.is_some_and(lately);
        match self.rate {
            Some(rate) if is_attended => {
                rest + worked.mul_f64(1.0 / self.attended_rate - 1.0 / rate).min(ATTENTION_SPAN)
            }
            Some(_) => rest,
            None if is_attended => {
                let least = -self.attended_rate * ATTENTION_SPAN.as_secs_f64();
                state.pay(now, worked, self.attended_rate, least, 0.0)
            }
            None => {
                (state.balance, state.refilled) = (0.0, now);
                Duration::ZERO
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard for a running question: background work gets less processor time until one second after it is dropped.
#[derive(Debug)]
pub struct ActiveQuestion<'a>(&'a Budget);

impl Drop for ActiveQuestion<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.active_questions -= 1;
        state.last_question = Some(Instant::now());
    }
}

static BUDGET: OnceLock<Budget> = OnceLock::new();

/// Limits this process to `percent` of all processors for indexing. Only the first call has an effect.
pub fn cap_processors(percent: u32) {
    let _again = BUDGET.set(Budget::new(percent, processors()));
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the CPU budget of this process; without a limit unless [`cap_processors`] set one.
pub fn budget() -> &'static Budget {
    BUDGET.get_or_init(|| Budget::new(100, processors()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates 100 s of 20 ms pieces on `processors` threads, with or without an active question. Returns the processor
    /// seconds used per second.
    fn simulated_load(percent: u32, processors: usize, is_attended: bool) -> f64 {
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
            budget.state().last_question = is_attended.then_some(done);
            *next = done + budget.spend_background_at(done, piece);
        }
    }

    #[test]
    fn background_work_stays_within_cpu_share() {
        for (percent, processors, expected) in [(25, 1, 0.25), (25, 2, 0.5), (50, 4, 2.0), (10, 8, 0.8)] {
            let used = simulated_load(percent, processors, false);
            assert!((used - expected).abs() < 0.05 * expected + 0.02, "{percent} % of {processors}: {used}");
        }
    }

    #[test]
    fn active_question_reserves_two_processors() {
        for (percent, processors, expected) in [(100, 1, 0.125), (100, 2, 0.25), (100, 8, 6.0), (10, 8, 0.8)] {
            let used = simulated_load(percent, processors, true);
            assert!((used - expected).abs() < 0.05 * expected + 0.02, "{percent} % of {processors}: {used}");
        }
        assert!(simulated_load(100, 2, false) > 1.9);
    }

    #[test]
    fn budget_recovers_one_second_after_last_question() {
        let (budget, long) = (Budget::new(100, 2), Duration::from_secs(60));
        let asking = budget.begin_question();
        let later = Instant::now() + 9 * ATTENTION_SPAN;
        assert_eq!(budget.spend_background_at(later, long), ATTENTION_SPAN, "capped for long questions and long work");
        drop(asking);
        assert_eq!(budget.spend(long), Duration::ZERO, "foreground work is not limited");
        assert!(budget.spend_background(long) > Duration::ZERO, "questions come in bursts");
        assert_eq!(budget.spend_background_at(Instant::now() + ATTENTION_SPAN, long), Duration::ZERO);
    }

    #[test]
    fn question_extends_limited_rest_by_one_second() {
        // Takes the time before both budgets exist, so that their balances have not refilled by then.
        let (now, long) = (Instant::now(), Duration::from_secs(20));
        let (free, attended) = (Budget::new(50, 2), Budget::new(50, 2));
        let _asking = attended.begin_question();
        assert_eq!(attended.spend_background_at(now, long), free.spend_background_at(now, long) + ATTENTION_SPAN);
        assert_eq!(attended.spend_at(now, long), free.spend_at(now, long), "the debt is the same");
    }

    #[test]
    fn unlimited_budget_never_rests() {
        assert_eq!(Budget::new(100, 2).spend_background(Duration::from_secs(9)), Duration::ZERO);
    }
}
