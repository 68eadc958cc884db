//! Queries of the catalog about files: by filter, path, state and scope.

use std::path::Path;

use rusqlite::{OptionalExtension, Rows, Transaction, params, params_from_iter};

use crate::catalog::Catalog;
use crate::catalog::database::DbError;
use crate::catalog::files::filter::{Condition, path_condition, scope_condition, states_condition};
use crate::catalog::files::pending_vectors::AWAITS_VECTORS;
use crate::catalog::files::roots::load_roots;
use crate::catalog::files::row::{RECORD_COLUMNS, path_bytes, path_from_bytes, range_below, read_record, signed};
use crate::error::Result;
use crate::model::{Coverage, FileFilter, FileId, FileRecord, FileState, RootId, Scope};

/// Part of the `detail` of a file whose scanned pages were read by OCR, so that their text was added to the document.
pub const READ_BY_OCR: &str = "read by OCR";
/// Part of the `detail` of a file with pages that contain only images.
pub const WITHOUT_TEXT_LAYER: &str = "without a text layer";

impl Catalog {
    /// Returns the ids of the files that match the filter, sorted.
    ///
    /// # Errors
    /// [`crate::error::ErrorCode::InvalidArgument`] naming a glob that cannot be parsed.
    pub fn select(&self, filter: &FileFilter) -> Result<Vec<FileId>> {
        self.database.read(|db| self.select_ids(db, filter, "id"))
    }

    /// Returns the ids of the files that match the filter, sorted. Returns `None`, which means all files, if the filter
    /// is only a folder that contains all roots: this avoids a list of a million ids.
    ///
    /// # Errors
    /// As [`Catalog::select`].
    pub fn select_part(&self, filter: &FileFilter) -> Result<Option<Vec<FileId>>> {
        self.database.read(|db| {
            if let Some(folder) = filter.only_folder()
                && load_roots(db)?.iter().all(|it| it.path.starts_with(folder))
            {
                return Ok(None);
            }
            Ok(Some(self.select_ids(db, filter, "id")?))
        })
    }

    /// Returns one page of the files that match the filter, newest first, and the total number of matches.
    ///
    /// # Errors
    /// [`crate::error::ErrorCode::InvalidArgument`] naming a glob that cannot be parsed.
    pub fn search(&self, filter: &FileFilter, limit: usize, offset: usize) -> Result<(Vec<FileRecord>, u64)> {
        self.search_in_order(filter, limit, offset, "modified_ns DESC, id DESC")
    }

    /// Returns the first files that match the filter, oldest first, and the total number of matches.
    ///
    /// # Errors
    /// As [`Catalog::search`].
    pub fn oldest(&self, filter: &FileFilter, limit: usize) -> Result<(Vec<FileRecord>, u64)> {
        self.search_in_order(filter, limit, 0, "modified_ns, id")
    }

    fn search_in_order(
        &self,
        filter: &FileFilter,
        limit: usize,
        offset: usize,
        order: &str,
    ) -> Result<(Vec<FileRecord>, u64)> {
        self.database.read(|db| {
            let ids = self.select_ids(db, filter, order)?;
            let page: Vec<FileId> = ids.iter().skip(offset).take(limit).copied().collect();
            Ok((self.load_records(db, &page)?, ids.len() as u64))
        })
    }

    /// Returns the records of these files in this order; unknown and removed files are omitted.
    pub fn records(&self, ids: &[FileId]) -> Result<Vec<FileRecord>> {
        self.database.read(|db| self.load_records(db, ids))
    }

    /// Returns the record of the file at an absolute path.
    pub fn record_by_path(&self, path: &Path) -> Result<Option<FileRecord>> {
        self.database.read(|db| {
            let sql = format!(
                "SELECT {RECORD_COLUMNS} FROM files f JOIN roots r ON r.id = f.root_id \
                 WHERE f.deleted_ns IS NULL AND f.root_id = ?1 AND f.path = ?2"
            );
            let roots = load_roots(db)?;
            let Some((root, relative)) = roots.iter().find_map(|it| Some((it.id, path.strip_prefix(&it.path).ok()?)))
            else {
                return Ok(None);
            };
            let mut statement = db.prepare_cached(&sql)?;
            let found = statement.query_row(params![root, path_bytes(relative)], |row| read_record(row, &self.owners));
            Ok(found.optional()?)
        })
    }

    /// Returns up to `limit` files with an id above `after`, by id, whose images may contain text that OCR has not read:
    /// image files, and PDFs with pages without a text layer, even if OCR has read other pages. `every` selects all images
    /// and PDFs, read or not.
    pub fn unread_pictures(
        &self,
        under: Option<&Path>,
        every: bool,
        after: FileId,
        limit: usize,
    ) -> Result<Vec<FileRecord>> {
        let unread = format!(
            "AND ((kind = 'image' AND detail NOT LIKE '%{READ_BY_OCR}%') OR detail LIKE '%{WITHOUT_TEXT_LAYER}%')"
        );
        let unread = if every { "" } else { &unread };
        self.database.read(|db| {
            let (place, mut values) = match under {
                Some(path) => path_condition(db, path)?,
                None => ("1".to_string(), Vec::new()),
            };
            let sql = format!(
                "SELECT id FROM files WHERE deleted_ns IS NULL AND kind IN ('image', 'pdf') AND {place} {unread} \
                 AND (state = 'indexed' OR (state = 'skipped' AND reason = 'no_text')) AND id > ? ORDER BY id LIMIT ?"
            );
            values.extend([after.into(), signed(limit as u64).into()]);
            let mut statement = db.prepare_cached(&sql)?;
            let ids = statement.query_map(params_from_iter(&values), |row| row.get(0))?;
            let ids = ids.collect::<rusqlite::Result<Vec<FileId>>>()?;
            self.load_records(db, &ids)
        })
    }

    /// Returns the ids of the pending files at or below a path of a root, unordered.
    pub fn pending_below(&self, root_id: RootId, path: &Path) -> Result<Vec<FileId>> {
        let (start, end) = range_below(path);
        self.database.read(|db| {
            let mut statement = db.prepare_cached(
                "SELECT id FROM files WHERE deleted_ns IS NULL AND state = 'pending' AND root_id = ?1 \
                 AND (path = ?2 OR (path >= ?3 AND path < ?4))",
            )?;
            let ids = statement.query_map(params![root_id, path_bytes(path), start, end], |row| row.get(0))?;
            Ok(ids.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns those of the given files that are still pending.
    pub fn still_pending(&self, mut ids: Vec<FileId>) -> Result<Vec<FileId>> {
        self.database.read(|db| {
            let mut statement =
                db.prepare_cached("SELECT 1 FROM files WHERE id = ?1 AND deleted_ns IS NULL AND state = 'pending'")?;
            let mut outcome = Ok(());
            ids.retain(|id| match statement.exists([id]) {
                Ok(pending) => pending,
                Err(error) => {
                    outcome = Err(error);
                    true
                }
            });
            outcome?;
            Ok(ids)
        })
    }

    /// Returns up to `limit` indexed files with an id above `after`, by id.
    pub fn indexed_after(&self, after: FileId, limit: usize) -> Result<Vec<FileRecord>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached(
                "SELECT id FROM files WHERE deleted_ns IS NULL AND state = 'indexed' AND id > ?1 ORDER BY id LIMIT ?2",
            )?;
            let ids = statement.query_map(params![after, signed(limit as u64)], |row| row.get(0))?;
            let ids = ids.collect::<rusqlite::Result<Vec<FileId>>>()?;
            self.load_records(db, &ids)
        })
    }

    /// Counts files by state and reason, in one root or in all.
    pub fn coverage(&self, root: Option<RootId>) -> Result<Coverage> {
        let sql = "SELECT state, reason, count(*) FROM files WHERE deleted_ns IS NULL AND (?1 IS NULL OR root_id = ?1) \
                   GROUP BY root_id, state, reason";
        let awaiting = format!("SELECT count(*) FROM files WHERE {AWAITS_VECTORS} AND (?1 IS NULL OR root_id = ?1)");
        self.database.read(|db| {
            let mut coverage = sum_coverage(db.prepare_cached(sql)?.query([root])?)?;
            let awaiting: i64 = db.prepare_cached(&awaiting)?.query_row([root], |row| row.get(0))?;
            coverage.awaiting_vectors = awaiting.cast_unsigned();
            Ok(coverage)
        })
    }

    /// Counts the files of a scope by state and reason.
    pub fn coverage_within(&self, scope: &Scope) -> Result<Coverage> {
        if scope.is_all() {
            return self.coverage(None);
        }
        self.database.read(|db| {
            let (place, values) = scope_condition(db, scope)?;
            let sql = format!(
                "SELECT state, reason, count(*) FROM files WHERE deleted_ns IS NULL AND {place} GROUP BY state, reason"
            );
            let mut coverage = sum_coverage(db.prepare_cached(&sql)?.query(params_from_iter(&values))?)?;
            let sql = format!("SELECT count(*) FROM files WHERE {AWAITS_VECTORS} AND {place}");
            let awaiting: i64 = db.prepare_cached(&sql)?.query_row(params_from_iter(&values), |row| row.get(0))?;
            coverage.awaiting_vectors = awaiting.cast_unsigned();
            Ok(coverage)
        })
    }

    /// Counts the chunks of the indexed files in a scope.
    pub fn chunks_within(&self, scope: &Scope) -> Result<u64> {
        self.database.read(|db| {
            let (place, values) = scope_condition(db, scope)?;
            let sql = format!(
                "SELECT coalesce(sum(chunks), 0) FROM files WHERE deleted_ns IS NULL AND state = 'indexed' AND {place}"
            );
            let chunks: i64 = db.prepare_cached(&sql)?.query_row(params_from_iter(&values), |row| row.get(0))?;
            Ok(chunks.cast_unsigned())
        })
    }

    /// Counts the pending files, in one root or in all.
    pub fn pending_count(&self, root: Option<RootId>) -> Result<u64> {
        let sql = format!(
            "SELECT count(*) FROM files WHERE deleted_ns IS NULL AND (?1 IS NULL OR root_id = ?1) AND {}",
            states_condition(&[FileState::Pending])
        );
        self.database.read(|db| {
            let count: i64 = db.prepare_cached(&sql)?.query_row([root], |row| row.get(0))?;
            Ok(count.cast_unsigned())
        })
    }

    /// Counts the pending files, but stops at `most`, to bound the time of the query.
    pub fn pending_up_to(&self, most: u64) -> Result<u64> {
        let pending = states_condition(&[FileState::Pending]);
        let sql = format!("SELECT count(*) FROM (SELECT 1 FROM files WHERE deleted_ns IS NULL AND {pending} LIMIT ?1)");
        self.database.read(|db| {
            let count: i64 = db.prepare_cached(&sql)?.query_row([signed(most)], |row| row.get(0))?;
            Ok(count.cast_unsigned())
        })
    }

    /// Returns the number of pending files, and the total size in bytes of those that have no chunks yet and may
    /// contain much text: all kinds except image, archive, media and other.
    pub fn pending_size(&self) -> Result<(u64, u64)> {
        let sql = format!(
            "SELECT count(*), coalesce(sum(size) FILTER (WHERE chunks = 0 \
             AND kind NOT IN ('image', 'archive', 'media', 'other')), 0) FROM files WHERE deleted_ns IS NULL AND {}",
            states_condition(&[FileState::Pending])
        );
        self.database.read(|db| {
            let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
            let (files, bytes) = db.prepare_cached(&sql)?.query_row([], row)?;
            Ok((files.cast_unsigned(), bytes.cast_unsigned()))
        })
    }

    fn select_ids(&self, db: &Transaction<'_>, filter: &FileFilter, order: &str) -> Result<Vec<FileId>, DbError> {
        let condition = Condition::new(db, filter, &self.owners)?;
        // Reads the paths only for a glob: without them, an index often covers the query.
        let columns = if condition.glob.is_some() { "id, path, root_id" } else { "id" };
        let sql = format!("SELECT {columns} FROM files WHERE {} ORDER BY {order}", condition.sql);
        let mut statement = db.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(&condition.values))?;
        let mut ids = Vec::new();
        while let Some(row) = rows.next()? {
            if condition.matches_glob(|| Ok((row.get(2)?, path_from_bytes(row.get(1)?))))? {
                ids.push(row.get(0)?);
            }
        }
        Ok(ids)
    }

    fn load_records(&self, db: &Transaction<'_>, ids: &[FileId]) -> Result<Vec<FileRecord>, DbError> {
        let sql = format!(
            "SELECT {RECORD_COLUMNS} FROM files f JOIN roots r ON r.id = f.root_id WHERE f.id = ?1 AND f.deleted_ns IS NULL"
        );
        let mut statement = db.prepare_cached(&sql)?;
        let mut records = Vec::with_capacity(ids.len());
        for id in ids {
            records.extend(statement.query_row([id], |row| read_record(row, &self.owners)).optional()?);
        }
        Ok(records)
    }
}

/// Sums up rows of state, reason and count.
fn sum_coverage(mut rows: Rows<'_>) -> rusqlite::Result<Coverage> {
    let mut coverage = Coverage::default();
    while let Some(row) = rows.next()? {
        let count = row.get::<_, i64>(2)?.cast_unsigned();
        coverage.found += count;
        match row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)? {
            "indexed" => coverage.indexed += count,
            "skipped" => coverage.skipped += count,
            "failed" => coverage.failed += count,
            _ => coverage.pending += count,
        }
        if let Some(reason) = row.get::<_, Option<String>>(1)? {
            *coverage.reasons.entry(reason).or_default() += count;
        }
    }
    Ok(coverage)
}
