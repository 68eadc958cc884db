//! Tracks lost events, and decides when to rescan because of them. The current time is a parameter.

use std::time::{Duration, Instant};

use crate::files::watch::debounce::QUIET_TIME;

/// Minimum time between two rescans because of lost events, because a machine that loses events is already busy.
const RESCAN_INTERVAL: Duration = Duration::from_secs(10);

/// Whether a rescan is pending, and when it is due.
#[derive(Default)]
pub(super) struct LossTracker {
    due: Option<Instant>,
    last: Option<Instant>,
    /// How often events were lost.
    pub(super) overflows: u64,
}

impl LossTracker {
    /// Records a loss of events. One rescan makes up for all losses before it.
    pub(super) fn note_loss(&mut self, now: Instant) {
        self.overflows += 1;
        let earliest = self.last.map_or(now, |last| last + RESCAN_INTERVAL);
        self.due.get_or_insert(earliest.max(now + QUIET_TIME));
    }

    /// Returns whether a rescan is pending, due or not.
    pub(super) fn is_pending(&self) -> bool {
        self.due.is_some()
    }

    /// Returns true if a pending rescan is due, and marks it as done.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now) && self.take_now(now)
    }

    /// Returns true if a rescan is pending, even before it is due, and marks it as done. Called when a caller waits for
    /// a barrier.
    pub(super) fn take_now(&mut self, now: Instant) -> bool {
        let open = self.due.take().is_some();
        if open {
            self.last = Some(now);
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records losses at these tenths of a second, and checks the tenths at which rescans are due.
    fn check(lost: &[u64], expected: &[u64]) {
        let (mut losses, begin) = (LossTracker::default(), Instant::now());
        let walks = (0..400).filter(|tenth| {
            let now = begin + Duration::from_millis(100 * tenth);
            if lost.contains(tenth) {
                losses.note_loss(now);
            }
            losses.take_due(now)
        });
        assert_eq!(walks.collect::<Vec<_>>(), expected, "{lost:?}");
    }

    // Case A1
    #[test]
    fn losses_rescan_once_per_burst_and_ten_seconds_apart() {
        check(&[0], &[5]);
        check(&[0, 1, 2, 3, 4], &[5]);
        check(&[0, 10, 20, 30], &[5, 105]);
        check(&[0, 200], &[5, 205]);
        check(&(0..300).collect::<Vec<_>>(), &[5, 105, 205, 305]);
    }

    #[test]
    fn take_now_ignores_rescan_interval() {
        let (mut losses, now) = (LossTracker::default(), Instant::now());
        assert!(!losses.take_now(now));
        losses.note_loss(now);
        assert!(losses.take_now(now) && !losses.is_pending());
        losses.note_loss(now);
        assert!(losses.take_now(now));
    }
}
