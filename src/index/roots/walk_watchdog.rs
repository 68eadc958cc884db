//! Watchdog of walks. A walk that stops progressing on a disk that does not respond is abandoned together with its
//! thread: every other walk would wait for it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorCode, Result};
use crate::files::walk_watchdog::{LOOK, Movement};
use crate::files::{Leash, unresponsive};
use crate::index::{Inner, blocking};
use crate::model::{Root, RootId};

/// An abandoned walk.
pub(in crate::index) struct Lost {
    leash: Weak<Leash>,
    /// Paths that were known not to respond when it began, and that it skipped.
    known: Vec<PathBuf>,
}

impl Inner {
    /// Runs a walk of a root while it progresses. A cancelled walk ends at its next step.
    pub(in crate::index) async fn led<T: Send + 'static>(
        &self,
        root: &Root,
        cancel: &CancellationToken,
        walk: impl FnOnce(&Leash) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.check_answers(root)?;
        let known = unresponsive::below(&root.path);
        let leash = Arc::new(Leash::default());
        let (held, _end) = (leash.clone(), End(leash.clone()));
        let walking = blocking(move || walk(&held));
        if let Some(outcome) = follow(walking, &leash, cancel).await {
            return outcome;
        }
        self.leave(root, &leash, known);
        Err(no_answer(root))
    }

    /// Abandons a walk of a root that skipped the unresponsive paths in `known`. The root is not walked until the walk
    /// returns or the set of unresponsive paths changes.
    pub(in crate::index) fn leave(&self, root: &Root, leash: &Arc<Leash>, known: Vec<PathBuf>) {
        let error = no_answer(root);
        let cure = error.hint.unwrap_or_default();
        self.note(&part(root.id), Some(format!("{}; {cure}", error.message)));
        self.stuck().insert(root.id, Lost { leash: Arc::downgrade(leash), known });
    }

    /// Fails for a root that does not respond: a walk of it would never return.
    pub(in crate::index) fn check_answers(&self, root: &Root) -> Result<()> {
        if unresponsive::holds(&root.path) || self.is_stuck(root.id) { Err(no_answer(root)) } else { Ok(()) }
    }

    /// Returns whether an abandoned walk of the root has not returned.
    pub(in crate::index) fn is_stuck(&self, id: RootId) -> bool {
        self.stuck().get(&id).is_some_and(is_under_way)
    }

    /// Removes and returns the roots that can be walked again: the abandoned walk returned, or a new walk would skip
    /// other paths. Removed roots are forgotten.
    pub(in crate::index) fn returned(&self, roots: &[Root]) -> Vec<RootId> {
        let is_back = |id: &RootId, lost: &mut Lost| {
            let root = roots.iter().find(|it| it.id == *id);
            !is_under_way(lost) || root.is_none_or(|it| unresponsive::below(&it.path) != lost.known)
        };
        let back: Vec<RootId> = self.stuck().extract_if(is_back).map(|(id, _)| id).collect();
        back.iter().for_each(|id| self.note(&part(*id), None));
        back
    }

    /// Forgets the abandoned walk of a removed root.
    pub(in crate::index) fn forget_walk(&self, root: &Root) {
        unresponsive::note(&root.path, false);
        self.stuck().remove(&root.id);
        self.note(&part(root.id), None);
    }

    fn stuck(&self) -> MutexGuard<'_, HashMap<RootId, Lost>> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops a walk when its caller is dropped.
struct End(Arc<Leash>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn part(id: RootId) -> String {
    format!("walk of {id}")
}

/// A running walk holds its `Leash`.
fn is_under_way(lost: &Lost) -> bool {
    lost.leash.strong_count() > 0
}

fn no_answer(root: &Root) -> Error {
    let text = format!("`{}`, or a folder in it, does not answer", root.path.display());
    Error::new(ErrorCode::Unavailable, text)
        .hint("mount the missing file system again, or exclude it in .vicignore and restart vic")
}

/// Waits for a walk. Returns `None` if it is abandoned.
async fn follow<T>(
    walking: impl Future<Output = Result<T>>,
    leash: &Leash,
    cancel: &CancellationToken,
) -> Option<Result<T>> {
    tokio::pin!(walking);
    let mut movement = Movement::from(leash.steps());
    loop {
        tokio::select! {
            outcome = &mut walking => return Some(outcome),
            () = cancel.cancelled(), if !leash.is_stopped() => leash.stop(),
            () = tokio::time::sleep(LOOK) => (),
        }
        if movement.has_ended(leash.steps()) && leash.abandon() {
            return None;
        }
    }
}
