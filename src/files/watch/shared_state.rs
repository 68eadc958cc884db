//! State that the watching threads share with the callers of the watcher.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::files::watch::heartbeat::Heartbeat;
use crate::model::RootId;

/// Why a root, or a part of it, is not watched, with a hint. The root is then walked periodically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchProblem(
    /// One or two sentences, shown in the status.
    pub String,
);

/// Counters of a watcher, over all roots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCounts {
    /// Number of watched folders.
    pub folders: u64,
    /// Number of folders that should be watched but cannot.
    pub missing: u64,
    /// How often the event queue overflowed.
    pub overflows: u64,
    /// How often every root was rescanned because of an overflow.
    pub rescans: u64,
}

/// State shared between the watching threads and the callers of the watcher.
pub(super) struct Shared {
    pub(super) states: Mutex<HashMap<RootId, RootState>>,
    pub(super) counts: Mutex<WatchCounts>,
    pub(super) pulse: Heartbeat,
    pub(super) closed: AtomicBool,
    /// Why no more events will arrive; `None` while the watcher works.
    pub(super) failure: Mutex<Option<String>>,
}

/// The watch state of one root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RootState {
    /// Whether every visible folder is watched.
    pub(super) is_complete: bool,
    /// Whether other machines may change files in the root without an event.
    pub(super) is_remote: bool,
    pub(super) problem: Option<WatchProblem>,
    /// Whether watching has ended because the folder was deleted, moved or unmounted.
    pub(super) is_detached: bool,
    /// Number of losses of events. The next two fields count the losses for which a rescan was requested, and those for
    /// which it was done.
    pub(super) losses: u64,
    pub(super) requested_rescans: u64,
    pub(super) handled_losses: u64,
}

impl Shared {
    pub(super) fn new(pulse: Heartbeat) -> Shared {
        Shared {
            states: Mutex::default(),
            counts: Mutex::default(),
            pulse,
            closed: AtomicBool::new(false),
            failure: Mutex::default(),
        }
    }

    /// Records why no more events arrive; only the first cause is kept.
    pub(super) fn fail(&self, why: &str) {
        if !self.closed.load(Ordering::Relaxed) {
            self.failure().get_or_insert_with(|| why.to_string());
        }
    }

    pub(super) fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the states of the roots. Ignores poison: a panic leaves them intact.
    pub(super) fn states(&self) -> MutexGuard<'_, HashMap<RootId, RootState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counts(&self) -> MutexGuard<'_, WatchCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
