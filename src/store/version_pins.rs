//! Version pins: the version that queries see, and the versions that running reads use. Versions in use must not be
//! pruned.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts the running reads of each version.
#[derive(Debug)]
pub(super) struct VersionPins {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The version that a new read sees.
    newest: u64,
    /// Number of running reads per version.
    pins: BTreeMap<u64, usize>,
}

/// Protects a version from pruning until this value is dropped.
pub(super) struct Pin<'a> {
    readings: &'a VersionPins,
    version: u64,
}

impl VersionPins {
    /// Creates the pins with this version published and no running read.
    pub(super) fn new(version: u64) -> VersionPins {
        VersionPins { state: Mutex::new(State { newest: version, pins: BTreeMap::new() }) }
    }

    /// Pins the newest version for a read. The read sees that version, or a newer one that is published before the read
    /// starts.
    pub(super) fn pin(&self) -> Pin<'_> {
        let mut state = self.state();
        let version = state.newest;
        *state.pins.entry(version).or_default() += 1;
        Pin { readings: self, version }
    }

    /// Makes this version the one that new reads pin.
    pub(super) fn publish(&self, version: u64) {
        self.state().newest = version;
    }

    /// Returns the version that a new read sees.
    pub(super) fn newest(&self) -> u64 {
        self.state().newest
    }

    /// Returns the oldest version that a running or new read may use.
    pub(super) fn oldest(&self) -> u64 {
        let state = self.state();
        state.pins.keys().next().copied().unwrap_or(state.newest)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Ignores poisoning: every change is a single number, so the state is consistent after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let under_way = &mut self.readings.state().pins;
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
    fn version_is_pinned_until_its_last_read_ends() {
        let readings = VersionPins::new(7);
        let (first, second) = (readings.pin(), readings.pin());
        readings.publish(8);
        let third = readings.pin();
        assert_eq!((readings.oldest(), readings.newest()), (7, 8));
        drop(first);
        assert_eq!(readings.oldest(), 7);
        drop(second);
        assert_eq!(readings.oldest(), 8);
        readings.publish(9);
        assert_eq!(readings.oldest(), 8);
        drop(third);
        assert_eq!(readings.oldest(), 9, "nothing is read");
        assert!(readings.state().pins.is_empty());
    }
}
