//! What the index needs to set catalog and store right against each other.

use std::collections::HashSet;

use crate::catalog::Catalog;
use crate::error::Result;
use crate::model::FileId;

impl Catalog {
    /// Returns the files marked indexed that must have chunks in the store, by number.
    pub fn indexed_ids(&self) -> Result<Vec<FileId>> {
        self.ids("SELECT id FROM files WHERE state = 'indexed' AND chunks > 0 AND deleted_ns IS NULL ORDER BY id")
    }

    /// Returns those of `ids` that are no file of the catalog, in their order.
    pub fn unknown_ids(&self, ids: &[FileId]) -> Result<Vec<FileId>> {
        let known: HashSet<FileId> = self.ids("SELECT id FROM files WHERE deleted_ns IS NULL")?.into_iter().collect();
        Ok(ids.iter().filter(|id| !known.contains(id)).copied().collect())
    }

    /// Takes every try back: called when vic ends in order, so that files that were under way are not suspected.
    pub fn clear_tries(&self) -> Result<()> {
        self.database.write(|db| {
            db.execute("UPDATE files SET tries = 0 WHERE state = 'pending' AND tries > 0", [])?;
            Ok(())
        })
    }

    fn ids(&self, sql: &str) -> Result<Vec<FileId>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached(sql)?;
            let ids = statement.query_map([], |row| row.get(0))?;
            Ok(ids.collect::<Result<Vec<FileId>, _>>()?)
        })
    }
}
