//! Types of the changes that the watcher reports.

use std::path::PathBuf;

use crate::files::watch::heartbeat::Barrier;
use crate::model::RootId;

/// A change in one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Id of the root.
    pub root_id: RootId,
    /// What changed.
    pub kind: ChangeKind,
}

/// What changed. Paths are relative to the root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// This file or folder is new or different. The receiver has to walk a folder, because files may have been created
    /// in the folder before it was watched.
    Touched(PathBuf),
    /// This file or folder no longer exists, with everything below it.
    Removed(PathBuf),
    /// This file or folder has moved, with everything below it. A [`ChangeKind::Touched`] of `to` follows.
    Renamed {
        /// The old path.
        from: PathBuf,
        /// The new path.
        to: PathBuf,
    },
    /// Anything may have changed: walk the root, then call [`crate::files::Watcher::note_rescan_done`].
    Rescan,
}

/// Changes that are sent together, and the barriers that follow them.
#[derive(Debug, Default)]
pub struct Batch {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// Barriers to signal once all changes of this and earlier batches are processed.
    pub barriers: Vec<Barrier>,
}
