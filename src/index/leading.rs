//! Walks are waited for as long as they move. One that is lost on a disk that does not answer is left behind, with its
//! thread: it would hold whoever waits for a walk, and that is everybody.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorCode, Result};
use crate::index::{Inner, blocking};
use crate::model::{Root, RootId};
use crate::warehouse::leash::{LOOK, Movement};
use crate::warehouse::{Leash, silence};

/// A walk that was given up.
pub(super) struct Lost {
    leash: Weak<Leash>,
    /// What was known not to answer when it began, and was passed over.
    known: Vec<PathBuf>,
}

impl Inner {
    /// Runs a walk of a root, for as long as it moves. Where it is cancelled it ends at its next step.
    pub(super) async fn led<T: Send + 'static>(
        &self,
        root: &Root,
        cancel: &CancellationToken,
        walk: impl FnOnce(&Leash) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.check_answers(root)?;
        let known = silence::below(&root.path);
        let leash = Arc::new(Leash::default());
        let (held, _end) = (leash.clone(), End(leash.clone()));
        let walking = blocking(move || walk(&held));
        if let Some(outcome) = follow(walking, &leash, cancel).await {
            return outcome;
        }
        self.leave(root, &leash, known);
        Err(no_answer(root))
    }

    /// Gives up a walk of a root, which passed over what was `known` not to answer: until it comes back, or something else
    /// is known, nobody walks there.
    pub(super) fn leave(&self, root: &Root, leash: &Arc<Leash>, known: Vec<PathBuf>) {
        let error = no_answer(root);
        let cure = error.hint.unwrap_or_default();
        self.note(&part(root.id), Some(format!("{}; {cure}", error.message)));
        self.stuck().insert(root.id, Lost { leash: Arc::downgrade(leash), known });
    }

    /// Whoever walks a root that does not answer never comes back.
    pub(super) fn check_answers(&self, root: &Root) -> Result<()> {
        if silence::holds(&root.path) || self.is_stuck(root.id) { Err(no_answer(root)) } else { Ok(()) }
    }

    /// Whether a walk of the root was given up that has not come back.
    pub(super) fn is_stuck(&self, id: RootId) -> bool {
        self.stuck().get(&id).is_some_and(is_under_way)
    }

    /// Roots that may be walked again since this was asked last: the walk that was given up has come back, or another would
    /// go another way. Roots that are none any more are forgotten.
    pub(super) fn returned(&self, roots: &[Root]) -> Vec<RootId> {
        let is_back = |id: &RootId, lost: &mut Lost| {
            let root = roots.iter().find(|it| it.id == *id);
            !is_under_way(lost) || root.is_none_or(|it| silence::below(&it.path) != lost.known)
        };
        let back: Vec<RootId> = self.stuck().extract_if(is_back).map(|(id, _)| id).collect();
        back.iter().for_each(|id| self.note(&part(*id), None));
        back
    }

    /// Forgets the walk of a root that nobody asks for any more.
    pub(super) fn forget_walk(&self, root: &Root) {
        silence::note(&root.path, false);
        self.stuck().remove(&root.id);
        self.note(&part(root.id), None);
    }

    fn stuck(&self) -> MutexGuard<'_, HashMap<RootId, Lost>> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a walk when nobody asks for its outcome any more.
struct End(Arc<Leash>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn part(id: RootId) -> String {
    format!("walk of {id}")
}

/// A walk holds its leash to its end.
fn is_under_way(lost: &Lost) -> bool {
    lost.leash.strong_count() > 0
}

fn no_answer(root: &Root) -> Error {
    let text = format!("`{}`, or a folder in it, does not answer", root.path.display());
    Error::new(ErrorCode::Unavailable, text)
        .hint("mount again what is away, or leave it out with a line in .vicignore and start vic again")
}

/// Waits for a walk. None once it is lost.
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
