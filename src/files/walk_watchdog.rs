//! Watchdog of a walk: detects a walk that is blocked by an unresponsive disk, so that the rest of vic does not wait for
//! it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a caller that waits for a walk checks for progress.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A walk without progress for this long is abandoned. A disk that has to spin up needs only a third of this time.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Stages of a walk: it runs, its result is being applied to the catalog, or it was abandoned.
const WALKING: u8 = 0;
const APPLYING: u8 = 1;
const ABANDONED: u8 = 2;

/// Counts the steps of a walk, and stops or abandons it.
#[derive(Debug, Default)]
pub struct WalkToken {
    steps: AtomicU64,
    stopped: AtomicBool,
    stage: AtomicU8,
}

impl WalkToken {
    /// Records that the walk reached another entry. Returns false when the walk has to stop.
    pub fn advance(&self) -> bool {
        self.steps.fetch_add(1, Ordering::Relaxed);
        !self.is_stopped()
    }

    /// Returns the number of steps so far; if it does not grow, the walk is slow or blocked.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Stops the walk at its next step.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns whether the walk has to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.stage.load(Ordering::Relaxed) == ABANDONED
    }

    /// Allows another walk, after the result of the previous one was applied.
    pub fn restart(&self) {
        self.transition(APPLYING, WALKING);
    }

    /// Starts applying the result of the walk; returns false when the walk was stopped or abandoned.
    pub fn begin_apply(&self) -> bool {
        self.transition(WALKING, APPLYING) && !self.is_stopped()
    }

    /// Abandons the walk. Returns false if its result is being applied already; the caller then has to wait until that is
    /// done.
    pub fn abandon(&self) -> bool {
        self.transition(WALKING, ABANDONED)
    }

    fn transition(&self, from: u8, to: u8) -> bool {
        self.stage.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Detects a stalled walk by a step counter that no longer changes.
pub(crate) struct StallDetector {
    steps: u64,
    since: Instant,
}

impl StallDetector {
    /// Creates a detector with the current step count.
    pub(crate) fn new(steps: u64) -> StallDetector {
        StallDetector { steps, since: Instant::now() }
    }

    /// Returns whether the step count has not changed for [`STALL_TIMEOUT`].
    pub(crate) fn is_stalled(&mut self, steps: u64) -> bool {
        if steps != self.steps {
            *self = StallDetector::new(steps);
        }
        self.since.elapsed() >= STALL_TIMEOUT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk_is_either_abandoned_or_applied() {
        let abandoned = WalkToken::default();
        assert!(abandoned.advance() && abandoned.abandon());
        assert!(!abandoned.advance() && !abandoned.begin_apply());
        assert_eq!(abandoned.steps(), 2);
        let used = WalkToken::default();
        assert!(
            used.begin_apply() && !used.abandon() && used.advance(),
            "a walk that is being applied is not abandoned"
        );
        used.restart();
        assert!(used.advance() && used.abandon() && !used.begin_apply());
    }
}
