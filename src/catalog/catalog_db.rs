//! Opens the catalog database and defines its schema, its migrations and the key-value table `meta`.

use std::path::Path;
use std::sync::Arc;

use rusqlite::OptionalExtension;

use crate::catalog::database::{Database, Durability, Format, RANDOM_ACCESS_CACHE_KIB};
use crate::catalog::files::owners::Owners;
use crate::error::Result;

/// A larger catalog file (about 150,000 indexed files) is not checked for corruption at startup, because the check
/// would take more than 0.1 s.
const MAX_CHECKED_BYTES: u64 = 64 << 20;

/// Format 2 adds `awaiting`: the number of chunks of a file that have no vector yet.
const MIGRATION_2: &str = "
    ALTER TABLE files ADD COLUMN awaiting INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX files_awaiting ON files (root_id, awaiting) WHERE deleted_ns IS NULL AND state = 'indexed' AND awaiting > 0;
";

/// Format 3 adds `strikes`: how often reading a pending file crashed a worker or took too long.
const MIGRATION_3: &str = "
    ALTER TABLE files ADD COLUMN strikes INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX files_struck ON files (strikes) WHERE deleted_ns IS NULL AND state = 'pending' AND strikes > 0;
";

/// Format 4 adds `read_hash`: the content hash that a requeued file had when it was last read.
const MIGRATION_4: &str = "ALTER TABLE files ADD COLUMN read_hash BLOB;";

/// Format 5 adds the names inside files, the dates of mails, and the full-text index of names, which is filled in the
/// background. Files whose kind can contain names (attachments, archive members, sheets) become pending, to be read again.
const MIGRATION_5: &str = "
    ALTER TABLE files ADD COLUMN inner_names TEXT;
    ALTER TABLE files ADD COLUMN mail_first_ns INTEGER;
    ALTER TABLE files ADD COLUMN mail_last_ns INTEGER;
    CREATE VIRTUAL TABLE names USING fts5 (own, folders, inside, detail = 'none', columnsize = 0,
        tokenize = \"unicode61 remove_diacritics 0 categories 'L* M* N* Co'\");
    INSERT OR REPLACE INTO meta (key, value) VALUES ('names_filled_to', '0');
    UPDATE files SET state = 'pending', reason = NULL, detail = '', tries = 0, strikes = 0,
        read_hash = coalesce(hash, read_hash), hash = NULL
        WHERE deleted_ns IS NULL AND skip IS NULL AND kind IN ('mail', 'archive', 'spreadsheet')
        AND (state = 'indexed' OR (state = 'skipped' AND reason = 'no_text'));
";

/// Format 6 adds `above`: the outer root that contains a nested root and owns its files.
const MIGRATION_6: &str = "ALTER TABLE roots ADD COLUMN above INTEGER;";

/// Format 7 adds `language`, and folds names for searching as `vic_words` does, which happens in the background.
const MIGRATION_7: &str = "
    ALTER TABLE files ADD COLUMN language TEXT;
    CREATE INDEX files_language ON files (language) WHERE deleted_ns IS NULL AND language IS NOT NULL;
    INSERT OR REPLACE INTO meta (key, value) VALUES ('names_filled_to', '0');
";

/// Format 8 adds `authors`. Mails become pending, to be read again; documents get their authors when they change, or with
/// `vic index --full`.
const MIGRATION_8: &str = "
    ALTER TABLE files ADD COLUMN authors TEXT;
    UPDATE files SET state = 'pending', reason = NULL, detail = '', tries = 0, strikes = 0,
        read_hash = coalesce(hash, read_hash), hash = NULL
        WHERE deleted_ns IS NULL AND skip IS NULL AND kind = 'mail' AND state = 'indexed';
";

/// Format 9 adds `subject`. Mails become pending, to be read again.
const MIGRATION_9: &str = "
    ALTER TABLE files ADD COLUMN subject TEXT;
    UPDATE files SET state = 'pending', reason = NULL, detail = '', tries = 0, strikes = 0,
        read_hash = coalesce(hash, read_hash), hash = NULL
        WHERE deleted_ns IS NULL AND skip IS NULL AND kind = 'mail' AND state = 'indexed';
";

/// In the table `files`, `path` is the path in bytes, relative to the root. `name` is its last component, folded, for
/// searching. `skip` is the reason for which a walk skipped the file; it is separate from `reason`, so
/// that a later walk clears only reasons that a walk has set. States and reasons are stored as names, to be readable in
/// `sqlite3`. The row of a deleted file stays as a tombstone until the store has deleted the chunks of the file. Ids
/// are never reused. The index on `name` serves substring filters: a trigram index would be three times as large and
/// slow down every insert. Questions search for words in the full-text index `names`.
///
/// `awaiting` counts the chunks without a vector. `strikes` counts how often reading a pending file crashed a worker or
/// took too long. `read_hash` is the previous hash of a file that has to be read again. `inner_names` holds the names of
/// attachments, archive members or sheets, one per line. `mail_first_ns` and `mail_last_ns` are the dates of the first and
/// the last message. `language` is the code of the language of most passages, empty if they do not tell it, and NULL for
/// files that were indexed by an older vic. `above` is the outer root that contains this root and owns its files; NULL if the root owns its
/// files. `authors` has one line for each sender or author: its folded words between blanks, a tab, and the text.
/// `subject` is the subject of a mail; NULL for a mailbox.
const FORMAT: Format = Format {
    name: "catalog",
    version: 9,
    upgrades: &[MIGRATION_2, MIGRATION_3, MIGRATION_4, MIGRATION_5, MIGRATION_6, MIGRATION_7, MIGRATION_8, MIGRATION_9],
    durability: Durability::Full,
    cache_kib: RANDOM_ACCESS_CACHE_KIB,
    hint: "move the file aside; vic builds a new catalog from your files",
    schema: "
        CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE roots (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            path BLOB NOT NULL UNIQUE,
            available INTEGER NOT NULL DEFAULT 1,
            problem TEXT NOT NULL DEFAULT '',
            above INTEGER
        );
        CREATE TABLE files (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            root_id INTEGER NOT NULL,
            path BLOB NOT NULL,
            name TEXT NOT NULL,
            extension TEXT NOT NULL,
            size INTEGER NOT NULL,
            modified_ns INTEGER NOT NULL,
            changed_ns INTEGER NOT NULL,
            created_ns INTEGER,
            inode INTEGER NOT NULL,
            device INTEGER NOT NULL,
            mode INTEGER NOT NULL,
            uid INTEGER NOT NULL,
            skip TEXT,
            state TEXT NOT NULL,
            reason TEXT,
            detail TEXT NOT NULL DEFAULT '',
            kind TEXT NOT NULL,
            media_type TEXT NOT NULL DEFAULT '',
            hash BLOB,
            chunks INTEGER NOT NULL DEFAULT 0,
            tries INTEGER NOT NULL DEFAULT 0,
            deleted_ns INTEGER,
            awaiting INTEGER NOT NULL DEFAULT 0,
            strikes INTEGER NOT NULL DEFAULT 0,
            read_hash BLOB,
            inner_names TEXT,
            mail_first_ns INTEGER,
            mail_last_ns INTEGER,
            language TEXT,
            authors TEXT,
            subject TEXT
        );
        CREATE VIRTUAL TABLE names USING fts5 (own, folders, inside, detail = 'none', columnsize = 0,
            tokenize = \"unicode61 remove_diacritics 0 categories 'L* M* N* Co'\");
        CREATE UNIQUE INDEX files_path ON files (root_id, path) WHERE deleted_ns IS NULL;
        CREATE INDEX files_state ON files (root_id, state, reason) WHERE deleted_ns IS NULL;
        CREATE INDEX files_pending ON files (id) WHERE deleted_ns IS NULL AND state = 'pending';
        CREATE INDEX files_tried ON files (tries) WHERE deleted_ns IS NULL AND state = 'pending' AND tries > 0;
        CREATE INDEX files_hash ON files (hash) WHERE deleted_ns IS NULL AND state = 'indexed' AND chunks > 0;
        CREATE INDEX files_inode ON files (inode) WHERE deleted_ns IS NULL;
        CREATE INDEX files_modified ON files (modified_ns, id) WHERE deleted_ns IS NULL;
        CREATE INDEX files_extension ON files (extension) WHERE deleted_ns IS NULL;
        CREATE INDEX files_name ON files (name) WHERE deleted_ns IS NULL;
        CREATE INDEX files_deleted ON files (deleted_ns) WHERE deleted_ns IS NOT NULL;
        CREATE INDEX files_awaiting ON files (root_id, awaiting) WHERE deleted_ns IS NULL AND state = 'indexed' AND awaiting > 0;
        CREATE INDEX files_struck ON files (strikes) WHERE deleted_ns IS NULL AND state = 'pending' AND strikes > 0;
        CREATE INDEX files_language ON files (language) WHERE deleted_ns IS NULL AND language IS NOT NULL;
    ",
};

/// The database of all indexed files and their states. Clones share one connection pool.
///
/// Every method blocks, usually for milliseconds: do not call it on an async thread. SQLite errors are mapped to codes:
/// full disk, lock held by another process, corruption.
#[derive(Clone)]
pub struct Catalog {
    pub(super) path: Arc<Path>,
    pub(super) database: Arc<Database>,
    pub(super) owners: Arc<Owners>,
}

impl Catalog {
    /// Opens or creates the catalog at `path`.
    ///
    /// # Errors
    /// [`crate::error::ErrorCode::FailedPrecondition`] when a newer vic wrote the catalog (which then stays unchanged),
    /// and [`crate::error::ErrorCode::DataLoss`] when the file is corrupt or not a database.
    pub fn open(path: &Path) -> Result<Catalog> {
        let database = Arc::new(Database::open(path, &FORMAT)?);
        Ok(Catalog { path: path.into(), database, owners: Arc::new(Owners::load()) })
    }

    /// Opens the catalog read-only, without writing anything; a daemon may use it at the same time.
    ///
    /// # Errors
    /// As [`Catalog::open`]; also when an older vic wrote the catalog.
    pub fn open_read_only(path: &Path) -> Result<Catalog> {
        let database = Arc::new(Database::open_read_only(path, &FORMAT)?);
        Ok(Catalog { path: path.into(), database, owners: Arc::new(Owners::load()) })
    }

    /// Checks the database for corruption, unless it is too large for a quick check.
    ///
    /// # Errors
    /// [`crate::error::ErrorCode::DataLoss`] when the database is corrupt.
    pub fn check(&self) -> Result<()> {
        match std::fs::metadata(&self.path).map_or(0, |it| it.len()) {
            large if large > MAX_CHECKED_BYTES => Ok(()),
            _ => self.database.check(),
        }
    }

    /// Returns a receiver that yields the number of commits by this process after every commit.
    pub fn commit_counter(&self) -> tokio::sync::watch::Receiver<u64> {
        self.database.commits()
    }

    /// Returns the value that was last set for `key` in the table `meta`.
    pub fn meta_get(&self, key: &str) -> Result<Option<String>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
            Ok(statement.query_row([key], |row| row.get(0)).optional()?)
        })
    }

    /// Sets the value of a key in the table `meta` and syncs it to disk.
    pub fn meta_set(&self, key: &str, value: &str) -> Result<()> {
        self.meta_set_all(&[(key, value)])
    }

    /// Sets the values of several keys of the table `meta` in one synced transaction.
    pub fn meta_set_all(&self, values: &[(&str, &str)]) -> Result<()> {
        self.database.write(|db| {
            let mut statement = db.prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")?;
            values.iter().try_for_each(|(key, value)| statement.execute([key, value]).map(drop))?;
            Ok(())
        })
    }
}
