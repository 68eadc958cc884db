//! Changes on disk, as they happen: into the catalog, then through the pipeline.
//!
//! Watching is a help, not the truth: events get lost by design. Whatever it misses, the next scan finds.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tracing::warn;

use crate::error::Result;
use crate::index::urgent::MOST_FILES;
use crate::index::{Inner, blocking};
use crate::model::{Root, RootId};
use crate::warehouse::{Change, ChangeKind, Rules, Watcher};

/// Batches of changes waiting to be applied. When it is full the watcher folds what it has into one rescan.
const CHANGES_AHEAD: usize = 256;

/// The watcher, if watching is on. Its methods may block while folders are listed.
pub(crate) struct Watching {
    watcher: Option<Watcher>,
    watched: Mutex<HashSet<RootId>>,
}

impl Watching {
    /// Starts watching nothing. Gives the changes to come; none ever come when watching is off.
    pub(crate) fn start(enabled: bool, rules: &Rules) -> Result<(Watching, mpsc::Receiver<Vec<Change>>)> {
        let (sender, receiver) = mpsc::channel(CHANGES_AHEAD);
        let watcher = if enabled { Some(Watcher::start(rules.clone(), sender)?) } else { None };
        Ok((Watching { watcher, watched: Mutex::default() }, receiver))
    }

    /// Watches what is not watched yet of a root; returns what is wrong, if it cannot.
    pub(crate) fn ensure(&self, root: &Root) -> Option<String> {
        let watcher = self.watcher.as_ref()?;
        if !watcher.is_whole(root.id)
            && let Err(problem) = watcher.add(root.id, &root.path)
        {
            return Some(problem.0);
        }
        self.watched().insert(root.id);
        watcher.problem(root.id).map(|it| it.0)
    }

    /// Stops watching roots that are none any more: a parent folder took them in.
    pub(crate) fn keep_only(&self, roots: &[Root]) {
        let gone: Vec<RootId> =
            self.watched().iter().copied().filter(|id| !roots.iter().any(|root| root.id == *id)).collect();
        gone.into_iter().for_each(|id| self.remove(id));
    }

    /// Stops watching a root.
    pub(crate) fn remove(&self, id: RootId) {
        self.watched().remove(&id);
        if let Some(watcher) = &self.watcher {
            watcher.remove(id);
        }
    }

    fn watched(&self) -> MutexGuard<'_, HashSet<RootId>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Applies changes until the daemon ends. One batch, with all that came meanwhile, makes one run of the pipeline.
pub(crate) async fn follow(inner: Arc<Inner>, mut changes: mpsc::Receiver<Vec<Change>>) {
    while let Some(mut batch) = changes.recv().await {
        while let Ok(more) = changes.try_recv() {
            batch.extend(more);
        }
        if inner.shutdown.is_cancelled() {
            return;
        }
        if let Err(error) = apply(&inner, batch).await {
            warn!(%error, "cannot apply changes; the next scan will");
            inner.space.note(&error);
            inner.note("watch", Some(error.message));
        }
    }
}

/// Applies what it can; an error with one change or root does not keep the others waiting.
async fn apply(inner: &Arc<Inner>, batch: Vec<Change>) -> Result<()> {
    let roots = inner.roots().await?;
    let mut outcome = Ok(());
    for (root_id, changes) in by_root(batch) {
        let Some(root) = roots.iter().find(|it| it.id == root_id) else { continue };
        let rescan = changes.contains(&ChangeKind::Rescan);
        let changes = if rescan { vec![ChangeKind::Rescan] } else { changes };
        for change in changes {
            outcome = outcome.and(apply_one(inner, root, change).await);
        }
    }
    inner.buried.notify_one();
    outcome
}

/// Lets what is pending at a place overtake, or leaves it to the long run when that is more than single files.
async fn hurry(inner: &Inner, root: &Root, path: PathBuf) -> Result<()> {
    let (catalog, urgent, id) = (inner.catalog.clone(), inner.urgent.clone(), root.id);
    // While another model's index is built, the old one answers, and what changed is not added to it.
    let may_overtake = !inner.tables.is_switching();
    let all = blocking(move || {
        let files = catalog.untried(id, &path, MOST_FILES)?;
        let single = may_overtake && files.len() < MOST_FILES;
        Ok(files.is_empty() || (single && urgent.admit(&files)))
    })
    .await?;
    if !all {
        inner.changed.notify_one();
    }
    Ok(())
}

/// Looks at the place where something happened as a walk would: one set of rules for both ways in, and the walk knows
/// when a missing file means a root that is away. For a single file that costs one `lstat`.
async fn apply_one(inner: &Arc<Inner>, root: &Root, change: ChangeKind) -> Result<()> {
    match change {
        ChangeKind::Touched(path) | ChangeKind::Removed(path) => {
            inner.scan(root, Some(path.clone()), &inner.shutdown).await?;
            hurry(inner, root, path).await
        }
        ChangeKind::Renamed { from, to } => {
            let (catalog, id, source, target) = (inner.catalog.clone(), root.id, from.clone(), to.clone());
            blocking(move || catalog.rename_tree(id, &source, &target)).await?;
            inner.scan(root, Some(from), &inner.shutdown).await?;
            inner.scan(root, Some(to.clone()), &inner.shutdown).await?;
            hurry(inner, root, to).await
        }
        ChangeKind::Rescan => {
            inner.scan(root, None, &inner.shutdown).await?;
            hurry(inner, root, PathBuf::new()).await
        }
    }
}

/// Groups changes by root, in order, without repeats that follow each other.
fn by_root(batch: Vec<Change>) -> Vec<(RootId, Vec<ChangeKind>)> {
    let mut groups: Vec<(RootId, Vec<ChangeKind>)> = Vec::new();
    for change in batch {
        let index = match groups.iter().position(|(id, _)| *id == change.root_id) {
            Some(index) => index,
            None => {
                groups.push((change.root_id, Vec::new()));
                groups.len() - 1
            }
        };
        let group = &mut groups[index].1;
        if group.last() != Some(&change.kind) {
            group.push(change.kind);
        }
    }
    groups
}
