//! The state of the mock server, which its calls and the test use.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::faults::Faults;
use super::front::Front;
use super::store::Store;

#[derive(Debug)]
pub(super) struct ServerState {
    pub(super) state: Mutex<State>,
    pub(super) front: Front,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) store: Store,
    pub(super) faults: Faults,
}

impl ServerState {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
