//! The watching thread: receives file events and turns them into changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use crate::files::watch::backlog::Backlog;
use crate::files::watch::debounce::{Debouncer, QuietEvent, WriteState};
use vic_watch::{Descriptor, Event, EventKind, WatchBackend};

use crate::files::watch::change::{Change, ChangeKind};
use crate::files::watch::overflow::LossTracker;
use crate::files::watch::shared_state::{RootState, Shared, WatchProblem};
use crate::files::watch::watch_set::WatchSet;
use crate::files::watch::watched_root::{WatchedRoot, changes_at};
use crate::files::{Rules, WalkToken};
use crate::model::RootId;

/// How often the debouncer is checked for events that have been held back long enough.
const TICK: Duration = Duration::from_millis(100);

/// Maximum number of paths in the debouncer. Beyond it, paths are replaced by their folders, because walking a folder
/// is cheaper than handling its entries one by one.
const MAX_PLACES: usize = 10_000;

/// A message to the watching thread.
pub(super) enum Message {
    Event(Event),
    /// Watches a root; the clone of `leash` is dropped when this is done.
    Add {
        root_id: RootId,
        path: PathBuf,
        leash: Arc<WalkToken>,
        reply: SyncSender<Result<(), WatchProblem>>,
    },
    Remove(RootId),
    Close,
}

/// The state of the watching thread.
pub(super) struct Engine<K> {
    rules: Rules,
    roots: Vec<WatchedRoot>,
    pub(super) folders: WatchSet<K>,
    debouncer: Debouncer,
    losses: LossTracker,
    /// Cookie and path of the last `MOVED_FROM` event; the cookie links it to the matching `MOVED_TO` event.
    last_moved_from: Option<(u32, PathBuf)>,
    pub(super) shared: Arc<Shared>,
}

impl<B: WatchBackend> Engine<B> {
    /// Handles messages until the watcher is closed. `beats` is the watch descriptor of the heartbeat.
    pub(super) fn run(mut self, inbox: &Receiver<Message>, backlog: &Backlog, mut beats: Descriptor) {
        let mut looked = Instant::now();
        while !self.shared.closed.load(Ordering::Relaxed) {
            let next = if self.debouncer.is_empty() && !self.losses.is_pending() {
                inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                inbox.recv_timeout(TICK)
            };
            match next {
                Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Message::Event(event)) if event.watch == beats => {
                    let waiting = self.shared.pulse.arrived();
                    if !waiting.is_empty() {
                        backlog.push(self.all_changes(Instant::now()), waiting);
                    }
                }
                Ok(Message::Event(event)) if event.kind == EventKind::Overflow => {
                    self.note_loss(Instant::now());
                    // Watches the heartbeat with a new descriptor. The old heartbeat event may be lost; if it still
                    // arrives, the new descriptor distinguishes it from a later one.
                    let waiting = self.shared.pulse.reset_after_loss();
                    beats = self.folders.kernel_mut().watch_heartbeat().unwrap_or(-1);
                    if !waiting.is_empty() {
                        backlog.push(self.all_changes(Instant::now()), waiting);
                    }
                }
                Ok(message) => self.handle_message(message),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.shared.pulse.note_activity();
            if looked.elapsed() >= TICK {
                looked = Instant::now();
                backlog.push(self.due_changes(looked), Vec::new());
            }
        }
    }
}

impl<K: WatchBackend> Engine<K> {
    pub(super) fn new(kernel: K, rules: Rules, shared: Arc<Shared>) -> Engine<K> {
        Engine {
            rules,
            roots: Vec::new(),
            folders: WatchSet::new(kernel),
            debouncer: Debouncer::default(),
            losses: LossTracker::default(),
            last_moved_from: None,
            shared,
        }
    }

    pub(super) fn handle_message(&mut self, message: Message) {
        match message {
            Message::Event(event) => self.handle_event(event),
            Message::Add { root_id, path, leash, reply } => {
                leash.advance();
                let added = self.add_root(root_id, &path);
                drop(leash);
                // Ignores an error: even if the caller no longer waits for the reply, the root stays watched.
                let _ = reply.send(added);
            }
            Message::Remove(root_id) => self.remove_root(root_id),
            Message::Close => {}
        }
    }

    pub(super) fn add_root(&mut self, root_id: RootId, path: &Path) -> Result<(), WatchProblem> {
        if !self.roots.iter().any(|it| it.id == root_id && it.is_same(path)) {
            self.remove_root(root_id);
            let root = WatchedRoot::new(root_id, path, &self.rules).map_err(|error| WatchProblem(error.message))?;
            self.roots.push(root);
        }
        self.watch_below(root_id, Path::new(""));
        if self.folders.is_watched(path) {
            return Ok(());
        }
        let problem = self.folders.problem(path).unwrap_or_else(|| format!("cannot watch `{}`", path.display()));
        self.remove_root(root_id);
        Err(WatchProblem(problem))
    }

    fn remove_root(&mut self, root_id: RootId) {
        let Some(index) = self.roots.iter().position(|it| it.id == root_id) else { return };
        let root = self.roots.swap_remove(index);
        self.folders.unwatch_below(&root.path);
        self.shared.states().remove(&root_id);
        // If an outer root now contains the removed root, it has to watch these folders, and to report what happened in
        // them since.
        if self.roots.iter().any(|it| root.path.starts_with(&it.path)) {
            self.watch_new_folder(&root.path);
            self.touch_place(root.path, WriteState::Unknown, Instant::now());
        }
        self.update_counts();
    }

    /// Watches all unwatched folders at and below a path, and records the result in the state of the root.
    fn watch_below(&mut self, root_id: RootId, within: &Path) {
        let Some(root) = self.roots.iter().find(|it| it.id == root_id) else { return };
        let path = root.path.clone();
        let shared = self.shared.clone();
        self.folders.watch_visible(&path, within, &self.rules, &|| shared.pulse.note_activity());
        self.update_counts();
        let mut states = self.shared.states();
        let before = states.remove(&root_id).unwrap_or_default();
        states.insert(
            root_id,
            RootState {
                is_complete: self.folders.is_whole(&path),
                is_remote: self.folders.remote(&path).is_some(),
                problem: self.folders.problem(&path).map(WatchProblem),
                is_detached: false,
                ..before
            },
        );
    }

    fn update_counts(&self) {
        let (folders, missing) = self.folders.totals();
        let mut counts = self.shared.counts();
        counts.folders = folders as u64;
        counts.missing = missing as u64;
    }

    /// Records that events were lost.
    pub(super) fn note_loss(&mut self, now: Instant) {
        self.losses.note_loss(now);
        self.shared.counts().overflows = self.losses.overflows;
        self.shared.states().values_mut().for_each(|it| it.losses += 1);
    }

    /// Renews every watch and requests a rescan of every root after a loss of events, because the lost events may
    /// include those of new folders.
    fn renew_all_watches(&mut self) -> Vec<Change> {
        self.debouncer.take_all();
        self.last_moved_from = None;
        self.shared.counts().rescans += 1;
        self.shared.states().values_mut().for_each(|it| it.requested_rescans = it.losses);
        let ids: Vec<RootId> = self.roots.iter().map(|it| it.id).collect();
        ids.iter().for_each(|id| self.renew_watches(*id));
        ids.into_iter().map(|root_id| Change { root_id, kind: ChangeKind::Rescan }).collect()
    }

    fn renew_watches(&mut self, root_id: RootId) {
        if let Some(root) = self.roots.iter().find(|it| it.id == root_id) {
            self.folders.unwatch_below(&root.path);
            self.watch_below(root_id, Path::new(""));
        }
    }

    fn handle_event(&mut self, event: Event) {
        let Some(folder) = self.folders.path_of(event.watch).map(Path::to_path_buf) else { return };
        let now = Instant::now();
        if event.kind == EventKind::WatchEnded {
            self.folders.remove_ended(event.watch);
        }
        let Some(name) = &event.name else {
            self.handle_self_event(&folder, event.kind, now);
            return;
        };
        let path = folder.join(name);
        match event.kind {
            EventKind::MovedFrom => {
                self.folders.unwatch_below(&path);
                self.last_moved_from = Some((event.cookie, path.clone()));
            }
            EventKind::MovedTo => {
                self.watch_new_folder(&path);
                if let Some((_, from)) = self.last_moved_from.take_if(|it| it.0 == event.cookie) {
                    self.debouncer.rename(&from, &path, now);
                    self.limit_places(now);
                    return;
                }
            }
            EventKind::Deleted => self.folders.unwatch_below(&path),
            EventKind::Created if event.is_folder => self.watch_new_folder(&path),
            // Tries again to watch a folder that could not be watched, because its permissions may have changed.
            EventKind::AttributesChanged if self.folders.is_missing(&path) => self.watch_new_folder(&path),
            _ => {}
        }
        // Records the event only after the folder at the path is watched: files created before that are found when the
        // receiver walks the path.
        self.touch_place(path, write_state(event.kind), now);
    }

    /// Handles an event of a watched folder itself. Most such events are ignored, because the parent folder reports
    /// them too. There are two exceptions: a root, because its parent is not watched, and a mount, because the folder
    /// that it covers does not report the unmount.
    fn handle_self_event(&mut self, folder: &Path, kind: EventKind, now: Instant) {
        let is_over = matches!(kind, EventKind::FolderGone | EventKind::Unmounted);
        let root = self.roots.iter().find(|it| it.path == folder).map(|it| it.id);
        match root {
            Some(root_id) if is_over => {
                self.folders.unwatch_below(folder);
                let mut states = self.shared.states();
                let before = states.remove(&root_id).unwrap_or_default();
                states.insert(root_id, RootState { is_complete: false, problem: None, is_detached: true, ..before });
            }
            None if kind == EventKind::Unmounted => {
                self.folders.unwatch_below(folder);
                // The folder that the mount covered is visible again and must be watched.
                self.watch_new_folder(folder);
            }
            Some(_) if kind == EventKind::AttributesChanged => {}
            _ => return,
        }
        self.touch_place(folder.to_path_buf(), WriteState::Unknown, now);
    }

    fn touch_place(&mut self, path: PathBuf, writing: WriteState, now: Instant) {
        self.debouncer.touch(path, writing, now);
        self.limit_places(now);
    }

    /// Replaces held-back paths by their folders when there are too many.
    fn limit_places(&mut self, now: Instant) {
        if self.debouncer.len() > MAX_PLACES {
            let roots: Vec<PathBuf> = self.roots.iter().map(|it| it.path.clone()).collect();
            self.debouncer.merge_into_folders(&roots, MAX_PLACES / 2, now);
        }
    }

    /// Watches a path if it is a visible folder that is not watched yet.
    fn watch_new_folder(&mut self, path: &Path) {
        let Some(root) = self.roots.iter_mut().find(|it| path.starts_with(&it.path)) else { return };
        let Ok(relative) = path.strip_prefix(&root.path).map(Path::to_path_buf) else { return };
        let is_folder = path.symlink_metadata().is_ok_and(|it| it.is_dir());
        if is_folder && !self.folders.is_watched(path) && root.is_visible(&relative) {
            let id = root.id;
            self.watch_below(id, &relative);
        }
    }

    /// Returns the changes at the paths whose events have been held back long enough.
    pub(super) fn due_changes(&mut self, now: Instant) -> Vec<Change> {
        if self.losses.take_due(now) {
            return self.renew_all_watches();
        }
        self.update_counts();
        let happened = self.debouncer.take_due(now);
        self.changes_of(happened)
    }

    /// Returns the changes at all paths with events, even recent ones.
    pub(super) fn all_changes(&mut self, now: Instant) -> Vec<Change> {
        if self.losses.take_now(now) {
            return self.renew_all_watches();
        }
        let happened = self.debouncer.take_all();
        self.changes_of(happened)
    }

    fn changes_of(&mut self, happened: Vec<QuietEvent>) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::new();
        let mut known = std::collections::HashSet::new();
        for happening in happened {
            let found = match &happening {
                QuietEvent::Renamed { from, to } => changes_at(&mut self.roots, from, Some(to)),
                QuietEvent::Touched(path) => changes_at(&mut self.roots, path, None),
            };
            for change in found {
                if known.insert((change.root_id, change.kind.clone())) {
                    changes.push(change);
                }
            }
        }
        let renewed: Vec<RootId> = self.roots.iter_mut().filter_map(WatchedRoot::take_new_rules).collect();
        renewed.into_iter().for_each(|id| self.renew_watches(id));
        changes
    }
}

fn write_state(kind: EventKind) -> WriteState {
    match kind {
        EventKind::Written => WriteState::Open,
        EventKind::Closed => WriteState::Closed,
        _ => WriteState::Unknown,
    }
}
