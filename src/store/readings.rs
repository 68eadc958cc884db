//! Which version of the table questions see, and which of them are read at this moment: these have to stay.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The reads under way.
#[derive(Debug)]
pub(super) struct Readings {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What a read that begins now sees.
    newest: u64,
    /// How many reads began with each version.
    under_way: BTreeMap<u64, usize>,
}

/// A read, under way until this is dropped.
pub(super) struct Reading<'a> {
    readings: &'a Readings,
    version: u64,
}

impl Readings {
    /// Nothing is read yet; this version is seen.
    pub(super) fn of(version: u64) -> Readings {
        Readings { state: Mutex::new(State { newest: version, under_way: BTreeMap::new() }) }
    }

    /// Notes that a read begins: it sees the newest version, or one that is shown meanwhile.
    pub(super) fn begin(&self) -> Reading<'_> {
        let mut state = self.state();
        let version = state.newest;
        *state.under_way.entry(version).or_default() += 1;
        Reading { readings: self, version }
    }

    /// Notes that this version is seen from now on.
    pub(super) fn show(&self, version: u64) {
        self.state().newest = version;
    }

    /// The version that is seen now.
    pub(super) fn newest(&self) -> u64 {
        self.state().newest
    }

    /// Returns the oldest version that may be read now.
    pub(super) fn oldest(&self) -> u64 {
        let state = self.state();
        state.under_way.keys().next().copied().unwrap_or(state.newest)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of it is one number: a panic leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let under_way = &mut self.readings.state().under_way;
        if let Some(reads) = under_way.get_mut(&self.version) {
            *reads -= 1;
            if *reads == 0 {
                under_way.remove(&self.version);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_stays_as_long_as_one_of_its_reads_is_under_way() {
        let readings = Readings::of(7);
        let (first, second) = (readings.begin(), readings.begin());
        readings.show(8);
        let third = readings.begin();
        assert_eq!((readings.oldest(), readings.newest()), (7, 8));
        drop(first);
        assert_eq!(readings.oldest(), 7);
        drop(second);
        assert_eq!(readings.oldest(), 8);
        readings.show(9);
        assert_eq!(readings.oldest(), 8);
        drop(third);
        assert_eq!(readings.oldest(), 9, "nothing is read");
        assert!(readings.state().under_way.is_empty());
    }
}
