//! Turns a path with events in a watched root into changes, by reading the current state of the disk.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::files::Rules;
use crate::files::ignore_matcher::IgnoreMatcher;
use crate::files::watch::change::{Change, ChangeKind};
use crate::model::RootId;

/// A watched root, with the rules that decide what is visible in it.
pub(super) struct WatchedRoot {
    pub(super) id: RootId,
    pub(super) path: PathBuf,
    rules: Rules,
    matcher: IgnoreMatcher,
    /// Device and inode number of the root folder, to detect that it was replaced.
    identity: Option<(u64, u64)>,
    /// Whether an ignore file has changed since the last [`WatchedRoot::take_new_rules`].
    new_rules: bool,
}

impl WatchedRoot {
    pub(super) fn new(id: RootId, path: &Path, rules: &Rules) -> Result<WatchedRoot> {
        let matcher = rules.matcher(path)?;
        let identity = folder_identity(path);
        Ok(WatchedRoot { id, path: path.into(), rules: rules.clone(), matcher, identity, new_rules: false })
    }

    /// Returns whether the path still leads to the folder that was first watched.
    pub(super) fn is_same(&self, path: &Path) -> bool {
        self.path == path && self.identity.is_some() && self.identity == folder_identity(path)
    }

    pub(super) fn is_visible(&mut self, relative: &Path) -> bool {
        let excluded =
            relative.ancestors().any(|it| !it.as_os_str().is_empty() && self.rules.excludes(&self.path.join(it)));
        if excluded {
            return false;
        }
        // The type of a deleted path is unknown. It is treated as a file, to which fewer rules apply: this may report
        // the deletion of an ignored folder, which does no harm.
        let is_dir = self.path.join(relative).symlink_metadata().is_ok_and(|it| it.is_dir());
        !self.matcher.hides(relative, is_dir)
    }

    /// Returns the id of the root once after its ignore rules changed, because other folders may then be visible.
    pub(super) fn take_new_rules(&mut self) -> Option<RootId> {
        std::mem::take(&mut self.new_rules).then_some(self.id)
    }

    /// Reloads the ignore files if `relative` is one of them; returns whether it did.
    fn reload_rules_if_changed(&mut self, relative: &Path) -> bool {
        if !relative.file_name().is_some_and(Rules::is_ignore_file) {
            return false;
        }
        let folder = relative.parent().unwrap_or(Path::new(""));
        if !folder.as_os_str().is_empty() && !self.is_visible(folder) {
            return false;
        }
        if let Ok(matcher) = self.rules.matcher(&self.path) {
            self.matcher = matcher;
        }
        self.new_rules = true;
        true
    }

    fn exists(&self, relative: &Path) -> bool {
        self.path.join(relative).symlink_metadata().is_ok()
    }

    fn changes_of_rename(&mut self, from: PathBuf, to: PathBuf) -> Vec<ChangeKind> {
        if self.reload_rules_if_changed(&from) || self.reload_rules_if_changed(&to) {
            return vec![ChangeKind::Rescan];
        }
        match (self.is_visible(&from), self.is_visible(&to)) {
            (true, true) if !self.exists(&from) && self.exists(&to) => {
                vec![ChangeKind::Renamed { from, to: to.clone() }, ChangeKind::Touched(to)]
            }
            // One of the paths has changed again since the rename: reports both by their current state.
            (true, true) => self.changes_of_path(from).into_iter().chain(self.changes_of_path(to)).collect(),
            (true, false) => vec![ChangeKind::Removed(from)],
            (false, true) => self.changes_of_path(to),
            (false, false) => Vec::new(),
        }
    }

    /// Returns the changes of a path by its current state on disk, because a removal event may be the beginning of a
    /// save by rename.
    fn changes_of_path(&mut self, relative: PathBuf) -> Vec<ChangeKind> {
        if relative.as_os_str().is_empty() || self.reload_rules_if_changed(&relative) {
            // A change of the root itself, or of the ignore rules, requires a walk of the whole root.
            vec![ChangeKind::Rescan]
        } else if !self.is_visible(&relative) {
            Vec::new()
        } else if self.exists(&relative) {
            vec![ChangeKind::Touched(relative)]
        } else {
            vec![ChangeKind::Removed(relative)]
        }
    }
}

fn folder_identity(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|it| (it.dev(), it.ino()))
}

/// Returns the changes at a path, or at both paths of a rename. Paths are absolute.
pub(super) fn changes_at(roots: &mut [WatchedRoot], place: &Path, target: Option<&Path>) -> Vec<Change> {
    let Some((root, relative)) = locate_root(roots, place) else {
        return target.map(|it| changes_at(roots, it, None)).unwrap_or_default();
    };
    let id = roots[root].id;
    let change = |kind| Change { root_id: id, kind };
    match target.map(|it| (it, locate_root(roots, it))) {
        None => roots[root].changes_of_path(relative).into_iter().map(change).collect(),
        Some((_, Some((other, to)))) if other == root => {
            roots[root].changes_of_rename(relative, to).into_iter().map(change).collect()
        }
        Some((target, _)) => {
            let gone: Vec<Change> = roots[root].changes_of_path(relative).into_iter().map(change).collect();
            gone.into_iter().chain(changes_at(roots, target, None)).collect()
        }
    }
}

fn locate_root(roots: &[WatchedRoot], path: &Path) -> Option<(usize, PathBuf)> {
    roots.iter().enumerate().find_map(|(index, it)| Some((index, path.strip_prefix(&it.path).ok()?.to_path_buf())))
}
