//! Queue between the debouncer, which must never block, and the receiver of changes, which may be slow.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::Sender;

use crate::error::{IoContext, Result};
use crate::files::watch::Barrier;
use crate::files::watch::change::{Batch, Change, ChangeKind};
use crate::machine::{self, IoClass};
use crate::model::RootId;

/// Maximum number of changes queued for the receiver. Beyond it, they are replaced by one rescan per root, which is
/// cheaper and limits the memory.
pub(super) const MAX_PENDING: usize = 10_000;

/// Collects changes and sends them to the receiver from its own thread.
pub(super) struct Backlog {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pending: Vec<Change>,
    /// Barriers to signal once the queued changes are processed.
    barriers: Vec<Barrier>,
    closed: bool,
}

impl Backlog {
    /// Starts the sending thread, which ends when the backlog is closed or the receiver is dropped.
    pub(super) fn start(sender: Sender<Batch>) -> Result<Arc<Backlog>> {
        let backlog = Arc::new(Backlog { state: Mutex::default(), changed: Condvar::new() });
        let forward = backlog.clone();
        std::thread::Builder::new()
            .name("vic-watch".into())
            .spawn(move || {
                machine::lower_priority(IoClass::LowestBestEffort);
                while let Some(batch) = forward.take() {
                    if sender.blocking_send(batch).is_err() {
                        return;
                    }
                }
            })
            .io_context("start a thread for", std::path::Path::new("vic-watch"))?;
        Ok(backlog)
    }

    /// Adds changes and barriers without blocking.
    pub(super) fn push(&self, changes: Vec<Change>, barriers: Vec<Barrier>) {
        if changes.is_empty() && barriers.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.pending.extend(changes);
        state.barriers.extend(barriers);
        if state.pending.len() > MAX_PENDING {
            coalesce(&mut state.pending);
        }
        self.changed.notify_one();
    }

    /// Ends the sending thread; pending changes are lost.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    fn take(&self) -> Option<Batch> {
        let idle = |state: &mut State| state.pending.is_empty() && state.barriers.is_empty() && !state.closed;
        let mut state = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return None;
        }
        let (changes, barriers) = (std::mem::take(&mut state.pending), std::mem::take(&mut state.barriers));
        Some(Batch { changes, barriers })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Replaces all changes by one rescan of each root that they belong to.
fn coalesce(changes: &mut Vec<Change>) {
    let roots: BTreeSet<RootId> = changes.iter().map(|it| it.root_id).collect();
    *changes = roots.into_iter().map(|root_id| Change { root_id, kind: ChangeKind::Rescan }).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overfull_backlog_becomes_one_rescan_per_root() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let backlog = Backlog { state: Mutex::default(), changed: Condvar::new() };
        for number in 0..=MAX_PENDING {
            let kind = ChangeKind::Touched(number.to_string().into());
            backlog.push(vec![Change { root_id: 1 + (number % 2) as RootId, kind }], Vec::new());
        }
        sender.blocking_send(backlog.take().unwrap()).unwrap();
        let batch = receiver.blocking_recv().unwrap();
        let expected: Vec<Change> = [1, 2].map(|root_id| Change { root_id, kind: ChangeKind::Rescan }).into();
        assert_eq!(batch.changes, expected);
    }
}
