//! How a walk is held: a disk that does not answer holds whoever walks it, and nothing else is to wait for that.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often somebody who waits looks whether there is movement.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// What has been at the same entry for so long is lost: a disk that has to spin up takes a third of it.
const LOST: Duration = Duration::from_secs(30);

/// A walk is on its way, what it saw is being put to use, or nobody waits for it any more.
const WALKING: u8 = 0;
const SETTLING: u8 = 1;
const ABANDONED: u8 = 2;

/// Counts the steps of a walk, and ends it.
#[derive(Debug, Default)]
pub struct Leash {
    steps: AtomicU64,
    stopped: AtomicBool,
    stage: AtomicU8,
}

impl Leash {
    /// Notes that the walk is at another entry. Returns false when it is to end.
    pub fn step(&self) -> bool {
        self.steps.fetch_add(1, Ordering::Relaxed);
        !self.is_stopped()
    }

    /// Entries that the walk was at. A walk that makes no step is slow, or will never end.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Ends the walk at its next step.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it is to end.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.stage.load(Ordering::Relaxed) == ABANDONED
    }

    /// Says that it is walked once more, after what was seen was put to use.
    pub fn walk_again(&self) {
        self.turn(SETTLING, WALKING);
    }

    /// Says that what was seen is put to use now, unless the walk is to end: then it returns false.
    pub fn settle(&self) -> bool {
        self.turn(WALKING, SETTLING) && !self.is_stopped()
    }

    /// Ends a walk that nobody waits for any more. Returns false where what was seen is being put to use: then its end has to be
    /// waited for.
    pub fn abandon(&self) -> bool {
        self.turn(WALKING, ABANDONED)
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        self.stage.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Tells slow from lost, by a count that changes with every step.
pub(crate) struct Movement {
    steps: u64,
    since: Instant,
}

impl Movement {
    /// Begins at this count.
    pub(crate) fn from(steps: u64) -> Movement {
        Movement { steps, since: Instant::now() }
    }

    /// Whether the count has stood still for too long.
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
    fn a_walk_is_either_abandoned_or_put_to_use() {
        let abandoned = Leash::default();
        assert!(abandoned.step() && abandoned.abandon());
        assert!(!abandoned.step() && !abandoned.settle());
        assert_eq!(abandoned.steps(), 2);
        let used = Leash::default();
        assert!(used.settle() && !used.abandon() && used.step(), "it takes long, and is waited for");
        used.walk_again();
        assert!(used.step() && used.abandon() && !used.settle());
    }
}
