//! Reads and checks a whole table without changing it, for `vic doctor`.

use std::collections::BTreeSet;
use std::path::Path;

use futures::TryStreamExt;
use lancedb::query::{ExecutableQuery, QueryBase, Select};

use crate::error::Result;
use crate::store::backend::Inspection;
use crate::store::durable_version::DurableVersion;
use crate::store::lance_error::{StoreContext, mark_damaged};
use crate::store::recovery::TableLocation;
use crate::store::{LanceStore, manifests, recovery, schema};

impl LanceStore {
    /// Reads every row of this model's table, in its newest version, durable or not. Returns `None` if there is no
    /// table.
    ///
    /// # Errors
    /// [`crate::error::ErrorCode::DataLoss`] for a damaged table.
    pub async fn inspect(dir: &Path, fingerprint: &str, dimension: usize) -> Result<Option<Inspection>> {
        let place = TableLocation { dir: dir.to_owned(), name: LanceStore::table_of(fingerprint), dimension };
        let table_dir = place.table_dir();
        if !table_dir.exists() {
            return Ok(None);
        }
        let versions = manifests::list(&table_dir)?;
        let synced = DurableVersion::new(&table_dir).read()?;
        let opened = recovery::read_current(&place).await?;
        let query = opened.table.query().select(Select::All);
        let mut damaged = BTreeSet::new();
        let mut rows = query.execute().await.map_err(mark_damaged).on("read", dir)?;
        while let Some(batch) = rows.try_next().await.map_err(mark_damaged).on("read", dir)? {
            schema::stored_chunks(&batch)?;
            let vectors = schema::keys(&batch)?.zip(schema::vectors(&batch)?);
            damaged.extend(vectors.filter(|(_, vector)| !schema::is_valid(vector)).map(|((file_id, _), _)| file_id));
        }
        Ok(Some(Inspection {
            rows: opened.rows,
            damaged,
            versions: versions.len() as u64,
            unsynced: versions.iter().filter(|it| synced.is_some_and(|last| it.version > last)).count() as u64,
            leftovers: manifests::leftovers(&table_dir),
        }))
    }
}
