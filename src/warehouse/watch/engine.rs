//! The watching thread: turns events into changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use rustix::fs::inotify::ReadFlags;

use crate::model::RootId;
use crate::warehouse::watch::backlog::Backlog;
use crate::warehouse::watch::folders::Folders;
use crate::warehouse::watch::inotify::{Descriptor, Event, Inotify, Kernel};
use crate::warehouse::watch::losses::Losses;
use crate::warehouse::watch::quiet::{Happening, Quiet, Writing};
use crate::warehouse::watch::root::{WatchedRoot, changes_at};
use crate::warehouse::watch::{Change, ChangeKind, RootState, Shared, WatchProblem};
use crate::warehouse::{Leash, Rules};

/// How often the debouncer is checked for quiet places.
const TICK: Duration = Duration::from_millis(100);

/// Places that may wait in the debouncer. Beyond it, walks of their folders are cheaper.
const MOST_PLACES: usize = 10_000;

/// A message to the thread.
pub(super) enum Message {
    Event(Event),
    /// `leash` is held until the root is added.
    Add {
        root_id: RootId,
        path: PathBuf,
        leash: Arc<Leash>,
        reply: SyncSender<Result<(), WatchProblem>>,
    },
    Remove(RootId),
    Close,
}

/// The state of the thread.
pub(super) struct Engine<K> {
    rules: Rules,
    roots: Vec<WatchedRoot>,
    pub(super) folders: Folders<K>,
    quiet: Quiet,
    losses: Losses,
    /// The entry of the last `MOVED_FROM` event, with the cookie that links it to its `MOVED_TO`.
    moved: Option<(u32, PathBuf)>,
    pub(super) shared: Arc<Shared>,
}

impl Engine<Inotify> {
    /// Runs until it is closed. `beats` is the watch of the heartbeat.
    pub(super) fn run(mut self, inbox: &Receiver<Message>, backlog: &Backlog, mut beats: Descriptor) {
        let mut looked = Instant::now();
        while !self.shared.closed.load(Ordering::Relaxed) {
            let next = if self.quiet.is_empty() && !self.losses.is_open() {
                inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                inbox.recv_timeout(TICK)
            };
            match next {
                Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Message::Event(event)) if event.watch == beats => {
                    let waiting = self.shared.pulse.felt();
                    if !waiting.is_empty() {
                        backlog.push(self.everything(Instant::now()), waiting);
                    }
                }
                Ok(Message::Event(event)) if event.what.contains(ReadFlags::QUEUE_OVERFLOW) => {
                    self.lose(Instant::now());
                    // The heartbeat may be lost; if it is not, it must not be taken for a later one.
                    let waiting = self.shared.pulse.lost();
                    beats = self.folders.kernel_mut().renew_link(beats, &self.shared.pulse.path()).unwrap_or(-1);
                    if !waiting.is_empty() {
                        backlog.push(self.everything(Instant::now()), waiting);
                    }
                }
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.shared.pulse.worked();
            if looked.elapsed() >= TICK {
                looked = Instant::now();
                backlog.push(self.due(looked), Vec::new());
            }
        }
    }
}

impl<K: Kernel> Engine<K> {
    pub(super) fn new(kernel: K, rules: Rules, shared: Arc<Shared>) -> Engine<K> {
        Engine {
            rules,
            roots: Vec::new(),
            folders: Folders::new(kernel),
            quiet: Quiet::default(),
            losses: Losses::default(),
            moved: None,
            shared,
        }
    }

    pub(super) fn take(&mut self, message: Message) {
        match message {
            Message::Event(event) => self.happened(event),
            Message::Add { root_id, path, leash, reply } => {
                leash.step();
                let added = self.add(root_id, &path);
                drop(leash);
                // If the caller no longer waits, the root is watched all the same.
                let _ = reply.send(added);
            }
            Message::Remove(root_id) => self.remove(root_id),
            Message::Close => {}
        }
    }

    pub(super) fn add(&mut self, root_id: RootId, path: &Path) -> Result<(), WatchProblem> {
        if !self.roots.iter().any(|it| it.id == root_id && it.is_same(path)) {
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
        self.shared.states().remove(&root_id);
        // If it lies in another root by now, that root has to watch its folders, and report what happened there meanwhile.
        if self.roots.iter().any(|it| root.path.starts_with(&it.path)) {
            self.grow(&root.path);
            self.touch(root.path, Writing::Unknown, Instant::now());
        }
        self.count();
    }

    /// Watches unwatched folders at and below a place, and records the result.
    fn spread(&mut self, root_id: RootId, within: &Path) {
        let Some(root) = self.roots.iter().find(|it| it.id == root_id) else { return };
        let path = root.path.clone();
        let shared = self.shared.clone();
        self.folders.spread(&path, within, &self.rules, &|| shared.pulse.worked());
        self.count();
        let mut states = self.shared.states();
        let before = states.remove(&root_id).unwrap_or_default();
        states.insert(
            root_id,
            RootState {
                whole: self.folders.is_whole(&path),
                remote: self.folders.remote(&path).is_some(),
                problem: self.folders.problem(&path).map(WatchProblem),
                ended: false,
                ..before
            },
        );
    }

    fn count(&self) {
        let (folders, missing) = self.folders.totals();
        let mut counts = self.shared.counts();
        counts.folders = folders as u64;
        counts.missing = missing as u64;
    }

    /// Records that events were lost.
    pub(super) fn lose(&mut self, now: Instant) {
        self.losses.note(now);
        self.shared.counts().overflows = self.losses.overflows;
        self.shared.states().values_mut().for_each(|it| it.lost += 1);
    }

    /// Renews every watch and rescans every root, because events, and with them new folder names, may have been lost.
    fn begin_anew(&mut self) -> Vec<Change> {
        self.quiet.all();
        self.moved = None;
        self.shared.counts().rescans += 1;
        self.shared.states().values_mut().for_each(|it| it.promised = it.lost);
        let ids: Vec<RootId> = self.roots.iter().map(|it| it.id).collect();
        ids.iter().for_each(|id| self.renew(*id));
        ids.into_iter().map(|root_id| Change { root_id, kind: ChangeKind::Rescan }).collect()
    }

    fn renew(&mut self, root_id: RootId) {
        if let Some(root) = self.roots.iter().find(|it| it.id == root_id) {
            self.folders.forget(&root.path);
            self.spread(root_id, Path::new(""));
        }
    }

    fn happened(&mut self, event: Event) {
        let Some(folder) = self.folders.path_of(event.watch).map(Path::to_path_buf) else { return };
        let now = Instant::now();
        let what = event.what;
        if what.contains(ReadFlags::IGNORED) {
            self.folders.let_go(event.watch);
        }
        let Some(name) = event.name else {
            self.happened_to_itself(&folder, what, now);
            return;
        };
        let path = folder.join(name);
        if what.contains(ReadFlags::MOVED_FROM) {
            self.folders.forget(&path);
            self.moved = Some((event.cookie, path.clone()));
        } else if what.contains(ReadFlags::MOVED_TO) {
            self.grow(&path);
            if let Some((_, from)) = self.moved.take_if(|it| it.0 == event.cookie) {
                self.quiet.rename(&from, &path, now);
                self.bound(now);
                return;
            }
        } else if what.contains(ReadFlags::DELETE) {
            self.folders.forget(&path);
        } else if what.contains(ReadFlags::CREATE | ReadFlags::ISDIR) || self.is_readable_now(&path, what) {
            self.grow(&path);
        }
        // Only after its folders are watched: files created in them before that are found when this place is read.
        self.touch(path, writing(what), now);
    }

    /// Returns whether a folder that could not be watched may have got other permissions.
    fn is_readable_now(&self, path: &Path, what: ReadFlags) -> bool {
        what.contains(ReadFlags::ATTRIB) && self.folders.is_missing(path)
    }

    /// Handles an event of a folder itself. The parent folder reports these as well, except for a root, which has no
    /// watched parent, and for a mount, which its covered folder does not report.
    fn happened_to_itself(&mut self, folder: &Path, what: ReadFlags, now: Instant) {
        let is_over = what.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT);
        let root = self.roots.iter().find(|it| it.path == folder).map(|it| it.id);
        match root {
            Some(root_id) if is_over => {
                self.folders.forget(folder);
                let mut states = self.shared.states();
                let before = states.remove(&root_id).unwrap_or_default();
                states.insert(root_id, RootState { whole: false, problem: None, ended: true, ..before });
            }
            None if what.contains(ReadFlags::UNMOUNT) => {
                self.folders.forget(folder);
                // The folder covered by the mount is visible again.
                self.grow(folder);
            }
            Some(_) if what.contains(ReadFlags::ATTRIB) => {}
            _ => return,
        }
        self.touch(folder.to_path_buf(), Writing::Unknown, now);
    }

    fn touch(&mut self, path: PathBuf, writing: Writing, now: Instant) {
        self.quiet.touch(path, writing, now);
        self.bound(now);
    }

    /// Replaces waiting places by their folders when there are too many.
    fn bound(&mut self, now: Instant) {
        if self.quiet.len() > MOST_PLACES {
            let roots: Vec<PathBuf> = self.roots.iter().map(|it| it.path.clone()).collect();
            self.quiet.gather(&roots, MOST_PLACES / 2, now);
        }
    }

    /// Watches a path if it is a new visible folder.
    fn grow(&mut self, path: &Path) {
        let Some(root) = self.roots.iter_mut().find(|it| path.starts_with(&it.path)) else { return };
        let Ok(relative) = path.strip_prefix(&root.path).map(Path::to_path_buf) else { return };
        let is_folder = path.symlink_metadata().is_ok_and(|it| it.is_dir());
        if is_folder && !self.folders.is_watched(path) && root.is_visible(&relative) {
            let id = root.id;
            self.spread(id, &relative);
        }
    }

    /// Returns the changes at the places that are quiet now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Change> {
        if self.losses.take_due(now) {
            return self.begin_anew();
        }
        self.count();
        let happened = self.quiet.due(now);
        self.changes(happened)
    }

    /// Returns the changes at all places, quiet or not.
    pub(super) fn everything(&mut self, now: Instant) -> Vec<Change> {
        if self.losses.take_now(now) {
            return self.begin_anew();
        }
        let happened = self.quiet.all();
        self.changes(happened)
    }

    fn changes(&mut self, happened: Vec<Happening>) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::new();
        let mut known = std::collections::HashSet::new();
        for happening in happened {
            let found = match &happening {
                Happening::Renamed { from, to } => changes_at(&mut self.roots, from, Some(to)),
                Happening::Touched(path) => changes_at(&mut self.roots, path, None),
            };
            for change in found {
                if known.insert((change.root_id, change.kind.clone())) {
                    changes.push(change);
                }
            }
        }
        let renewed: Vec<RootId> = self.roots.iter_mut().filter_map(WatchedRoot::take_new_rules).collect();
        renewed.into_iter().for_each(|id| self.renew(id));
        changes
    }
}

fn writing(what: ReadFlags) -> Writing {
    if what.contains(ReadFlags::MODIFY) {
        Writing::Open
    } else if what.contains(ReadFlags::CLOSE_WRITE) {
        Writing::Closed
    } else {
        Writing::Unknown
    }
}
