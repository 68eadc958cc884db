//! Comparison of catalog and store at startup, to find files whose chunks do not match.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::catalog::Catalog;
use crate::error::Result;
use crate::model::FileId;

impl Catalog {
    /// Returns the indexed files that have another number of chunks in the store than in the catalog, or that are
    /// `damaged` in the store; sorted by id. `stored` is the number of chunks of each file in the store.
    pub fn files_with_wrong_chunks(
        &self,
        stored: &BTreeMap<FileId, u64>,
        damaged: &BTreeSet<FileId>,
    ) -> Result<Vec<FileId>> {
        let sql = "SELECT id, chunks FROM files WHERE state = 'indexed' AND deleted_ns IS NULL ORDER BY id";
        self.database.read(|db| {
            let mut statement = db.prepare_cached(sql)?;
            let marked = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let marked = marked.collect::<Result<Vec<(FileId, i64)>, _>>()?;
            let is_lost = |(id, chunks): &(FileId, i64)| {
                stored.get(id).copied().unwrap_or(0) != chunks.cast_unsigned() || damaged.contains(id)
            };
            Ok(marked.into_iter().filter(is_lost).map(|(id, _)| id).collect())
        })
    }

    /// Returns the files in the store that must have no chunks there: those missing in the catalog, skipped or failed. The
    /// chunks of a pending file are kept and stay searchable until it is read again.
    pub fn orphaned_files(&self, stored: &BTreeMap<FileId, u64>) -> Result<Vec<FileId>> {
        let sql = "SELECT id FROM files WHERE state IN ('pending', 'indexed') AND deleted_ns IS NULL";
        let known: HashSet<FileId> = self.ids(sql)?.into_iter().collect();
        Ok(stored.keys().filter(|id| !known.contains(id)).copied().collect())
    }

    /// Resets the attempts of all pending files; called at an orderly shutdown, so that files in progress do not count as
    /// crashes.
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
