//! Which reads are under way: a version that one of them may read has to stay.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};

/// The reads under way, by number.
#[derive(Debug, Default)]
pub(super) struct Readings {
    begun: Mutex<Begun>,
    /// How often versions have been undone that did not get onto the disk.
    undone: AtomicU64,
}

#[derive(Debug, Default)]
struct Begun {
    next: u64,
    times: BTreeMap<u64, DateTime<Utc>>,
}

/// A read, under way until this is dropped.
pub(super) struct Reading<'a> {
    readings: &'a Readings,
    number: u64,
    undone: u64,
}

impl Readings {
    /// Notes that a read begins.
    pub(super) fn begin(&self) -> Reading<'_> {
        let mut begun = self.begun();
        let number = begun.next;
        begun.next += 1;
        begun.times.insert(number, Utc::now());
        drop(begun);
        Reading { readings: self, number, undone: self.undone.load(Ordering::SeqCst) }
    }

    /// Notes that the newest versions are about to go. Whoever begins to read from now on does not see them.
    pub(super) fn undo(&self) {
        self.undone.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns when the oldest of those under way began; now, when there is none.
    pub(super) fn oldest(&self) -> DateTime<Utc> {
        // The least of all, not the first: the clock may have been set back.
        self.begun().times.values().min().copied().unwrap_or_else(Utc::now)
    }

    fn begun(&self) -> MutexGuard<'_, Begun> {
        // Every change of it is one insertion or one removal: a panic leaves nothing half done.
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading<'_> {
    /// Says whether the version that it reads may be gone.
    pub(super) fn is_undone(&self) -> bool {
        self.readings.undone.load(Ordering::SeqCst) != self.undone
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.readings.begun().times.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_reads_under_way_counts() {
        let readings = Readings::default();
        let before = Utc::now();
        let first = readings.begin();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let between = Utc::now();
        let second = readings.begin();
        assert!(before <= readings.oldest() && readings.oldest() < between);
        drop(first);
        assert!(readings.oldest() >= between);
        drop(second);
        assert!(readings.oldest() >= between && readings.begun().times.is_empty());
    }
}
