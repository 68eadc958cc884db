//! Events that were lost, and when to make up for them. Pure: time is handed in.

use std::time::{Duration, Instant};

use crate::warehouse::watch::quiet::QUIET;

/// The least time between two walks for lost events: a machine that loses them is busy as it is.
const SPACING: Duration = Duration::from_secs(10);

/// Whether, and when, everything is to be walked.
#[derive(Default)]
pub(super) struct Losses {
    due: Option<Instant>,
    last: Option<Instant>,
    /// How often events were lost.
    pub(super) overflows: u64,
}

impl Losses {
    /// Notes a loss. Losses that follow it before the walk are made up for by the same walk.
    pub(super) fn note(&mut self, now: Instant) {
        self.overflows += 1;
        let earliest = self.last.map_or(now, |last| last + SPACING);
        self.due.get_or_insert(earliest.max(now + QUIET));
    }

    /// Says whether something has to be made up for.
    pub(super) fn is_open(&self) -> bool {
        self.due.is_some()
    }

    /// Says once that it is time to walk.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now) && self.take_now(now)
    }

    /// Says once, whatever the time, that there is something to walk for: somebody waits.
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

    /// Loses events at these tenths of a second; gives the tenths at which everything is walked.
    fn check(lost: &[u64], expected: &[u64]) {
        let (mut losses, begin) = (Losses::default(), Instant::now());
        let walks = (0..400).filter(|tenth| {
            let now = begin + Duration::from_millis(100 * tenth);
            if lost.contains(tenth) {
                losses.note(now);
            }
            losses.take_due(now)
        });
        assert_eq!(walks.collect::<Vec<_>>(), expected, "{lost:?}");
    }

    #[test]
    fn a_burst_is_one_walk_and_walks_are_ten_seconds_apart() {
        check(&[0], &[5]);
        check(&[0, 1, 2, 3, 4], &[5]);
        check(&[0, 10, 20, 30], &[5, 105]);
        check(&[0, 200], &[5, 205]);
        check(&(0..300).collect::<Vec<_>>(), &[5, 105, 205, 305]);
    }

    #[test]
    fn somebody_who_waits_does_not_wait_for_the_ten_seconds() {
        let (mut losses, now) = (Losses::default(), Instant::now());
        assert!(!losses.take_now(now));
        losses.note(now);
        assert!(losses.take_now(now) && !losses.is_open());
        losses.note(now);
        assert!(losses.take_now(now));
    }
}
