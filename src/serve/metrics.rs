//! Counters of requests since the start of the daemon.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::ErrorCode;

/// Upper bounds of the latency histogram, in seconds.
pub(super) const LATENCY_BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Why a request was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RejectionReason {
    /// A web page, or a host that is not this server.
    HostOrOrigin,
    /// Missing or invalid key.
    Key,
    /// Rate limit of an address.
    Rate,
    /// Admission control.
    Busy,
    /// Body too large.
    Size,
    /// Unsupported media type.
    MediaType,
}

impl RejectionReason {
    pub(super) const ALL: [(RejectionReason, &'static str); 6] = [
        (RejectionReason::HostOrOrigin, "host_or_origin"),
        (RejectionReason::Key, "key"),
        (RejectionReason::Rate, "rate"),
        (RejectionReason::Busy, "busy"),
        (RejectionReason::Size, "size"),
        (RejectionReason::MediaType, "media_type"),
    ];
}

/// Counters of requests.
#[derive(Default)]
pub(crate) struct Metrics {
    pub(super) answered: AtomicU64,
    /// Indexed as [`ErrorCode::ALL`].
    pub(super) failed: [AtomicU64; ErrorCode::ALL.len()],
    /// Indexed as [`LATENCY_BUCKETS`]; slower questions are only in the total.
    pub(super) buckets: [AtomicU64; LATENCY_BUCKETS.len()],
    pub(super) microseconds: AtomicU64,
    /// Indexed as [`RejectionReason::ALL`].
    pub(super) refused: [AtomicU64; RejectionReason::ALL.len()],
}

impl Metrics {
    /// Starts to count a question. It counts as cancelled if dropped before [`QuestionTimer::finish`].
    pub(crate) fn start_question(&self) -> QuestionTimer<'_> {
        QuestionTimer { metrics: self, begun: Instant::now(), failure: Some(ErrorCode::Cancelled) }
    }

    /// Counts a rejected request.
    pub(crate) fn count_rejection(&self, why: RejectionReason) {
        if let Some(at) = RejectionReason::ALL.iter().position(|(it, _)| *it == why) {
            self.refused[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn count(&self, failure: Option<ErrorCode>, took: Duration) {
        match failure.and_then(|code| ErrorCode::ALL.iter().position(|it| *it == code)) {
            Some(at) => self.failed[at].fetch_add(1, Ordering::Relaxed),
            None => self.answered.fetch_add(1, Ordering::Relaxed),
        };
        if let Some(at) = LATENCY_BUCKETS.iter().position(|it| took.as_secs_f64() <= *it) {
            self.buckets[at].fetch_add(1, Ordering::Relaxed);
        }
        self.microseconds.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
    }
}

/// A running question.
pub(crate) struct QuestionTimer<'a> {
    metrics: &'a Metrics,
    begun: Instant,
    failure: Option<ErrorCode>,
}

impl QuestionTimer<'_> {
    /// Records the outcome.
    pub(crate) fn finish(mut self, failure: Option<ErrorCode>) {
        self.failure = failure;
    }
}

impl Drop for QuestionTimer<'_> {
    fn drop(&mut self) {
        self.metrics.count(self.failure, self.begun.elapsed());
    }
}
