//! State shared by the graph service, its sync with the index, and the publication of snapshots.

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

/// Services of the daemon that supply the graph with files, passages, search results and extracted text.
#[derive(Clone)]
pub struct GraphInputs {
    /// Lists the files and their versions.
    pub catalog: Catalog,
    /// Stores the passages of the files.
    pub index: Index,
    /// Searches passages by meaning.
    pub asker: Asker,
    /// Extracts the text of a file again if its passages are not enough for the graph.
    pub pool: Arc<WorkerPool>,
}

/// State of one graph, shared by all clones of the graph service and by its background tasks.
pub(super) struct Shared {
    pub(super) store: GraphStore,
    /// Input from the index; `None` if the graph contains only what the user has imported.
    pub(super) inputs: Option<GraphInputs>,
    pub(super) snapshot: RwLock<Arc<Snapshot>>,
    pub(super) loaded: OnceCell<()>,
    /// Changes that are stored but not yet in the published snapshot; `None` if the next snapshot must be rebuilt from the
    /// store. The mutex is also the write lock of the store and the snapshot; see `publish::WriteGuard`.
    pub(super) pending: Mutex<Option<PendingChanges>>,
    /// Whether the sync with the index has started.
    pub(super) sync_started: AtomicBool,
    /// Number of files that are not in the graph yet, as counted by the sync.
    pub(super) files_behind: watch::Sender<usize>,
    /// Whether the graph has contained all files at least once.
    pub(super) is_complete: watch::Sender<bool>,
    /// Whether a question has timed out while it waited for `is_complete`; later questions then do not wait.
    pub(super) wait_timed_out: AtomicBool,
    pub(super) shutdown: CancellationToken,
}
