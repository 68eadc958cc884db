//! Watch backend for systems without inotify, based on the library `notify`: FSEvents on macOS, kqueue, Windows.
//!
//! It differs from [`crate::inotify`] in two ways. The library reports paths, so a folder that has moved is known by its
//! old path until its parent reports the move. And it reports less: FSEvents does not link the two halves of a rename, so
//! a rename becomes a deletion and a creation. The heartbeat is a file in a temporary folder.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RenameMode};
use notify::{ErrorKind, RecommendedWatcher, RecursiveMode, Watcher};
use tempfile::TempDir;

use crate::{Descriptor, Event, EventKind, OpenBackend, Refusal, WatchBackend};

/// The watched folders by path, shared with the thread of the library.
type Watched = Arc<Mutex<HashMap<PathBuf, Descriptor>>>;

/// The watcher of the library, with a descriptor for each watched folder.
pub struct NotifyBackend {
    watcher: RecommendedWatcher,
    watched: Watched,
    next: Descriptor,
    heartbeat: TempDir,
}

/// Opens a watcher of the library that watches nothing yet.
///
/// # Errors
/// When the operating system allows no further watcher.
pub fn open() -> io::Result<OpenBackend<NotifyBackend>> {
    let (sender, receiver) = channel();
    let watched = Watched::default();
    let known = watched.clone();
    let handler = move |outcome: notify::Result<notify::Event>| send_events(outcome, &known, &sender);
    let watcher = notify::recommended_watcher(handler).map_err(io_error)?;
    let heartbeat = tempfile::Builder::new().prefix("vic-heartbeat").tempdir()?;
    let file = File::create(heartbeat.path().join("beat"))?;
    Ok(OpenBackend {
        backend: NotifyBackend { watcher, watched, next: 0, heartbeat },
        reader: Box::new(move |each| read_events(&receiver, each)),
        // Changes only the modification time, because this causes one event and a write would cause several. If it
        // fails, no heartbeat arrives, and the watcher counts as dead.
        beat: Box::new(move || drop(file.set_modified(SystemTime::now()))),
    })
}

fn read_events(receiver: &Receiver<Event>, each: &mut dyn FnMut(Event) -> bool) -> io::Result<()> {
    while let Ok(event) = receiver.recv() {
        if !each(event) {
            return Ok(());
        }
    }
    Err(io::Error::other("the file watcher of the operating system has ended"))
}

fn lock(watched: &Watched) -> MutexGuard<'_, HashMap<PathBuf, Descriptor>> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Translates a report of the library into events. An error of the library means that events may have been lost.
fn send_events(outcome: notify::Result<notify::Event>, watched: &Watched, sender: &Sender<Event>) {
    let overflow = || Event { watch: -1, kind: EventKind::Overflow, is_folder: false, cookie: 0, name: None };
    let events = match outcome {
        Ok(event) if event.need_rescan() => vec![overflow()],
        Ok(event) => translate(&event, &lock(watched)),
        Err(_) => vec![overflow()],
    };
    // Ignores an error: the receiver no longer exists while the watcher is being dropped.
    events.into_iter().for_each(|event| drop(sender.send(event)));
}

fn translate(event: &notify::Event, watched: &HashMap<PathBuf, Descriptor>) -> Vec<Event> {
    let mut events = Vec::new();
    for path in &event.paths {
        let Some((kind, is_folder)) = event_kind(event.kind, path) else { continue };
        let cookie = event.tracker().and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
        let mut add = |watch: Descriptor, kind, name: Option<OsString>| {
            events.push(Event { watch, kind, is_folder, cookie, name });
        };
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name())
            && let Some(watch) = watched.get(parent)
        {
            add(*watch, kind, Some(name.to_owned()));
        }
        if let Some(watch) = watched.get(path) {
            match kind {
                EventKind::Deleted | EventKind::MovedFrom => add(*watch, EventKind::FolderGone, None),
                EventKind::AttributesChanged => add(*watch, kind, None),
                _ => {}
            }
        }
    }
    events
}

/// Returns what happened at a path, and whether the path is a folder.
fn event_kind(kind: notify::EventKind, path: &Path) -> Option<(EventKind, bool)> {
    use notify::EventKind as Kind;
    let is_folder = || path.symlink_metadata().is_ok_and(|it| it.is_dir());
    Some(match kind {
        Kind::Create(CreateKind::Folder) => (EventKind::Created, true),
        Kind::Create(CreateKind::File) => (EventKind::Created, false),
        Kind::Create(_) => (EventKind::Created, is_folder()),
        Kind::Remove(_) => (EventKind::Deleted, false),
        Kind::Access(AccessKind::Close(AccessMode::Write)) => (EventKind::Closed, false),
        Kind::Modify(ModifyKind::Metadata(_)) => (EventKind::AttributesChanged, false),
        Kind::Modify(ModifyKind::Name(RenameMode::From)) => (EventKind::MovedFrom, false),
        Kind::Modify(ModifyKind::Name(RenameMode::To)) => (EventKind::MovedTo, false),
        // Ignored, because the two halves of the rename were already reported.
        Kind::Modify(ModifyKind::Name(RenameMode::Both)) | Kind::Access(_) => return None,
        // An event for one half of a rename: an existing path is the new path, a missing path the old one.
        Kind::Modify(ModifyKind::Name(_)) if path.symlink_metadata().is_ok() => (EventKind::MovedTo, false),
        Kind::Modify(ModifyKind::Name(_)) => (EventKind::Deleted, false),
        Kind::Modify(_) | Kind::Any | Kind::Other => (EventKind::Written, false),
    })
}

impl WatchBackend for NotifyBackend {
    fn watch(&mut self, folder: &Path) -> Result<Descriptor, Refusal> {
        // Refuses a link that replaced a folder, because the library would follow it.
        if !folder.symlink_metadata().is_ok_and(|it| it.is_dir()) {
            return Err(Refusal::Gone);
        }
        let known = lock(&self.watched).get(folder).copied();
        if let Some(watch) = known {
            return Ok(watch);
        }
        self.watcher.watch(folder, RecursiveMode::NonRecursive).map_err(|error| refusal(&error))?;
        self.next += 1;
        lock(&self.watched).insert(folder.to_path_buf(), self.next);
        Ok(self.next)
    }

    fn unwatch(&mut self, watch: Descriptor) {
        let folder = lock(&self.watched).iter().find(|it| *it.1 == watch).map(|it| it.0.clone());
        if let Some(folder) = folder {
            lock(&self.watched).remove(&folder);
            // Ignores an error: the watch has ended already if the folder was deleted.
            self.watcher.unwatch(&folder).ok();
        }
    }

    /// Returns `None`, because the library does not report the type of a file system; users set the poll interval for
    /// network folders.
    fn remote(&self, _folder: &Path) -> Option<&'static str> {
        None
    }

    /// Watches the file of the heartbeat. Its old and new events look the same, because they carry only the path. After
    /// an overflow, a barrier may therefore be reached too early; the rescan after the overflow makes up for this.
    fn watch_heartbeat(&mut self) -> io::Result<Descriptor> {
        let folder = self.heartbeat.path().canonicalize()?;
        let before = lock(&self.watched).get(&folder).copied();
        before.into_iter().for_each(|it| self.unwatch(it));
        self.watch(&folder).map_err(|refusal| io::Error::other(format!("{refusal:?}")))
    }
}

fn refusal(error: &notify::Error) -> Refusal {
    match &error.kind {
        ErrorKind::MaxFilesWatch => Refusal::Limit,
        ErrorKind::PathNotFound => Refusal::Gone,
        ErrorKind::Io(error) if error.kind() == io::ErrorKind::NotFound => Refusal::Gone,
        ErrorKind::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => Refusal::Denied,
        _ => Refusal::Failed(error.to_string()),
    }
}

fn io_error(error: notify::Error) -> io::Error {
    match error.kind {
        ErrorKind::Io(error) => error,
        _ => io::Error::other(error),
    }
}
