//! The ledger of a table on a server: which of its rows are valid, and how many chunks contain each word.
//!
//! A server acknowledges rows one batch at a time, may return deleted rows, and counts rows wrongly. So the ledger decides
//! what exists: every change gets a new number, its generation, and a row is valid only if the ledger has its file,
//! generation and ordinal. A change becomes visible when [`StoreLedger::commit`] returns. Files whose rows on the server may
//! be invalid are listed until these rows are deleted.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::SystemTime;

use rusqlite::{OptionalExtension, Transaction, params};

use crate::catalog::database::{Database, DbError, Durability, Format, RANDOM_ACCESS_CACHE_KIB};
use crate::error::{Error, Result};
use crate::model::FileId;

const FORMAT: Format = Format {
    name: "ledger of the Milvus collection",
    version: 1,
    upgrades: &[],
    durability: Durability::Full,
    cache_kib: RANDOM_ACCESS_CACHE_KIB,
    hint: "stop the daemon, delete the file, then run `vic index --full`",
    schema: "
        CREATE TABLE runs (
            file_id INTEGER NOT NULL, generation INTEGER NOT NULL, first INTEGER NOT NULL, past INTEGER NOT NULL,
            PRIMARY KEY (file_id, generation, first)) WITHOUT ROWID;
        CREATE TABLE unclean (file_id INTEGER PRIMARY KEY);
        CREATE TABLE unfinished (generation INTEGER PRIMARY KEY);
        CREATE TABLE terms (term INTEGER PRIMARY KEY, chunks INTEGER NOT NULL);
        CREATE TABLE totals (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;",
};

/// Name of the total that is the last generation that was begun.
const GENERATION: &str = "generation";
/// Name of the total of all chunks that were ever written, which is the divisor of the mean length.
const WRITTEN_CHUNKS: &str = "written_chunks";
/// Name of the total of words of all chunks that were ever written.
const WRITTEN_WORDS: &str = "written_words";
/// Name of the total that identifies the ledger.
const IDENTITY: &str = "identity";

/// A run of chunks of a file with consecutive ordinals, written by one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkRun {
    /// The file.
    pub file_id: FileId,
    /// Number of the change.
    pub generation: u64,
    /// Ordinals of the chunks.
    pub ordinals: Range<u32>,
}

impl ChunkRun {
    /// Returns the parts of the run before and after these ordinals.
    pub fn without(&self, ordinals: &Range<u32>) -> Vec<ChunkRun> {
        let Range { start, end } = self.ordinals;
        let parts = [start..end.min(ordinals.start), start.max(ordinals.end)..end];
        let run = |ordinals| ChunkRun { ordinals, ..self.clone() };
        parts.into_iter().filter(|it| !it.is_empty()).map(run).collect()
    }
}

/// Words of new chunks, for the statistics of keyword search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordCounts {
    /// For each term, the number of chunks that contain it.
    pub chunks_by_term: BTreeMap<u32, u64>,
    /// Number of chunks.
    pub chunks: u64,
    /// Number of words of all chunks.
    pub words: u64,
}

/// A finished change of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerChange {
    /// Number of the change, from [`StoreLedger::begin`].
    pub generation: u64,
    /// The ordinals of each file that the change replaces; `None` for all.
    pub replaced: Vec<(FileId, Option<Range<u32>>)>,
    /// The new runs.
    pub added: Vec<ChunkRun>,
    /// Statistics of the words in the new chunks.
    pub words: WordCounts,
    /// The files that have no invalid rows on the server now.
    pub clean: Vec<FileId>,
}

/// The ledger of one table in a SQLite database.
pub struct StoreLedger {
    database: Database,
}

impl StoreLedger {
    /// Opens or creates the ledger at `path`.
    ///
    /// # Errors
    /// The file cannot be created, is corrupt (`DataLoss`), or a newer vic wrote it.
    pub fn open(path: &Path) -> Result<StoreLedger> {
        Ok(StoreLedger { database: Database::open(path, &FORMAT)? })
    }

    /// Opens an existing ledger to read it only.
    ///
    /// # Errors
    /// The file cannot be read or is corrupt.
    pub fn open_read_only(path: &Path) -> Result<StoreLedger> {
        Ok(StoreLedger { database: Database::open_read_only(path, &FORMAT)? })
    }

    /// Begins a change of the chunks of these files. Returns its generation, and those of the files that were not unclean
    /// before. On return, all are listed as unclean.
    ///
    /// # Errors
    /// The database cannot be written, as for every method that changes it.
    pub fn begin(&self, files: &[FileId]) -> Result<(u64, Vec<FileId>)> {
        self.database.write(|db| {
            // The clock makes numbers new after the ledger was restored from a backup. It need not be right.
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let generation = (total(db, GENERATION)? + 1).max(now.as_millis() as u64);
            set_total(db, GENERATION, generation)?;
            db.prepare_cached("INSERT INTO unfinished (generation) VALUES (?1)")?
                .execute([generation.cast_signed()])?;
            Ok((generation, add_unclean(db, files)?))
        })
    }

    /// Commits a change, which is visible from then on.
    ///
    /// # Errors
    /// The database cannot be written. The change is then not visible.
    pub fn commit(&self, change: &LedgerChange) -> Result<()> {
        let words = &change.words;
        self.database.write(|db| {
            for (file_id, ordinals) in &change.replaced {
                remove_runs(db, *file_id, ordinals.as_ref())?;
            }
            change.added.iter().try_for_each(|it| insert_run(db, it))?;
            add_terms(db, &words.chunks_by_term, 1)?;
            set_total(db, WRITTEN_CHUNKS, total(db, WRITTEN_CHUNKS)? + words.chunks)?;
            set_total(db, WRITTEN_WORDS, total(db, WRITTEN_WORDS)? + words.words)?;
            db.prepare_cached("DELETE FROM unfinished WHERE generation = ?1")?
                .execute([change.generation.cast_signed()])?;
            remove_unclean(db, &change.clean)
        })
    }

    /// Deletes all runs of these files. On return, the files have no valid rows and are listed as unclean.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn delete(&self, files: &[FileId]) -> Result<()> {
        self.database.write(|db| {
            files.iter().try_for_each(|it| remove_runs(db, *it, None))?;
            add_unclean(db, files).map(drop)
        })
    }

    /// Records that the invalid rows of these files are deleted from the server. `terms` holds, for each term, how many of
    /// the deleted rows of finished changes contained it.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn note_clean(&self, files: &[FileId], terms: &BTreeMap<u32, u64>) -> Result<()> {
        self.database.write(|db| {
            add_terms(db, terms, -1)?;
            let mut empty = db.prepare_cached("DELETE FROM terms WHERE term = ?1 AND chunks <= 0")?;
            terms.keys().try_for_each(|it| empty.execute([it]).map(drop))?;
            remove_unclean(db, files)?;
            let is_clean: bool = db.query_row("SELECT NOT EXISTS (SELECT 1 FROM unclean)", [], |row| row.get(0))?;
            if is_clean {
                db.execute("DELETE FROM unfinished", [])?;
            }
            Ok(())
        })
    }

    /// Returns up to `limit` files that may have invalid rows on the server.
    ///
    /// # Errors
    /// The database cannot be read, as for every method that reads it.
    pub fn unclean(&self, limit: usize) -> Result<Vec<FileId>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT file_id FROM unclean ORDER BY file_id LIMIT ?1")?;
            Ok(statement.query_map([limit as i64], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Lists files as unclean, because the server has rows of them that the ledger does not know.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn note_unclean(&self, files: &[FileId]) -> Result<()> {
        self.database.write(|db| add_unclean(db, files).map(drop))
    }

    /// Returns the generations of changes that were begun and not committed.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn unfinished(&self) -> Result<Vec<u64>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT generation FROM unfinished")?;
            let generations = statement.query_map([], |row| Ok(row.get::<_, i64>(0)?.cast_unsigned()))?;
            Ok(generations.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns all runs, sorted by file.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn runs(&self) -> Result<Vec<ChunkRun>> {
        self.database.read(|db| {
            let mut statement = db.prepare("SELECT file_id, generation, first, past FROM runs ORDER BY file_id")?;
            Ok(statement.query_map([], read_run)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns, for each term, how many chunks contain it.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn chunks_with(&self, terms: &[u32]) -> Result<Vec<u64>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT chunks FROM terms WHERE term = ?1")?;
            let mut count = |term: &u32| statement.query_row([term], |row| row.get::<_, i64>(0)).optional();
            let counts = terms.iter().map(|it| Ok(count(it)?.unwrap_or(0).cast_unsigned()));
            Ok(counts.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns how many chunks were ever written and how many words they had.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn written(&self) -> Result<(u64, u64)> {
        self.database.read(|db| Ok((total(db, WRITTEN_CHUNKS)?, total(db, WRITTEN_WORDS)?)))
    }

    /// Returns the random number of this ledger, which its collection carries too: a collection with another number was
    /// not written with this ledger.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn identity(&self) -> Result<u64> {
        self.database.write(|db| {
            let known = total(db, IDENTITY)?;
            if known > 0 {
                return Ok(known);
            }
            let mut random = [0; 8];
            getrandom::fill(&mut random).map_err(Error::internal)?;
            // Positive, because SQLite has no unsigned numbers and 0 stands for a missing one.
            let identity = (u64::from_le_bytes(random) >> 1).max(1);
            set_total(db, IDENTITY, identity)?;
            Ok(identity)
        })
    }

    /// Forgets all rows, because the server has lost its collection. Generations are not used again.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn clear(&self) -> Result<()> {
        self.database.write(|db| {
            db.execute_batch("DELETE FROM runs; DELETE FROM unclean; DELETE FROM unfinished; DELETE FROM terms;")?;
            Ok(())
        })
    }
}

fn read_run(row: &rusqlite::Row<'_>) -> rusqlite::Result<ChunkRun> {
    let generation = row.get::<_, i64>(1)?.cast_unsigned();
    Ok(ChunkRun { file_id: row.get(0)?, generation, ordinals: row.get(2)?..row.get(3)? })
}

fn insert_run(db: &Transaction<'_>, run: &ChunkRun) -> Result<(), DbError> {
    let sql = "INSERT INTO runs (file_id, generation, first, past) VALUES (?1, ?2, ?3, ?4)";
    let ChunkRun { file_id, generation, ordinals } = run;
    db.prepare_cached(sql)?.execute(params![file_id, generation.cast_signed(), ordinals.start, ordinals.end])?;
    Ok(())
}

/// Removes the chunks of a file with these ordinals, or all. A run that is only partly in the range is cut.
fn remove_runs(db: &Transaction<'_>, file_id: FileId, ordinals: Option<&Range<u32>>) -> Result<(), DbError> {
    let sql = "DELETE FROM runs WHERE file_id = ?1 RETURNING file_id, generation, first, past";
    let mut statement = db.prepare_cached(sql)?;
    let removed = statement.query_map([file_id], read_run)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let Some(ordinals) = ordinals else { return Ok(()) };
    removed.iter().flat_map(|it| it.without(ordinals)).try_for_each(|it| insert_run(db, &it))
}

/// Lists files as unclean. Returns those that were not listed.
fn add_unclean(db: &Transaction<'_>, files: &[FileId]) -> Result<Vec<FileId>, DbError> {
    let mut statement = db.prepare_cached("INSERT OR IGNORE INTO unclean (file_id) VALUES (?1)")?;
    let mut new = Vec::new();
    for file_id in files {
        if statement.execute([file_id])? == 1 {
            new.push(*file_id);
        }
    }
    Ok(new)
}

fn remove_unclean(db: &Transaction<'_>, files: &[FileId]) -> Result<(), DbError> {
    let mut statement = db.prepare_cached("DELETE FROM unclean WHERE file_id = ?1")?;
    files.iter().try_for_each(|it| statement.execute([it]).map(drop).map_err(DbError::from))
}

fn add_terms(db: &Transaction<'_>, terms: &BTreeMap<u32, u64>, sign: i64) -> Result<(), DbError> {
    let sql = "INSERT INTO terms (term, chunks) VALUES (?1, ?2) ON CONFLICT (term) DO UPDATE SET chunks = chunks + ?2";
    let mut statement = db.prepare_cached(sql)?;
    for (term, chunks) in terms {
        statement.execute(params![term, sign * chunks.cast_signed()])?;
    }
    Ok(())
}

fn total(db: &Transaction<'_>, name: &str) -> Result<u64, DbError> {
    let mut statement = db.prepare_cached("SELECT value FROM totals WHERE name = ?1")?;
    let found = statement.query_row([name], |row| row.get::<_, i64>(0)).optional()?;
    Ok(found.unwrap_or(0).cast_unsigned())
}

fn set_total(db: &Transaction<'_>, name: &str, value: u64) -> Result<(), DbError> {
    let sql = "INSERT INTO totals (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2";
    db.prepare_cached(sql)?.execute(params![name, value.cast_signed()])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> (tempfile::TempDir, StoreLedger) {
        let dir = tempfile::tempdir().unwrap();
        let ledger = StoreLedger::open(&dir.path().join("ledger.sqlite")).unwrap();
        (dir, ledger)
    }

    fn run(file_id: FileId, generation: u64, ordinals: Range<u32>) -> ChunkRun {
        ChunkRun { file_id, generation, ordinals }
    }

    fn words(terms: &[u32]) -> WordCounts {
        WordCounts { chunks_by_term: terms.iter().map(|it| (*it, 2)).collect(), chunks: 4, words: 40 }
    }

    /// Commits chunks of one file with these ordinals in place of the chunks with the ordinals `replaced`.
    fn write(ledger: &StoreLedger, file_id: FileId, replaced: Option<Range<u32>>, ordinals: Range<u32>) -> u64 {
        let (generation, clean) = ledger.begin(&[file_id]).unwrap();
        let (replaced, added) = (vec![(file_id, replaced)], vec![run(file_id, generation, ordinals)]);
        let change = LedgerChange { generation, replaced, added, clean, ..LedgerChange::default() };
        ledger.commit(&change).unwrap();
        generation
    }

    #[test]
    fn change_is_visible_only_after_commit() {
        let (dir, ledger) = ledger();
        let (first, new) = ledger.begin(&[1, 2]).unwrap();
        assert_eq!((new, ledger.runs().unwrap(), ledger.unclean(9).unwrap()), (vec![1, 2], vec![], vec![1, 2]));
        let change = LedgerChange {
            generation: first,
            replaced: vec![(1, None), (2, None)],
            added: vec![run(1, first, 0..4)],
            words: words(&[7, u32::MAX]),
            clean: vec![2],
        };
        ledger.commit(&change).unwrap();
        drop(ledger);
        let ledger = StoreLedger::open(&dir.path().join("ledger.sqlite")).unwrap();
        assert_eq!(ledger.runs().unwrap(), [run(1, first, 0..4)]);
        assert_eq!((ledger.unclean(9).unwrap(), ledger.unfinished().unwrap()), (vec![1], vec![]));
        assert_eq!(ledger.chunks_with(&[7, 8, u32::MAX]).unwrap(), [2, 0, 2]);
        assert_eq!(ledger.written().unwrap(), (4, 40));
        assert!(ledger.identity().unwrap() > 0 && ledger.identity().unwrap() == ledger.identity().unwrap());
        let (second, new) = ledger.begin(&[1]).unwrap();
        assert!(second > first && new.is_empty() && ledger.unfinished().unwrap() == [second]);
    }

    #[test]
    fn replaced_range_cuts_runs() {
        let (_dir, ledger) = ledger();
        let first = write(&ledger, 1, None, 0..10);
        let second = write(&ledger, 1, Some(3..5), 3..4);
        let mut runs = ledger.runs().unwrap();
        runs.sort_by_key(|it| it.ordinals.start);
        assert_eq!(runs, [run(1, first, 0..3), run(1, second, 3..4), run(1, first, 5..10)]);
    }

    #[test]
    fn deleted_files_stay_unclean_until_noted_as_clean() {
        let (_dir, ledger) = ledger();
        let (first, clean) = ledger.begin(&[1, 2]).unwrap();
        let added = vec![run(1, first, 0..1), run(2, first, 0..1)];
        let change = LedgerChange { generation: first, added, words: words(&[7, 8]), clean, ..LedgerChange::default() };
        ledger.commit(&change).unwrap();
        ledger.delete(&[1]).unwrap();
        assert_eq!((ledger.runs().unwrap(), ledger.unclean(9).unwrap()), (vec![run(2, first, 0..1)], vec![1]));
        ledger.note_clean(&[1], &BTreeMap::from([(7, 2), (8, 1)])).unwrap();
        assert_eq!((ledger.unclean(9).unwrap(), ledger.chunks_with(&[7, 8]).unwrap()), (vec![], vec![0, 1]));
    }

    #[test]
    fn cleared_ledger_does_not_reuse_generations() {
        let (_dir, ledger) = ledger();
        let first = write(&ledger, 1, None, 0..1);
        ledger.clear().unwrap();
        assert!(ledger.runs().unwrap().is_empty() && ledger.begin(&[1]).unwrap().0 > first);
    }
}
