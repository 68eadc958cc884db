//! The watch set: one watch for each visible folder.
//!
//! A recursive watch would fail as a whole if a single folder cannot be read, and would use up watches for ignored
//! folders. With one watch per folder, a folder that cannot be watched is recorded, and all others are watched.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use crate::files::watch::inotify_limits;
use crate::files::{Rules, walk};
use vic_watch::{Descriptor, Refusal, WatchBackend};

/// The watched folders of all roots. Paths are absolute.
pub(super) struct WatchSet<K> {
    kernel: K,
    watched: BTreeMap<PathBuf, Descriptor>,
    paths: HashMap<Descriptor, PathBuf>,
    /// Folders that cannot be watched, with the reason.
    missing: BTreeMap<PathBuf, Refusal>,
    /// Folders on file systems that other machines can change, with the type of the file system.
    remote: BTreeMap<PathBuf, &'static str>,
}

impl<K: WatchBackend> WatchSet<K> {
    pub(super) fn new(kernel: K) -> WatchSet<K> {
        WatchSet {
            kernel,
            watched: BTreeMap::new(),
            paths: HashMap::new(),
            missing: BTreeMap::new(),
            remote: BTreeMap::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn kernel(&self) -> &K {
        &self.kernel
    }

    pub(super) fn kernel_mut(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// Watches the visible folders of a root at and below `within` (relative) that are not watched yet; calls `each` for
    /// every folder.
    pub(super) fn watch_visible(&mut self, root: &Path, within: &Path, rules: &Rules, each: &dyn Fn()) {
        let start = root.join(within);
        remove_below(&mut self.missing, &start);
        remove_below(&mut self.remote, &start);
        // Once the watch limit is reached, the other folders are only counted, to report how many watches are needed.
        let mut is_full = false;
        let listed = walk::visible_folders(root, rules, within, |folder| {
            each();
            if is_full && !self.watched.contains_key(folder) {
                self.missing.insert(folder.to_path_buf(), Refusal::Limit);
            } else {
                is_full |= self.watch(folder) == Some(Refusal::Limit);
            }
            true
        });
        if let Err(error) = listed {
            self.missing.insert(start, Refusal::Failed(error.message));
        }
    }

    /// Watches one folder; returns the reason if that is not possible.
    fn watch(&mut self, folder: &Path) -> Option<Refusal> {
        if self.watched.contains_key(folder) {
            return None;
        }
        match self.kernel.watch(folder) {
            Ok(watch) => {
                // The kernel returns the same descriptor for the same folder: removes the entry with its old path.
                if let Some(before) = self.paths.insert(watch, folder.to_path_buf()) {
                    self.watched.remove(&before);
                }
                self.watched.insert(folder.to_path_buf(), watch);
                if let Some(kind) = self.kernel.remote(folder) {
                    self.remote.insert(folder.to_path_buf(), kind);
                }
                None
            }
            Err(Refusal::Gone) => None,
            Err(refusal) => {
                self.missing.insert(folder.to_path_buf(), refusal.clone());
                Some(refusal)
            }
        }
    }

    /// Stops watching a folder and all folders below it.
    pub(super) fn unwatch_below(&mut self, path: &Path) {
        for (folder, watch) in
            range_below(&self.watched, path).map(|(folder, watch)| (folder.clone(), *watch)).collect::<Vec<_>>()
        {
            self.kernel.unwatch(watch);
            self.watched.remove(&folder);
            self.paths.remove(&watch);
        }
        remove_below(&mut self.missing, path);
        remove_below(&mut self.remote, path);
    }

    /// Removes a watch that the kernel has ended, because its folder was deleted or unmounted.
    pub(super) fn remove_ended(&mut self, watch: Descriptor) {
        if let Some(folder) = self.paths.remove(&watch) {
            self.watched.remove(&folder);
        }
    }

    /// Returns the path of a watched folder by its descriptor; `None` if the watch was removed.
    pub(super) fn path_of(&self, watch: Descriptor) -> Option<&Path> {
        self.paths.get(&watch).map(PathBuf::as_path)
    }

    pub(super) fn is_watched(&self, folder: &Path) -> bool {
        self.watched.contains_key(folder)
    }

    /// Returns whether watching this folder failed.
    pub(super) fn is_missing(&self, folder: &Path) -> bool {
        self.missing.contains_key(folder)
    }

    /// Returns whether every known folder of a root is watched. Folders with too long paths do not count as unwatched,
    /// because walking the root again would not reach them.
    pub(super) fn is_whole(&self, root: &Path) -> bool {
        range_below(&self.missing, root).all(|(_, it)| *it == Refusal::PathTooLong)
    }

    /// Returns the number of watched folders of all roots, and the number of folders that cannot be watched.
    pub(super) fn totals(&self) -> (usize, usize) {
        (self.watched.len(), self.missing.len())
    }

    /// Returns the first folder of a root that other machines can change, with the type of its file system.
    pub(super) fn remote<'a>(&'a self, root: &'a Path) -> Option<(&'a Path, &'static str)> {
        range_below(&self.remote, root).next().map(|(folder, kind)| (folder.as_path(), *kind))
    }

    /// Returns why a root is not fully watched, with a hint.
    pub(super) fn problem(&self, root: &Path) -> Option<String> {
        let missing = || range_below(&self.missing, root);
        if missing().any(|(_, it)| *it == Refusal::Limit) {
            let (watched, missing) = (range_below(&self.watched, root).count(), missing().count());
            return Some(inotify_limits::explain_watch_limit(root, watched, watched + missing));
        }
        let root_denied = self.missing.get(root) == Some(&Refusal::Denied);
        let failed = missing().find_map(|(path, it)| match it {
            Refusal::Failed(error) => Some((path.as_path(), error.as_str())),
            Refusal::Denied | Refusal::Limit | Refusal::PathTooLong | Refusal::Gone => None,
        });
        let failed = failed.or(root_denied.then_some((root, "permission denied")));
        if let Some((path, error)) = failed {
            return Some(format!("cannot watch `{}`: {error}; it is scanned periodically instead", path.display()));
        }
        let (folder, kind) = self.remote(root)?;
        Some(format!(
            "`{}` lies on a file system ({kind}) that does not report changes made by other machines; it is scanned \
             periodically instead; set VIC_POLL_SECONDS to the interval, or run vic on the machine that has the disk",
            folder.display()
        ))
    }
}

/// Returns the entries at and below a folder. Paths are ordered by component, so these directly follow the folder.
fn range_below<'a, T>(map: &'a BTreeMap<PathBuf, T>, folder: &'a Path) -> impl Iterator<Item = (&'a PathBuf, &'a T)> {
    map.range(folder.to_path_buf()..).take_while(move |(path, _)| path.starts_with(folder))
}

fn remove_below<T>(map: &mut BTreeMap<PathBuf, T>, folder: &Path) {
    let gone: Vec<PathBuf> = range_below(map, folder).map(|it| it.0.clone()).collect();
    gone.iter().for_each(|it| {
        map.remove(it);
    });
}
