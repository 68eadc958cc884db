//! The interface of the system's file events, which every kind of watcher implements.
//!
//! Events carry a watch descriptor and not a path, so that the owner of the descriptors decides what an event means after a
//! folder has moved.

use std::ffi::OsString;
use std::io;
use std::path::Path;

/// A watch descriptor.
pub type Descriptor = i32;

/// One event of a watched folder or of an entry in it.
#[derive(Clone, Debug)]
pub struct Event {
    /// The watch that it belongs to; meaningless for [`EventKind::Overflow`].
    pub watch: Descriptor,
    /// What happened.
    pub kind: EventKind,
    /// Whether the entry is a folder.
    pub is_folder: bool,
    /// Equal for both halves of a rename; else 0.
    pub cookie: u32,
    /// The entry of the watched folder; `None` for the folder itself.
    pub name: Option<OsString>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Events were lost.
    Overflow,
    /// The system has ended the watch.
    WatchEnded,
    /// A new entry.
    Created,
    /// The entry is gone.
    Deleted,
    /// Content was written; the file may still be open.
    Written,
    /// A file that was open for writing was closed.
    Closed,
    /// Permissions, times or links.
    AttributesChanged,
    /// The entry has left this place; its new place has the same cookie.
    MovedFrom,
    /// The entry has come to this place.
    MovedTo,
    /// The watched folder itself was deleted or moved.
    FolderGone,
    /// The file system of the watched folder was unmounted.
    Unmounted,
}

/// Why a folder is not watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
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
pub trait WatchBackend {
    /// Watches a folder. A watched folder keeps its descriptor, even if its path has changed.
    ///
    /// # Errors
    /// It is not watched, and why.
    fn watch(&mut self, folder: &Path) -> Result<Descriptor, Refusal>;

    /// Stops a watch, if it exists.
    fn unwatch(&mut self, watch: Descriptor);

    /// Returns the type of the file system if other machines can change it without events.
    fn remote(&self, folder: &Path) -> Option<&'static str>;

    /// Watches the place of the heartbeat, with a new descriptor each time.
    ///
    /// # Errors
    /// No watch is left.
    fn watch_heartbeat(&mut self) -> io::Result<Descriptor>;
}

/// Takes events off the system's queue and passes each to its argument until that returns false. Blocks. Fails when no more
/// events will arrive.
pub type EventReader = Box<dyn FnOnce(&mut dyn FnMut(Event) -> bool) -> io::Result<()> + Send>;

/// Causes an event at the place of the heartbeat, behind everything that happened before.
pub type Beat = Box<dyn Fn() + Send + Sync>;

/// A backend without a watch, its queue and its heartbeat.
pub struct OpenBackend<B> {
    /// The watches.
    pub backend: B,
    /// The reading end of the queue.
    pub reader: EventReader,
    /// Sends a heartbeat.
    pub beat: Beat,
}
