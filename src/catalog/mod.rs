//! What is known of every file, in SQLite: one writer, readers beside it, every method short and blocking.
//!
//! Start with [`Catalog`]. `scan.rs` decides what a walk changes, `mark.rs` records what became of a file, `query.rs`
//! answers filters. Nothing here looks at the files themselves. Beside the catalog, and apart from it because they may be
//! lost: [`Jobs`], [`VectorCache`], [`EvidenceCache`] and [`TranscriptLog`].
//!
//! Commits of the catalog are synced (`synchronous=FULL`): a mark says that the store has a file on disk, and a try has
//! to outlive the crash that it causes. Scans and marks come in batches, so that a sync is paid per batch.

mod aside;
mod audit;
mod awaiting;
mod corpus;
mod database;
mod evidence;
mod filter;
mod graph;
mod jobs;
mod mark;
mod names;
mod owners;
mod query;
mod readings;
mod reconcile;
mod rescue;
mod root;
mod row;
mod scan;
mod session;
mod sieve;
mod transcripts;
mod vectors;

use std::path::Path;
use std::sync::Arc;

use rusqlite::OptionalExtension;

pub use aside::put_database_aside;
pub use audit::AuditLog;
pub use corpus::{BookedJob, BookedResult, CorpusBook};
pub use database::{check_database, flush_database};
pub use evidence::{EvidenceCache, EvidenceKey};
pub use graph::{FileVersion, GraphStore, Replaced};
pub use jobs::Jobs;
pub use mark::{AsRead, EvidenceMark, IndexedMark, MAX_STRIKES, MAX_TRIES, ReasonMark, RequeueScope};
pub use names::{NameWord, Named, name_words};
pub use query::{READ_BY_OCR, WITHOUT_TEXT_LAYER};
pub use rescue::Rescue;
pub(crate) use rescue::listed_roots;
pub use root::ROOT_CURE;
pub use scan::{Belief, Look, ScanOutcome, Walked};
pub use session::SessionFile;
pub use sieve::{Cell, Column, SievedRow};
pub use transcripts::TranscriptLog;
pub use vectors::{Key as VectorKey, VectorCache};

use crate::catalog::database::{Database, Durability, Format, LOOKED_UP_KIB};
use crate::catalog::owners::Owners;
use crate::error::Result;

/// A catalog up to this size, of some 150,000 files, is checked at every start: that takes 0.1 s.
const CHECKED_BYTES: u64 = 64 << 20;

/// Chunks that wait for their vectors.
const TO_2: &str = "
    ALTER TABLE files ADD COLUMN awaiting INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX files_awaiting ON files (root_id, awaiting) WHERE deleted_ns IS NULL AND state = 'indexed' AND awaiting > 0;
";

/// Bad ends of a pending file's readers.
const TO_3: &str = "
    ALTER TABLE files ADD COLUMN strikes INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX files_struck ON files (strikes) WHERE deleted_ns IS NULL AND state = 'pending' AND strikes > 0;
";

/// What a file held when it was read last, while that is not to be relied on.
const TO_4: &str = "ALTER TABLE files ADD COLUMN read_hash BLOB;";

/// Names of what lies in files, when mails were sent, and all names as a searchable field, which is filled in the background.
/// What may hold such names is read again.
const TO_5: &str = "
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

/// The root that the files of a root belong to, which lies in it.
const TO_6: &str = "ALTER TABLE roots ADD COLUMN above INTEGER;";

/// `path` is the bytes below the root; `name` its last component, lower case and NFC, for searching; `skip` what the walk
/// said, apart from `reason`, so that a walk only undoes what a walk did. States and reasons are names, for `sqlite3`.
/// A deleted row stays as a tombstone until the store has let go of its chunks. Identifiers are never used twice.
/// The index on `name` alone is what lists of files are filtered by: any part of a name, without the triple-sized trigram index
/// that every insert would pay for. Questions look for words in `names`, see `names`.
///
/// `awaiting` is the number of a file's chunks that have no vector yet; `strikes` how often a reader of a file that is still
/// pending died of it or was at it for long; `read_hash` the hash that a file had which is to be read again whatever it holds.
/// `inner_names` are the names of attachments, members or sheets, a line each; `mail_first_ns` and `mail_last_ns` when the
/// first and the last message in it were sent.
/// `above` is none for a root that files belong to, else the root that it lies in and that they belong to.
const FORMAT: Format = Format {
    name: "catalog",
    version: 6,
    upgrades: &[TO_2, TO_3, TO_4, TO_5, TO_6],
    durability: Durability::Full,
    cache_kib: LOOKED_UP_KIB,
    hint: "move it aside; it is rebuilt from the files themselves",
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
            mail_last_ns INTEGER
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
    ",
};

/// The catalog. Clones share one database.
///
/// Every method blocks, most for milliseconds: call them off the async threads. Errors are those of SQLite, mapped to
/// codes: full disk, another writer, damage.
#[derive(Clone)]
pub struct Catalog {
    path: Arc<Path>,
    database: Arc<Database>,
    owners: Arc<Owners>,
}

impl Catalog {
    /// Opens or creates the catalog at `path`.
    ///
    /// # Errors
    /// [`crate::error::ErrorCode::FailedPrecondition`] when a newer vic wrote it (nothing is written then), and
    /// [`crate::error::ErrorCode::DataLoss`] when it is no database or damaged.
    pub fn open(path: &Path) -> Result<Catalog> {
        let database = Arc::new(Database::open(path, &FORMAT)?);
        Ok(Catalog { path: path.into(), database, owners: Arc::new(Owners::load()) })
    }

    /// Opens it for whoever only looks: beside a daemon, too, and nothing of it is written.
    ///
    /// # Errors
    /// As [`Catalog::open`]; another format, also an older one.
    pub fn open_to_look(path: &Path) -> Result<Catalog> {
        let database = Arc::new(Database::open_to_look(path, &FORMAT)?);
        Ok(Catalog { path: path.into(), database, owners: Arc::new(Owners::load()) })
    }

    /// Looks for damage, as far as that takes no longer than a moment.
    ///
    /// # Errors
    /// [`crate::error::ErrorCode::DataLoss`] when it is damaged.
    pub fn check(&self) -> Result<()> {
        match std::fs::metadata(&self.path).map_or(0, |it| it.len()) {
            large if large > CHECKED_BYTES => Ok(()),
            _ => self.database.check(),
        }
    }

    /// Tells of every commit, by a number that grows with each.
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.database.commits()
    }

    /// Returns the value that was last set for `key`.
    pub fn meta_get(&self, key: &str) -> Result<Option<String>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
            Ok(statement.query_row([key], |row| row.get(0)).optional()?)
        })
    }

    /// Sets a value; it is on disk when this returns.
    pub fn meta_set(&self, key: &str, value: &str) -> Result<()> {
        self.meta_set_all(&[(key, value)])
    }

    /// Sets values that belong together: all of them or, where that fails or the machine does, none.
    pub fn meta_set_all(&self, values: &[(&str, &str)]) -> Result<()> {
        self.database.write(|db| {
            let mut statement = db.prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")?;
            values.iter().try_for_each(|(key, value)| statement.execute([key, value]).map(drop))?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
