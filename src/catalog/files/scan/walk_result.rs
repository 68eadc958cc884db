//! What a walk hands to the catalog, and what applying it changed.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::model::{FoundFile, RootId};

/// Result of [`crate::catalog::Catalog::apply_scan`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanOutcome {
    /// Entries that the walk found.
    pub found: u64,
    /// Files that were new to the catalog.
    pub added: u64,
    /// Files that became pending, to be read again.
    pub changed: u64,
    /// Files that are unchanged since the last walk.
    pub unchanged: u64,
    /// Files that moved and are otherwise unchanged.
    pub renamed: u64,
    /// Files that became tombstones.
    pub removed: u64,
}

/// Which vanished files are deleted from the catalog.
#[derive(Clone, Copy)]
pub enum DeletionPolicy<'a> {
    /// Deletes all vanished files, because the user has confirmed the loss.
    All,
    /// Keeps the vanished files if they are all or more than half of a root, and any vanished file on an unmounted file
    /// system. The function returns true if the file system at this path, with this device number, is not mounted.
    Cautious(&'a dyn Fn(&Path, u64) -> bool),
}

/// What a walk found in a root, or in the part of it at the relative path `within`.
pub struct WalkResult<'w> {
    /// Id of the root.
    pub root: RootId,
    /// The relative path of the part that was walked; `None` or empty for the whole root.
    pub within: Option<&'w Path>,
    /// The entries that the walk found.
    pub found: Vec<FoundFile>,
    /// Folders that could not be read; the catalog keeps all files below them.
    pub unreadable: &'w [PathBuf],
    /// Whether the walk was completed; otherwise no missing file is deleted.
    pub complete: bool,
    /// Existing files that the walk did not report because the rules ignore them. They are deleted from the catalog,
    /// regardless of their number.
    pub ignored: HashSet<PathBuf>,
}

/// Whether a folder is scanned for the first or the second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanPass {
    /// First scan: a missing indexed file may be moving at this moment, so that a second scan must confirm the loss.
    First,
    /// Second scan, after a file was missing in the first: files still missing are deleted.
    Second,
}
