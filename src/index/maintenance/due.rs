//! When skipped or failed maintenance may be retried.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// When skipped maintenance may be retried, `None` if none is due.
#[derive(Default)]
pub(in crate::index) struct MaintenanceDue(Mutex<Option<Instant>>);

impl MaintenanceDue {
    /// Sets the time, or that none is due.
    pub(in crate::index) fn set(&self, at: Option<Instant>) {
        *self.lock() = at;
    }

    /// Sets the time unless one is set.
    pub(in crate::index) fn set_if_none(&self, at: Instant) {
        self.lock().get_or_insert(at);
    }

    /// Returns whether the time has come.
    pub(in crate::index) fn is_now(&self) -> bool {
        self.lock().is_some_and(|it| Instant::now() >= it)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
