//! A place of a watched root, as it is now, in terms of changes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::model::RootId;
use crate::warehouse::Rules;
use crate::warehouse::visible::Visible;
use crate::warehouse::watch::{Change, ChangeKind};

/// A root and what is visible of it.
pub(super) struct WatchedRoot {
    pub(super) id: RootId,
    pub(super) path: PathBuf,
    rules: Rules,
    matcher: Visible,
    /// Device and number of the folder itself: another may take its place.
    identity: Option<(u64, u64)>,
    /// Whether an ignore file changed since [`WatchedRoot::take_new_rules`].
    new_rules: bool,
}

impl WatchedRoot {
    pub(super) fn new(id: RootId, path: &Path, rules: &Rules) -> Result<WatchedRoot> {
        let matcher = rules.matcher(path)?;
        let identity = identity(path);
        Ok(WatchedRoot { id, path: path.into(), rules: rules.clone(), matcher, identity, new_rules: false })
    }

    /// Says whether it is still the folder that it was when watching it began.
    pub(super) fn is_same(&self, path: &Path) -> bool {
        self.path == path && self.identity.is_some() && self.identity == identity(path)
    }

    pub(super) fn is_visible(&mut self, relative: &Path) -> bool {
        let excluded =
            relative.ancestors().any(|it| !it.as_os_str().is_empty() && self.rules.excludes(&self.path.join(it)));
        if excluded {
            return false;
        }
        // Of a path that is gone the type is unknown; as a file it matches fewer rules, and to tell of the end of an
        // ignored folder does no harm.
        let is_dir = self.path.join(relative).symlink_metadata().is_ok_and(|it| it.is_dir());
        !self.matcher.hides(relative, is_dir)
    }

    /// Gives the root's number once after its ignore rules changed: other folders are visible then.
    pub(super) fn take_new_rules(&mut self) -> Option<RootId> {
        std::mem::take(&mut self.new_rules).then_some(self.id)
    }

    /// Reloads the ignore files when one of them changed; says whether it did.
    fn rules_changed(&mut self, relative: &Path) -> bool {
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

    fn renamed(&mut self, from: PathBuf, to: PathBuf) -> Vec<ChangeKind> {
        if self.rules_changed(&from) || self.rules_changed(&to) {
            return vec![ChangeKind::Rescan];
        }
        match (self.is_visible(&from), self.is_visible(&to)) {
            (true, true) if !self.exists(&from) && self.exists(&to) => {
                vec![ChangeKind::Renamed { from, to: to.clone() }, ChangeKind::Touched(to)]
            }
            // One of the two places has changed again since.
            (true, true) => self.touched(from).into_iter().chain(self.touched(to)).collect(),
            (true, false) => vec![ChangeKind::Removed(from)],
            (false, true) => self.touched(to),
            (false, false) => Vec::new(),
        }
    }

    /// What is true of a path now. The events of an editor that saves by renaming over the old file begin with a removal.
    fn touched(&mut self, relative: PathBuf) -> Vec<ChangeKind> {
        if relative.as_os_str().is_empty() || self.rules_changed(&relative) {
            // Of the root itself only a walk can tell what is left of it.
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

fn identity(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|it| (it.dev(), it.ino()))
}

/// Says what became of a place, or of the two places of a rename. Paths are absolute.
pub(super) fn changes_at(roots: &mut [WatchedRoot], place: &Path, target: Option<&Path>) -> Vec<Change> {
    let Some((root, relative)) = locate(roots, place) else {
        return target.map(|it| changes_at(roots, it, None)).unwrap_or_default();
    };
    let id = roots[root].id;
    let change = |kind| Change { root_id: id, kind };
    match target.map(|it| (it, locate(roots, it))) {
        None => roots[root].touched(relative).into_iter().map(change).collect(),
        Some((_, Some((other, to)))) if other == root => {
            roots[root].renamed(relative, to).into_iter().map(change).collect()
        }
        Some((target, _)) => {
            let gone: Vec<Change> = roots[root].touched(relative).into_iter().map(change).collect();
            gone.into_iter().chain(changes_at(roots, target, None)).collect()
        }
    }
}

fn locate(roots: &[WatchedRoot], path: &Path) -> Option<(usize, PathBuf)> {
    roots.iter().enumerate().find_map(|(index, it)| Some((index, path.strip_prefix(&it.path).ok()?.to_path_buf())))
}
