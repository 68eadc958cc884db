//! The state that the graph service, its sync with the index and the publication of snapshots share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock};

use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

use crate::ask::Asker;
use crate::catalog::{Catalog, GraphStore};
use crate::extract::WorkerPool;
use crate::graph::pending_changes::PendingChanges;
use crate::graph::snapshot::Snapshot;
use crate::index::Index;

/// The parts of the daemon that the graph reads from.
#[derive(Clone)]
pub struct GraphInputs {
    /// Files.
    pub catalog: Catalog,
    /// Passages.
    pub index: Index,
    /// Semantic search.
    pub asker: Asker,
    /// Texts of files.
    pub pool: Arc<WorkerPool>,
}

/// The state of one graph.
pub(super) struct Shared {
    pub(super) store: GraphStore,
    /// `None` if there are imports only.
    pub(super) inputs: Option<GraphInputs>,
    pub(super) snapshot: RwLock<Arc<Snapshot>>,
    pub(super) loaded: OnceCell<()>,
    /// Changes that are stored but not yet published. Held while stored data or the snapshot changes; see
    /// `publish::WriteGuard`.
    pub(super) pending: Mutex<Option<PendingChanges>>,
    /// Whether the sync with the index has started.
    pub(super) sync_started: AtomicBool,
    /// Files not in the graph yet, as far as the sync has counted.
    pub(super) files_behind: watch::Sender<usize>,
    /// Whether the graph has held all files once.
    pub(super) is_complete: watch::Sender<bool>,
    /// Whether a question has waited for `ready` in vain.
    pub(super) wait_timed_out: AtomicBool,
    pub(super) shutdown: CancellationToken,
}
