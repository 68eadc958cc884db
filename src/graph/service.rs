//! The graph service: opens the graph, waits for its first build, and gives each caller the view of its scope.

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

/// How long the first question waits for the graph of the files.
const FIRST_BUILD_TIMEOUT: Duration = Duration::from_secs(20);

/// The graph service. Cheap to clone.
#[derive(Clone)]
pub struct GraphService {
    pub(super) shared: Arc<Shared>,
    pub(super) scope: Scope,
}

impl GraphService {
    /// Opens the graph at `path`. If an earlier run used it, the sync with the index starts now.
    ///
    /// # Errors
    /// The file cannot be created, or a newer vic wrote it.
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

    /// Returns the path of the damaged graph that this one replaced when it was opened.
    pub fn set_aside(&self) -> Option<&Path> {
        self.shared.store.quarantined()
    }

    /// Returns the service restricted to a scope. Imports belong to the owner.
    pub fn with_scope(&self, scope: Scope) -> GraphService {
        GraphService { scope, ..self.clone() }
    }

    /// Returns the present snapshot.
    ///
    /// # Errors
    /// The stored data cannot be read.
    pub async fn snapshot(&self) -> Result<Arc<Snapshot>> {
        self.shared.load().await?;
        Ok(self.shared.current())
    }

    /// Returns the present graph as this caller sees it.
    pub(super) async fn view(&self) -> Result<View> {
        self.shared.load().await?;
        if self.shared.inputs.is_some() {
            index_sync::start_sync(&self.shared);
            self.shared.wait_until_ready().await;
        }
        Ok(View::new(self.shared.current(), &self.scope))
    }

    /// Returns a note about the graph's state, if it is incomplete.
    pub(super) fn state_note(&self) -> Option<String> {
        let is_built = self.shared.inputs.is_none() || *self.shared.is_complete.borrow();
        let files = *self.shared.files_behind.borrow();
        (!is_built).then(|| incomplete_note(&self.scope, files))
    }
}

impl Shared {
    /// Waits while the graph is built for the first time. After one wait that timed out, later questions do not wait.
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

/// Makes the note about an incomplete graph. The number of files includes those outside the scope.
pub(super) fn incomplete_note(scope: &Scope, files: usize) -> String {
    match scope {
        Scope::All => format!("the graph is being built: about {files} files are not in it yet"),
        Scope::Folders(_) => "the graph is being built: not all files are in it yet".into(),
    }
}
