//! Changes below the roots between two walks.
//!
//! Events are hints, made quick and cheap rather than complete: whoever gets a [`Change`] looks at the disk again. What
//! cannot be told in single changes (queue overflow, changed ignore rules, a receiver that lags) becomes one
//! [`ChangeKind::Rescan`]. Nothing here reads content or keeps a list of files.

mod backlog;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ignore::IncrementalIgnore;
use notify::event::{EventKind, ModifyKind, RenameMode};
use notify::{RecommendedWatcher, RecursiveMode};
use notify_debouncer_full::{DebounceEventResult, DebouncedEvent, Debouncer, NoCache, new_debouncer_opt};
use tokio::sync::mpsc::Sender;

use crate::error::{Error, Result};
use crate::model::RootId;
use crate::warehouse::Rules;
use crate::warehouse::watch::backlog::Backlog;

/// A path has to be quiet for this long: editors write a file in several steps, and a result is due within 2 s.
const QUIET: Duration = Duration::from_millis(500);

/// How often quiet paths are looked for.
const TICK: Duration = Duration::from_millis(100);

/// What happened at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The root.
    pub root_id: RootId,
    /// What happened.
    pub kind: ChangeKind,
}

/// What happened. Paths are relative to the root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// This file or folder is new or different. A folder has to be walked: files may have come into it before it was
    /// watched.
    Touched(PathBuf),
    /// This file or folder is gone, with all below it.
    Removed(PathBuf),
    /// This file or folder has moved, with all below it. A [`ChangeKind::Touched`] of `to` follows.
    Renamed {
        /// Where it was.
        from: PathBuf,
        /// Where it is.
        to: PathBuf,
    },
    /// Anything may have changed: walk the root.
    Rescan,
}

/// Why a root is not watched, and the cure. It is still walked from time to time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchProblem(
    /// One or two sentences for the status.
    pub String,
);

/// Watches roots until it is dropped.
pub struct Watcher {
    debouncer: Debouncer<QuietWatcher, NoCache>,
    roots: Arc<Mutex<Vec<WatchedRoot>>>,
    backlog: Arc<Backlog>,
    rules: Rules,
}

impl Watcher {
    /// Starts to watch nothing yet. Changes come in batches, at most one every 100 ms; when `sender` is full they gather
    /// here, and too many become a [`ChangeKind::Rescan`].
    ///
    /// # Errors
    /// When the operating system has no watch to give, e.g. `fs.inotify.max_user_instances`.
    pub fn start(rules: Rules, sender: Sender<Vec<Change>>) -> Result<Watcher> {
        let roots: Arc<Mutex<Vec<WatchedRoot>>> = Arc::default();
        let backlog = Backlog::start(sender)?;
        let handler = {
            let (roots, backlog) = (roots.clone(), backlog.clone());
            move |result: DebounceEventResult| backlog.push(changes(&mut lock(&roots), result))
        };
        let settings = notify::Config::default().with_follow_symlinks(false);
        let debouncer = new_debouncer_opt(QUIET, Some(TICK), handler, NoCache::new(), settings).map_err(|error| {
            Error::new(crate::error::ErrorCode::ResourceExhausted, format!("cannot watch files: {error}"))
                .hint("raise it: sysctl fs.inotify.max_user_instances=512")
        })?;
        Ok(Watcher { debouncer, roots, backlog, rules })
    }

    /// Watches a root with all its folders. Takes as long as listing them.
    ///
    /// # Errors
    /// With the cause and the cure; nothing of the root is watched then.
    pub fn add(&mut self, root_id: RootId, path: &Path) -> Result<(), WatchProblem> {
        let problem = |error: Error| WatchProblem(error.message);
        let matcher = self.rules.matcher(path).map_err(problem)?;
        self.remove(root_id);
        let root = WatchedRoot { id: root_id, path: path.into(), rules: self.rules.clone(), matcher, problem: None };
        lock(&self.roots).push(root);
        self.debouncer.watch(path, RecursiveMode::Recursive).map_err(|error| {
            self.remove(root_id);
            WatchProblem(explain(path, &error))
        })
    }

    /// Stops watching a root; does nothing when it is not watched.
    pub fn remove(&mut self, root_id: RootId) {
        let mut roots = lock(&self.roots);
        let Some(index) = roots.iter().position(|it| it.id == root_id) else { return };
        let root = roots.swap_remove(index);
        drop(roots);
        // It fails when the folder is gone or was never watched: then there is nothing to stop.
        let _ = self.debouncer.unwatch(&root.path);
    }

    /// Returns what went wrong with a root since it was added, e.g. new folders above the watch limit.
    pub fn problem(&self, root_id: RootId) -> Option<WatchProblem> {
        let roots = lock(&self.roots);
        roots.iter().find(|it| it.id == root_id)?.problem.clone().map(WatchProblem)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.backlog.close();
    }
}

struct WatchedRoot {
    id: RootId,
    path: PathBuf,
    rules: Rules,
    matcher: IncrementalIgnore,
    problem: Option<String>,
}

impl WatchedRoot {
    fn is_visible(&mut self, relative: &Path) -> bool {
        let excluded =
            relative.ancestors().any(|it| !it.as_os_str().is_empty() && self.rules.excludes(&self.path.join(it)));
        if excluded {
            return false;
        }
        // Of a path that is gone the type is unknown; as a file it matches fewer rules, and to tell of the end of an
        // ignored folder does no harm.
        let is_dir = self.path.join(relative).symlink_metadata().is_ok_and(|it| it.is_dir());
        !self.matcher.matched(relative, is_dir).is_ignore()
    }

    /// Reloads the ignore files when one of them changed; says whether it did.
    fn rules_changed(&mut self, relative: &Path) -> bool {
        if !relative.file_name().is_some_and(Rules::is_ignore_file) {
            return false;
        }
        let folder = relative.parent().unwrap_or(Path::new(""));
        if !folder.as_os_str().is_empty() && !self.is_visible(folder) {
            return false;
        }
        if let Ok(matcher) = self.rules.matcher(&self.path) {
            self.matcher = matcher;
        }
        true
    }

    fn exists(&self, relative: &Path) -> bool {
        self.path.join(relative).symlink_metadata().is_ok()
    }
}

/// Translates one batch of events, each place once.
fn changes(roots: &mut [WatchedRoot], result: DebounceEventResult) -> Vec<Change> {
    let events = match result {
        Ok(events) => events,
        Err(errors) => return errors.iter().flat_map(|error| failed(roots, error)).collect(),
    };
    let mut seen = HashSet::new();
    let mut changes = Vec::new();
    for event in events {
        for change in translate(roots, &event) {
            // Each place was looked at just now: if it changes again, a later event says so.
            if seen.insert((change.root_id, change.kind.clone())) {
                changes.push(change);
            }
        }
    }
    changes
}

fn translate(roots: &mut [WatchedRoot], event: &DebouncedEvent) -> Vec<Change> {
    if event.need_rescan() {
        return roots.iter().map(|it| Change { root_id: it.id, kind: ChangeKind::Rescan }).collect();
    }
    let Some(path) = event.paths.first() else { return Vec::new() };
    let Some(root) = roots.iter_mut().find(|it| path.starts_with(&it.path)) else { return Vec::new() };
    let relative = |path: &Path| path.strip_prefix(&root.path).map(Path::to_path_buf);
    let Ok(first) = relative(path) else { return Vec::new() };
    let second = event.paths.get(1).and_then(|it| relative(it).ok());
    let kinds = match (event.kind, second) {
        // Of the root itself only a walk can tell what is left of it.
        _ if first.as_os_str().is_empty() => vec![ChangeKind::Rescan],
        _ if root.rules_changed(&first) => vec![ChangeKind::Rescan],
        (EventKind::Modify(ModifyKind::Name(RenameMode::Both)), Some(to)) => renamed(root, first, to),
        _ => happened(root, first),
    };
    kinds.into_iter().map(|kind| Change { root_id: root.id, kind }).collect()
}

fn renamed(root: &mut WatchedRoot, from: PathBuf, to: PathBuf) -> Vec<ChangeKind> {
    if root.rules_changed(&to) {
        return vec![ChangeKind::Rescan];
    }
    match (root.is_visible(&from), root.is_visible(&to)) {
        (true, true) if !root.exists(&from) && root.exists(&to) => {
            vec![ChangeKind::Renamed { from, to: to.clone() }, ChangeKind::Touched(to)]
        }
        // One of the two places has changed again since.
        (true, true) => happened(root, from).into_iter().chain(happened(root, to)).collect(),
        (true, false) => vec![ChangeKind::Removed(from)],
        (false, true) => happened(root, to),
        (false, false) => Vec::new(),
    }
}

/// What is true of a path now. The events of an editor that saves by renaming over the old file begin with a removal.
fn happened(root: &mut WatchedRoot, relative: PathBuf) -> Vec<ChangeKind> {
    if !root.is_visible(&relative) {
        Vec::new()
    } else if root.exists(&relative) {
        vec![ChangeKind::Touched(relative)]
    } else {
        vec![ChangeKind::Removed(relative)]
    }
}

fn failed(roots: &mut [WatchedRoot], error: &notify::Error) -> Vec<Change> {
    tracing::warn!("watching failed: {error}");
    let concerns =
        |root: &WatchedRoot| error.paths.is_empty() || error.paths.iter().any(|it| it.starts_with(&root.path));
    let mut changes = Vec::new();
    for root in roots.iter_mut().filter(|it| concerns(it)) {
        if matches!(error.kind, notify::ErrorKind::MaxFilesWatch) {
            root.problem = Some(explain(&root.path, error));
        }
        changes.push(Change { root_id: root.id, kind: ChangeKind::Rescan });
    }
    changes
}

fn explain(path: &Path, error: &notify::Error) -> String {
    let path = path.display();
    if !matches!(error.kind, notify::ErrorKind::MaxFilesWatch) {
        return format!("cannot watch `{path}`: {error}; it is walked from time to time instead");
    }
    let limit = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").unwrap_or_default();
    let limit = limit.trim();
    format!(
        "cannot watch all folders of `{path}`: the limit fs.inotify.max_user_watches ({limit}) is reached; it is walked \
         from time to time instead; raise it: sysctl fs.inotify.max_user_watches=1048576"
    )
}

/// A poisoned lock only means that a thread panicked: the roots themselves are whole.
fn lock(roots: &Mutex<Vec<WatchedRoot>>) -> MutexGuard<'_, Vec<WatchedRoot>> {
    roots.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The platform's watcher without the events of reading: indexing opens every file, and each would wait half a second in
/// the debouncer's queues only to be dropped.
struct QuietWatcher(RecommendedWatcher);

impl notify::Watcher for QuietWatcher {
    fn new<F: notify::EventHandler>(mut handler: F, config: notify::Config) -> notify::Result<QuietWatcher> {
        let quiet = move |result: notify::Result<notify::Event>| {
            if !result.as_ref().is_ok_and(|event| event.kind.is_access()) {
                handler.handle_event(result);
            }
        };
        Ok(QuietWatcher(<RecommendedWatcher as notify::Watcher>::new(quiet, config)?))
    }

    fn watch(&mut self, path: &Path, mode: RecursiveMode) -> notify::Result<()> {
        self.0.watch(path, mode)
    }

    fn unwatch(&mut self, path: &Path) -> notify::Result<()> {
        self.0.unwatch(path)
    }

    fn configure(&mut self, option: notify::Config) -> notify::Result<bool> {
        self.0.configure(option)
    }

    fn kind() -> notify::WatcherKind {
        RecommendedWatcher::kind()
    }
}

#[cfg(test)]
mod tests;
