//! Counters of requests since the daemon started, for `GET /metrics`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::ErrorCode;

/// Upper bounds of the buckets of the latency histogram, in seconds.
pub(super) const LATENCY_BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Why a request was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RejectionReason {
    /// The request came from a web page, or its host is not this server.
    HostOrOrigin,
    /// The key is missing or invalid.
    Key,
    /// The client's address exceeded a rate limit.
    Rate,
    /// Admission control found no free slot.
    Busy,
    /// The body is too large.
    Size,
    /// The media type of the body is not supported.
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

/// Counters of questions and of rejected requests.
#[derive(Default)]
pub(crate) struct Metrics {
    pub(super) answered: AtomicU64,
    /// Failed questions by error code, in the order of [`ErrorCode::ALL`].
    pub(super) failed: [AtomicU64; ErrorCode::ALL.len()],
    /// Questions by latency, in the order of [`LATENCY_BUCKETS`]. Questions slower than the last bound are only in the
    /// total.
    pub(super) buckets: [AtomicU64; LATENCY_BUCKETS.len()],
    pub(super) microseconds: AtomicU64,
    /// Rejected requests by reason, in the order of [`RejectionReason::ALL`].
    pub(super) refused: [AtomicU64; RejectionReason::ALL.len()],
}

impl Metrics {
    /// Starts to measure the latency of a question. If the timer is dropped before [`QuestionTimer::finish`], the question
    /// counts as cancelled.
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

/// Measures the latency of a running question; counts its outcome when dropped.
pub(crate) struct QuestionTimer<'a> {
    metrics: &'a Metrics,
    begun: Instant,
    failure: Option<ErrorCode>,
}

impl QuestionTimer<'_> {
    /// Counts the question as failed with this code, or as answered if `None`.
    pub(crate) fn finish(mut self, failure: Option<ErrorCode>) {
        self.failure = failure;
    }
}

impl Drop for QuestionTimer<'_> {
    fn drop(&mut self) {
        self.metrics.count(self.failure, self.begun.elapsed());
    }
}
