//! Monitor of the roots: every few seconds it checks the status of each root and of the watcher, and walks or watches
//! roots again where needed. A check costs a few system calls.
//!
//! Events of the watcher do not report everything: a renamed parent of a root, a volume mounted or removed, another
//! folder in place of the root, a dead watcher. The monitor also walks roots that cannot be watched.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tracing::warn;

use crate::error::{ErrorCode, Result};
use crate::files::{WalkToken, unresponsive};
use crate::index::blocking_tasks::blocking;
use crate::index::roots::mount_probe::{self, RootStatus, RootStatuses};
use crate::index::state::IndexState;
use crate::index::watch::apply;
use crate::machine;
use crate::model::{Root, RootId};

/// Minimum pause between two periodic walks of a root, as a multiple of the duration of the last walk.
const WALK_REST_FACTOR: u32 = 20;

/// Checks the roots after each result of the mount probe, until the probe ends.
async fn monitor_loop(mut guard: RootMonitor) {
    while guard.check_next().await.is_some() {}
}

struct RootMonitor {
    inner: Arc<IndexState>,
    statuses: watch::Receiver<RootStatuses>,
    roots: HashMap<RootId, RootHistory>,
    /// Whether this is the first check, when no root is watched yet.
    is_start: bool,
    /// Roots that can be walked again, because an abandoned walk of them has ended.
    returned: Vec<RootId>,
}

/// What the monitor remembers of a root.
#[derive(Default)]
struct RootHistory {
    seen: Option<RootStatus>,
    /// When the monitor last walked the root, and how long that took.
    walked: Option<(Instant, Duration)>,
}

impl RootMonitor {
    /// Waits for the next result of the mount probe and checks the roots. Returns `None` when the probe has ended.
    async fn check_next(&mut self) -> Option<()> {
        self.statuses.changed().await.ok()?;
        let sights = self.statuses.borrow_and_update().clone();
        if let Err(error) = self.check_roots(&sights).await
            && error.code != ErrorCode::Cancelled
        {
            warn!(%error, "cannot check the roots");
        }
        Some(())
    }

    async fn check_roots(&mut self, sights: &RootStatuses) -> Result<()> {
        let inner = self.inner.clone();
        if inner.config.background.pause_on_battery {
            let battery = blocking(|| Ok(machine::on_battery(Path::new(machine::POWER_SUPPLIES)))).await?;
            inner.pause.set_battery(battery);
        }
        let watching = inner.walks.watching.clone();
        let replaced = blocking(move || Ok(watching.check_heartbeat())).await?;
        let roots = inner.roots().await?;
        self.roots.retain(|id, _| roots.iter().any(|it| it.id == *id));
        self.returned = inner.take_walkable_roots(&roots);
        for root in &roots {
            // Skips a root that was added after the probe; the next probe includes it.
            let Some(sight) = sights.get(&root.id) else { continue };
            if let Err(error) = self.apply_status(root, sight.clone(), replaced).await {
                warn!(%error, root = %root.path.display(), "cannot check a root");
            }
        }
        Ok(())
    }

    async fn apply_status(&mut self, root: &Root, sight: RootStatus, replaced: bool) -> Result<()> {
        let inner = self.inner.clone();
        let post = self.roots.entry(root.id).or_default();
        let before = post.seen.replace(sight.clone());
        let is_news = before.as_ref().is_some_and(|it| *it != sight);
        match sight {
            RootStatus::Away(why) if root.available => {
                let (catalog, id) = (inner.catalog.clone(), root.id);
                blocking(move || catalog.mark_unavailable(id, &why)).await?;
                inner.unwatch(root.id).await;
                Ok(())
            }
            RootStatus::Away(_) => Ok(()),
            // Walks a root that has become empty: the walk decides whether its files count as deleted, and the status
            // reports the decision.
            RootStatus::Empty if root.available && !self.is_start && (is_news || before.is_none()) => {
                self.walk(root).await
            }
            RootStatus::Empty => Ok(()),
            // Does nothing while an abandoned walk is stuck, because another walk would block at the same path.
            RootStatus::Here { .. } if inner.walks.abandoned.is_running(root.id) => Ok(()),
            RootStatus::Here { .. } => {
                let was_whole = inner.walks.watching.is_whole(root.id);
                if is_news || replaced {
                    inner.unwatch(root.id).await;
                }
                // Walks an unavailable root at every check, because it may be back at any moment.
                let poll = Duration::from_secs(if root.available { inner.config.background.poll_seconds } else { 0 });
                let due = post.walked.is_none_or(|(at, took)| at.elapsed() >= poll.max(took * WALK_REST_FACTOR));
                let is_late = !root.available || !inner.walks.watching.reports_all_changes(root.id);
                let is_back = self.returned.contains(&root.id);
                // The folder was moved away and back between two probes: it looks unchanged, but is no longer watched.
                let is_unseen = inner.walks.watching.has_lost_root(root.id);
                let is_time = is_news || replaced || is_unseen || is_back || (is_late && due);
                if !is_time {
                    return Ok(());
                }
                // Skips the root if another root absorbed it while others were walked.
                if !inner.roots().await?.iter().any(|it| it.id == root.id) {
                    return Ok(());
                }
                inner.watch(root).await;
                // Does not walk here at startup or for a new root, because a job walks those.
                let is_walked = self.is_start || (before.is_none() && was_whole);
                if is_walked { Ok(()) } else { self.walk(root).await }
            }
        }
    }

    async fn walk(&mut self, root: &Root) -> Result<()> {
        let begun = Instant::now();
        let outcome = apply::walk_root(&self.inner, root).await;
        self.roots.entry(root.id).or_default().walked = Some((Instant::now(), begun.elapsed()));
        outcome
    }
}

impl IndexState {
    /// Watches a root, or the parts of it that are not watched yet. Records for the status why it cannot be watched.
    pub(crate) async fn watch(&self, root: &Root) {
        let (watching, watched) = (self.walks.watching.clone(), root.clone());
        let is_new = !watching.is_whole(root.id);
        if is_new {
            self.walks.catch_up.forget(root.id);
        }
        let known = unresponsive::unresponsive_below(&root.path);
        let leash = Arc::new(WalkToken::default());
        let held = leash.clone();
        let ensured = blocking(move || Ok(watching.watch_root(&watched, &held))).await;
        let problem = ensured.unwrap_or_else(|error| Some(error.message));
        if leash.steps() > 0 && Arc::strong_count(&leash) > 1 {
            self.abandon_walk(root, &leash, known);
        }
        if is_new {
            self.walks.catch_up.note_watched(root.id);
        }
        self.problems.set(&format!("watch {}", root.path.display()), problem);
    }

    /// Stops watching a root that was removed or whose watches were lost.
    pub(crate) async fn unwatch(&self, id: RootId) {
        let watching = self.walks.watching.clone();
        let stopped = blocking(move || {
            watching.remove(id);
            Ok(())
        });
        if let Err(error) = stopped.await {
            warn!(root = ?id, %error, "cannot stop watching a root");
        }
    }

    /// Watches and walks every root at startup, and walks every root again at intervals, until the daemon ends.
    pub(crate) async fn reconcile_loop(self: Arc<IndexState>) {
        let sights = mount_probe::spawn_probe(self.clone());
        let mut guard = RootMonitor {
            inner: self.clone(),
            statuses: sights,
            roots: HashMap::new(),
            is_start: true,
            returned: Vec::new(),
        };
        if guard.check_next().await.is_none() {
            return;
        }
        guard.is_start = false;
        tokio::spawn(monitor_loop(guard));
        let mut ticks = tokio::time::interval(Duration::from_secs(self.config.walk.rescan_seconds.max(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
            self.reconcile_roots().await;
        }
    }
}
