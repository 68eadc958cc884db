//! Locks, queues and notifications that all runs of the pipeline share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, MutexGuard, Notify, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::index::pipeline::urgent_queue::UrgentQueue;
use crate::index::pipeline::vanished::Vanished;

/// Locks, queues and notifications of the runs.
pub(crate) struct RunControl {
    /// Held while the pipeline runs over all pending files. Fair: jobs run in the order of their requests.
    engine: Mutex<()>,
    /// Held for reading by every run over urgent files, so that the shutdown can wait for all of them.
    urgent_runs: RwLock<()>,
    /// Held during a commit to the store and the catalog.
    committing: Mutex<()>,
    /// Queue of just-saved files, which are indexed without the engine lock.
    pub(in crate::index) urgent: Arc<UrgentQueue>,
    /// Files missing at their paths; skipped until a walk covers these paths.
    pub(in crate::index) vanished: Arc<Vanished>,
    /// Notified when files are pending that no job indexes.
    pub(in crate::index) changed: Notify,
    /// Notified when files are deleted from the catalog but not yet from the store.
    pub(in crate::index) tombstones_ready: Notify,
    /// Whether an interrupted run left read attempts counted in the catalog. They must be taken back, because the
    /// daemon did not crash.
    interrupted: AtomicBool,
}

impl RunControl {
    pub(in crate::index) fn new() -> RunControl {
        RunControl {
            engine: Mutex::default(),
            urgent_runs: RwLock::default(),
            committing: Mutex::default(),
            urgent: Arc::new(UrgentQueue::new()),
            vanished: Arc::default(),
            changed: Notify::new(),
            tombstones_ready: Notify::new(),
            interrupted: AtomicBool::new(false),
        }
    }

    /// Takes the engine lock. While it is held, no other run goes over all pending files.
    pub(in crate::index) async fn lock_engine(&self) -> MutexGuard<'_, ()> {
        self.engine.lock().await
    }

    /// Takes the engine lock if it is free.
    pub(in crate::index) fn try_lock_engine(&self) -> Option<MutexGuard<'_, ()>> {
        self.engine.try_lock().ok()
    }

    /// Begins a run over urgent files, which lasts until the guard is dropped.
    pub(in crate::index) async fn begin_urgent_run(&self) -> RwLockReadGuard<'_, ()> {
        self.urgent_runs.read().await
    }

    /// Waits for the urgent runs to end, and lets none begin until the guard is dropped.
    pub(in crate::index) async fn block_urgent_runs(&self) -> RwLockWriteGuard<'_, ()> {
        self.urgent_runs.write().await
    }

    /// Takes the commit lock. What its holder checks in the catalog stays valid until it has marked the files.
    pub(in crate::index) async fn lock_commit(&self) -> MutexGuard<'_, ()> {
        self.committing.lock().await
    }

    /// Sets whether an interrupted run left counted attempts in the catalog.
    pub(in crate::index) fn set_interrupted(&self, interrupted: bool) {
        self.interrupted.store(interrupted, Ordering::Relaxed);
    }

    /// Returns whether an interrupted run left counted attempts in the catalog.
    pub(in crate::index) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}
