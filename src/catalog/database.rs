//! One SQLite file: migrations by format version, one writer, several readers, and SQLite errors mapped to errors of vic.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode as Sqlite, OpenFlags, Transaction, TransactionBehavior};
use tokio::sync::watch;

use crate::error::{DISK_ERROR_HINT, Error, ErrorCode, Result};

/// Maximum number of idle reader connections kept open; usually no more queries run concurrently.
const IDLE_READERS: usize = 4;

/// How long a statement waits for a lock of another process, such as a backup or the `sqlite3` shell.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of prepared statements cached by each connection; the catalog uses fewer.
const CACHED_STATEMENTS: usize = 64;

/// Page cache of the writer, in KiB, for a database in which every change looks up scattered rows. Twice as much does not
/// speed up a walk of 200,000 files.
pub(super) const RANDOM_ACCESS_CACHE_KIB: u32 = 16 << 10;

/// Page cache of the writer, in KiB, for an append-mostly database: the default of SQLite. A writer keeps its written
/// pages until the cache is full: with 32 MiB, one save a second made the daemon grow for four hours. A larger cache does
/// not speed up inserting 300,000 vectors, because the page cache of the operating system holds the file too.
pub(super) const APPEND_CACHE_KIB: u32 = 2 << 10;

/// Which commits survive a power loss. A crash of vic alone loses no commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// Every commit survives a power loss.
    Full,
    /// Commits before the last checkpoint survive a power loss; later ones may be lost, but the file stays consistent.
    Normal,
}

/// Name, format version, schema and SQLite settings of one kind of database.
pub(super) struct Format {
    /// Name of the database in error messages.
    pub(super) name: &'static str,
    /// Format version, stored as `user_version`. Raise it with every change of `schema`, and add an entry to `upgrades`.
    pub(super) version: i64,
    /// Migrations in SQL: the first entry upgrades version 1 to 2, the second 2 to 3, and so on.
    pub(super) upgrades: &'static [&'static str],
    /// Which commits survive a power loss.
    pub(super) durability: Durability,
    /// Maximum size of the writer's page cache, in KiB.
    pub(super) cache_kib: u32,
    /// Hint of the error about a corrupt database.
    pub(super) hint: &'static str,
    /// SQL that creates the tables of the current version in an empty file.
    pub(super) schema: &'static str,
}

/// An open SQLite file: the writer connection and a pool of reader connections.
pub(super) struct Database {
    path: PathBuf,
    hint: &'static str,
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
    /// Number of commits since the database was opened.
    commits: watch::Sender<u64>,
    /// The new path of the corrupt file that this database replaced when it was opened.
    pub(super) quarantined: Option<PathBuf>,
}

impl Database {
    /// Opens the database at `path` and migrates it; creates a missing file and its folder.
    pub(super) fn open(path: &Path, format: &Format) -> Result<Database> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| Error::io("create", parent, &error))?;
        }
        Ok(Database::new(path, format, open_and_migrate(path, format).map_err(|it| it.explain(path, format))?))
    }

    /// Opens the file read-only, without migrating it.
    pub(super) fn open_read_only(path: &Path, format: &Format) -> Result<Database> {
        let look = || -> Result<Connection, OpenError> {
            let db = open_connection_read_only(path)?;
            match stored_version(&db, format)? {
                version if version < format.version => Err(OpenError::Older(version)),
                _ => Ok(db),
            }
        };
        Ok(Database::new(path, format, look().map_err(|it| it.explain(path, format))?))
    }

    fn new(path: &Path, format: &Format, writer: Connection) -> Database {
        let (writer, readers, commits) = (Mutex::new(writer), Mutex::default(), watch::Sender::new(0));
        Database { path: path.into(), hint: format.hint, writer, readers, commits, quarantined: None }
    }

    /// Returns a receiver of the number of commits by this process.
    pub(super) fn commits(&self) -> watch::Receiver<u64> {
        self.commits.subscribe()
    }

    /// Runs `work` in one transaction, which is committed if `work` returns `Ok` and rolled back otherwise.
    pub(super) fn write<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T, DbError>) -> Result<T> {
        // Taking a poisoned lock is safe: a panic in `work` dropped its transaction, which rolled it back.
        let mut writer = lock(&self.writer);
        let run = || -> Result<T, DbError> {
            let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        };
        let value = run().map_err(|error| self.explain(error))?;
        self.commits.send_modify(|it| *it += 1);
        Ok(value)
    }

    /// Runs `work` on one consistent snapshot, concurrently with the writer.
    pub(super) fn read<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T, DbError>) -> Result<T> {
        let idle = lock(&self.readers).pop();
        let mut reader = match idle {
            Some(reader) => reader,
            None => self.reader().map_err(|error| self.explain(error.into()))?,
        };
        let value = {
            let run = || -> Result<T, DbError> {
                let transaction = reader.transaction()?;
                work(&transaction)
            };
            run().map_err(|error| self.explain(error))?
        };
        let mut readers = lock(&self.readers);
        if readers.len() < IDLE_READERS {
            readers.push(reader);
        }
        Ok(value)
    }

    /// Reads the whole file and checks it for corruption.
    pub(super) fn check(&self) -> Result<()> {
        let found: String = self.read(|db| Ok(db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?))?;
        if found == "ok" {
            return Ok(());
        }
        let message = format!("`{}` is damaged: {found}", self.path.display());
        Err(Error::new(ErrorCode::DataLoss, message).hint(self.hint))
    }

    /// Empties the write-ahead log, as [`flush_database`] does.
    pub(super) fn flush(&self) -> Result<()> {
        flush_database(&self.path)
    }

    fn reader(&self) -> rusqlite::Result<Connection> {
        let reader = open_connection_read_only(&self.path)?;
        cache_statements(&reader)?;
        Ok(reader)
    }

    /// Returns the maximum size of the writer's page cache that SQLite applies, in KiB.
    #[cfg(test)]
    pub(super) fn cache_limit_kib(&self) -> i64 {
        // SQLite reports the size as a negative number if it is in KiB, and as a positive one if it is in pages.
        -lock(&self.writer).pragma_query_value(None, "cache_size", |row| row.get::<_, i64>(0)).unwrap()
    }

    /// Turns an error of a transaction into an error for the user, with path and hint.
    pub(super) fn explain(&self, error: DbError) -> Error {
        match error {
            DbError::Sqlite(error) => explain_sqlite(&error, &self.path, self.hint),
            DbError::Other(error) => error,
        }
    }
}

fn open_connection_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    Ok(db)
}

/// Checks a database for corruption without writing; it may be in use. A missing database passes.
///
/// # Errors
/// [`ErrorCode::DataLoss`] when the database is corrupt.
pub fn check_database(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let read = || -> rusqlite::Result<String> {
        let db = open_connection_read_only(path)?;
        db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
    };
    let hint = "run `vic doctor --fix`: it renames the file and creates a new one";
    match read() {
        Ok(found) if found == "ok" => Ok(()),
        Ok(found) => {
            let message = format!("`{}` is damaged: {found}", path.display());
            Err(Error::new(ErrorCode::DataLoss, message).hint(hint))
        }
        Err(error) => Err(explain_sqlite(&error, path, hint)),
    }
}

/// Moves the whole write-ahead log of a database, which may be in use, into the main file and truncates it: afterwards
/// neither file holds deleted data. A concurrent reader can prevent this. A missing database passes.
///
/// # Errors
/// When the file cannot be written.
pub fn flush_database(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let flush = || -> rusqlite::Result<()> {
        let db =
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        db.busy_timeout(BUSY_TIMEOUT)?;
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    };
    flush().map_err(|error| explain_sqlite(&error, path, "run `vic doctor`"))
}

/// Error of the closure that runs inside a transaction.
pub(super) enum DbError {
    /// An error of SQLite; [`Database::explain`] adds the path.
    Sqlite(rusqlite::Error),
    /// Any other error, which is passed on unchanged.
    Other(Error),
}

impl From<rusqlite::Error> for DbError {
    fn from(error: rusqlite::Error) -> DbError {
        DbError::Sqlite(error)
    }
}

impl From<Error> for DbError {
    fn from(error: Error) -> DbError {
        DbError::Other(error)
    }
}

enum OpenError {
    Sqlite(rusqlite::Error),
    Newer(i64),
    /// The file has an older format and was opened read-only, so it cannot be migrated.
    Older(i64),
    Foreign,
}

impl OpenError {
    fn explain(self, path: &Path, format: &Format) -> Error {
        let (name, shown, known) = (format.name, path.display(), format.version);
        let (message, cure) = match self {
            OpenError::Sqlite(error) => return explain_sqlite(&error, path, format.hint),
            OpenError::Foreign => (
                format!("`{shown}` is another program's database, not vic's {name}"),
                "set VIC_DATA_DIR, or the setting with the path of this file, to another path",
            ),
            OpenError::Newer(version) => (
                format!("the {name} `{shown}` has format {version}, but this vic supports only formats up to {known}"),
                "run the newer vic that wrote the file, or set VIC_DATA_DIR to another folder",
            ),
            OpenError::Older(version) => (
                format!("the {name} `{shown}` has format {version}, written by an older vic"),
                "start the daemon: it upgrades the file",
            ),
        };
        Error::new(ErrorCode::FailedPrecondition, message).hint(cure)
    }
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> OpenError {
        OpenError::Sqlite(error)
    }
}

/// Returns the stored format version, or 0 for an empty file; fails for a newer format and for a database of another
/// program.
fn stored_version(db: &Connection, format: &Format) -> Result<i64, OpenError> {
    let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version > format.version {
        return Err(OpenError::Newer(version));
    }
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    if version == 0 && tables > 0 { Err(OpenError::Foreign) } else { Ok(version) }
}

fn open_and_migrate(path: &Path, format: &Format) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    // Reads the version before changing any setting: switching to WAL would already write to a file of a newer vic.
    let version = stored_version(&db, format)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    let sync = if format.durability == Durability::Full { "FULL" } else { "NORMAL" };
    db.pragma_update(None, "synchronous", sync)?;
    db.pragma_update(None, "journal_size_limit", 64 << 20)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    // Overwrites deleted data in the file, because the user may have deleted a file to get rid of its content.
    db.pragma_update(None, "secure_delete", true)?;
    // A negative `cache_size` is in KiB, a positive one in pages.
    db.pragma_update(None, "cache_size", -i64::from(format.cache_kib))?;
    cache_statements(&db)?;
    if version < format.version {
        let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        match usize::try_from(version - 1) {
            Ok(done) => format.upgrades.iter().skip(done).try_for_each(|it| transaction.execute_batch(it))?,
            Err(_) => transaction.execute_batch(format.schema)?,
        }
        transaction.pragma_update(None, "user_version", format.version)?;
        transaction.commit()?;
    }
    Ok(db)
}

/// Caches prepared statements and fixes their query plans. Without this, SQLite prepares a statement again for each
/// bound value, because the best plan might depend on the value: looking up one path took twice as long.
fn cache_statements(db: &Connection) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    Ok(())
}

fn explain_sqlite(error: &rusqlite::Error, path: &Path, hint: &str) -> Error {
    let code = match error.sqlite_error_code() {
        Some(Sqlite::NotADatabase | Sqlite::DatabaseCorrupt) => ErrorCode::DataLoss,
        Some(Sqlite::DiskFull) => ErrorCode::StorageFull,
        Some(Sqlite::OutOfMemory) => ErrorCode::ResourceExhausted,
        Some(Sqlite::DatabaseBusy | Sqlite::DatabaseLocked) => ErrorCode::Locked,
        Some(Sqlite::ReadOnly | Sqlite::PermissionDenied | Sqlite::CannotOpen) => ErrorCode::PermissionDenied,
        // A read error of the disk is not corruption: the file must not be quarantined.
        Some(Sqlite::SystemIoFailure) => ErrorCode::Unavailable,
        _ => ErrorCode::Internal,
    };
    let message = format!("cannot use `{}`: {error}", path.display());
    match code {
        ErrorCode::DataLoss => Error::new(code, message).hint(hint),
        ErrorCode::StorageFull => Error::new(code, message).hint("free some disk space"),
        ErrorCode::ResourceExhausted => Error::new(code, message).hint("out of memory: close some other programs"),
        ErrorCode::Locked => Error::new(code, message).hint("another program has locked the file; close that program"),
        ErrorCode::PermissionDenied => {
            Error::new(code, message).hint(format!("check the permissions of `{}`", path.display()))
        }
        ErrorCode::Unavailable => Error::new(code, message).hint(DISK_ERROR_HINT),
        _ => Error::new(code, message),
    }
}

/// Locks a mutex and ignores poison: the transaction of a thread that panicked was rolled back.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format {
        name: "test",
        version: 3,
        upgrades: &["ALTER TABLE t ADD COLUMN y INTEGER NOT NULL DEFAULT 7", "UPDATE t SET y = y + 1"],
        durability: Durability::Full,
        cache_kib: APPEND_CACHE_KIB,
        hint: "move it aside",
        schema: "CREATE TABLE t (x INTEGER NOT NULL, y INTEGER NOT NULL DEFAULT 7)",
    };

    #[test]
    fn older_format_runs_missing_migrations_once() {
        for (version, made, expected) in [
            (1, "CREATE TABLE t (x INTEGER NOT NULL); INSERT INTO t VALUES (1)", 8),
            (2, "CREATE TABLE t (x INTEGER NOT NULL, y INTEGER NOT NULL DEFAULT 7); INSERT INTO t VALUES (1, 4)", 5),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("db");
            let old = Connection::open(&path).unwrap();
            old.execute_batch(made).unwrap();
            old.pragma_update(None, "user_version", version).unwrap();
            drop(old);
            for _ in 0..2 {
                let db = Database::open(&path, &FORMAT).unwrap();
                let y: i64 = db.read(|tx| Ok(tx.query_row("SELECT y FROM t", [], |row| row.get(0))?)).unwrap();
                assert_eq!(y, expected, "from {version}");
            }
        }
    }

    #[test]
    fn newer_format_is_refused_before_any_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        Connection::open(&path).unwrap().pragma_update(None, "user_version", 4).unwrap();
        let before = std::fs::read(&path).unwrap();
        let error = Database::open(&path, &FORMAT).err().unwrap();
        assert_eq!(error.code, ErrorCode::FailedPrecondition);
        assert!(error.message.contains("format 4"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(dir.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn corrupt_file_is_named_and_left_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let garbage = b"this is no database ".repeat(500);
        std::fs::write(&path, &garbage).unwrap();
        let error = Database::open(&path, &FORMAT).err().unwrap();
        assert_eq!(error.code, ErrorCode::DataLoss);
        assert!(error.message.contains(path.to_str().unwrap()) && error.hint.is_some());
        assert_eq!(std::fs::read(&path).unwrap(), garbage);
    }

    #[test]
    fn failed_write_is_rolled_back() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(&dir.path().join("deep/er/db"), &FORMAT).unwrap();
        let write = |fail: bool| {
            db.write(|tx| {
                tx.execute("INSERT INTO t (x) VALUES (1)", [])?;
                if fail { Err(Error::invalid("stop").into()) } else { Ok(()) }
            })
        };
        assert_eq!(write(true).unwrap_err().message, "stop");
        write(false).unwrap();
        let rows: i64 = db.read(|tx| Ok(tx.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?)).unwrap();
        assert_eq!(rows, 1);
    }
}
