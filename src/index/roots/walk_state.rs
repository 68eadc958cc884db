//! State of watching and walking the roots: rules, times of walks, unreadable paths, and walks that hang.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use crate::files::{Rules, WalkProblem, WalkToken, unresponsive};
use crate::index::watch::watching::Watching;
use crate::model::{Root, RootId};

/// The state of watching and walking the roots. Each field has its own lock.
pub(in crate::index) struct WalkState {
    /// Rules that decide which files a walk finds.
    pub(in crate::index) rules: Rules,
    pub(in crate::index) watching: Arc<Watching>,
    /// Whether each root was walked completely after its watch began.
    pub(in crate::index) catch_up: CatchUp,
    /// Paths that walks could not read.
    pub(in crate::index) unreadable: UnreadablePaths,
    /// Walks that were abandoned because they hang.
    pub(in crate::index) abandoned: AbandonedWalks,
    /// Held from the start of a walk until its result is applied to the catalog.
    walking: tokio::sync::Mutex<()>,
}

impl WalkState {
    /// Creates the state before any walk.
    pub(in crate::index) fn new(rules: Rules, watching: Watching) -> WalkState {
        WalkState {
            rules,
            watching: Arc::new(watching),
            catch_up: CatchUp::default(),
            unreadable: UnreadablePaths::default(),
            abandoned: AbandonedWalks::default(),
            walking: tokio::sync::Mutex::default(),
        }
    }

    /// Takes the walk lock. While it is held, no other walk runs or is applied.
    pub(in crate::index) async fn lock(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.walking.lock().await
    }
}

/// When each root was first watched and last walked. Events do not report changes from before a root was watched, so a
/// walk must follow.
#[derive(Default)]
pub(in crate::index) struct CatchUp(Mutex<HashMap<RootId, WatchAndWalk>>);

#[derive(Clone, Copy, Default)]
struct WatchAndWalk {
    watched: Option<Instant>,
    /// When the last complete walk of the root began.
    walked: Option<Instant>,
}

impl CatchUp {
    /// Forgets when a root was watched and walked, before it is watched anew.
    pub(in crate::index) fn forget(&self, id: RootId) {
        self.states().remove(&id);
    }

    /// Records that a root is watched from now on.
    pub(in crate::index) fn note_watched(&self, id: RootId) {
        self.states().entry(id).or_default().watched = Some(Instant::now());
    }

    /// Records that a complete walk of the root, which began at `begun`, is applied to the catalog.
    pub(in crate::index) fn note_walked(&self, id: RootId, begun: Instant) {
        self.states().entry(id).or_default().walked = Some(begun);
    }

    /// Returns whether a complete walk began after the root was watched.
    pub(in crate::index) fn is_caught_up(&self, id: RootId) -> bool {
        let stand = self.states().get(&id).copied().unwrap_or_default();
        stand.watched.zip(stand.walked).is_some_and(|(watched, walked)| walked >= watched)
    }

    fn states(&self) -> MutexGuard<'_, HashMap<RootId, WatchAndWalk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Paths that walks could not read, as of the last walk of each path.
#[derive(Default)]
pub(in crate::index) struct UnreadablePaths(Mutex<BTreeMap<RootId, Paths>>);

/// For each unreadable path, a sentence that describes the problem.
type Paths = BTreeMap<PathBuf, String>;

impl UnreadablePaths {
    /// Replaces the problems of the walked part `within` and of the root itself, because a walk of any part shows
    /// whether the root can be read.
    pub(in crate::index) fn replace(&self, root_id: RootId, within: &Path, problems: &[WalkProblem]) {
        let mut roots = self.lock();
        let known = roots.entry(root_id).or_default();
        known.retain(|path, _| !path.as_os_str().is_empty() && !path.starts_with(within));
        known.extend(problems.iter().map(|it| (it.path.clone(), it.sentence.clone())));
    }

    /// Keeps the problems of these roots and drops those of all other roots.
    pub(in crate::index) fn keep_only(&self, roots: &[Root]) {
        self.lock().retain(|id, _| roots.iter().any(|root| root.id == *id));
    }

    /// Returns one sentence for each root with unreadable paths.
    pub(in crate::index) fn sentences(&self) -> Vec<String> {
        let sentence = |known: &Paths| {
            let first = known.values().next()?;
            Some(match known.len() {
                1 => first.clone(),
                many => format!("{first} (and {} more places)", many - 1),
            })
        };
        self.lock().values().filter_map(sentence).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RootId, Paths>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A walk that hung and was abandoned.
struct AbandonedWalk {
    leash: Weak<WalkToken>,
    /// Paths that were known not to respond when the walk began, so that it skipped them.
    known: Vec<PathBuf>,
}

/// Abandoned walks, by root.
#[derive(Default)]
pub(in crate::index) struct AbandonedWalks(Mutex<HashMap<RootId, AbandonedWalk>>);

impl AbandonedWalks {
    /// Records an abandoned walk of a root that skipped the unresponsive paths in `known`.
    pub(in crate::index) fn add(&self, root: RootId, leash: &Arc<WalkToken>, known: Vec<PathBuf>) {
        self.lock().insert(root, AbandonedWalk { leash: Arc::downgrade(leash), known });
    }

    /// Returns whether an abandoned walk of the root is still stuck.
    pub(in crate::index) fn is_running(&self, root: RootId) -> bool {
        self.lock().get(&root).is_some_and(is_running)
    }

    /// Removes and returns the roots that can be walked again, because the abandoned walk has ended or a new walk would
    /// skip other paths. Also forgets removed roots.
    pub(in crate::index) fn take_walkable(&self, roots: &[Root]) -> Vec<RootId> {
        let is_back = |id: &RootId, lost: &mut AbandonedWalk| {
            let root = roots.iter().find(|it| it.id == *id);
            !is_running(lost) || root.is_none_or(|it| unresponsive::unresponsive_below(&it.path) != lost.known)
        };
        self.lock().extract_if(is_back).map(|(id, _)| id).collect()
    }

    /// Forgets the walk of a removed root.
    pub(in crate::index) fn remove(&self, root: RootId) {
        self.lock().remove(&root);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RootId, AbandonedWalk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a walk has not ended: a running walk holds its `WalkToken`.
fn is_running(lost: &AbandonedWalk) -> bool {
    lost.leash.strong_count() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_caught_up_by_walk_after_its_watch() {
        let walks = CatchUp::default();
        let early = Instant::now();
        assert!(!walks.is_caught_up(1));
        walks.note_watched(1);
        walks.note_walked(1, early);
        assert!(!walks.is_caught_up(1), "the walk may have passed a path before it was watched");
        walks.note_walked(1, Instant::now());
        assert!(walks.is_caught_up(1) && !walks.is_caught_up(2));
        walks.forget(1);
        walks.note_walked(1, Instant::now());
        assert!(!walks.is_caught_up(1), "a walk does not cover later changes");
        walks.note_watched(1);
        assert!(!walks.is_caught_up(1));
    }

    #[test]
    fn unreadable_path_is_reported_until_walk_succeeds() {
        let unseen = UnreadablePaths::default();
        let problem = |path: &str| WalkProblem { path: path.into(), sentence: format!("cannot read `{path}`") };
        let check = |within: &str, problems: &[&str], expected: &[&str]| {
            let problems: Vec<WalkProblem> = problems.iter().map(|it| problem(it)).collect();
            unseen.replace(1, Path::new(within), &problems);
            assert_eq!(unseen.sentences(), expected);
        };
        check("", &["a/locked", "b"], &["cannot read `a/locked` (and 1 more places)"]);
        check("a", &["a/locked"], &["cannot read `a/locked` (and 1 more places)"]);
        check("a/locked", &[], &["cannot read `b`"]);
        check("c", &[], &["cannot read `b`"]);
        // An earlier walk found the root itself empty or unavailable.
        check("c", &[""], &["cannot read `` (and 1 more places)"]);
        check("d", &[], &["cannot read `b`"]);
        check("", &[], &[]);
    }
}
