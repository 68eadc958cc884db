//! Resolves the request of a job to the roots, or parts of roots, that it covers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::catalog::ROOT_HINT;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::index::blocking_tasks::blocking;
use crate::index::paths::resolve;
use crate::index::roots::scan;
use crate::index::state::IndexState;
use crate::model::{IndexRequest, Root, Scope, parse_path};

/// A root, and the path below it that a job walks; `None` means the whole root.
pub(in crate::index) type RootPart = (Root, Option<PathBuf>);

/// Returns the absolute path of a root or, with `within`, of a folder in it.
pub(in crate::index) fn folder_of(root: &Root, within: Option<&Path>) -> PathBuf {
    within.map_or(root.path.clone(), |it| root.path.join(it))
}

/// Resolves the paths of a request to roots, and adds new roots for the owner. A request without paths covers every
/// root. The scope is checked here, after the last symbolic link is resolved. Walks follow no links, so a job that
/// starts much later still stays within its caller's scope.
pub(super) async fn resolve_parts(
    inner: &Arc<IndexState>,
    request: &IndexRequest,
    scope: &Scope,
) -> Result<Vec<RootPart>> {
    if request.paths.is_empty() && scope.is_all() {
        let roots = inner.roots().await?;
        if roots.is_empty() {
            return Err(Error::new(ErrorCode::FailedPrecondition, "there is no folder to index")
                .hint("add one: `vic index ~/Documents`"));
        }
        if let [root] = &roots[..] {
            check_root_readable(inner, root).await?;
        }
        return Ok(roots.into_iter().map(|root| (root, None)).collect());
    }
    let mut parts = Vec::new();
    for path in &request.paths {
        let path = resolve(&parse_path(path)).await?;
        let known = known_parts(&inner.roots().await?, &path, scope)?;
        if !known.is_empty() {
            parts.extend(known);
            continue;
        }
        let folder = path.clone();
        blocking(move || check_is_folder(&folder)).await?;
        let root = inner.add_root(&path).await?;
        let within = path.strip_prefix(&root.path).map(PathBuf::from).unwrap_or_default();
        parts.push(part_of(root, within));
    }
    Ok(parts)
}

fn part_of(root: Root, within: PathBuf) -> RootPart {
    (root, (!within.as_os_str().is_empty()).then_some(within))
}

/// Returns the parts of roots at a path. Returns an empty list if the path must become a root first, which only the
/// owner may do. For other callers, a folder in no root stands for the roots below it.
fn known_parts(roots: &[Root], path: &Path, scope: &Scope) -> Result<Vec<RootPart>> {
    if !scope.covers(path) {
        let sentence = format!("there is no folder `{}`", path.display());
        return Err(Error::not_found(sentence).hint("`vic status` lists the folders"));
    }
    if let Some((root, within)) = scan::split_root(roots, path) {
        return Ok(vec![part_of(root.clone(), within)]);
    }
    if scope.is_all() {
        return Ok(Vec::new());
    }
    let below: Vec<RootPart> =
        roots.iter().filter(|it| it.path.starts_with(path)).map(|it| (it.clone(), None)).collect();
    if below.is_empty() {
        let sentence = format!("`{}` lies in no root, and only the owner can add one", path.display());
        return Err(
            Error::new(ErrorCode::FailedPrecondition, sentence).hint("ask the owner to add it: `vic roots add FOLDER`")
        );
    }
    Ok(below)
}

/// Checks that a root can be read, for a request that covers only this root. If it cannot be read, marks it as
/// unavailable in the catalog.
async fn check_root_readable(inner: &Arc<IndexState>, root: &Root) -> Result<()> {
    inner.check_responds(root)?;
    let (catalog, root) = (inner.catalog.clone(), root.clone());
    blocking(move || {
        let Err(error) = root.path.read_dir() else { return Ok(()) };
        let error = Error::io("read", &root.path, &error);
        catalog.mark_unavailable(root.id, &error.message)?;
        Err(error.hint(ROOT_HINT))
    })
    .await
}

/// Checks that a new root is a readable folder.
fn check_is_folder(path: &Path) -> Result<()> {
    if !path.is_dir() {
        let sentence = format!("`{}` lies in no root", path.display());
        return Err(Error::new(ErrorCode::FailedPrecondition, sentence)
            .hint("index its folder instead: vic does not add a folder as a root because of one file in it"));
    }
    path.read_dir().io_context("read", path).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scoped_caller_adds_no_root_and_stays_in_scope() {
        let roots = ["/w/a", "/w/b"].map(|path| Root { id: 1, path: path.into(), available: true, problem: "".into() });
        let own = Scope::Folders(["/w".into(), "/own".into()].into());
        let check = |path: &str, scope: &Scope| {
            let parts = known_parts(&roots, Path::new(path), scope).map_err(|it| it.code)?;
            Ok(parts.into_iter().map(|(root, within)| folder_of(&root, within.as_deref())).collect::<Vec<PathBuf>>())
        };
        assert_eq!(check("/w/a/x", &own), Ok(vec!["/w/a/x".into()]));
        assert_eq!(check("/w", &own), Ok(vec!["/w/a".into(), "/w/b".into()]));
        assert_eq!(check("/etc", &own), Err(ErrorCode::NotFound));
        assert_eq!(check("/w/../etc", &own), Err(ErrorCode::NotFound));
        assert_eq!(check("/own", &own), Err(ErrorCode::FailedPrecondition));
        // Returns no part to the owner, because the folder must become a root first.
        assert_eq!(check("/etc", &Scope::All), Ok(vec![]));
        assert_eq!(check("/w/b", &Scope::All), Ok(vec!["/w/b".into()]));
    }
}
