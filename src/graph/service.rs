//! The graph service: opens the graph, waits for its first build, and gives each caller a view of the files it may see.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

use crate::catalog::GraphStore;
use crate::error::Result;
use crate::graph::context::{GraphInputs, Shared};
use crate::graph::index_sync;
use crate::graph::snapshot::Snapshot;
use crate::graph::snapshot::view::View;
use crate::model::Scope;

/// Maximum time that the first question waits until the graph contains all files.
const FIRST_BUILD_TIMEOUT: Duration = Duration::from_secs(20);

/// The graph service, which answers requests to the graph for the files of one scope. Cheap to clone.
#[derive(Clone)]
pub struct GraphService {
    pub(super) shared: Arc<Shared>,
    pub(super) scope: Scope,
}

impl GraphService {
    /// Opens the graph at `path`. If the graph has been used in an earlier run, starts its sync with the index now.
    ///
    /// # Errors
    /// The file cannot be created, or was written by a newer vic.
    pub fn open(path: &Path, reads: Option<GraphInputs>, shutdown: CancellationToken) -> Result<GraphService> {
        let shared = Arc::new(Shared {
            store: GraphStore::open(path)?,
            inputs: reads,
            snapshot: RwLock::default(),
            loaded: OnceCell::new(),
            pending: Mutex::default(),
            sync_started: AtomicBool::new(false),
            files_behind: watch::Sender::new(0),
            is_complete: watch::Sender::new(false),
            wait_timed_out: AtomicBool::new(false),
            shutdown,
        });
        if shared.inputs.is_some() && shared.store.meta_get(index_sync::USED_KEY)?.is_some() {
            index_sync::start_sync(&shared);
        }
        Ok(GraphService { shared, scope: Scope::All })
    }

    /// Returns the path to which a damaged graph file was moved when this graph was opened, if that happened.
    pub fn set_aside(&self) -> Option<&Path> {
        self.shared.store.quarantined()
    }

    /// Returns the service limited to the files of a scope. Only the owner sees imports.
    pub fn with_scope(&self, scope: Scope) -> GraphService {
        GraphService { scope, ..self.clone() }
    }

    /// Returns the current snapshot.
    ///
    /// # Errors
    /// The stored data cannot be read.
    pub async fn snapshot(&self) -> Result<Arc<Snapshot>> {
        self.shared.load().await?;
        Ok(self.shared.current())
    }

    /// Returns the current graph as this caller sees it. Starts the sync with the index if it does not run yet.
    pub(super) async fn view(&self) -> Result<View> {
        self.shared.load().await?;
        if self.shared.inputs.is_some() {
            index_sync::start_sync(&self.shared);
            self.shared.wait_until_ready().await;
        }
        Ok(View::new(self.shared.current(), &self.scope))
    }

    /// Returns a note for answers while the graph does not contain all files yet.
    pub(super) fn state_note(&self) -> Option<String> {
        let is_built = self.shared.inputs.is_none() || *self.shared.is_complete.borrow();
        let files = *self.shared.files_behind.borrow();
        (!is_built).then(|| incomplete_note(&self.scope, files))
    }
}

impl Shared {
    /// Waits until the graph contains all files. After one wait that timed out, later questions do not wait.
    async fn wait_until_ready(&self) {
        if self.wait_timed_out.load(Ordering::Relaxed) {
            return;
        }
        let mut ready = self.is_complete.subscribe();
        if tokio::time::timeout(FIRST_BUILD_TIMEOUT, ready.wait_for(|it| *it)).await.is_err() {
            self.wait_timed_out.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns the note about an incomplete graph. It gives the number of missing files only to callers that may see all files.
pub(super) fn incomplete_note(scope: &Scope, files: usize) -> String {
    match scope {
        Scope::All => format!("the graph is being built: about {files} files are not in it yet"),
        Scope::Folders(_) => "the graph is being built: not all files are in it yet".into(),
    }
}
