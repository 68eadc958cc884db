//! The interface of the system's file events, which every kind of watcher implements.
//!
//! Events carry a watch descriptor and not a path, so that the owner of the descriptors decides what an event means after a
//! folder has moved.

use std::ffi::OsString;
use std::io;
use std::path::Path;

/// A watch descriptor.
pub(super) type Descriptor = i32;

/// One event of a watched folder or of an entry in it.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// The watch that it belongs to; meaningless for [`EventKind::Overflow`].
    pub(super) watch: Descriptor,
    /// What happened.
    pub(super) kind: EventKind,
    /// Whether the entry is a folder.
    pub(super) is_folder: bool,
    /// Equal for both halves of a rename; else 0.
    pub(super) cookie: u32,
    /// The entry of the watched folder; `None` for the folder itself.
    pub(super) name: Option<OsString>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    /// Events were lost.
    Overflow,
    /// The system has ended the watch.
    WatchEnded,
    Created,
    Deleted,
    /// Content was written; the file may still be open.
    Written,
    /// A file that was open for writing was closed.
    Closed,
    /// Permissions, times or links.
    AttributesChanged,
    MovedFrom,
    MovedTo,
    /// The watched folder itself was deleted or moved.
    FolderGone,
    Unmounted,
}

/// Why a folder is not watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It no longer exists, or is no folder.
    Gone,
    /// It cannot be read for lack of permission.
    Denied,
    /// The limit of watches is reached.
    Limit,
    /// Its path is longer than the system supports: files in it cannot be opened either.
    PathTooLong,
    /// Anything else.
    Failed(String),
}

/// The watches of the operating system, each for one folder.
pub(super) trait WatchBackend {
    /// Watches a folder. A watched folder keeps its descriptor, even if its path has changed.
    fn watch(&mut self, folder: &Path) -> Result<Descriptor, Refusal>;

    /// Stops a watch, if it exists.
    fn unwatch(&mut self, watch: Descriptor);

    /// Returns the type of the file system if other machines can change it without events.
    fn remote(&self, folder: &Path) -> Option<&'static str>;

    /// Watches the place of the heartbeat, with a new descriptor each time. Fails when no watch is left.
    fn watch_heartbeat(&mut self) -> io::Result<Descriptor>;
}

/// Takes events off the system's queue and passes each to its argument until that returns false. Blocks. Fails when no more
/// events will arrive.
pub(super) type EventReader = Box<dyn FnOnce(&mut dyn FnMut(Event) -> bool) -> io::Result<()> + Send>;

/// Causes an event at the place of the heartbeat, behind everything that happened before.
pub(super) type Beat = Box<dyn Fn() + Send + Sync>;

/// A backend without a watch, its queue and its heartbeat.
pub(super) struct OpenBackend<B> {
    pub(super) backend: B,
    pub(super) reader: EventReader,
    pub(super) beat: Beat,
}
