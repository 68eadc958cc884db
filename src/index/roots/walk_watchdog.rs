//! Watchdog of walks. A walk that stops progressing on a disk that does not respond is abandoned together with its
//! thread: every other walk would wait for it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorCode, Result};
use crate::files::walk_watchdog::{CHECK_INTERVAL, StallDetector};
use crate::files::{WalkToken, unresponsive};
use crate::index::{IndexState, blocking};
use crate::model::{Root, RootId};

/// An abandoned walk.
pub(in crate::index) struct AbandonedWalk {
    leash: Weak<WalkToken>,
    /// Paths that were known not to respond when it began, and that it skipped.
    known: Vec<PathBuf>,
}

impl IndexState {
    /// Runs a walk of a root while it progresses. A cancelled walk ends at its next step.
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

    /// Abandons a walk of a root that skipped the unresponsive paths in `known`. The root is not walked until the walk
    /// returns or the set of unresponsive paths changes.
    pub(in crate::index) fn abandon_walk(&self, root: &Root, leash: &Arc<WalkToken>, known: Vec<PathBuf>) {
        let error = not_responding(root);
        let cure = error.hint.unwrap_or_default();
        self.note(&problem_key(root.id), Some(format!("{}; {cure}", error.message)));
        self.abandoned_walks().insert(root.id, AbandonedWalk { leash: Arc::downgrade(leash), known });
    }

    /// Fails for a root that does not respond: a walk of it would never return.
    pub(in crate::index) fn check_responds(&self, root: &Root) -> Result<()> {
        if unresponsive::is_unresponsive(&root.path) || self.has_abandoned_walk(root.id) {
            Err(not_responding(root))
        } else {
            Ok(())
        }
    }

    /// Returns whether an abandoned walk of the root has not returned.
    pub(in crate::index) fn has_abandoned_walk(&self, id: RootId) -> bool {
        self.abandoned_walks().get(&id).is_some_and(is_running)
    }

    /// Removes and returns the roots that can be walked again: the abandoned walk returned, or a new walk would skip
    /// other paths. Removed roots are forgotten.
    pub(in crate::index) fn take_walkable_roots(&self, roots: &[Root]) -> Vec<RootId> {
        let is_back = |id: &RootId, lost: &mut AbandonedWalk| {
            let root = roots.iter().find(|it| it.id == *id);
            !is_running(lost) || root.is_none_or(|it| unresponsive::unresponsive_below(&it.path) != lost.known)
        };
        let back: Vec<RootId> = self.abandoned_walks().extract_if(is_back).map(|(id, _)| id).collect();
        back.iter().for_each(|id| self.note(&problem_key(*id), None));
        back
    }

    /// Forgets the abandoned walk of a removed root.
    pub(in crate::index) fn forget_abandoned_walk(&self, root: &Root) {
        unresponsive::set_unresponsive(&root.path, false);
        self.abandoned_walks().remove(&root.id);
        self.note(&problem_key(root.id), None);
    }

    fn abandoned_walks(&self) -> MutexGuard<'_, HashMap<RootId, AbandonedWalk>> {
        self.abandoned_walks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops a walk when its caller is dropped.
struct StopOnDrop(Arc<WalkToken>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn problem_key(id: RootId) -> String {
    format!("walk of {id}")
}

/// A running walk holds its `WalkToken`.
fn is_running(lost: &AbandonedWalk) -> bool {
    lost.leash.strong_count() > 0
}

fn not_responding(root: &Root) -> Error {
    let text = format!("`{}`, or a folder in it, does not answer", root.path.display());
    Error::new(ErrorCode::Unavailable, text)
        .hint("mount the missing file system again, or exclude it in .vicignore and restart vic")
}

/// Waits for a walk. Returns `None` if it is abandoned.
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
