//! The watcher of all roots: starts it, checks its heartbeat and replaces it when it is dead.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tracing::warn;

use crate::files::{Batch, Rules, WalkToken, Watcher};
use crate::model::{Root, RootId, WatchReport};

/// Capacity of the queue of change batches. When it is full, the watcher merges its changes into one rescan.
const CHANGE_QUEUE_CAPACITY: usize = 256;

/// After more than this many missed heartbeats in a row, some seconds apart, the watcher counts as dead and is
/// replaced.
const MAX_LOST_BEATS: u32 = 4;

/// From this many missed heartbeats in a row, the status reports that the watcher is dead.
const REPORTED_LOST_BEATS: u32 = 2;

/// Minimum time between replacements of a watcher that reports its own failure: each replacement walks every root.
const MIN_REPLACE_INTERVAL: Duration = Duration::from_secs(60);

/// The watcher of all roots, if watching is enabled. Methods may block while folders are listed.
pub(crate) struct Watching {
    enabled: bool,
    rules: Rules,
    sender: mpsc::Sender<Batch>,
    watcher: Mutex<Option<Arc<Watcher>>>,
    /// The watched roots, with their paths.
    watched: Mutex<HashMap<RootId, PathBuf>>,
    heart: Mutex<Heartbeat>,
    restarts: AtomicU64,
    /// When the watcher was last replaced.
    replaced: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Heartbeat {
    work: u64,
    lost: u32,
    /// Why no watcher could be started.
    problem: Option<String>,
}

impl Watching {
    /// Starts the watcher without roots, and returns the receiver of its changes, which stays empty if watching is
    /// disabled. If no watcher can be started, roots are walked instead, and [`Watching::check_heartbeat`] tries again.
    pub(crate) fn start(enabled: bool, rules: &Rules) -> (Watching, mpsc::Receiver<Batch>) {
        let (sender, receiver) = mpsc::channel(CHANGE_QUEUE_CAPACITY);
        let watching = Watching {
            enabled,
            rules: rules.clone(),
            sender,
            watcher: Mutex::default(),
            watched: Mutex::default(),
            heart: Mutex::default(),
            restarts: AtomicU64::new(0),
            replaced: Mutex::default(),
        };
        if enabled {
            watching.start_watcher();
        }
        (watching, receiver)
    }

    /// Starts a watcher and returns whether that worked.
    fn start_watcher(&self) -> bool {
        let mut heart = lock(&self.heart);
        *heart = Heartbeat::default();
        match Watcher::start(self.rules.clone(), self.sender.clone()) {
            Ok(watcher) => {
                *lock(&self.watcher) = Some(Arc::new(watcher));
                true
            }
            Err(error) => {
                let cure = error.hint.unwrap_or_default();
                heart.problem = Some(format!("{}; every root is walked periodically instead; {cure}", error.message));
                false
            }
        }
    }

    /// Sends a heartbeat to the watcher and checks whether it reacted to the earlier ones. Replaces a dead watcher and
    /// returns whether it did; the new watcher has no roots yet.
    pub(crate) fn check_heartbeat(&self) -> bool {
        if !self.enabled {
            return false;
        }
        if let Some(watcher) = self.watcher() {
            let mut heart = lock(&self.heart);
            let work = watcher.activity();
            heart.lost = if work == heart.work { heart.lost + 1 } else { 0 };
            heart.work = work;
            watcher.beat();
            let failure = watcher.failure();
            let is_soon = lock(&self.replaced).is_some_and(|it| it.elapsed() < MIN_REPLACE_INTERVAL);
            if heart.lost <= MAX_LOST_BEATS && (failure.is_none() || is_soon) {
                return false;
            }
            let why = failure.unwrap_or_else(|| "it no longer responds".into());
            warn!("replacing the watcher and walking every root: {why}");
            self.restarts.fetch_add(1, Ordering::Relaxed);
            *lock(&self.replaced) = Some(Instant::now());
            drop(heart);
            *lock(&self.watcher) = None;
        }
        lock(&self.watched).clear();
        self.start_watcher()
    }

    /// Watches the parts of a root that are not watched yet. Returns why the root cannot be watched at all. If
    /// the disk of a folder hangs, the watching thread keeps its clone of `leash`, by which the caller detects this.
    pub(crate) fn watch_root(&self, root: &Root, leash: &Arc<WalkToken>) -> Option<String> {
        let watcher = self.watcher()?;
        if !watcher.is_fully_watched(root.id)
            && let Err(problem) = watcher.add(root.id, &root.path, leash)
        {
            // Returns no problem of this root if the watcher is dead, because the status reports a dead watcher once.
            return watcher.failure().is_none().then_some(problem.0);
        }
        lock(&self.watched).insert(root.id, root.path.clone());
        None
    }

    /// Stops watching all roots except these. The others were absorbed by a parent root.
    pub(crate) fn keep_only(&self, roots: &[Root]) {
        let gone: Vec<RootId> =
            lock(&self.watched).keys().copied().filter(|id| !roots.iter().any(|root| root.id == *id)).collect();
        gone.into_iter().for_each(|id| self.remove(id));
    }

    /// Stops watching these roots. Returns the paths of those that were watched.
    pub(super) fn stop_watching(&self, ids: &[RootId]) -> Vec<PathBuf> {
        let place = |id: &RootId| lock(&self.watched).get(id).cloned();
        let held: Vec<(RootId, PathBuf)> = ids.iter().filter_map(|id| Some((*id, place(id)?))).collect();
        held.iter().for_each(|(id, _)| self.remove(*id));
        held.into_iter().map(|it| it.1).collect()
    }

    /// Stops watching a root.
    pub(crate) fn remove(&self, id: RootId) {
        lock(&self.watched).remove(&id);
        if let Some(watcher) = self.watcher() {
            watcher.remove(id);
        }
    }

    /// Returns whether every folder of a root is watched.
    pub(crate) fn is_whole(&self, id: RootId) -> bool {
        self.watcher().is_some_and(|it| it.is_fully_watched(id))
    }

    /// Returns whether events report every change of a root.
    pub(crate) fn reports_all_changes(&self, id: RootId) -> bool {
        self.watcher().is_some_and(|it| it.failure().is_none() && it.reports_all_changes(id))
    }

    /// Returns whether the folder of a root was moved away, which removes its watch.
    pub(crate) fn has_lost_root(&self, id: RootId) -> bool {
        self.watcher().is_some_and(|it| it.is_detached(id))
    }

    /// Waits until all events so far are applied to the catalog. Returns false if no watcher can confirm that.
    pub(crate) async fn wait_for_events(&self) -> bool {
        let (barrier, reached) = oneshot::channel();
        match self.watcher() {
            Some(watcher) => watcher.add_barrier(barrier),
            None => return false,
        }
        reached.await.is_ok()
    }

    /// Returns one sentence for each reason why a root is not watched.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::from_iter(lock(&self.heart).problem.clone());
        if let Some(watcher) = self.watcher() {
            problems.extend(self.explain_death(&watcher));
            let watched: Vec<RootId> = lock(&self.watched).keys().copied().collect();
            problems.extend(watched.into_iter().filter_map(|id| watcher.problem(id)).map(|it| it.0));
        }
        // Drops repeats, because all roots report the loss of events with the same sentence.
        problems.sort_unstable();
        problems.dedup();
        problems
    }

    /// Returns why the watcher reports no changes, if it is dead.
    fn explain_death(&self, watcher: &Watcher) -> Option<String> {
        let silent = lock(&self.heart).lost >= REPORTED_LOST_BEATS;
        let age = watcher.heartbeat_age().as_secs();
        let why = watcher.failure().or_else(|| silent.then(|| format!("it has not responded for {age} s")))?;
        Some(format!(
            "file changes are not noticed as they happen because the watcher is dead: {why}; it is replaced within a \
             minute, and every root is walked to catch up; if this persists, restart the daemon"
        ))
    }

    /// Returns how these roots are watched: which of them are polled, how many events were lost, and so on.
    pub(crate) fn report(&self, roots: &[Root]) -> WatchReport {
        let polled =
            roots.iter().filter(|it| !self.reports_all_changes(it.id)).map(|it| it.path.to_string_lossy().into_owned());
        let polled = polled.collect();
        let restarts = self.restarts.load(Ordering::Relaxed);
        let Some(watcher) = self.watcher() else {
            return WatchReport { polled, restarts, ..WatchReport::default() };
        };
        let counts = watcher.counts();
        WatchReport {
            watching: true,
            folders: counts.folders,
            missing: counts.missing,
            polled,
            overflows: counts.overflows,
            rescans: counts.rescans,
            restarts,
            heartbeat_seconds: Some(watcher.heartbeat_age().min(Duration::from_secs(1 << 32)).as_secs_f64()),
        }
    }

    /// Records that a walk of the root has found the changes that the watcher's lost events would have reported.
    pub(super) fn clear_losses(&self, id: RootId) {
        if let Some(watcher) = self.watcher() {
            watcher.note_rescan_done(id);
        }
    }

    fn watcher(&self) -> Option<Arc<Watcher>> {
        lock(&self.watcher).clone()
    }
}

/// Locks a mutex and ignores poisoning, because the data is consistent at every moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Change, ChangeKind};

    fn watching() -> (tempfile::TempDir, Root, Watching, mpsc::Receiver<Batch>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let config = crate::config::WalkConfig {
            ignore: Vec::new(),
            include_hidden: false,
            max_file_bytes: 1000,
            watch: true,
            rescan_seconds: 0,
        };
        let (watching, changes) = Watching::start(true, &Rules::new(&config).unwrap());
        let root = Root { id: 3, path, available: true, problem: String::new() };
        assert_eq!(watching.watch_root(&root, &Arc::default()), None);
        (dir, root, watching, changes)
    }

    /// Saves a file and returns whether its event arrives.
    fn event_arrives(root: &Root, name: &str, changes: &mut mpsc::Receiver<Batch>) -> bool {
        std::fs::write(root.path.join(name), "x").unwrap();
        let end = Instant::now() + Duration::from_secs(4);
        let wanted = Change { root_id: root.id, kind: ChangeKind::Touched(name.into()) };
        while Instant::now() < end {
            match changes.try_recv() {
                Ok(batch) if batch.changes.contains(&wanted) => return true,
                Ok(_) => (),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        false
    }

    #[test]
    fn dead_watcher_is_found_by_heartbeat_and_replaced() {
        let (_dir, root, watching, mut changes) = watching();
        let beat = || {
            std::thread::sleep(Duration::from_millis(50));
            watching.check_heartbeat()
        };
        assert!((0..10).all(|_| !beat()), "the watcher is alive");
        assert!(event_arrives(&root, "a.txt", &mut changes));
        watching.watcher().unwrap().die();
        assert!(!event_arrives(&root, "b.txt", &mut changes));
        assert!((0..=MAX_LOST_BEATS + 1).any(|_| beat()), "it is found dead after a few beats");
        assert_eq!(watching.report(std::slice::from_ref(&root)).restarts, 1);
        assert!(!watching.is_whole(root.id), "the new one watches nothing yet");
        assert_eq!(watching.watch_root(&root, &Arc::default()), None);
        assert!(event_arrives(&root, "c.txt", &mut changes));
        assert!(watching.report(&[root]).heartbeat_seconds.is_some());
    }

    #[test]
    fn ended_watcher_is_reported_and_replaced_once_per_minute() {
        let (_dir, root, watching, mut changes) = watching();
        let dies = || {
            watching.watcher().unwrap().die();
            let begun = Instant::now();
            while watching.problems().is_empty() {
                assert!(begun.elapsed() < Duration::from_secs(4), "the dead watcher is not reported");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        assert_eq!(watching.problems(), Vec::<String>::new());
        dies();
        assert!(watching.problems()[0].contains("the watching thread has ended"), "{:?}", watching.problems());
        assert!(!watching.reports_all_changes(root.id), "the root is walked instead");
        assert!(watching.check_heartbeat(), "there is another at once");
        assert_eq!(watching.watch_root(&root, &Arc::default()), None);
        assert_eq!((watching.problems(), watching.reports_all_changes(root.id)), (Vec::new(), true));
        assert!(event_arrives(&root, "a.txt", &mut changes));
        dies();
        assert!(!watching.check_heartbeat(), "not twice in a minute, unless heartbeats are lost");
    }

    #[tokio::test]
    async fn barrier_of_dead_watcher_is_released() {
        let (_dir, _root, watching, _changes) = watching();
        watching.watcher().unwrap().die();
        let mut waiting = std::pin::pin!(watching.wait_for_events());
        // The barrier was sent to the dead watcher, so the replacement cannot release it.
        tokio::select! { biased; _ = &mut waiting => panic!("a dead watcher answered"), () = std::future::ready(()) => () }
        while !watching.check_heartbeat() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("the barrier is never released"));
    }

    #[test]
    fn root_moved_away_and_back_loses_sight_until_rewatched() {
        let (_dir, root, watching, mut changes) = watching();
        let aside = root.path.with_extension("aside");
        assert!(!watching.has_lost_root(root.id));
        std::fs::rename(&root.path, &aside).unwrap();
        std::fs::rename(&aside, &root.path).unwrap();
        let end = Instant::now() + Duration::from_secs(4);
        while !watching.has_lost_root(root.id) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(watching.has_lost_root(root.id) && !watching.reports_all_changes(root.id));
        assert_eq!(watching.watch_root(&root, &Arc::default()), None);
        assert!(!watching.has_lost_root(root.id) && event_arrives(&root, "a.txt", &mut changes));
    }

    #[test]
    fn disabled_watching_reports_nothing() {
        let (_dir, root, on, _changes) = watching();
        let (off, _changes) = Watching::start(false, &on.rules);
        assert_eq!(
            (off.watch_root(&root, &Arc::default()), off.check_heartbeat(), off.reports_all_changes(root.id)),
            (None, false, false)
        );
        assert_eq!(off.problems(), Vec::<String>::new());
        assert!(!off.report(&[root]).watching);
    }
}
