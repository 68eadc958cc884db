//! Applies watcher events to the catalog and sends the changed files through the pipeline.
//!
//! Watching is best effort, because the operating system may drop events. The next scan finds what was missed.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::error::Result;
use crate::files::{Batch, Change, ChangeKind};
use crate::index::blocking_tasks::blocking;
use crate::index::pipeline::urgent_queue::MAX_FILES_PER_CHANGE;
use crate::index::problems::CHANGES_KEY;
use crate::index::state::IndexState;
use crate::model::{Root, RootId};

/// Maximum paths scanned per commit to the catalog. High enough that ten thousand deletions take seconds, low enough
/// that the result for the first path still holds when the last path is scanned.
const PATHS_PER_COMMIT: usize = 256;

/// Maximum number of files of a changed folder for which the OCR queue records that the watcher saw them change. For the
/// other files, OCR is dropped if the job that reads them is cancelled before OCR.
const MAX_SEEN_PER_FOLDER: usize = 10_000;

/// Applies changes until the daemon ends. A batch, together with all batches that arrived meanwhile, makes one pipeline
/// run.
pub(crate) async fn apply_loop(inner: Arc<IndexState>, mut batches: mpsc::Receiver<Batch>) {
    while let Some(Batch { mut changes, mut barriers }) = batches.recv().await {
        while let Ok(more) = batches.try_recv() {
            changes.extend(more.changes);
            barriers.extend(more.barriers);
        }
        if inner.shutdown.is_cancelled() {
            return;
        }
        let outcome = apply_batch(&inner, changes).await;
        if inner.note_outcome(CHANGES_KEY, "changes are not indexed before the next walk", outcome) {
            // Tells the waiting syncs that their events are applied; a sync that has left is ignored. After a failure
            // nothing is sent, so that the syncs walk the roots instead.
            barriers.into_iter().for_each(|it| it.send(()).unwrap_or_default());
        }
    }
}

/// Applies a batch of changes. A failure of one change or root does not stop the others.
async fn apply_batch(inner: &Arc<IndexState>, batch: Vec<Change>) -> Result<()> {
    let batch = by_root(batch);
    let roots =
        inner.roots().await.inspect_err(|_| batch.iter().for_each(|it| inner.walks.catch_up.note_watched(it.0)))?;
    let mut outcome = unwatch_absorbed(inner, &batch, &roots).await;
    for (root_id, changes) in batch {
        let Some(root) = roots.iter().find(|it| it.id == root_id) else { continue };
        if inner.check_responds(root).is_err() {
            // A root that does not respond is no error here: the status reports the root, a walk finds its changes
            // later, and syncs of other roots must not fail.
            inner.walks.catch_up.note_watched(root_id);
            continue;
        }
        let rescan = changes.contains(&ChangeKind::Rescan);
        let changes = if rescan { vec![ChangeKind::Rescan] } else { changes };
        for step in group_steps(changes) {
            let taken = apply_step(inner, root, step).await;
            if taken.is_err() {
                // Marks the root as newly watched, which makes a walk necessary: only a walk can find the lost changes.
                inner.walks.catch_up.note_watched(root_id);
            }
            outcome = outcome.and(inner.ignore_if_unavailable(root_id, taken).await);
        }
    }
    inner.runs.tombstones_ready.notify_one();
    outcome
}

/// Stops watching removed roots that are still watched by their old id, because the task that watched them did not know
/// that a parent root absorbed them. Until the parent watches these folders, only a walk of the parent finds their
/// changes.
async fn unwatch_absorbed(inner: &Arc<IndexState>, batch: &[(RootId, Vec<ChangeKind>)], roots: &[Root]) -> Result<()> {
    let is_root = |id: RootId| roots.iter().any(|it| it.id == id);
    let gone: Vec<RootId> = batch.iter().map(|it| it.0).filter(|it| !is_root(*it)).collect();
    if gone.is_empty() {
        return Ok(());
    }
    let watching = inner.walks.watching.clone();
    let places = blocking(move || Ok(watching.stop_watching(&gone))).await?;
    for above in roots.iter().filter(|root| places.iter().any(|it| it.starts_with(&root.path))) {
        inner.walks.catch_up.note_watched(above.id);
    }
    Ok(())
}

/// Changes that are applied in one commit to the catalog.
#[derive(Debug, PartialEq, Eq)]
enum ApplyStep {
    Scan(Vec<PathBuf>),
    /// Old and new path of each move, in order.
    Rename(Vec<(PathBuf, PathBuf)>),
    Rescan,
}

/// Groups consecutive changed paths into one step, and consecutive moves into another.
fn group_steps(changes: Vec<ChangeKind>) -> Vec<ApplyStep> {
    let mut steps = Vec::new();
    for change in changes {
        match (change, steps.last_mut()) {
            (ChangeKind::Touched(path) | ChangeKind::Removed(path), Some(ApplyStep::Scan(places)))
                if places.len() < PATHS_PER_COMMIT =>
            {
                places.push(path);
            }
            // Drops a change of the target of the last move, because applying the move scans both its paths.
            (ChangeKind::Touched(path), Some(ApplyStep::Rename(moves)))
                if moves.last().is_some_and(|it| it.1 == path) => {}
            (ChangeKind::Touched(path) | ChangeKind::Removed(path), _) => steps.push(ApplyStep::Scan(vec![path])),
            (ChangeKind::Renamed { from, to }, Some(ApplyStep::Rename(moves))) if moves.len() < PATHS_PER_COMMIT => {
                moves.push((from, to));
            }
            (ChangeKind::Renamed { from, to }, _) => steps.push(ApplyStep::Rename(vec![(from, to)])),
            (ChangeKind::Rescan, _) => steps.push(ApplyStep::Rescan),
        }
    }
    steps
}

/// Scans changed paths with the code of a walk, so that both use the same rules and tell a deleted file from an
/// unavailable root. A single file costs one `lstat`.
async fn apply_step(inner: &Arc<IndexState>, root: &Root, step: ApplyStep) -> Result<()> {
    match step {
        ApplyStep::Scan(places) => {
            inner.scan_paths(root, places.clone()).await?;
            queue_urgent(inner, root, places).await
        }
        ApplyStep::Rename(moves) => {
            let targets = moves.iter().map(|it| it.1.clone()).collect();
            inner.apply_moves(root, moves).await?;
            queue_urgent(inner, root, targets).await
        }
        ApplyStep::Rescan => walk_root(inner, root).await,
    }
}

/// Adds the pending files at these paths to the urgent queue, or leaves them to the background run if there are many.
async fn queue_urgent(inner: &IndexState, root: &Root, places: Vec<PathBuf>) -> Result<()> {
    let (catalog, urgent, pictures, id) =
        (inner.catalog.clone(), inner.runs.urgent.clone(), inner.ocr_queue.clone(), root.id);
    // While a new model's table is built, nothing is urgent: the old table answers queries, and changes are not added
    // to it.
    let may_overtake = !inner.tables.is_switching();
    let all = blocking(move || {
        let mut all = true;
        for (place, files) in places.iter().zip(catalog.untried_below(id, &places, MAX_FILES_PER_CHANGE)?) {
            let are_few = files.len() < MAX_FILES_PER_CHANGE;
            // Records the files for the OCR queue before a run reads them. Pending files of a whole root are not
            // recorded, because they were not necessarily just saved.
            if !place.as_os_str().is_empty() {
                let seen = if are_few {
                    None
                } else {
                    catalog.untried_below(id, std::slice::from_ref(place), MAX_SEEN_PER_FOLDER)?.pop()
                };
                pictures.note_changed(seen.as_ref().unwrap_or(&files).iter().map(|it| it.0));
            }
            all &= files.is_empty() || (may_overtake && are_few && urgent.admit(&files));
        }
        Ok(all)
    })
    .await?;
    if !all {
        inner.runs.changed.notify_one();
    }
    Ok(())
}

/// Walks a root, and queues the files that changed.
pub(crate) async fn walk_root(inner: &IndexState, root: &Root) -> Result<()> {
    inner.scan(root, None, &inner.shutdown).await?;
    inner.walks.watching.clear_losses(root.id);
    inner.problems.set(CHANGES_KEY, None);
    inner.runs.tombstones_ready.notify_one();
    queue_urgent(inner, root, vec![PathBuf::new()]).await
}

/// Groups changes by root, in order, and drops consecutive repeats.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_group_consecutive_paths_and_moves() {
        let touched = |name: &str| ChangeKind::Touched(name.into());
        let rename = |from: &str, to: &str| ChangeKind::Renamed { from: from.into(), to: to.into() };
        let look = |names: &[&str]| ApplyStep::Scan(names.iter().map(PathBuf::from).collect());
        let moves = |all: &[(&str, &str)]| ApplyStep::Rename(all.iter().map(|it| (it.0.into(), it.1.into())).collect());
        let changes =
            vec![touched("a"), ChangeKind::Removed("b".into()), rename("a", "b"), touched("b"), ChangeKind::Rescan];
        assert_eq!(group_steps(changes), [look(&["a", "b"]), moves(&[("a", "b")]), ApplyStep::Rescan]);
        let changes =
            vec![rename("a", "b"), touched("b"), rename("b", "c"), touched("c"), touched("d"), rename("d", "e")];
        assert_eq!(group_steps(changes), [moves(&[("a", "b"), ("b", "c")]), look(&["d"]), moves(&[("d", "e")])]);
        let expected = 10_000_usize.div_ceil(PATHS_PER_COMMIT);
        let name = |number: i32| number.to_string();
        assert_eq!(group_steps((0..10_000).map(|it| touched(&name(it))).collect()).len(), expected);
        let renames = (0..10_000).flat_map(|it| [rename(&name(it), &name(-it)), touched(&name(-it))]);
        assert_eq!(group_steps(renames.collect()).len(), expected);
    }
}
