//! Changes below the roots between two walks.
//!
//! Events are hints, made quick and cheap rather than complete: whoever gets a [`Change`] looks at the disk again. What
//! cannot be told in single changes (queue overflow, changed ignore rules, a receiver that lags) becomes one
//! [`ChangeKind::Rescan`]. Nothing here reads content or keeps a list of files.
//!
//! One thread does it all: it takes the events of the operating system, keeps every visible folder watched (`folders`),
//! waits until a place is quiet (`quiet`), says what became of it (`root`) and hands that on (`backlog`).

mod backlog;
mod folders;
mod quiet;
mod root;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use notify::Watcher as _;
use notify::event::{CreateKind, EventKind, ModifyKind, RenameMode};
use tokio::sync::mpsc::Sender;

use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::model::RootId;
use crate::warehouse::Rules;
use crate::warehouse::watch::backlog::Backlog;
use crate::warehouse::watch::folders::{Folders, Kernel};
use crate::warehouse::watch::quiet::{Happening, Quiet};
use crate::warehouse::watch::root::{WatchedRoot, changes_at};

/// How often quiet places are looked for.
const TICK: Duration = Duration::from_millis(100);

/// Events that wait while new folders are being watched: as many as the kernel itself keeps. More are one rescan.
const EVENTS_AHEAD: usize = 16_384;

/// Places that may wait to become quiet. Beyond this a walk is cheaper than single changes.
const MOST_PLACES: usize = 10_000;

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

/// Why a root is not watched, or not everywhere, and the cure. It is still walked from time to time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchProblem(
    /// One or two sentences for the status.
    pub String,
);

/// Watches roots until it is dropped.
pub struct Watcher {
    messages: SyncSender<Message>,
    states: States,
    backlog: Arc<Backlog>,
}

/// How it stands with each root.
type States = Arc<Mutex<HashMap<RootId, RootState>>>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct RootState {
    /// Whether every visible folder is watched.
    whole: bool,
    problem: Option<WatchProblem>,
}

enum Message {
    Event(notify::Result<notify::Event>),
    Add { root_id: RootId, path: PathBuf, reply: SyncSender<Result<(), WatchProblem>> },
    Remove(RootId),
    Close,
}

impl Watcher {
    /// Starts to watch nothing yet. Changes come in batches, at most one every 100 ms; when `sender` is full they gather
    /// here, and too many become a [`ChangeKind::Rescan`].
    ///
    /// # Errors
    /// When the operating system has no watch to give, e.g. `fs.inotify.max_user_instances`.
    pub fn start(rules: Rules, sender: Sender<Vec<Change>>) -> Result<Watcher> {
        let (messages, inbox) = sync_channel(EVENTS_AHEAD);
        let lost = Arc::new(AtomicBool::new(false));
        let kernel = notify::RecommendedWatcher::new(
            forward(messages.clone(), lost.clone()),
            notify::Config::default().with_follow_symlinks(false),
        );
        let kernel = kernel.map_err(|error| {
            Error::new(ErrorCode::ResourceExhausted, format!("cannot watch files: {error}"))
                .hint("raise it: sysctl fs.inotify.max_user_instances=512")
        })?;
        let backlog = Backlog::start(sender)?;
        let states = States::default();
        let (states_there, backlog_there) = (states.clone(), backlog.clone());
        std::thread::Builder::new()
            .name("vic-events".into())
            .spawn(move || Engine::new(kernel, rules, states_there).run(&inbox, &lost, &backlog_there))
            .at("start a thread for", Path::new("vic-events"))?;
        Ok(Watcher { messages, states, backlog })
    }

    /// Watches a root with all its visible folders, or those of them that are not watched yet. Blocks as long as listing
    /// them takes. What cannot be watched of it [`Watcher::problem`] tells, save folders that may not be read: those the
    /// walk reports.
    ///
    /// # Errors
    /// With the cause and the cure; nothing of the root is watched then.
    pub fn add(&self, root_id: RootId, path: &Path) -> Result<(), WatchProblem> {
        let ended = || WatchProblem("watching has ended; restart the daemon".into());
        let (reply, answer) = sync_channel(1);
        self.messages.send(Message::Add { root_id, path: path.into(), reply }).map_err(|_| ended())?;
        answer.recv().unwrap_or_else(|_| Err(ended()))
    }

    /// Stops watching a root; does nothing when it is not watched.
    pub fn remove(&self, root_id: RootId) {
        // It fails when the thread is gone: then nothing is watched.
        let _ = self.messages.send(Message::Remove(root_id));
        lock(&self.states).remove(&root_id);
    }

    /// Says whether every visible folder of a root is watched. If not, [`Watcher::add`] tries the missing ones again.
    pub fn is_whole(&self, root_id: RootId) -> bool {
        lock(&self.states).get(&root_id).is_some_and(|it| it.whole)
    }

    /// Returns what is wrong with a watched root, e.g. more folders than the watch limit.
    pub fn problem(&self, root_id: RootId) -> Option<WatchProblem> {
        lock(&self.states).get(&root_id)?.problem.clone()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.backlog.close();
        // It fails when the thread has ended by itself.
        let _ = self.messages.send(Message::Close);
    }
}

/// Takes events off the thread that reads them, which must never wait: ours asks it for watches. Reading is no news, and
/// indexing opens every file.
fn forward(messages: SyncSender<Message>, lost: Arc<AtomicBool>) -> impl FnMut(notify::Result<notify::Event>) + Send {
    move |result| {
        if result.as_ref().is_ok_and(|event| event.kind.is_access()) {
            return;
        }
        if let Err(TrySendError::Full(_)) = messages.try_send(Message::Event(result)) {
            lost.store(true, Ordering::Relaxed);
        }
    }
}

/// The thread's own.
struct Engine<K> {
    rules: Rules,
    roots: Vec<WatchedRoot>,
    folders: Folders<K>,
    quiet: Quiet,
    states: States,
}

impl<K: Kernel> Engine<K> {
    fn new(kernel: K, rules: Rules, states: States) -> Engine<K> {
        Engine { rules, roots: Vec::new(), folders: Folders::new(kernel), quiet: Quiet::default(), states }
    }

    fn run(mut self, inbox: &Receiver<Message>, lost: &AtomicBool, backlog: &Backlog) {
        let mut looked = Instant::now();
        loop {
            let next = if self.quiet.is_empty() {
                inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                inbox.recv_timeout(TICK)
            };
            match next {
                Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if lost.swap(false, Ordering::Relaxed) {
                self.begin_anew();
            }
            if looked.elapsed() >= TICK {
                looked = Instant::now();
                backlog.push(self.due(looked));
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Event(Ok(event)) if event.need_rescan() => self.begin_anew(),
            Message::Event(Ok(event)) => self.happened(&event),
            Message::Event(Err(error)) => {
                tracing::warn!("watching failed: {error}");
                self.begin_anew();
            }
            Message::Add { root_id, path, reply } => {
                // Nobody waits any more: the root is watched all the same.
                let _ = reply.send(self.add(root_id, &path));
            }
            Message::Remove(root_id) => self.remove(root_id),
            Message::Close => {}
        }
    }

    fn add(&mut self, root_id: RootId, path: &Path) -> Result<(), WatchProblem> {
        if !self.roots.iter().any(|it| it.id == root_id && it.path == path) {
            self.remove(root_id);
            let root = WatchedRoot::new(root_id, path, &self.rules).map_err(|error| WatchProblem(error.message))?;
            self.roots.push(root);
        }
        self.spread(root_id, Path::new(""));
        if self.folders.is_watched(path) {
            return Ok(());
        }
        let problem = self.folders.problem(path).unwrap_or_else(|| format!("cannot watch `{}`", path.display()));
        self.remove(root_id);
        Err(WatchProblem(problem))
    }

    fn remove(&mut self, root_id: RootId) {
        let Some(index) = self.roots.iter().position(|it| it.id == root_id) else { return };
        let root = self.roots.swap_remove(index);
        self.folders.forget(&root.path);
        lock(&self.states).remove(&root_id);
    }

    /// Watches what is not watched yet at and below a place, and tells how that went.
    fn spread(&mut self, root_id: RootId, within: &Path) {
        let Some(root) = self.roots.iter().find(|it| it.id == root_id) else { return };
        self.folders.spread(&root.path, within, &self.rules);
        let (whole, problem) = (self.folders.is_whole(&root.path), self.folders.problem(&root.path));
        lock(&self.states).insert(root_id, RootState { whole, problem: problem.map(WatchProblem) });
    }

    /// Events were lost, and with them perhaps new names of folders: every watch is made anew, every root walked.
    fn begin_anew(&mut self) {
        self.quiet.clear();
        let roots: Vec<(RootId, PathBuf)> = self.roots.iter().map(|it| (it.id, it.path.clone())).collect();
        for (id, path) in roots {
            self.renew(id);
            self.quiet.touch(path, Instant::now());
        }
    }

    fn renew(&mut self, root_id: RootId) {
        if let Some(root) = self.roots.iter().find(|it| it.id == root_id) {
            self.folders.forget(&root.path);
            self.spread(root_id, Path::new(""));
        }
    }

    fn happened(&mut self, event: &notify::Event) {
        if let (EventKind::Modify(ModifyKind::Name(RenameMode::Both)), [from, to]) = (event.kind, &event.paths[..]) {
            self.quiet.rename(from, to, Instant::now());
            return;
        }
        for path in &event.paths {
            let Some(root) = self.roots.iter().position(|it| path.starts_with(&it.path)) else { continue };
            let (is_root, root_id) = (*path == self.roots[root].path, self.roots[root].id);
            match event.kind {
                // A moved folder tells of itself by its old name, after its parents have told all there is to tell.
                EventKind::Modify(ModifyKind::Name(RenameMode::From)) if event.tracker().is_none() && !is_root => {
                    continue;
                }
                EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)) => {
                    self.folders.forget(path);
                    if is_root {
                        lock(&self.states).insert(root_id, RootState { whole: false, problem: None });
                    }
                }
                EventKind::Create(CreateKind::File) => {}
                EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_)) => self.grow(root, path),
                EventKind::Modify(ModifyKind::Metadata(_)) if self.folders.is_missing(path) => self.grow(root, path),
                _ => {}
            }
            // After its folders are watched: whatever came into them before is found when this place is looked at.
            self.quiet.touch(path.clone(), Instant::now());
        }
        if self.quiet.len() > MOST_PLACES {
            let roots: Vec<PathBuf> = self.roots.iter().map(|it| it.path.clone()).collect();
            self.quiet.gather(&roots, Instant::now());
        }
    }

    /// Watches a new folder, if it is one.
    fn grow(&mut self, root: usize, path: &Path) {
        let root = &mut self.roots[root];
        let Ok(relative) = path.strip_prefix(&root.path).map(Path::to_path_buf) else { return };
        let is_folder = path.symlink_metadata().is_ok_and(|it| it.is_dir());
        if is_folder && !self.folders.is_watched(path) && root.is_visible(&relative) {
            let id = root.id;
            self.spread(id, &relative);
        }
    }

    /// Says what became of the places that are quiet now.
    fn due(&mut self, now: Instant) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::new();
        for happening in self.quiet.due(now) {
            let found = match &happening {
                Happening::Renamed { from, to } => changes_at(&mut self.roots, from, Some(to)),
                Happening::Touched(path) => changes_at(&mut self.roots, path, None),
            };
            for change in found {
                if !changes.contains(&change) {
                    changes.push(change);
                }
            }
        }
        let renewed: Vec<RootId> = self.roots.iter_mut().filter_map(WatchedRoot::take_new_rules).collect();
        renewed.into_iter().for_each(|id| self.renew(id));
        changes
    }
}

/// A poisoned lock only means that a thread panicked: the states themselves are whole.
fn lock(states: &Mutex<HashMap<RootId, RootState>>) -> MutexGuard<'_, HashMap<RootId, RootState>> {
    states.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
