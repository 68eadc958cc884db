//! Root folders, and the resolution of paths relative to them.

use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::display_path;

/// Maximum number of matching paths that the error for an ambiguous path lists.
const MAX_CANDIDATES: usize = 8;

/// The catalog's id of a root folder.
pub type RootId = i64;

/// A root folder that vic indexes and watches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Root {
    /// Id of the root in the catalog.
    pub id: RootId,
    /// Absolute path of the root, with symlinks resolved.
    pub path: PathBuf,
    /// False if the last scan could not read the root; files of such a root are not removed from the index.
    pub available: bool,
    /// Why the root is unavailable or not watched, and how to fix it; empty if there is no problem.
    pub problem: String,
}

impl Root {
    /// Replaces the path by a `file://` URL if it is not UTF-8, because JSON cannot hold such a path.
    pub fn with_printable_path(self) -> Root {
        Root { path: display_path(&self.path).into_owned().into(), ..self }
    }
}

/// Resolves a path relative to a root, as hits show it, to the one absolute path for which `exists` returns true.
///
/// # Errors
/// `InvalidArgument` if the path exists in several roots (the message lists them), and for a path with `..`.
pub fn resolve_in_roots(roots: &[Root], name: &Path, exists: impl Fn(&Path) -> bool) -> Result<Option<PathBuf>> {
    if name.components().any(|it| it == Component::ParentDir) {
        return Err(Error::invalid(format!("`{}` contains `..`: give the absolute path", name.display())));
    }
    // Skip roots inside other roots, because hits show paths relative to the outermost root.
    let is_outermost = |it: &&Root| !roots.iter().any(|root| root.path != it.path && it.path.starts_with(&root.path));
    let all = roots.iter().filter(is_outermost).map(|it| it.path.join(name));
    let mut found: Vec<PathBuf> = all.filter(|it| exists(it)).collect();
    found.sort();
    found.dedup();
    if found.len() < 2 {
        return Ok(found.pop());
    }
    let more = found.len().saturating_sub(MAX_CANDIDATES);
    let mut told: Vec<String> = found.iter().take(MAX_CANDIDATES).map(|it| format!("`{}`", display_path(it))).collect();
    told.extend((more > 0).then(|| format!("{more} more")));
    let text = format!("`{}` is in {} roots: {}", name.display(), found.len(), told.join(", "));
    Err(Error::invalid(text).hint("give one of these absolute paths"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_path_resolves_to_existing_file() {
        let root = |id, path: &str| Root { id, path: path.into(), available: true, problem: String::new() };
        let roots = [root(1, "/a"), root(2, "/b"), root(3, "/b/c")];
        let find = |name: &str, there: &[&str]| {
            resolve_in_roots(&roots, Path::new(name), |it| there.contains(&it.to_str().unwrap()))
        };
        assert_eq!(find("x.md", &["/b/x.md"]).unwrap(), Some("/b/x.md".into()));
        assert_eq!(find("x.md", &[]).unwrap(), None);
        let error = find("x.md", &["/b/x.md", "/a/x.md"]).unwrap_err();
        assert!(error.message.contains("in 2 roots: `/a/x.md`, `/b/x.md`"), "{error}");
        assert!(find("../x.md", &["/a/../x.md"]).is_err());
    }
}
