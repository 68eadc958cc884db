//! Which folders are watched: every visible one, each by itself.
//!
//! A recursive watch of the operating system's library fails as a whole when one folder may not be read, and spends
//! watches on ignored trees. Here a folder that cannot be watched is remembered, and the rest goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use crate::warehouse::{Rules, walk};

/// The operating system's watches, of one folder each.
pub(super) trait Kernel {
    /// Watches a folder.
    fn watch(&mut self, folder: &Path) -> notify::Result<()>;

    /// Stops watching it, if it is watched.
    fn unwatch(&mut self, folder: &Path);
}

impl Kernel for RecommendedWatcher {
    fn watch(&mut self, folder: &Path) -> notify::Result<()> {
        Watcher::watch(self, folder, RecursiveMode::NonRecursive)
    }

    fn unwatch(&mut self, folder: &Path) {
        // It fails when the folder is gone, and its watch with it.
        let _ = Watcher::unwatch(self, folder);
    }
}

/// The folders of all roots. Paths are absolute.
pub(super) struct Folders<K> {
    kernel: K,
    watched: BTreeSet<PathBuf>,
    /// Those that cannot be watched, and what to say of it.
    missing: BTreeMap<PathBuf, Missing>,
}

enum Missing {
    /// It may not be read. The walk says so.
    Denied,
    /// The limit of watches is reached, so those after it were not tried.
    Limit,
    /// Anything else.
    Failed(String),
}

impl<K: Kernel> Folders<K> {
    pub(super) fn new(kernel: K) -> Folders<K> {
        Folders { kernel, watched: BTreeSet::new(), missing: BTreeMap::new() }
    }

    #[cfg(test)]
    pub(super) fn kernel(&self) -> &K {
        &self.kernel
    }

    #[cfg(test)]
    pub(super) fn kernel_mut(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// Watches the visible folders of a root at and below `within` (relative) that are not watched yet.
    pub(super) fn spread(&mut self, root: &Path, within: &Path, rules: &Rules) {
        let start = root.join(within);
        remove_below(&mut self.missing, &start);
        let listed = walk::folders(root, rules, within, |folder| self.watch(folder));
        if let Err(error) = listed {
            self.missing.insert(start, Missing::Failed(error.message));
        }
    }

    /// Says whether to go on.
    fn watch(&mut self, folder: &Path) -> bool {
        if self.watched.contains(folder) {
            return true;
        }
        let error = match self.kernel.watch(folder) {
            Ok(()) => {
                self.watched.insert(folder.to_path_buf());
                return true;
            }
            Err(error) => error,
        };
        let missing = match &error.kind {
            notify::ErrorKind::PathNotFound => return true,
            notify::ErrorKind::MaxFilesWatch => Missing::Limit,
            notify::ErrorKind::Io(io) if io.kind() == std::io::ErrorKind::PermissionDenied => Missing::Denied,
            notify::ErrorKind::Io(io) => Missing::Failed(io.to_string()),
            _ => Missing::Failed(error.to_string()),
        };
        let go_on = !matches!(missing, Missing::Limit);
        self.missing.insert(folder.to_path_buf(), missing);
        go_on
    }

    /// Stops watching a folder and all below it.
    pub(super) fn forget(&mut self, path: &Path) {
        let gone: Vec<PathBuf> = below(self.watched.range(path.to_path_buf()..), path).cloned().collect();
        for folder in gone {
            self.kernel.unwatch(&folder);
            self.watched.remove(&folder);
        }
        remove_below(&mut self.missing, path);
    }

    pub(super) fn is_watched(&self, folder: &Path) -> bool {
        self.watched.contains(folder)
    }

    /// Says whether this folder could not be watched.
    pub(super) fn is_missing(&self, folder: &Path) -> bool {
        self.missing.contains_key(folder)
    }

    /// Says whether everything of a root is watched that was seen of it.
    pub(super) fn is_whole(&self, root: &Path) -> bool {
        self.missing_of(root).next().is_none()
    }

    /// Says what is wrong with a root, and the cure.
    pub(super) fn problem(&self, root: &Path) -> Option<String> {
        if self.missing_of(root).any(|(_, it)| matches!(it, Missing::Limit)) {
            return Some(explain_limit(root));
        }
        let root_denied = matches!(self.missing.get(root), Some(Missing::Denied));
        let failed = self.missing_of(root).find_map(|(path, it)| match it {
            Missing::Failed(error) => Some((path.as_path(), error.as_str())),
            Missing::Denied | Missing::Limit => None,
        });
        let (path, error) = failed.or(root_denied.then_some((root, "permission denied")))?;
        Some(format!("cannot watch `{}`: {error}; it is walked from time to time instead", path.display()))
    }

    fn missing_of<'a>(&'a self, root: &'a Path) -> impl Iterator<Item = (&'a PathBuf, &'a Missing)> {
        self.missing.range(root.to_path_buf()..).take_while(move |(path, _)| path.starts_with(root))
    }
}

/// Paths are ordered by their components, so that all below a folder follow it.
fn below<'a>(paths: impl Iterator<Item = &'a PathBuf>, folder: &Path) -> impl Iterator<Item = &'a PathBuf> {
    paths.take_while(move |it| it.starts_with(folder))
}

fn remove_below(missing: &mut BTreeMap<PathBuf, Missing>, folder: &Path) {
    let gone: Vec<PathBuf> = below(missing.range(folder.to_path_buf()..).map(|it| it.0), folder).cloned().collect();
    gone.iter().for_each(|it| {
        missing.remove(it);
    });
}

fn explain_limit(root: &Path) -> String {
    let limit = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").unwrap_or_default();
    format!(
        "cannot watch all folders of `{}`: the limit fs.inotify.max_user_watches ({}) is reached; the others are walked \
         from time to time instead; raise it: sysctl fs.inotify.max_user_watches=1048576",
        root.display(),
        limit.trim()
    )
}
