//! What stands around an answer, whatever is found: the folders that are asked, and what is still to be indexed.
//!
//! All of it is read in one visit to the catalog, while the hits are looked for. Each visit is handed to another thread and
//! back, and on a machine at rest each hand-over waits for a core to wake up.

use std::path::{Path, PathBuf};

use crate::ask::Asker;
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::index::resolved;
use crate::model::{Root, Scope, path_of, printed};

/// Files that are counted of those that are still to be read. More are too many to be counted for each question.
const COUNTED: u64 = 1_000;

/// A folder that is asked instead of all.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    /// As the caller or the configuration names it.
    named: PathBuf,
    /// Where that leads.
    path: PathBuf,
}

/// What the catalog says beside the hits.
#[derive(Debug)]
pub(super) struct Around {
    /// The folder that is asked, or all roots.
    pub(super) folders: String,
    /// What is still to be indexed.
    pub(super) warnings: Vec<String>,
}

impl Folder {
    /// Where it lies, symlinks resolved.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that it lies in a root, or holds some.
    fn check(&self, roots: &[Root], scope: &Scope) -> Result<()> {
        let none_yet = roots.is_empty() && scope.is_all();
        if none_yet || roots.iter().any(|it| self.path.starts_with(&it.path) || it.path.starts_with(&self.path)) {
            return Ok(());
        }
        // As it was named: where a link leads is not for everybody.
        Err(Error::not_found(format!("`{}` lies in no root", self.named.display()))
            .hint("`vic roots` lists them, `vic index PATH` adds one"))
    }
}

impl Asker {
    /// The folder that is asked: the request's, else the configured one, else all. Whether it lies in a root
    /// [`Asker::around`] says.
    pub(super) async fn folder(&self, wanted: Option<&str>) -> Option<Folder> {
        let configured = || self.default_root.clone().filter(|it| self.scope.touches(it));
        let named = wanted.map(path_of).or_else(configured)?;
        // A root on a disk that is not mounted can still be asked.
        let path = resolved(&named).await;
        Some(Folder { named, path })
    }

    /// Looks around.
    ///
    /// # Errors
    /// The folder lies in no root, or the catalog cannot be read.
    pub(super) async fn around(&self, folder: Option<&Folder>) -> Result<Around> {
        let (catalog, scope, folder) = (self.catalog.clone(), self.scope.clone(), folder.cloned());
        crate::index::blocking(move || {
            // As whoever asks may see them.
            let roots = scope.roots(catalog.roots()?);
            let folders = match folder {
                Some(folder) => {
                    folder.check(&roots, &scope)?;
                    printed(&folder.path).into_owned()
                }
                None => roots.iter().map(|it| printed(&it.path).into_owned()).collect::<Vec<_>>().join(":"),
            };
            Ok(Around { folders, warnings: unfinished(&catalog, &scope)? })
        })
        .await
    }
}

/// Says what of a scope is still to be indexed.
fn unfinished(catalog: &Catalog, scope: &Scope) -> Result<Vec<String>> {
    let (pending, awaiting) = if scope.is_all() {
        (catalog.pending_up_to(COUNTED + 1)?, catalog.any_awaiting()?)
    } else {
        let coverage = catalog.coverage_within(scope)?;
        (coverage.pending, coverage.awaiting_vectors > 0)
    };
    let mut warnings = Vec::new();
    if pending > 0 {
        let number = if pending > COUNTED { format!("more than {COUNTED}") } else { pending.to_string() };
        warnings.push(format!("{number} files are not indexed yet; `vic status` shows the progress"));
    }
    if awaiting {
        warnings.push("some files are found by their words alone so far; `vic status` shows the progress".into());
    }
    Ok(warnings)
}
