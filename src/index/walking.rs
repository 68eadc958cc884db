//! Looks at roots, one walk at a time, and keeps what each of them could not see.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::catalog::ScanOutcome;
use crate::error::Result;
use crate::index::{Inner, blocking, scan};
use crate::model::{Root, RootId};
use crate::warehouse::{Leash, WalkProblem, silence};

impl Inner {
    /// Compares a root, or a part of it, with the catalog. One at a time: an older walk applied after a newer one would
    /// bury what came in between.
    pub(crate) async fn scan(
        &self,
        root: &Root,
        within: Option<PathBuf>,
        cancel: &CancellationToken,
    ) -> Result<(ScanOutcome, Vec<WalkProblem>)> {
        self.scan_and_believe(root, within, false, cancel).await
    }

    /// As [`Inner::scan`]; with `accept_losses`, whatever is gone is believed to be.
    pub(crate) async fn scan_and_believe(
        &self,
        root: &Root,
        within: Option<PathBuf>,
        accept_losses: bool,
        cancel: &CancellationToken,
    ) -> Result<(ScanOutcome, Vec<WalkProblem>)> {
        let _scanning = self.scanning.lock().await;
        self.scan_alone(root, within, accept_losses, cancel).await
    }

    /// As [`Inner::scan`], for many places of a root at once.
    pub(super) async fn scan_places(&self, root: &Root, places: Vec<PathBuf>) -> Result<()> {
        let _scanning = self.scanning.lock().await;
        self.scan_places_alone(root, places).await
    }

    /// As [`Inner::scan_places`], for whoever holds `scanning`.
    async fn scan_places_alone(&self, root: &Root, places: Vec<PathBuf>) -> Result<()> {
        let (catalog, rules, of) = (self.catalog.clone(), self.rules.clone(), root.clone());
        let looking = move |leash: &Leash| scan::scan_places(&catalog, &rules, &of, places, leash);
        let seen = self.led(root, &self.shutdown, looking).await?;
        let mut unseen = self.unseen();
        for (place, problems) in &seen {
            unseen.replace(root.id, place, problems);
            self.missing.forget(root.id, place);
        }
        Ok(())
    }

    /// As [`Inner::scan_and_believe`], for whoever holds `scanning`.
    pub(super) async fn scan_alone(
        &self,
        root: &Root,
        within: Option<PathBuf>,
        accept_losses: bool,
        cancel: &CancellationToken,
    ) -> Result<(ScanOutcome, Vec<WalkProblem>)> {
        let (place, begun) = (within.clone().unwrap_or_default(), Instant::now());
        let (catalog, rules, of) = (self.catalog.clone(), self.rules.clone(), root.clone());
        let walking = move |leash: &Leash| scan::scan(&catalog, &rules, &of, within.as_deref(), accept_losses, leash);
        let (outcome, problems) = self.led(root, cancel, walking).await?;
        self.unseen().replace(root.id, &place, &problems);
        self.missing.forget(root.id, &place);
        if place.as_os_str().is_empty() {
            self.walks.walked(root.id, begun);
        }
        Ok((outcome, problems))
    }

    /// What came of looking at a root. That it is away is no failure: the status tells of the root, and a walk makes up for it.
    pub(super) async fn unless_away(&self, id: RootId, outcome: Result<()>) -> Result<()> {
        let is_away = |roots: Vec<Root>| roots.iter().any(|it| it.id == id && !it.available);
        if outcome.is_err() && self.roots().await.is_ok_and(is_away) { Ok(()) } else { outcome }
    }

    /// Follows moves that the watcher saw, from and to, in their order, and looks at all these places. Not while a walk is on
    /// its way: what it saw before a move would be taken for the truth after it, and the file for one that is gone and one
    /// that is new.
    pub(super) async fn rename(&self, root: &Root, mut moves: Vec<(PathBuf, PathBuf)>) -> Result<()> {
        let _scanning = self.scanning.lock().await;
        self.check_answers(root)?;
        let places: BTreeSet<PathBuf> = moves.iter().flat_map(|(from, to)| [from.clone(), to.clone()]).collect();
        // Below what does not answer, the walks say so.
        moves.retain(|(from, to)| ![from, to].into_iter().any(|it| silence::holds_beneath(&root.path, it)));
        let (catalog, of) = (self.catalog.clone(), root.clone());
        blocking(move || {
            let on_disk = |path: &Path| {
                let found = of.path.join(path).symlink_metadata().ok()?;
                Some((found.dev(), found.ino()))
            };
            catalog.rename_trees(of.id, &moves, &on_disk)
        })
        .await?;
        self.scan_places_alone(root, places.into_iter().collect()).await
    }
}
