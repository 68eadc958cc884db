//! Lists, adds and removes roots.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::index::blocking_tasks::blocking;
use crate::index::paths::resolve_or_keep;
use crate::index::state::IndexState;
use crate::model::Root;

impl IndexState {
    /// Returns the roots that are walked on their own: all except those nested in another root.
    pub(in crate::index) async fn roots(&self) -> Result<Vec<Root>> {
        let catalog = self.catalog.clone();
        blocking(move || catalog.roots()).await
    }

    /// Returns all roots, including those nested in other roots.
    pub(in crate::index) async fn all_roots(&self) -> Result<Vec<Root>> {
        let catalog = self.catalog.clone();
        blocking(move || catalog.named_roots()).await
    }

    /// Gives the walk rules the paths of all roots, and of the root `next` that is about to be added.
    pub(in crate::index) async fn set_rule_roots(&self, next: Option<&Path>) -> Result<()> {
        let mut paths: Vec<PathBuf> = self.all_roots().await?.into_iter().map(|it| it.path).collect();
        paths.extend(next.map(Path::to_path_buf));
        self.walks.rules.set_roots(paths);
        Ok(())
    }

    /// Watches all roots by the walk rules as they are now, and walks them in a job.
    pub(in crate::index) async fn follow_new_rules(self: Arc<IndexState>) {
        for root in self.roots().await.unwrap_or_default() {
            // The monitor watches a root that is away, or whose walk hangs, when it is back.
            if root.available && !self.walks.abandoned.is_running(root.id) {
                self.unwatch(root.id).await;
                self.watch(&root).await;
            }
        }
        self.reconcile_roots().await;
    }

    /// Adds a folder as a root and watches it. Returns the root that contains its files, which may be a parent of the
    /// folder.
    pub(in crate::index) async fn add_root(&self, path: &Path) -> Result<Root> {
        let (own, pages) =
            (resolve_or_keep(&self.config.data_dir).await, resolve_or_keep(&self.config.pages_path()).await);
        let path = resolve_or_keep(path).await;
        if path.starts_with(&own) && !path.starts_with(&pages) {
            return Err(Error::invalid(format!("cannot index `{}`: it belongs to vic's own data", path.display())));
        }
        // Sets the rules before the root is added, so that no walk of a parent root begins without knowing the new root.
        self.set_rule_roots(Some(&path)).await?;
        let (catalog, named) = (self.catalog.clone(), path.clone());
        let added = blocking(move || catalog.add_root(&named)).await;
        self.set_rule_roots(None).await?;
        let root = added?;
        self.fill_names();
        if root.path != path {
            // Ends the watches of the root that absorbed this one, because they follow the old rules. `watch`
            // below starts new ones.
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

    /// Removes a root and the index entries of all files below it, except files that another root contains.
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
            // Renews the watches of roots above and below the removed root, because they still follow the old rules.
            self.unwatch(left.id).await;
            self.watch(left).await;
        }
        if !self.delete_tombstoned().await {
            // Leaves the retry to the background task: the root is removed already, so a retry by the caller would
            // fail.
            self.runs.tombstones_ready.notify_one();
        }
        Ok(())
    }

    /// Starts a background task that adds missing file names to the index of names.
    pub(in crate::index) fn fill_names(&self) {
        let (names, ends) = (self.catalog.clone(), self.shutdown.clone());
        tokio::task::spawn_blocking(move || {
            if let Err(error) = names.fill_names(&|| !ends.is_cancelled()) {
                tracing::warn!(%error, "some file names are not searchable; the next start tries again");
            }
        });
    }
}
