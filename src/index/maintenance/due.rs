//! When skipped or failed maintenance of the table may be retried.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The time from which skipped or failed maintenance may be retried, or `None` if there is nothing to retry.
#[derive(Default)]
pub(in crate::index) struct MaintenanceDue(Mutex<Option<Instant>>);

impl MaintenanceDue {
    /// Sets the time of the retry, or `None` if there is nothing to retry.
    pub(in crate::index) fn set(&self, at: Option<Instant>) {
        *self.lock() = at;
    }

    /// Sets the time of the retry, unless one is set already.
    pub(in crate::index) fn set_if_none(&self, at: Instant) {
        self.lock().get_or_insert(at);
    }

    /// Returns whether a retry is due now.
    pub(in crate::index) fn is_now(&self) -> bool {
        self.lock().is_some_and(|it| Instant::now() >= it)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
