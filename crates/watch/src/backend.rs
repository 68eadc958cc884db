//! Interface to the file events of the operating system: the event type, and the trait that every watch backend
//! implements.
//!
//! Events carry a watch descriptor instead of a path: only the caller, who owns the descriptors, knows the current path of
//! a folder that has moved.

use std::ffi::OsString;
use std::io;
use std::path::Path;

/// Watch descriptor: identifies a watched folder.
pub type Descriptor = i32;

/// One event of a watched folder or of an entry in it.
#[derive(Clone, Debug)]
pub struct Event {
    /// The watched folder; meaningless for [`EventKind::Overflow`].
    pub watch: Descriptor,
    /// What happened to the folder or entry.
    pub kind: EventKind,
    /// Whether the entry is a folder.
    pub is_folder: bool,
    /// Links the two events of a rename, which have the same cookie; 0 for other events.
    pub cookie: u32,
    /// Name of the entry in the watched folder; `None` for an event of the folder itself.
    pub name: Option<OsString>,
}

/// What happened to a watched folder or to an entry in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The event queue overflowed: events were lost.
    Overflow,
    /// The operating system has ended the watch.
    WatchEnded,
    /// An entry was created.
    Created,
    /// An entry was deleted.
    Deleted,
    /// Content was written to a file, which may still be open.
    Written,
    /// A file that was open for writing was closed.
    Closed,
    /// Permissions, times or the number of links of an entry changed.
    AttributesChanged,
    /// An entry was moved out of the watched folder; the event at its new path has the same cookie.
    MovedFrom,
    /// An entry was moved into the watched folder.
    MovedTo,
    /// The watched folder itself was deleted or moved.
    FolderGone,
    /// The file system of the watched folder was unmounted.
    Unmounted,
}

/// Why a folder cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The folder no longer exists, or the path is not a folder.
    Gone,
    /// The folder cannot be read for lack of permission.
    Denied,
    /// The limit on the number of watches is reached.
    Limit,
    /// The path is longer than the operating system supports; files in the folder cannot be opened either.
    PathTooLong,
    /// Any other error, as a message.
    Failed(String),
}

/// The watches of the operating system, each for one folder without its subfolders.
pub trait WatchBackend {
    /// Watches a folder. A folder that is watched already keeps its descriptor, even if its path has changed.
    ///
    /// # Errors
    /// Why the folder cannot be watched.
    fn watch(&mut self, folder: &Path) -> Result<Descriptor, Refusal>;

    /// Stops a watch; does nothing if it does not exist.
    fn unwatch(&mut self, watch: Descriptor);

    /// Returns the type of the folder's file system if other machines can change it without causing events here.
    fn remote(&self, folder: &Path) -> Option<&'static str>;

    /// Watches the file of the heartbeat, with a new descriptor each time.
    ///
    /// # Errors
    /// When the operating system allows no further watch.
    fn watch_heartbeat(&mut self) -> io::Result<Descriptor>;
}

/// Passes each event of the system's queue to its argument, until the argument returns false. Blocks while the queue is
/// empty. Returns an error when no more events will arrive.
pub type EventReader = Box<dyn FnOnce(&mut dyn FnMut(Event) -> bool) -> io::Result<()> + Send>;

/// Causes a heartbeat event, which arrives after all events that happened before.
pub type Beat = Box<dyn Fn() + Send + Sync>;

/// A new backend that watches nothing yet, with the functions that read its event queue and cause its heartbeat.
pub struct OpenBackend<B> {
    /// Adds and removes watches.
    pub backend: B,
    /// Reads the event queue.
    pub reader: EventReader,
    /// Causes a heartbeat event.
    pub beat: Beat,
}
