//! Scopes: which files a caller may access.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::model::Root;

/// All files, or the files below some folders. For the caller, files outside the scope do not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Every file.
    #[default]
    All,
    /// Files at or below one of these absolute folders, symlinks resolved.
    Folders(Arc<[PathBuf]>),
}

impl Scope {
    /// Returns whether the scope covers every file.
    pub fn is_all(&self) -> bool {
        matches!(self, Scope::All)
    }

    /// Returns whether a path, with symlinks resolved, lies in the scope.
    pub fn covers(&self, path: &Path) -> bool {
        let Scope::Folders(folders) = self else { return true };
        // Reject `..`, because a path such as `/a/../b` has the prefix `/a` but lies outside of `/a`.
        !path.components().any(|it| it == Component::ParentDir) && folders.iter().any(|it| path.starts_with(it))
    }

    /// Returns whether a folder lies in the scope, or contains a folder of the scope.
    pub fn touches(&self, folder: &Path) -> bool {
        match self {
            Scope::All => true,
            Scope::Folders(folders) => self.covers(folder) || folders.iter().any(|it| it.starts_with(folder)),
        }
    }

    /// Restricts roots to the scope. A root that is larger than the scope is replaced by the folders of the scope below it,
    /// without the root's problem text, which may name other folders.
    pub fn roots(&self, roots: Vec<Root>) -> Vec<Root> {
        let Scope::Folders(folders) = self else { return roots };
        let mut shown = Vec::new();
        for root in roots {
            if self.covers(&root.path) {
                shown.push(root);
                continue;
            }
            let below = folders.iter().filter(|it| it.starts_with(&root.path));
            shown.extend(below.map(|path| Root { path: path.clone(), problem: String::new(), ..root.clone() }));
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope::Folders(["/w/a".into(), "/v".into()].into())
    }

    #[test]
    fn path_outside_scope_is_not_covered() {
        for (path, covered) in [
            ("/w/a", true),
            ("/w/a/b.md", true),
            ("/v/x", true),
            ("/w/ab", false),
            ("/w", false),
            ("/", false),
            ("/w/a/../b", false),
            ("a", false),
        ] {
            assert_eq!(scope().covers(Path::new(path)), covered, "{path}");
            assert!(Scope::All.covers(Path::new(path)));
        }
    }

    #[test]
    fn touches_parent_folder_but_not_sibling() {
        for (path, touched) in [("/w", true), ("/", true), ("/w/a/b", true), ("/w/b", false), ("/u", false)] {
            assert_eq!(scope().touches(Path::new(path)), touched, "{path}");
        }
    }

    #[test]
    fn larger_root_shows_scope_folder_without_problem() {
        let root = |id, path: &str| Root { id, path: path.into(), available: true, problem: "`/w/b/secret`".into() };
        let shown = scope().roots(vec![root(1, "/w"), root(2, "/v/x"), root(3, "/u")]);
        let told: Vec<_> = shown.iter().map(|it| (it.path.to_str().unwrap(), it.problem.as_str())).collect();
        assert_eq!(told, [("/w/a", ""), ("/v/x", "`/w/b/secret`")]);
        assert_eq!(Scope::All.roots(vec![root(1, "/w")]), [root(1, "/w")]);
    }
}
