//! Reads the searched folders, and warnings about files not indexed yet, from the catalog; an answer reports both.
//!
//! A single catalog call reads everything, in parallel with the search: each call switches threads twice, and on an idle
//! machine each switch has to wake a core.

use std::path::{Path, PathBuf};

use crate::ask::asker::Asker;
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::index::resolve_or_keep;
use crate::model::{Root, Scope, display_path, parse_path};

/// Pending files are counted up to this number; of more files, the warning says `more than 1000`. Counting all of them
/// would slow down each question.
const MAX_COUNTED_PENDING: u64 = 1_000;

/// The folder that a question is limited to.
#[derive(Clone, Debug)]
pub(super) struct SearchFolder {
    /// The path as the caller or the configuration gives it.
    as_given: PathBuf,
    /// The same path with symlinks resolved.
    path: PathBuf,
}

/// What an answer reports about the state of the index, next to its hits.
#[derive(Debug)]
pub(super) struct IndexState {
    /// The searched folder, or all roots joined by `:`.
    pub(super) folders: String,
    /// Warnings about files that are not indexed yet.
    pub(super) warnings: Vec<String>,
}

impl SearchFolder {
    /// Returns the path with symlinks resolved.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns an error unless the folder lies in a root or contains one. Accepts any folder while no root exists.
    fn ensure_within_roots(&self, roots: &[Root], scope: &Scope) -> Result<()> {
        let none_yet = roots.is_empty() && scope.is_all();
        if none_yet || roots.iter().any(|it| self.path.starts_with(&it.path) || it.path.starts_with(&self.path)) {
            return Ok(());
        }
        // Shows the path as given, because the target of a symlink must not leak to callers with a limited scope.
        Err(Error::not_found(format!("`{}` lies in no root", self.as_given.display()))
            .hint("`vic roots` lists them, `vic index PATH` adds one"))
    }
}

impl Asker {
    /// Returns the folder of the request, else the configured default folder, else `None` (all roots are searched).
    /// [`Asker::read_index_state`] checks later that the folder lies in a root.
    pub(super) async fn resolve_search_folder(&self, wanted: Option<&str>) -> Option<SearchFolder> {
        let configured = || self.default_root.clone().filter(|it| self.scope.touches(it));
        let named = wanted.map(parse_path).or_else(configured)?;
        // Keeps the path if it cannot be resolved: a root on an unmounted disk can still be searched.
        let path = resolve_or_keep(&named).await;
        Some(SearchFolder { as_given: named, path })
    }

    /// Reads the searched folders and the warnings about unfinished indexing.
    ///
    /// # Errors
    /// The folder is not in a root, or the catalog cannot be read.
    pub(super) async fn read_index_state(&self, folder: Option<&SearchFolder>) -> Result<IndexState> {
        let (catalog, scope, folder) = (self.catalog.clone(), self.scope.clone(), folder.cloned());
        crate::index::blocking(move || {
            // Keeps only the roots that the caller may see.
            let roots = scope.roots(catalog.roots()?);
            let folders = match folder {
                Some(folder) => {
                    folder.ensure_within_roots(&roots, &scope)?;
                    display_path(&folder.path).into_owned()
                }
                None => roots.iter().map(|it| display_path(&it.path).into_owned()).collect::<Vec<_>>().join(":"),
            };
            Ok(IndexState { folders, warnings: pending_warnings(&catalog, &scope)? })
        })
        .await
    }
}

/// Returns warnings about files of a scope that are not indexed yet or have no vectors yet.
fn pending_warnings(catalog: &Catalog, scope: &Scope) -> Result<Vec<String>> {
    let (pending, awaiting) = if scope.is_all() {
        (catalog.pending_up_to(MAX_COUNTED_PENDING + 1)?, catalog.any_awaiting()?)
    } else {
        let coverage = catalog.coverage_within(scope)?;
        (coverage.pending, coverage.awaiting_vectors > 0)
    };
    let mut warnings = Vec::new();
    if pending > 0 {
        let number = if pending > MAX_COUNTED_PENDING {
            format!("more than {MAX_COUNTED_PENDING}")
        } else {
            pending.to_string()
        };
        warnings.push(format!("{number} files are not indexed yet; `vic status` shows the progress"));
    }
    if awaiting {
        warnings.push(
            "some files have no vectors yet and are found by keywords only; `vic status` shows the progress".into(),
        );
    }
    Ok(warnings)
}
