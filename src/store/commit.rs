//! Commits a change of the table. Queries see a change only when all of it is durable, and all of it at the same
//! moment.
//!
//! ```text
//! run_change     takes the writer lock and undoes what an interrupted change left
//!   write        one or several commits of the library (`write`, `maintenance`, `purge`)
//!   commit_with  syncs the file system, checks the footers of the new files, notes the durable version,
//!                publishes the table together with the data in memory
//!   roll_back    after an error, at once or before the next change
//! ```

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use futures::TryStreamExt;
use lance::Dataset;
use lancedb::query::{ExecutableQuery, QueryBase, Select};

use crate::error::{Error, Result};
use crate::store::lance::{LanceStore, log_slower};
use crate::store::lance_error::StoreContext;
use crate::store::memory::{MemoryIndex, RowIds};
use crate::store::{analysed_terms, fsync, manifests, recovery};

impl LanceStore {
    /// Runs a change under the writer lock, after adding what a table of an older vic lacks. Commits that a failed or cancelled change made in the library after the
    /// last durable version are undone, at once or before the next change.
    pub(super) async fn run_change<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let _writing = self.writer.lock().await;
        if self.is_uncertain.load(Ordering::Relaxed) {
            self.roll_back().await?;
        }
        self.is_uncertain.store(true, Ordering::Relaxed);
        let done = async {
            analysed_terms::add_terms(self).await?;
            work.await
        };
        let done = done.await;
        match done {
            Ok(_) => self.is_uncertain.store(false, Ordering::Relaxed),
            Err(_) => {
                // If the rollback fails too, for example on a full disk, the next change repeats it.
                if let Err(error) = self.roll_back().await {
                    tracing::debug!(%error, "cannot undo a failed change now; the next change undoes it");
                }
            }
        }
        done
    }

    /// Makes all changes so far durable, and then publishes them to queries together with `change`, which updates the
    /// data in memory.
    pub(super) async fn commit_with(&self, change: impl FnOnce(&mut MemoryIndex) -> Result<()>) -> Result<()> {
        if !self.durable.is_recorded(&self.table, &self.dir).await? {
            fsync::sync(&self.dir).await?;
            self.footers.check().await?;
            self.durable.record(&self.table, &self.dir).await?;
        }
        self.publish(change).await
    }

    /// Publishes the current version of the table to queries together with `change`, which updates the data in memory.
    pub(super) async fn publish(&self, change: impl FnOnce(&mut MemoryIndex) -> Result<()>) -> Result<()> {
        let dataset = self.dataset().await?;
        let (version, shown) = (dataset.manifest().version, self.published.dataset().ok_or_else(not_on_disk)?);
        let mut hot = self.memory_mut();
        change(&mut hot)?;
        shown.update((*dataset).clone());
        // A query may see the new version before the next line publishes its number. The query then pins the older
        // version, which also protects the newer one from pruning.
        self.version_pins.publish(version);
        Ok(())
    }

    /// As [`LanceStore::commit_with`], without a change of the data in memory.
    pub(super) async fn commit_durable(&self) -> Result<()> {
        self.commit_with(|_| Ok(())).await
    }

    /// As [`LanceStore::commit_with`], after a compaction, which gives rows new ids: the row ids in memory are replaced
    /// too.
    pub(super) async fn commit_compacted(&self) -> Result<()> {
        let addresses = self.read_row_ids().await;
        self.commit_with(|hot| {
            match addresses {
                Ok(addresses) => addresses.into_iter().for_each(|it| hot.set_row_ids(it)),
                Err(error) => log_slower(&error),
            }
            Ok(())
        })
        .await
    }

    /// Returns the row ids of all rows, or `None` if they are not kept in memory.
    async fn read_row_ids(&self) -> Result<Option<RowIds>> {
        if self.memory().row_ids().is_none() {
            return Ok(None);
        }
        let query = self.table.query().select(Select::columns(&["chunk_id", "file_id"])).with_row_id();
        let mut stream = query.execute().await.on("read", &self.dir)?;
        let mut addresses = RowIds::default();
        while let Some(batch) = stream.try_next().await.on("read", &self.dir)? {
            addresses.add(&batch)?;
        }
        Ok(Some(addresses))
    }

    /// Returns the current state of the table as a dataset of the lower layer of the library.
    pub(super) async fn dataset(&self) -> Result<Arc<Dataset>> {
        self.table.dataset().ok_or_else(not_on_disk)?.get().await.on("read", &self.dir)
    }

    /// Rolls back to the last durable version, which is the one that queries see. Writes no data, because the disk may
    /// be full: later versions are renamed, as at startup.
    async fn roll_back(&self) -> Result<()> {
        if let Some(last) = self.last_durable_if_newer().await? {
            self.quarantine_after(last).await?;
        }
        self.table.checkout_latest().await.on("read", &self.dir)?;
        // Publishes the version of a change that became durable but was cancelled before it was published.
        if self.table.version().await.on("read", &self.dir)? != self.version_pins.newest() {
            let (rows, contents) = recovery::load_contents(&self.table, &self.place).await?;
            self.publish(|hot| {
                self.chunks.store(rows.values().sum(), Ordering::Relaxed);
                *self.rows.write().unwrap_or_else(PoisonError::into_inner) = rows;
                *hot = contents;
                Ok(())
            })
            .await?;
        }
        self.has_undone.store(true, Ordering::Relaxed);
        self.is_uncertain.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the number of the last durable version, if later versions exist.
    async fn last_durable_if_newer(&self) -> Result<Option<u64>> {
        // Waits for a write of the durable version that may still be running although its caller was cancelled.
        let _written = self.durable.lock_writes().await;
        let (synced, table_dir, shown) = (self.durable.clone(), self.place.table_dir(), self.version_pins.newest());
        let look = move || {
            let versions: Vec<u64> = manifests::list(&table_dir)?.iter().map(|it| it.version).collect();
            // Uses the published version if the recorded one is missing on disk.
            let last = synced.read()?.filter(|it| versions.contains(it)).unwrap_or(shown);
            Ok::<_, Error>(versions.iter().any(|it| *it > last).then_some(last))
        };
        tokio::task::spawn_blocking(look).await.map_err(Error::internal)?
    }

    /// Quarantines (renames) all versions after this one.
    async fn quarantine_after(&self, last: u64) -> Result<()> {
        // Checks out the older version first, because the library offers no other way back to it.
        self.table.checkout(last).await.on("read", &self.dir)?;
        let table_dir = self.place.table_dir();
        let aside = tokio::task::spawn_blocking(move || manifests::quarantine_unsynced(&table_dir, last));
        let outcome = aside.await.map_err(Error::internal)?;
        // Clears the caches: they hold the removed versions, and later versions reuse their numbers.
        self.cached.clear().await;
        outcome.map(drop)
    }
}

/// Returns the error for a table that is not on disk, which must not happen.
fn not_on_disk() -> Error {
    Error::internal("the table is not on disk")
}
