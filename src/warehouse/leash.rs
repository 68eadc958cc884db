//! Watchdog of a walk: a disk that does not respond blocks the walk, and must block nothing else.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a waiting caller checks for progress.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// A walk that stays at one entry for so long is lost; a disk that has to spin up takes a third of it.
const LOST: Duration = Duration::from_secs(30);

/// Stages: the walk is running, its result is being applied, or it is abandoned.
const WALKING: u8 = 0;
const SETTLING: u8 = 1;
const ABANDONED: u8 = 2;

/// Counts the steps of a walk, and cancels it.
#[derive(Debug, Default)]
pub struct Leash {
    steps: AtomicU64,
    stopped: AtomicBool,
    stage: AtomicU8,
}

impl Leash {
    /// Records that the walk reached another entry. Returns false when it has to stop.
    pub fn step(&self) -> bool {
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
    pub fn walk_again(&self) {
        self.turn(SETTLING, WALKING);
    }

    /// Starts applying the result; returns false when the walk has to stop.
    pub fn settle(&self) -> bool {
        self.turn(WALKING, SETTLING) && !self.is_stopped()
    }

    /// Abandons the walk. Returns false when its result is being applied: the caller then has to wait for its end.
    pub fn abandon(&self) -> bool {
        self.turn(WALKING, ABANDONED)
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        self.stage.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Detects a stalled walk by a counter that changes with every step.
pub(crate) struct Movement {
    steps: u64,
    since: Instant,
}

impl Movement {
    /// Starts with this count.
    pub(crate) fn from(steps: u64) -> Movement {
        Movement { steps, since: Instant::now() }
    }

    /// Returns whether the count has not changed for too long.
    pub(crate) fn has_ended(&mut self, steps: u64) -> bool {
        if steps != self.steps {
            *self = Movement::from(steps);
        }
        self.since.elapsed() >= LOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk_is_either_abandoned_or_applied() {
        let abandoned = Leash::default();
        assert!(abandoned.step() && abandoned.abandon());
        assert!(!abandoned.step() && !abandoned.settle());
        assert_eq!(abandoned.steps(), 2);
        let used = Leash::default();
        assert!(used.settle() && !used.abandon() && used.step(), "a walk that is being applied is not abandoned");
        used.walk_again();
        assert!(used.step() && used.abandon() && !used.settle());
    }
}
