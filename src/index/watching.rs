//! Changes on disk, as they happen: into the catalog, then through the pipeline.
//!
//! Watching is a help, not the truth: events get lost by design. Whatever it misses, the next scan finds.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use tracing::warn;

use crate::error::Result;
use crate::index::{Inner, blocking, scan};
use crate::model::{Root, RootId};
use crate::warehouse::{Change, ChangeKind, Rules, Watcher};

/// Batches of changes waiting to be applied. When it is full the watcher folds what it has into one rescan.
const CHANGES_AHEAD: usize = 256;

/// The watcher, and which roots it could not watch.
pub(crate) struct Watching {
    watcher: Mutex<Option<Watcher>>,
}

impl Watching {
    /// Starts watching nothing. Gives the changes to come; none ever come when watching is off.
    pub(crate) fn start(enabled: bool, rules: &Rules) -> Result<(Watching, mpsc::Receiver<Vec<Change>>)> {
        let (sender, receiver) = mpsc::channel(CHANGES_AHEAD);
        let watcher = if enabled { Some(Watcher::start(rules.clone(), sender)?) } else { None };
        Ok((Watching { watcher: Mutex::new(watcher) }, receiver))
    }

    /// Watches a root; returns what is wrong, if it cannot.
    pub(crate) fn add(&self, root: &Root) -> Option<String> {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        watcher.as_mut()?.add(root.id, &root.path).err().map(|problem| problem.0)
    }

    /// Stops watching a root.
    pub(crate) fn remove(&self, id: RootId) {
        if let Some(watcher) = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            watcher.remove(id);
        }
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
            inner.note("watch", Some(error.message));
        }
    }
}

async fn apply(inner: &Arc<Inner>, batch: Vec<Change>) -> Result<()> {
    let roots = inner.roots().await?;
    for (root_id, changes) in by_root(batch) {
        let Some(root) = roots.iter().find(|it| it.id == root_id) else { continue };
        if changes.iter().any(|it| matches!(it, ChangeKind::Rescan)) {
            scan::scan(&inner.catalog, &inner.rules, root, None, &inner.shutdown).await?;
            continue;
        }
        for change in changes {
            apply_one(inner, root, change).await?;
        }
    }
    let table = inner.tables.writing();
    scan::bury(&inner.catalog, &table).await?;
    inner.drain_in_background();
    Ok(())
}

async fn apply_one(inner: &Arc<Inner>, root: &Root, change: ChangeKind) -> Result<()> {
    let (catalog, id) = (inner.catalog.clone(), root.id);
    match change {
        ChangeKind::Touched(path) => {
            // Walking a single file costs one `lstat`, and keeps one set of rules for both ways in.
            match scan::scan(&inner.catalog, &inner.rules, root, Some(path.clone()), &inner.shutdown).await {
                Ok(_) => Ok(()),
                // Gone again before we looked.
                Err(_) if !exists(&root.path.join(&path)) => {
                    blocking(move || catalog.remove_paths(id, &[path])).await.map(drop)
                }
                Err(error) => Err(error),
            }
        }
        ChangeKind::Removed(path) => {
            // Editors save by removing and renaming over: what stands there now counts.
            if exists(&root.path.join(&path)) {
                scan::scan(&inner.catalog, &inner.rules, root, Some(path), &inner.shutdown).await.map(drop)
            } else {
                blocking(move || catalog.remove_paths(id, &[path])).await.map(drop)
            }
        }
        ChangeKind::Renamed { from, to } => {
            let target = to.clone();
            blocking(move || catalog.rename_tree(id, &from, &to)).await?;
            scan::scan(&inner.catalog, &inner.rules, root, Some(target), &inner.shutdown).await.map(drop)
        }
        ChangeKind::Rescan => Ok(()),
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
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
