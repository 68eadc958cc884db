//! Pending files that vanished and that no walk can remove: their folder is unavailable, or so many of its files are
//! gone that the walk does not accept the deletions. Without this list every run would look for all of them again.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::catalog::Catalog;
use crate::error::Result;
use crate::files::unresponsive;
use crate::model::{FileId, FileRecord, RootId};

/// Files of one root, with the paths (relative to the root) where they were expected.
pub(crate) type Places = HashMap<FileId, PathBuf>;

/// File records read from the catalog at a time.
const PAGE: usize = 1_024;

/// Vanished files, by root; skipped until a walk covers their paths.
#[derive(Default)]
pub(crate) struct Vanished(Mutex<HashMap<RootId, Places>>);

impl Vanished {
    /// Returns whether a file is skipped as vanished. A file that has moved to another path since is not skipped.
    pub(crate) fn contains(&self, record: &FileRecord) -> bool {
        self.roots().get(&record.root_id).and_then(|it| it.get(&record.id)).is_some_and(|it| *it == record.found.path)
    }

    /// Adds vanished files of a root.
    pub(crate) fn add(&self, root: RootId, files: Places) {
        if !files.is_empty() {
            self.roots().entry(root).or_default().extend(files);
        }
    }

    /// Removes and returns the vanished files of a root.
    pub(crate) fn take(&self, root: RootId) -> Places {
        self.roots().remove(&root).unwrap_or_default()
    }

    /// Removes the files below a path that a walk covered (the whole root if empty), so that they are tried again.
    pub(crate) fn forget(&self, root: RootId, place: &Path) {
        if let Some(files) = self.roots().get_mut(&root) {
            files.retain(|_, it| !it.starts_with(place));
        }
    }

    /// Returns the files without those that have vanished.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub(crate) fn exclude_from(&self, catalog: &Catalog, mut files: Vec<FileId>) -> Result<Vec<FileId>> {
        let known: HashSet<FileId> = self.roots().values().flat_map(|it| it.keys().copied()).collect();
        let asked: Vec<FileId> = files.iter().copied().filter(|it| known.contains(it)).collect();
        if !asked.is_empty() {
            let left: HashSet<FileId> =
                catalog.records(&asked)?.iter().filter(|it| self.contains(it)).map(|it| it.id).collect();
            files.retain(|it| !left.contains(it));
        }
        Ok(files)
    }

    /// Returns whether no pending file can be read for now, because each has vanished or is on a disk that does not
    /// respond.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub(crate) fn covers_all_pending(&self, catalog: &Catalog) -> Result<bool> {
        let mut after = 0;
        loop {
            let page = catalog.next_pending(after, PAGE)?;
            let Some(last) = page.last() else { return Ok(true) };
            after = last.id;
            if !page
                .iter()
                .all(|it| self.contains(it) || unresponsive::is_unresponsive_beneath(&it.root, &it.found.path))
            {
                return Ok(false);
            }
        }
    }

    fn roots(&self) -> MutexGuard<'_, HashMap<RootId, Places>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case A12
    #[test]
    fn vanished_file_is_skipped_until_walked_or_moved() {
        let dir = tempfile::tempdir().unwrap();
        let catalog = crate::index::maintenance::retry::tests::catalog(dir.path());
        catalog.requeue(&crate::catalog::RequeueScope::All).unwrap();
        let file = catalog.next_pending(0, 1).unwrap().remove(0);
        let missing = Vanished::default();
        let place = file.found.path.clone();
        let add = || missing.add(file.root_id, [(file.id, place.clone())].into());
        assert!(!missing.contains(&file) && !missing.covers_all_pending(&catalog).unwrap());
        add();
        assert!(missing.contains(&file) && missing.covers_all_pending(&catalog).unwrap());
        assert_eq!(missing.exclude_from(&catalog, vec![file.id, 77]).unwrap(), [77]);
        let mut moved = file.clone();
        moved.found.path = "elsewhere".into();
        assert!(!missing.contains(&moved));
        missing.forget(file.root_id, Path::new("another place"));
        assert!(missing.contains(&file));
        missing.forget(file.root_id, &place);
        assert!(!missing.contains(&file) && !missing.covers_all_pending(&catalog).unwrap());
        add();
        missing.forget(file.root_id, Path::new(""));
        assert!(!missing.contains(&file));
        add();
        assert_eq!((missing.take(file.root_id).len(), missing.contains(&file)), (1, false));
    }
}
