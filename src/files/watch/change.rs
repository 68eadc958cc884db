//! What the watcher reports.

use std::path::PathBuf;

use crate::files::watch::heartbeat::Barrier;
use crate::model::RootId;

/// A change of one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The root.
    pub root_id: RootId,
    /// What happened.
    pub kind: ChangeKind,
}

/// What changed. Paths are relative to the root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// This file or folder is new or different. A folder has to be walked: files may have been created in it before it was
    /// watched.
    Touched(PathBuf),
    /// This file or folder is gone, with everything below it.
    Removed(PathBuf),
    /// This file or folder has moved, with everything below it. A [`ChangeKind::Touched`] of `to` follows.
    Renamed {
        /// Where it was.
        from: PathBuf,
        /// Where it is.
        to: PathBuf,
    },
    /// Anything may have changed: walk the root, then call [`crate::files::Watcher::note_rescan_done`].
    Rescan,
}

/// Changes that go together, and the barriers behind them.
#[derive(Debug, Default)]
pub struct Batch {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// To be signalled once all changes of this and earlier batches are processed.
    pub barriers: Vec<Barrier>,
}
