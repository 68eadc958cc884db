//! Stores changes of the graph and publishes snapshots. Both need the write lock, so no change is lost and an older snapshot
//! never replaces a newer one.

use std::collections::HashSet;
use std::sync::{Arc, MutexGuard, PoisonError};

use crate::error::Result;
use crate::graph::context::Shared;
use crate::graph::pending_changes::PendingChanges;
use crate::graph::snapshot::Snapshot;
use crate::graph::snapshot::builder::Builder;
use crate::index::blocking;
use crate::model::{GraphPart, GraphSource};

/// Prefix of the source names of imports: `import:NAME#PART`.
const IMPORT_PREFIX: &str = "import:";
/// Changes are published early once they have more edges than this plus an eighth of the published edges, because
/// unpublished changes are kept in memory.
const MAX_PENDING_EDGES: usize = 50_000;

/// Key in the settings table of the graph; its value is the last purge (erasure of deleted text from the index) that was
/// also applied to the graph.
const PURGE_KEY: &str = "purge";

/// The result of importing a graph.
pub(super) struct ImportOutcome {
    /// Whether an import with this name existed before and was replaced.
    pub(super) replaced: bool,
    pub(super) nodes: usize,
    pub(super) edges: usize,
}

/// The write lock: exclusive access to the stored data and the published snapshot.
pub(super) struct WriteGuard<'a> {
    shared: &'a Shared,
    /// Changes to publish; `None` if the next snapshot must be rebuilt from the store.
    pending: MutexGuard<'a, Option<PendingChanges>>,
}

impl Shared {
    /// Returns the current snapshot.
    pub(super) fn current(&self) -> Arc<Snapshot> {
        self.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Builds and publishes the first snapshot, once.
    pub(super) async fn load(self: &Arc<Shared>) -> Result<()> {
        self.loaded.get_or_try_init(|| self.publish()).await.map(|_| ())
    }

    /// Publishes a snapshot of the stored data.
    pub(super) async fn publish(self: &Arc<Shared>) -> Result<()> {
        self.with_write_lock(|mut turn| turn.publish()).await
    }

    /// Returns the name of each import, repeated for each of its stored parts.
    pub(super) async fn imports(self: &Arc<Shared>) -> Result<Vec<String>> {
        let shared = self.clone();
        blocking(move || {
            let sources = shared.store.sources()?;
            let name = |it: GraphSource| Some(it.name.strip_prefix(IMPORT_PREFIX)?.rsplit_once('#')?.0.to_string());
            Ok(sources.into_iter().filter_map(name).collect())
        })
        .await
    }

    /// Runs `work` while holding the write lock. `work` runs to completion even if the returned future is dropped.
    pub(super) async fn with_write_lock<T: Send + 'static>(
        self: &Arc<Shared>,
        work: impl FnOnce(WriteGuard<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = self.clone();
        blocking(move || {
            let waiting = shared.pending.lock().unwrap_or_else(|poisoned| {
                // Discards the pending changes: the thread that panicked may have stored a change that is not among them,
                // so the next snapshot must be rebuilt from the store.
                shared.pending.clear_poison();
                let mut waiting = poisoned.into_inner();
                *waiting = None;
                waiting
            });
            work(WriteGuard { shared: &shared, pending: waiting })
        })
        .await
    }
}

impl WriteGuard<'_> {
    /// Deletes the sources `dropped` and stores `parts`. Publishes at once if many changes are pending, otherwise later.
    pub(super) fn store(&mut self, dropped: &[String], parts: Vec<(GraphSource, GraphPart)>) -> Result<()> {
        let replaced = self.shared.store.replace(dropped, &parts)?;
        let Some(waiting) = self.pending.as_mut() else { return Ok(()) };
        waiting.record(replaced, parts);
        match waiting.edges > MAX_PENDING_EDGES + self.shared.current().edges() / 8 {
            true => self.publish(),
            false => Ok(()),
        }
    }

    /// Replaces an import by new parts, and publishes the change. `fill` gets a callback, and passes it each part.
    pub(super) fn import(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut dyn FnMut(GraphPart) -> Result<()>) -> Result<()>,
    ) -> Result<ImportOutcome> {
        let dropped = self.part_names(name)?;
        let (mut nodes, mut edges) = (0, 0);
        let replaced = self.shared.store.replace_with(&dropped, |put| {
            let mut number = 0;
            fill(&mut |part| {
                (nodes, edges) = (nodes + part.nodes.len(), edges + part.edges.len());
                put(&part_source(name, number), &part)?;
                number += 1;
                Ok(())
            })
        })?;
        if let Some(waiting) = self.pending.as_mut() {
            waiting.record(replaced, Vec::new());
        }
        self.publish()?;
        Ok(ImportOutcome { replaced: !dropped.is_empty(), nodes, edges })
    }

    /// Deletes an import and publishes the change. Returns whether the import existed.
    pub(super) fn remove_import(&mut self, name: &str) -> Result<bool> {
        let dropped = self.part_names(name)?;
        self.store(&dropped, Vec::new())?;
        self.publish()?;
        Ok(!dropped.is_empty())
    }

    /// Adds a part to an import, and publishes the change.
    pub(super) fn append(&mut self, name: &str, part: GraphPart) -> Result<()> {
        let number = self.part_names(name)?.len();
        self.store(&[], vec![(part_source(name, number), part)])?;
        self.publish()
    }

    /// Returns the current snapshot.
    pub(super) fn current(&self) -> Arc<Snapshot> {
        self.shared.current()
    }

    /// Returns the source names of the stored parts of an import.
    fn part_names(&self, name: &str) -> Result<Vec<String>> {
        let prefix = format!("{IMPORT_PREFIX}{name}#");
        let names = self.shared.store.sources()?.into_iter().map(|it| it.name);
        Ok(names.filter(|it| it.starts_with(&prefix)).collect())
    }

    /// Publishes a snapshot of the stored data, if anything has changed.
    pub(super) fn publish(&mut self) -> Result<()> {
        // If an error occurs below, `pending` stays `None`, so the next snapshot is rebuilt from the store.
        let woven = match self.pending.take() {
            Some(waiting) if waiting.is_empty() => {
                *self.pending = Some(waiting);
                return Ok(());
            }
            Some(waiting) => {
                waiting.apply_to(self.current(), &self.shared.store).ok().filter(|it| !it.has_excess_strings())
            }
            None => None,
        };
        let snapshot = match woven {
            Some(snapshot) => snapshot,
            None => self.rebuild()?,
        };
        *self.shared.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
        *self.pending = Some(PendingChanges::default());
        Ok(())
    }

    /// Deletes from the store the entities that no source contains any more, once for each purge of the index. The flush
    /// then erases them from the write-ahead log too.
    pub(super) fn apply_purge(&mut self, purge: &str) -> Result<()> {
        if self.shared.store.meta_get(PURGE_KEY)?.as_deref() == Some(purge) {
            return Ok(());
        }
        self.publish()?;
        let stated: HashSet<u32> = self.current().ids.iter().copied().collect();
        let store = &self.shared.store;
        store.forget_unstated(&stated)?;
        store.flush()?;
        store.meta_set(PURGE_KEY, purge)
    }

    /// Builds a snapshot from all stored sources.
    fn rebuild(&self) -> Result<Snapshot> {
        let store = &self.shared.store;
        let entities = store.entity_ids()?;
        let mut builder = Builder::default();
        store.for_each_source(|number, source, part| {
            builder.add_source(number, &source, part, |key| entities.get(key).copied())
        })?;
        let snapshot = builder.build();
        // Deletes unused entities only if there are many: keeping a few costs less than deleting them after each rebuild.
        if entities.len() > snapshot.nodes() + snapshot.nodes() / 4 + 1_000 {
            let stated: HashSet<u32> = snapshot.ids.iter().copied().collect();
            store.forget_unstated(&stated)?;
        }
        Ok(snapshot)
    }
}

/// Returns the source of part `number` of an import.
fn part_source(name: &str, number: usize) -> GraphSource {
    GraphSource { name: format!("{IMPORT_PREFIX}{name}#{number}"), ..GraphSource::default() }
}
