//! Queries about indexed files with chunks that have no vector yet.

use crate::catalog::Catalog;
use crate::error::Result;
use crate::model::FileId;

/// SQL condition of files with chunks that have no vector yet; it matches the partial index on these files.
pub(in crate::catalog) const AWAITS_VECTORS: &str = "deleted_ns IS NULL AND state = 'indexed' AND awaiting > 0";

impl Catalog {
    /// Returns the files that wait for vectors, in embedding order: those modified since `recent_ns` first, then small
    /// before large.
    pub fn awaiting_files(&self, recent_ns: i64) -> Result<Vec<FileId>> {
        let sql = format!("SELECT id FROM files WHERE {AWAITS_VECTORS} ORDER BY modified_ns < ?1, size, id");
        self.database.read(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let ids = statement.query_map([recent_ns], |row| row.get(0))?;
            Ok(ids.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns whether any file waits for vectors.
    pub fn any_awaiting(&self) -> Result<bool> {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM files WHERE {AWAITS_VECTORS})");
        self.database.read(|db| Ok(db.prepare_cached(&sql)?.query_row([], |row| row.get(0))?))
    }

    /// Counts the chunks without a vector in all indexed files.
    pub fn awaiting_chunks(&self) -> Result<u64> {
        let sql = format!("SELECT coalesce(sum(awaiting), 0) FROM files WHERE {AWAITS_VECTORS}");
        self.database.read(|db| {
            let chunks: i64 = db.prepare_cached(&sql)?.query_row([], |row| row.get(0))?;
            Ok(chunks.cast_unsigned())
        })
    }

    /// Returns how many chunks of a file have no vector yet, even if the file is pending again.
    pub fn awaiting_chunks_of(&self, id: FileId) -> Result<u32> {
        let sql = "SELECT coalesce(max(awaiting), 0) FROM files WHERE id = ?1";
        self.database.read(|db| Ok(db.prepare_cached(sql)?.query_row([id], |row| row.get(0))?))
    }
}
