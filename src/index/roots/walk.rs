//! Runs one walk of a root at a time, and records which paths it could not read.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::catalog::ScanOutcome;
use crate::error::Result;
use crate::files::{WalkProblem, WalkToken, unresponsive};
use crate::index::blocking_tasks::blocking;
use crate::index::roots::scan;
use crate::index::state::IndexState;
use crate::model::{Root, RootId};

impl IndexState {
    /// Compares a root, or a part of it, with the catalog and applies the differences. Only one walk runs at a time: an
    /// older walk applied after a newer one would delete the files that appeared in between.
    pub(crate) async fn scan(
        &self,
        root: &Root,
        within: Option<PathBuf>,
        cancel: &CancellationToken,
    ) -> Result<(ScanOutcome, Vec<WalkProblem>)> {
        self.scan_accepting_losses(root, within, false, cancel).await
    }

    /// As [`IndexState::scan`]. With `accept_losses`, missing files are deleted however many they are.
    pub(crate) async fn scan_accepting_losses(
        &self,
        root: &Root,
        within: Option<PathBuf>,
        accept_losses: bool,
        cancel: &CancellationToken,
    ) -> Result<(ScanOutcome, Vec<WalkProblem>)> {
        let _scanning = self.walks.lock().await;
        self.scan_locked(root, within, accept_losses, cancel).await
    }

    /// Scans many paths of a root in one walk, as [`IndexState::scan`] does for one path.
    pub(in crate::index) async fn scan_paths(&self, root: &Root, places: Vec<PathBuf>) -> Result<()> {
        let _scanning = self.walks.lock().await;
        self.scan_paths_locked(root, places).await
    }

    /// As [`IndexState::scan_paths`]; the caller holds the walk lock.
    async fn scan_paths_locked(&self, root: &Root, places: Vec<PathBuf>) -> Result<()> {
        let (catalog, rules, of) = (self.catalog.clone(), self.walks.rules.clone(), root.clone());
        let looking = move |leash: &WalkToken| scan::scan_paths(&catalog, &rules, &of, places, leash);
        let seen = self.walk_with_watchdog(root, &self.shutdown, looking).await?;
        for (place, problems) in &seen {
            self.walks.unreadable.replace(root.id, place, problems);
            self.runs.vanished.forget(root.id, place);
        }
        Ok(())
    }

    /// As [`IndexState::scan_accepting_losses`]; the caller holds the walk lock.
    pub(in crate::index) async fn scan_locked(
        &self,
        root: &Root,
        within: Option<PathBuf>,
        accept_losses: bool,
        cancel: &CancellationToken,
    ) -> Result<(ScanOutcome, Vec<WalkProblem>)> {
        let (place, begun) = (within.clone().unwrap_or_default(), Instant::now());
        let (catalog, rules, of) = (self.catalog.clone(), self.walks.rules.clone(), root.clone());
        let walking =
            move |leash: &WalkToken| scan::scan(&catalog, &rules, &of, within.as_deref(), accept_losses, leash);
        let (outcome, problems) = self.walk_with_watchdog(root, cancel, walking).await?;
        self.walks.unreadable.replace(root.id, &place, &problems);
        self.runs.vanished.forget(root.id, &place);
        if place.as_os_str().is_empty() {
            self.walks.catch_up.note_walked(root.id, begun);
        }
        Ok((outcome, problems))
    }

    /// Replaces the error of an unavailable root by success, because the status reports the root and a later walk
    /// catches up.
    pub(in crate::index) async fn ignore_if_unavailable(&self, id: RootId, outcome: Result<()>) -> Result<()> {
        let is_away = |roots: Vec<Root>| roots.iter().any(|it| it.id == id && !it.available);
        if outcome.is_err() && self.roots().await.is_ok_and(is_away) { Ok(()) } else { outcome }
    }

    /// Applies the moves that the watcher reported, in their order, and scans both paths of each. Holds the walk lock:
    /// a walk that began before a move would see the file as one deleted and one new file.
    pub(in crate::index) async fn apply_moves(&self, root: &Root, mut moves: Vec<(PathBuf, PathBuf)>) -> Result<()> {
        let _scanning = self.walks.lock().await;
        self.check_responds(root)?;
        let places: BTreeSet<PathBuf> = moves.iter().flat_map(|(from, to)| [from.clone(), to.clone()]).collect();
        // Drops moves from or to paths that do not respond; the scan below reports these paths.
        moves.retain(|(from, to)| {
            ![from, to].into_iter().any(|it| unresponsive::is_unresponsive_beneath(&root.path, it))
        });
        let (catalog, of) = (self.catalog.clone(), root.clone());
        blocking(move || {
            let on_disk = |path: &Path| {
                let found = of.path.join(path).symlink_metadata().ok()?;
                Some((found.dev(), found.ino()))
            };
            catalog.rename_trees(of.id, &moves, &on_disk)
        })
        .await?;
        self.scan_paths_locked(root, places.into_iter().collect()).await
    }
}
