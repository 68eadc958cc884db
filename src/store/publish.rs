//! Publishes changes: queries see a change once all of it is durable, and all of it at the same moment.

use std::sync::Arc;

use futures::TryStreamExt;
use lance::Dataset;
use lancedb::query::{ExecutableQuery, QueryBase, Select};

use crate::error::{Error, Result};
use crate::store::lance::{LanceStore, slower};
use crate::store::lance_error::StoreContext;
use crate::store::memory::{Addresses, Hot};
use crate::store::{fsync, recovery};

impl LanceStore {
    /// Returns the table as a dataset of the library's lower layer, as changes see it.
    pub(super) async fn dataset(&self) -> Result<Arc<Dataset>> {
        self.table.dataset().ok_or_else(on_no_disk)?.get().await.on("read", &self.dir)
    }

    /// Makes all changes so far durable and publishes them.
    pub(super) async fn settle(&self) -> Result<()> {
        self.settle_with(|_| Ok(())).await
    }

    /// As [`LanceStore::settle`], together with a change in memory.
    pub(super) async fn settle_with(&self, change: impl FnOnce(&mut Hot) -> Result<()>) -> Result<()> {
        if !recovery::is_noted(&self.table, &self.place, &self.synced).await? {
            fsync::sync(&self.dir).await?;
            self.whole.check().await?;
            recovery::note(&self.table, &self.place, &self.synced).await?;
        }
        self.show(change).await
    }

    /// As [`LanceStore::settle`], for rows that compaction moved.
    pub(super) async fn settle_moved(&self) -> Result<()> {
        let addresses = self.addresses().await;
        self.settle_with(|hot| {
            match addresses {
                Ok(addresses) => addresses.into_iter().for_each(|it| hot.move_to(it)),
                Err(error) => slower(&error),
            }
            Ok(())
        })
        .await
    }

    /// Publishes the current table and a change in memory at the same moment.
    pub(super) async fn show(&self, change: impl FnOnce(&mut Hot) -> Result<()>) -> Result<()> {
        let dataset = self.dataset().await?;
        let (version, shown) = (dataset.manifest().version, self.shown.dataset().ok_or_else(on_no_disk)?);
        let mut hot = self.hot_mut();
        change(&mut hot)?;
        shown.update((*dataset).clone());
        // A read that starts in between pins the older version, which protects the newer one too.
        self.readings.show(version);
        Ok(())
    }

    /// Returns the row ids of all rows, `None` if they are not kept.
    async fn addresses(&self) -> Result<Option<Addresses>> {
        if self.hot().addresses().is_none() {
            return Ok(None);
        }
        let query = self.table.query().select(Select::columns(&["chunk_id", "file_id"])).with_row_id();
        let mut stream = query.execute().await.on("read", &self.dir)?;
        let mut addresses = Addresses::default();
        while let Some(batch) = stream.try_next().await.on("read", &self.dir)? {
            addresses.learn(&batch)?;
        }
        Ok(Some(addresses))
    }
}

/// Must not happen: every table of vic is on disk.
fn on_no_disk() -> Error {
    Error::internal("the table is not on disk")
}
