//! Watchdog of a walk: a disk that does not respond blocks the walk, and must block nothing else.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a waiting caller checks for progress.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A walk that stays at one entry for so long is lost; a disk that has to spin up takes a third of it.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Stages: the walk is running, its result is being applied, or it is abandoned.
const WALKING: u8 = 0;
const APPLYING: u8 = 1;
const ABANDONED: u8 = 2;

/// Counts the steps of a walk, and cancels it.
#[derive(Debug, Default)]
pub struct WalkToken {
    steps: AtomicU64,
    stopped: AtomicBool,
    stage: AtomicU8,
}

impl WalkToken {
    /// Records that the walk reached another entry. Returns false when it has to stop.
    pub fn advance(&self) -> bool {
        self.steps.fetch_add(1, Ordering::Relaxed);
        !self.is_stopped()
    }

    /// Returns the number of entries reached. A walk without a new step is slow, or will never end.
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

    /// Starts another walk, after the result of the first was applied.
    pub fn restart(&self) {
        self.transition(APPLYING, WALKING);
    }

    /// Starts applying the result; returns false when the walk has to stop.
    pub fn begin_apply(&self) -> bool {
        self.transition(WALKING, APPLYING) && !self.is_stopped()
    }

    /// Abandons the walk. Returns false when its result is being applied: the caller then has to wait for its end.
    pub fn abandon(&self) -> bool {
        self.transition(WALKING, ABANDONED)
    }

    fn transition(&self, from: u8, to: u8) -> bool {
        self.stage.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Detects a stalled walk by a counter that changes with every step.
pub(crate) struct StallDetector {
    steps: u64,
    since: Instant,
}

impl StallDetector {
    /// Starts with this count.
    pub(crate) fn new(steps: u64) -> StallDetector {
        StallDetector { steps, since: Instant::now() }
    }

    /// Returns whether the count has not changed for too long.
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
