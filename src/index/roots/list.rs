//! The list of roots: reading it, adding and removing roots.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::index::blocking_tasks::blocking;
use crate::index::paths::resolve_or_keep;
use crate::index::state::IndexState;
use crate::model::Root;

impl IndexState {
    /// Returns the roots that are walked: none is nested in another.
    pub(in crate::index) async fn roots(&self) -> Result<Vec<Root>> {
        let catalog = self.catalog.clone();
        blocking(move || catalog.roots()).await
    }

    /// Returns the roots, including those nested in others.
    pub(in crate::index) async fn all_roots(&self) -> Result<Vec<Root>> {
        let catalog = self.catalog.clone();
        blocking(move || catalog.named_roots()).await
    }

    /// Sets the roots in the walk rules, including one about to be added.
    pub(in crate::index) async fn set_rule_roots(&self, next: Option<&Path>) -> Result<()> {
        let mut paths: Vec<PathBuf> = self.all_roots().await?.into_iter().map(|it| it.path).collect();
        paths.extend(next.map(Path::to_path_buf));
        self.walks.rules.set_roots(paths);
        Ok(())
    }

    /// Adds a folder as a root and watches it. Returns the root that owns its files.
    pub(in crate::index) async fn add_root(&self, path: &Path) -> Result<Root> {
        let (own, pages) =
            (resolve_or_keep(&self.config.data_dir).await, resolve_or_keep(&self.config.pages_path()).await);
        let path = resolve_or_keep(path).await;
        if path.starts_with(&own) && !path.starts_with(&pages) {
            return Err(Error::invalid(format!("`{}` is vic's own data", path.display())));
        }
        // Before a walk of a root above it begins without knowing it.
        self.set_rule_roots(Some(&path)).await?;
        let (catalog, named) = (self.catalog.clone(), path.clone());
        let added = blocking(move || catalog.add_root(&named)).await;
        self.set_rule_roots(None).await?;
        let root = added?;
        self.fill_names();
        if root.path != path {
            // The absorbing root is still watched by the old rules.
            self.unwatch(root.id).await;
        }
        let roots = self.roots().await?;
        self.walks.unreadable.keep_only(&roots);
        let watching = self.walks.watching.clone();
        blocking(move || {
            watching.keep_only(&roots);
            Ok(())
        })
        .await?;
        self.watch(&root).await;
        Ok(root)
    }

    /// Removes a root and everything indexed below it, except files of other roots.
    pub(in crate::index) async fn remove_root(&self, path: &Path) -> Result<()> {
        let roots = self.all_roots().await?;
        let path = resolve_or_keep(path).await;
        let Some(root) = roots.into_iter().find(|it| it.path == path) else {
            return Err(Error::not_found(format!("`{}` is not a root", path.display())).hint("`vic roots` lists them"));
        };
        self.unwatch(root.id).await;
        self.forget_abandoned_walk(&root);
        self.problems.set(&format!("watch {}", root.path.display()), None);
        let catalog = self.catalog.clone();
        blocking(move || catalog.remove_root(root.id)).await?;
        self.fill_names();
        self.walks.unreadable.replace(root.id, Path::new(""), &[]);
        self.set_rule_roots(None).await?;
        let (above, below) = (|it: &Root| path.starts_with(&it.path), |it: &Root| it.path.starts_with(&path));
        for left in self.roots().await?.iter().filter(|it| above(it) || below(it)) {
            // A root above it is still watched by the old rules.
            self.unwatch(left.id).await;
            self.watch(left).await;
        }
        if !self.delete_tombstoned().await {
            // The root is removed already, so a retry by the caller would fail: the background task retries.
            self.runs.tombstones_ready.notify_one();
        }
        Ok(())
    }

    /// Indexes the file names that are not indexed yet, in the background.
    pub(in crate::index) fn fill_names(&self) {
        let (names, ends) = (self.catalog.clone(), self.shutdown.clone());
        tokio::task::spawn_blocking(move || {
            if let Err(error) = names.fill_names(&|| !ends.is_cancelled()) {
                tracing::warn!(%error, "some files cannot be found by name; the next start tries again");
            }
        });
    }
}
