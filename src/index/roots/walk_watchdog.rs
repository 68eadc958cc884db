//! Watchdog of walks. A walk that makes no progress, on a disk that does not respond, is abandoned together with its
//! thread, because every other walk would wait for it.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorCode, Result};
use crate::files::walk_watchdog::{CHECK_INTERVAL, StallDetector};
use crate::files::{WalkToken, unresponsive};
use crate::index::blocking_tasks::blocking;
use crate::index::state::IndexState;
use crate::model::{Root, RootId};

impl IndexState {
    /// Runs a walk of a root and abandons it if it makes no progress. A cancelled walk ends at its next step.
    pub(in crate::index) async fn walk_with_watchdog<T: Send + 'static>(
        &self,
        root: &Root,
        cancel: &CancellationToken,
        walk: impl FnOnce(&WalkToken) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.check_responds(root)?;
        let known = unresponsive::unresponsive_below(&root.path);
        let leash = Arc::new(WalkToken::default());
        let (held, _end) = (leash.clone(), StopOnDrop(leash.clone()));
        let walking = blocking(move || walk(&held));
        if let Some(outcome) = wait_while_moving(walking, &leash, cancel).await {
            return outcome;
        }
        self.abandon_walk(root, &leash, known);
        Err(not_responding(root))
    }

    /// Abandons a walk of a root that skipped the unresponsive paths in `known`. The root is not walked again until the
    /// walk has ended or the set of unresponsive paths changes.
    pub(in crate::index) fn abandon_walk(&self, root: &Root, leash: &Arc<WalkToken>, known: Vec<PathBuf>) {
        let error = not_responding(root);
        let cure = error.hint.unwrap_or_default();
        self.problems.set(&problem_key(root.id), Some(format!("{}; {cure}", error.message)));
        self.walks.abandoned.add(root.id, leash, known);
    }

    /// Fails if the root does not respond: a walk of it would never return.
    pub(in crate::index) fn check_responds(&self, root: &Root) -> Result<()> {
        if unresponsive::is_unresponsive(&root.path) || self.walks.abandoned.is_running(root.id) {
            Err(not_responding(root))
        } else {
            Ok(())
        }
    }

    /// Removes and returns the roots whose abandoned walk no longer prevents a new one, and clears their problems.
    pub(in crate::index) fn take_walkable_roots(&self, roots: &[Root]) -> Vec<RootId> {
        let back = self.walks.abandoned.take_walkable(roots);
        back.iter().for_each(|id| self.problems.set(&problem_key(*id), None));
        back
    }

    /// Forgets the abandoned walk of a removed root.
    pub(in crate::index) fn forget_abandoned_walk(&self, root: &Root) {
        unresponsive::set_unresponsive(&root.path, false);
        self.walks.abandoned.remove(root.id);
        self.problems.set(&problem_key(root.id), None);
    }
}

/// Stops a walk when the future that waits for it is dropped.
struct StopOnDrop(Arc<WalkToken>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn problem_key(id: RootId) -> String {
    format!("walk of {id}")
}

fn not_responding(root: &Root) -> Error {
    let text = format!("`{}`, or a folder in it, does not answer", root.path.display());
    Error::new(ErrorCode::Unavailable, text)
        .hint("mount the missing file system again, or exclude it in .vicignore and restart vic")
}

/// Waits for a walk while it makes progress. Returns `None` if the walk is abandoned.
async fn wait_while_moving<T>(
    walking: impl Future<Output = Result<T>>,
    leash: &WalkToken,
    cancel: &CancellationToken,
) -> Option<Result<T>> {
    tokio::pin!(walking);
    let mut movement = StallDetector::new(leash.steps());
    loop {
        tokio::select! {
            outcome = &mut walking => return Some(outcome),
            () = cancel.cancelled(), if !leash.is_stopped() => leash.stop(),
            () = tokio::time::sleep(CHECK_INTERVAL) => (),
        }
        if movement.is_stalled(leash.steps()) && leash.abandon() {
            return None;
        }
    }
}
