//! What a walk hands to the catalog, and what applying it changed.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::model::{FoundFile, RootId};

/// Result of [`crate::catalog::Catalog::apply_scan`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanOutcome {
    /// Entries found by the walk.
    pub found: u64,
    /// New files.
    pub added: u64,
    /// Files to read again.
    pub changed: u64,
    /// Unchanged files.
    pub unchanged: u64,
    /// Files that moved and are otherwise unchanged.
    pub renamed: u64,
    /// Deleted files.
    pub removed: u64,
}

/// Which vanished files are deleted from the catalog.
#[derive(Clone, Copy)]
pub enum DeletionPolicy<'a> {
    /// All: the user has confirmed it.
    All,
    /// Not all files of a root, nor more than half of it at once, nor files on an unmounted file system: the function
    /// returns true if the one at this path, with this device number, is not mounted.
    Cautious(&'a dyn Fn(&Path, u64) -> bool),
}

/// What a walk found in a root, or in the part `within` it (relative).
pub struct WalkResult<'w> {
    /// The root.
    pub root: RootId,
    /// The part of it that was walked; all of it when absent or empty.
    pub within: Option<&'w Path>,
    /// The entries found.
    pub found: Vec<FoundFile>,
    /// Folders that could not be read.
    pub unreadable: &'w [PathBuf],
    /// Whether the walk was completed.
    pub complete: bool,
    /// Existing files that the walk did not report because the rules ignore them. They are removed regardless of their number.
    pub ignored: HashSet<PathBuf>,
}

/// Which scan of a place this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanPass {
    /// The first: an indexed file that is missing may just be moving.
    First,
    /// A repetition, because a file was missing in the first scan.
    Second,
}
