//! Publishes changes: queries see a change once all of it is durable, and all of it at the same moment.

use std::sync::Arc;

use futures::TryStreamExt;
use lance::Dataset;
use lancedb::query::{ExecutableQuery, QueryBase, Select};

use crate::error::{Error, Result};
use crate::store::lance::{LanceStore, log_slower};
use crate::store::lance_error::StoreContext;
use crate::store::memory::{MemoryIndex, RowIds};
use crate::store::{fsync, recovery};

impl LanceStore {
    /// Returns the table as a dataset of the library's lower layer, as changes see it.
    pub(super) async fn dataset(&self) -> Result<Arc<Dataset>> {
        self.table.dataset().ok_or_else(not_on_disk)?.get().await.on("read", &self.dir)
    }

    /// Makes all changes so far durable and publishes them.
    pub(super) async fn commit_durable(&self) -> Result<()> {
        self.commit_with(|_| Ok(())).await
    }

    /// As [`LanceStore::commit_durable`], together with a change in memory.
    pub(super) async fn commit_with(&self, change: impl FnOnce(&mut MemoryIndex) -> Result<()>) -> Result<()> {
        if !recovery::is_recorded_durable(&self.table, &self.place, &self.durable).await? {
            fsync::sync(&self.dir).await?;
            self.footers.check().await?;
            recovery::record_durable(&self.table, &self.place, &self.durable).await?;
        }
        self.publish(change).await
    }

    /// As [`LanceStore::commit_durable`], for rows that compaction moved.
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

    /// Publishes the current table and a change in memory at the same moment.
    pub(super) async fn publish(&self, change: impl FnOnce(&mut MemoryIndex) -> Result<()>) -> Result<()> {
        let dataset = self.dataset().await?;
        let (version, shown) = (dataset.manifest().version, self.published.dataset().ok_or_else(not_on_disk)?);
        let mut hot = self.memory_mut();
        change(&mut hot)?;
        shown.update((*dataset).clone());
        // A read that starts in between pins the older version, which protects the newer one too.
        self.version_pins.publish(version);
        Ok(())
    }

    /// Returns the row ids of all rows, `None` if they are not kept.
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
}

/// Must not happen: every table of vic is on disk.
fn not_on_disk() -> Error {
    Error::internal("the table is not on disk")
}
