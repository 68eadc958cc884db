//! Selects files by a predicate in Rust that is called for each row; only the columns that the predicate needs are read.

use rusqlite::types::ValueRef;
use rusqlite::{Row, params_from_iter};

use crate::catalog::Catalog;
use crate::catalog::files::filter::Condition;
use crate::catalog::files::row::{RECORD_COLUMNS, path_from_bytes, read_record};
use crate::error::Result;
use crate::model::{ContentHash, FileFilter, FileId, FileRecord};

/// A column of `files` that a predicate may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Column {
    /// Path relative to the root.
    Path,
    /// Last component of the path, lower case and NFC.
    Name,
    /// Lowercase extension without the dot.
    Extension,
    /// Size in bytes.
    Size,
    /// Modification time, in nanoseconds since the epoch.
    Modified,
    /// Broad kind, such as mail or spreadsheet.
    Kind,
    /// Media type, such as `text/plain`; empty if the content was not read.
    MediaType,
    /// State: pending, indexed, skipped or failed.
    State,
    /// Why the file was skipped or failed.
    Reason,
    /// User name of the owner.
    Owner,
    /// Number of chunks.
    Chunks,
    /// Hash of the content.
    Hash,
}

impl Column {
    fn sql(self) -> &'static str {
        match self {
            Column::Path => "path",
            Column::Name => "name",
            Column::Extension => "extension",
            Column::Size => "size",
            Column::Modified => "modified_ns",
            Column::Kind => "kind",
            Column::MediaType => "media_type",
            Column::State => "state",
            Column::Reason => "reason",
            Column::Owner => "uid",
            Column::Chunks => "chunks",
            Column::Hash => "hash",
        }
    }
}

/// The value of a column in one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// The file has no value in this column.
    Absent,
    /// A string.
    Text(String),
    /// A number: size, time or count.
    Number(i64),
    /// A content hash.
    Hash(ContentHash),
}

/// One row that is passed to a predicate: a file and the values of the requested columns.
pub struct PredicateRow {
    /// Id of the file in the catalog.
    pub id: FileId,
    /// The values of the requested columns, in the order of the request.
    pub cells: Vec<Cell>,
}

impl Catalog {
    /// Returns the ids of the files that match a filter and for which `keep` returns true, sorted.
    ///
    /// # Errors
    /// As [`Catalog::select`].
    pub fn select_where(
        &self,
        filter: &FileFilter,
        columns: &[Column],
        mut keep: impl FnMut(&PredicateRow) -> bool,
    ) -> Result<Vec<FileId>> {
        self.database.read(|db| {
            let condition = Condition::new(db, filter, &self.owners)?;
            let names: String = columns.iter().map(|it| format!(", {}", it.sql())).collect();
            let sql = format!("SELECT id, path, root_id{names} FROM files WHERE {} ORDER BY id", condition.sql);
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query(params_from_iter(&condition.values))?;
            let mut kept = Vec::new();
            let mut sieved = PredicateRow { id: 0, cells: Vec::with_capacity(columns.len()) };
            while let Some(row) = rows.next()? {
                sieved.id = row.get(0)?;
                sieved.cells.clear();
                for (at, column) in columns.iter().enumerate() {
                    sieved.cells.push(self.read_cell(row, at + 3, *column)?);
                }
                if keep(&sieved) && condition.matches_glob(|| Ok((row.get(2)?, path_from_bytes(row.get(1)?))))? {
                    kept.push(sieved.id);
                }
            }
            Ok(kept)
        })
    }

    /// Returns the records of all files that match a filter, by id.
    ///
    /// # Errors
    /// As [`Catalog::select`].
    pub fn all_records(&self, filter: &FileFilter) -> Result<Vec<FileRecord>> {
        self.database.read(|db| {
            let condition = Condition::new(db, filter, &self.owners)?;
            let inner = format!("SELECT id FROM files WHERE {}", condition.sql);
            let sql = format!(
                "SELECT {RECORD_COLUMNS} FROM files f JOIN roots r ON r.id = f.root_id WHERE f.id IN ({inner}) ORDER BY f.id"
            );
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query(params_from_iter(&condition.values))?;
            let mut records = Vec::new();
            while let Some(row) = rows.next()? {
                let found = read_record(row, &self.owners)?;
                if condition.matches_glob(|| Ok((found.root_id, found.found.path.clone())))? {
                    records.push(found);
                }
            }
            Ok(records)
        })
    }

    fn read_cell(&self, row: &Row<'_>, at: usize, column: Column) -> rusqlite::Result<Cell> {
        if column == Column::Owner {
            return Ok(Cell::Text(self.owners.name(row.get(at)?)));
        }
        Ok(match row.get_ref(at)? {
            ValueRef::Null | ValueRef::Real(_) => Cell::Absent,
            ValueRef::Integer(number) => Cell::Number(number),
            ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(bytes) => match (column, <[u8; 32]>::try_from(bytes)) {
                (Column::Hash, Ok(hash)) => Cell::Hash(ContentHash(hash)),
                _ => Cell::Text(String::from_utf8_lossy(bytes).into_owned()),
            },
        })
    }
}
