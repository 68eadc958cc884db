//! Open-loop load generator for `vic bench search`: questions are sent at fixed times, without waiting for answers.
//!
//! The time at which each question is due is fixed before the first question is sent, with random gaps, as from independent
//! users. The time of an answer is measured from the moment the question was due, not from the moment a client was free to
//! send it. So if a server stalls for a second, the delay of every question due in that second counts. Questions that were
//! never sent count with their waiting time. Only the lateness of the timer, a millisecond or two, is excluded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::embed::Random;
use crate::error::{Error, ErrorCode, Result};

/// Maximum number of errors that are kept; further ones are only counted.
const MAX_ERRORS: usize = 3;

/// The load to generate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Average number of questions due per second.
    pub(super) rate: f64,
    /// Duration of the load.
    pub(super) duration: Duration,
    /// Number of clients; each waits for its answer before it takes the next question.
    pub(super) clients: usize,
    /// How long to wait for answers after the last question was due.
    pub(super) answer_timeout: Duration,
}

/// The measured result of a load.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadResult {
    /// Milliseconds from the moment each question was due to its answer, without the lateness of the timer; to the end of
    /// the measurement for unsent or unanswered questions.
    pub(super) times: Vec<f64>,
    /// Milliseconds from sending each answered question to its answer.
    pub(super) service: Vec<f64>,
    /// Number of questions due.
    pub(super) due: usize,
    /// Number of questions answered with an error, or not answered before the end of the measurement.
    pub(super) failed: usize,
    /// Number of questions that were never sent, because no client was free.
    pub(super) unsent: usize,
    /// Duration of the load in seconds, to the last answer.
    pub(super) seconds: f64,
    /// The first errors, at most `MAX_ERRORS`.
    pub(super) errors: Vec<Error>,
}

impl LoadResult {
    fn add(&mut self, other: LoadResult) {
        self.times.extend(other.times);
        self.service.extend(other.service);
        self.failed += other.failed;
        self.errors.extend(other.errors);
        self.errors.truncate(MAX_ERRORS);
    }
}

/// Generates the load. `ask` sends a question; it gets the number of the client and of the question.
pub(super) async fn offer_load<Answer>(
    load: Load,
    ask: impl Fn(usize, usize) -> Answer + Clone + Send + 'static,
) -> LoadResult
where
    Answer: Future<Output = Result<()>> + Send + 'static,
{
    let due = Arc::new(arrival_times(load.rate, load.duration));
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let end = begun + due.last().copied().unwrap_or_default() + load.answer_timeout;
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..load.clients.max(1) {
        let (due, next, ask) = (due.clone(), next.clone(), ask.clone());
        tasks.spawn(async move {
            let mut outcome = LoadResult::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(after) = due.get(number) else { return outcome };
                let moment = begun + *after;
                let was_free = Instant::now() < moment;
                tokio::time::sleep_until(moment).await;
                let now = Instant::now();
                if now >= end {
                    // Stops at the end: no client was free in time, so this question and all later ones stay unsent.
                    return outcome;
                }
                send_question(ask(client, number), if was_free { now } else { moment }, end, &mut outcome).await;
            }
        });
    }
    let mut outcome = tasks.join_all().await.into_iter().fold(LoadResult::default(), |mut all, it| {
        all.add(it);
        all
    });
    outcome.seconds = begun.elapsed().as_secs_f64();
    outcome.due = due.len();
    let taken = outcome.times.len();
    outcome.unsent = due.len() - taken;
    // Adds the waiting times of the unsent questions, which are the last ones, because questions are taken in order.
    let waited = |after: &Duration| (end - (begun + *after)).as_secs_f64() * 1_000.0;
    outcome.times.extend(due[taken..].iter().map(waited));
    outcome
}

/// Sends one question, waits for its answer at most until `end`, and records the times.
async fn send_question(answer: impl Future<Output = Result<()>>, due: Instant, end: Instant, outcome: &mut LoadResult) {
    let sent = Instant::now();
    let answered = tokio::time::timeout_at(end, answer).await.unwrap_or_else(|_| {
        Err(Error::new(ErrorCode::DeadlineExceeded, "no answer before the end of the measurement"))
    });
    outcome.times.push(due.elapsed().as_secs_f64() * 1_000.0);
    match answered {
        Ok(()) => outcome.service.push(sent.elapsed().as_secs_f64() * 1_000.0),
        Err(error) => {
            outcome.failed += 1;
            if outcome.errors.len() < MAX_ERRORS {
                outcome.errors.push(error);
            }
        }
    }
}

/// Returns when each question is due: random times with exponential gaps, the same in every run.
fn arrival_times(rate: f64, duration: Duration) -> Vec<Duration> {
    let mut random = Random::new(11);
    let mut at = 0.0;
    let mut all = Vec::new();
    loop {
        at -= random.unit().ln() / rate;
        if at >= duration.as_secs_f64() {
            return all;
        }
        all.push(Duration::from_secs_f64(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load of fifty questions per second for one second.
    fn load(clients: usize, patience_ms: u64) -> Load {
        let patience = Duration::from_millis(patience_ms);
        Load { rate: 50.0, duration: Duration::from_secs(1), clients, answer_timeout: patience }
    }

    /// Runs a load against a server that takes a fixed time per answer.
    async fn served_in(milliseconds: u64, load: Load) -> LoadResult {
        offer_load(load, move |_, _| async move {
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            Ok(())
        })
        .await
    }

    #[test]
    fn arrivals_match_the_rate() {
        let all = arrival_times(50.0, Duration::from_secs(100));
        assert!((4_800..5_200).contains(&all.len()), "{}", all.len());
        assert!(all.is_sorted());
    }

    #[tokio::test]
    async fn fast_server_gets_every_question() {
        let outcome = served_in(1, load(8, 20_000)).await;
        assert_eq!((outcome.unsent, outcome.failed), (0, 0));
        assert_eq!((outcome.times.len(), outcome.service.len()), (outcome.due, outcome.due));
        assert!(outcome.due > 30, "{}", outcome.due);
    }

    #[tokio::test]
    async fn waiting_and_unsent_questions_count() {
        // One client with 200 ms per answer sends five questions a second, but fifty are due.
        let outcome = served_in(200, load(1, 100)).await;
        assert!(outcome.unsent > outcome.due / 2, "{} of {}", outcome.unsent, outcome.due);
        assert_eq!(outcome.times.len(), outcome.due);
        // From the third question on, each waits for at least two answers, also on a fast machine.
        let waited = outcome.times.iter().filter(|it| **it > 300.0).count();
        assert!(waited > outcome.due / 2, "{waited} of {} waited", outcome.due);
    }

    #[tokio::test]
    async fn errors_are_counted_and_first_ones_kept() {
        let refused = |_: usize, number: usize| async move {
            if number.is_multiple_of(2) { Err(Error::not_found(format!("no {number}"))) } else { Ok(()) }
        };
        let outcome = offer_load(load(4, 20_000), refused).await;
        assert_eq!(outcome.failed, outcome.due.div_ceil(2));
        assert_eq!(outcome.errors.len(), MAX_ERRORS);
    }

    #[tokio::test]
    async fn hanging_server_does_not_delay_the_end() {
        let outcome = served_in(3_600_000, load(4, 100)).await;
        assert_eq!((outcome.failed, outcome.service.len()), (4, 0));
        assert!(outcome.seconds < 60.0, "{}", outcome.seconds);
    }
}
