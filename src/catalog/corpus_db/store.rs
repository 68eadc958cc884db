//! Database of the corpus API: views, results and jobs. Sessions are in `sessions`, cached documents in
//! `document_cache`.
//!
//! Each row carries the owner who created it, so that the holder of an API key for some folders cannot see the requests
//! made with other keys.

use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::catalog::database::{Database, DbError, Durability, Format, RANDOM_ACCESS_CACHE_KIB};
use crate::catalog::files::row::now_ns;
use crate::catalog::quarantine;
use crate::error::{Error, Result};

/// Maximum number of results of all owners together. Beyond it, the oldest results of the owner with the most results
/// are deleted.
const MAX_RESULTS: i64 = 2_000;

/// A result older than this is deleted.
const MAX_RESULT_AGE_MS: i64 = 90 * 24 * 60 * 60 * 1_000;

/// Maximum compressed size of all results together, in bytes. Beyond it, the oldest results of the owner with the most
/// bytes are deleted.
const MAX_RESULTS_BYTES: i64 = 512 << 20;

/// Maximum uncompressed size of a stored value, in bytes; a value that unpacks to more is corrupt.
const MAX_UNPACKED_BYTES: u64 = 64 << 20;

/// Format 2: sessions keep the metadata of their files and protect their cached documents from eviction; results record
/// the documents from which they were made. Rows written in format 1 lack these values.
const MIGRATION_2: &str = "
    CREATE TABLE session_metadata (
        session INTEGER NOT NULL, file INTEGER NOT NULL, root TEXT NOT NULL, path TEXT NOT NULL, hash BLOB,
        size INTEGER NOT NULL, modified_ns INTEGER NOT NULL, extension TEXT NOT NULL, kind TEXT NOT NULL,
        media_type TEXT NOT NULL, state TEXT NOT NULL, owner TEXT NOT NULL, chunks INTEGER NOT NULL,
        problem TEXT NOT NULL, facts TEXT, reading TEXT, PRIMARY KEY (session, file)
    ) WITHOUT ROWID;
    CREATE INDEX session_metadata_reading ON session_metadata (reading) WHERE reading IS NOT NULL;
    INSERT INTO session_metadata
        SELECT session, file, '', path, hash, size, modified_ns, '', '', '',
               CASE problem WHEN '' THEN 'indexed' ELSE 'failed' END, '', 0, problem, NULL, NULL
        FROM session_files;
    DROP TABLE session_files;
    CREATE TABLE new_results (
        number INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, id TEXT NOT NULL, request TEXT NOT NULL,
        bytes INTEGER NOT NULL, created_ms INTEGER NOT NULL, envelope BLOB NOT NULL, documents BLOB NOT NULL,
        UNIQUE (owner, id)
    );
    INSERT INTO new_results
        SELECT number, owner, id, request, length(envelope), unixepoch() * 1000, envelope, x'' FROM results;
    DROP TABLE results;
    ALTER TABLE new_results RENAME TO results;
    CREATE INDEX results_bounds ON results (number, created_ms, bytes);
    ALTER TABLE readings ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX readings_held ON readings (held, number);
";

/// Format 3: session numbers are counted per owner, because a shared counter revealed how many sessions other owners
/// made. Existing owners continue from the old counter, because a kept result may name a deleted session.
const MIGRATION_3: &str = "
    ALTER TABLE sessions ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
    UPDATE sessions SET number = id;
    CREATE UNIQUE INDEX sessions_number ON sessions (owner, number);
    CREATE TABLE session_numbers (owner TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO session_numbers
        SELECT owner, (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'sessions')
        FROM (SELECT owner FROM sessions UNION SELECT owner FROM results UNION SELECT owner FROM views);
";

/// Format 4: results are evicted by owner, which needs another index.
const MIGRATION_4: &str = "
    DROP INDEX results_bounds;
    CREATE INDEX results_bounds ON results (owner, number, created_ms, bytes);
";

const FORMAT: Format = Format {
    name: "corpus database",
    version: 4,
    upgrades: &[MIGRATION_2, MIGRATION_3, MIGRATION_4],
    durability: Durability::Full,
    cache_kib: RANDOM_ACCESS_CACHE_KIB,
    hint: "move the file aside; your files and the index are kept, but views, sessions and results are lost",
    schema: "
        CREATE TABLE views (
            owner TEXT NOT NULL,
            name TEXT NOT NULL,
            body TEXT NOT NULL,
            created_ms INTEGER NOT NULL,
            PRIMARY KEY (owner, name)
        ) WITHOUT ROWID;
        CREATE TABLE sessions (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            owner TEXT NOT NULL,
            body TEXT NOT NULL,
            created_ms INTEGER NOT NULL,
            number INTEGER NOT NULL
        );
        CREATE UNIQUE INDEX sessions_number ON sessions (owner, number);
        CREATE TABLE session_numbers (
            owner TEXT PRIMARY KEY,
            last INTEGER NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE session_metadata (
            session INTEGER NOT NULL,
            file INTEGER NOT NULL,
            root TEXT NOT NULL,
            path TEXT NOT NULL,
            hash BLOB,
            size INTEGER NOT NULL,
            modified_ns INTEGER NOT NULL,
            extension TEXT NOT NULL,
            kind TEXT NOT NULL,
            media_type TEXT NOT NULL,
            state TEXT NOT NULL,
            owner TEXT NOT NULL,
            chunks INTEGER NOT NULL,
            problem TEXT NOT NULL,
            facts TEXT,
            reading TEXT,
            PRIMARY KEY (session, file)
        ) WITHOUT ROWID;
        CREATE INDEX session_metadata_reading ON session_metadata (reading) WHERE reading IS NOT NULL;
        CREATE TABLE results (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            owner TEXT NOT NULL,
            id TEXT NOT NULL,
            request TEXT NOT NULL,
            bytes INTEGER NOT NULL,
            created_ms INTEGER NOT NULL,
            envelope BLOB NOT NULL,
            documents BLOB NOT NULL,
            UNIQUE (owner, id)
        );
        CREATE INDEX results_bounds ON results (owner, number, created_ms, bytes);
        CREATE TABLE jobs (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            owner TEXT NOT NULL,
            state TEXT NOT NULL,
            body TEXT NOT NULL
        );
        CREATE TABLE readings (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            key TEXT NOT NULL UNIQUE,
            held INTEGER NOT NULL DEFAULT 0,
            body BLOB NOT NULL
        );
        CREATE INDEX readings_held ON readings (held, number);
        CREATE TABLE facts (
            hash BLOB PRIMARY KEY,
            body TEXT NOT NULL
        ) WITHOUT ROWID;
    ",
};

/// A stored result of a corpus call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredResult {
    /// The request, as JSON.
    pub request: String,
    /// The response, as JSON.
    pub envelope: String,
    /// The documents from which the result was made, as JSON; empty when unknown.
    pub documents: String,
}

/// A stored job of the corpus API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredJob {
    /// Id of the job.
    pub id: String,
    /// `running`, `completed` or `failed`.
    pub state: String,
    /// The outcome of the job, as JSON.
    pub body: String,
}

/// The database of the corpus API. Every method blocks for milliseconds.
pub struct CorpusStore {
    pub(in crate::catalog) database: Database,
}

impl CorpusStore {
    /// Opens or creates the database at `path`. A corrupt file is renamed to `<path>.damaged` and replaced. Jobs that the
    /// previous run left unfinished become failed.
    ///
    /// # Errors
    /// As [`crate::catalog::Catalog::open`], except for corruption.
    pub fn open(path: &Path) -> Result<CorpusStore> {
        let (mut book, set_aside) = quarantine::replace_if_corrupt(path, || CorpusStore::try_open(path))?;
        book.database.quarantined = set_aside;
        Ok(book)
    }

    fn try_open(path: &Path) -> Result<CorpusStore> {
        let book = CorpusStore { database: Database::open(path, &FORMAT)? };
        book.database.write(|db| {
            db.execute("UPDATE jobs SET state = 'failed', body = '{}' WHERE state = 'running'", [])?;
            Ok(())
        })?;
        book.release_unfinished()?;
        Ok(book)
    }

    /// Returns the new path of the corrupt file that this database replaced when it was opened.
    pub fn quarantined(&self) -> Option<&Path> {
        self.database.quarantined.as_deref()
    }

    /// Stores a view of an owner; returns false if the owner already has a view of this name.
    pub fn add_view(&self, owner: &str, name: &str, body: &str) -> Result<bool> {
        self.database.write(|db| {
            let sql = "INSERT OR IGNORE INTO views (owner, name, body, created_ms) VALUES (?1, ?2, ?3, ?4)";
            Ok(db.prepare_cached(sql)?.execute(params![owner, name, body, now_ns() / 1_000_000])? > 0)
        })
    }

    /// Returns name and body of each view of an owner, by name.
    pub fn views(&self, owner: &str) -> Result<Vec<(String, String)>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT name, body FROM views WHERE owner = ?1 ORDER BY name")?;
            let rows = statement.query_map([owner], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Deletes a view of an owner; returns false if there is none of this name.
    pub fn remove_view(&self, owner: &str, name: &str) -> Result<bool> {
        self.database.write(|db| {
            Ok(db.prepare_cached("DELETE FROM views WHERE owner = ?1 AND name = ?2")?.execute([owner, name])? > 0)
        })
    }

    /// How long results are kept; part of the error about a result that no longer exists.
    pub const RESULT_RETENTION: &str = "the last 2,000 results are kept, for 90 days, up to 512 MiB";

    /// Stores a result and replaces one with the same id; returns false when the result is too large.
    pub fn put_result(&self, owner: &str, id: &str, result: &StoredResult) -> Result<bool> {
        if [&result.envelope, &result.documents].iter().any(|it| it.len() as u64 > MAX_UNPACKED_BYTES) {
            return Ok(false);
        }
        let (envelope, documents) = (compress(&result.envelope)?, compress(&result.documents)?);
        let bytes = (result.request.len() + envelope.len() + documents.len()) as i64;
        self.database.write(|db| {
            let sql = "INSERT OR REPLACE INTO results (owner, id, request, bytes, created_ms, envelope, documents) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            let now = now_ns() / 1_000_000;
            db.prepare_cached(sql)?.execute(params![owner, id, result.request, bytes, now, envelope, documents])?;
            evict_results(db, now)
        })?;
        Ok(true)
    }

    /// Returns a result of an owner, unless it has expired.
    pub fn result(&self, owner: &str, id: &str) -> Result<Option<StoredResult>> {
        let found = self.database.read(|db| {
            let mut statement = db.prepare_cached(
                "SELECT request, envelope, documents FROM results WHERE owner = ?1 AND id = ?2 AND created_ms >= ?3",
            )?;
            let row = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, Vec<u8>>(2)?));
            Ok(statement.query_row(params![owner, id, now_ns() / 1_000_000 - MAX_RESULT_AGE_MS], row).optional()?)
        })?;
        found
            .map(|(request, envelope, documents)| {
                Ok(StoredResult { request, envelope: decompress(&envelope)?, documents: decompress(&documents)? })
            })
            .transpose()
    }

    /// Stores the state of a job, and deletes the oldest ended jobs beyond the limit.
    pub fn put_job(&self, owner: &str, job: &StoredJob) -> Result<()> {
        self.database.write(|db| {
            let sql = "INSERT INTO jobs (id, owner, state, body) VALUES (?1, ?2, ?3, ?4) \
                       ON CONFLICT (id) DO UPDATE SET state = excluded.state, body = excluded.body";
            db.prepare_cached(sql)?.execute(params![job.id, owner, job.state, job.body])?;
            let old = "DELETE FROM jobs WHERE state != 'running' AND number <= (SELECT max(number) FROM jobs) - ?1";
            db.prepare_cached(old)?.execute([MAX_RESULTS])?;
            Ok(())
        })
    }

    /// Returns a job of an owner.
    pub fn job(&self, owner: &str, id: &str) -> Result<Option<StoredJob>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT id, state, body FROM jobs WHERE owner = ?1 AND id = ?2")?;
            Ok(statement.query_row([owner, id], read_job).optional()?)
        })
    }

    /// Returns a job of any owner.
    pub fn job_of_any_owner(&self, id: &str) -> Result<Option<StoredJob>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT id, state, body FROM jobs WHERE id = ?1")?;
            Ok(statement.query_row([id], read_job).optional()?)
        })
    }
}

fn read_job(row: &Row<'_>) -> rusqlite::Result<StoredJob> {
    Ok(StoredJob { id: row.get(0)?, state: row.get(1)?, body: row.get(2)? })
}

/// Evicts results that are too old, too many or too large together. The oldest results of the owner with the most
/// results, or with the most bytes, are evicted first, so that one owner cannot displace the results of others. The
/// newest result of each owner is evicted last. Expired results do not count towards the limits.
fn evict_results(db: &Transaction<'_>, now_ms: i64) -> Result<(), DbError> {
    let beyond = "WITH own AS (SELECT number, bytes, row_number() OVER newer AS own_count, \
                      sum(bytes) OVER newer AS own_bytes FROM results WHERE created_ms >= ?3 \
                      WINDOW newer AS (PARTITION BY owner ORDER BY number DESC)), \
                  fair AS (SELECT number, \
                      row_number() OVER (ORDER BY own_count, number DESC) AS count, \
                      sum(bytes) OVER (ORDER BY own_count > 1, own_bytes, number DESC) AS bytes FROM own) \
                  DELETE FROM results WHERE number IN \
                      (SELECT number FROM fair WHERE count > ?1 OR bytes > ?2 \
                       UNION ALL SELECT number FROM results WHERE created_ms < ?3)";
    db.prepare_cached(beyond)?.execute([MAX_RESULTS, MAX_RESULTS_BYTES, now_ms - MAX_RESULT_AGE_MS])?;
    Ok(())
}

pub(in crate::catalog) fn compress(text: &str) -> Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).map_err(Error::internal)?;
    encoder.finish().map_err(Error::internal)
}

pub(in crate::catalog) fn decompress(packed: &[u8]) -> Result<String> {
    if packed.is_empty() {
        // An empty value comes from an older vic, which did not store it.
        return Ok(String::new());
    }
    let mut text = String::new();
    DeflateDecoder::new(packed).take(MAX_UNPACKED_BYTES).read_to_string(&mut text).map_err(Error::internal)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    fn result(envelope: &str) -> StoredResult {
        StoredResult { request: "{}".into(), envelope: envelope.into(), documents: "[]".into() }
    }

    #[test]
    fn stored_values_survive_reopening_and_are_private_to_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("corpus.sqlite");
        let book = CorpusStore::open(&path).unwrap();
        assert!(book.add_view("", "papers", "{}").unwrap());
        assert!(!book.add_view("", "papers", "{\"other\": 1}").unwrap(), "a name is taken once");
        assert!(book.add_view("/w/a", "papers", "[]").unwrap());
        let session = book.add_session("", "{}", &[]).unwrap();
        assert!(book.put_result("", "r-1", &result("{\"data\": 1}")).unwrap());
        drop(book);
        let book = CorpusStore::open(&path).unwrap();
        assert_eq!(book.views("").unwrap(), [("papers".to_string(), "{}".to_string())]);
        assert_eq!(book.result("", "r-1").unwrap(), Some(result("{\"data\": 1}")));
        assert_eq!(book.result("/w/a", "r-1").unwrap(), None);
        assert_eq!(book.session("/w/a", session).unwrap(), None);
        assert!(book.remove_view("", "papers").unwrap() && !book.remove_view("", "papers").unwrap());
    }

    #[test]
    fn open_job_of_last_run_ends_as_failed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("corpus.sqlite");
        let job = StoredJob { id: "j".into(), state: "running".into(), body: "{}".into() };
        CorpusStore::open(&path).unwrap().put_job("", &job).unwrap();
        let book = CorpusStore::open(&path).unwrap();
        assert_eq!(book.job("", "j").unwrap().unwrap().state, "failed");
        assert_eq!((book.job("/w", "j").unwrap(), book.job_of_any_owner("j").unwrap().is_some()), (None, true));
    }

    #[test]
    fn results_are_bounded_by_count_age_and_size() {
        let dir = tempfile::tempdir().unwrap();
        let book = CorpusStore::open(&dir.path().join("corpus.sqlite")).unwrap();
        let kept = |book: &CorpusStore| -> Vec<String> {
            let ids = ["r-1", "r-2", "r-3"].into_iter();
            ids.filter(|it| book.result("", it).unwrap().is_some()).map(String::from).collect()
        };
        let set = |sql: &str| book.database.write(|db| Ok(db.execute(sql, []).map(drop)?)).unwrap();
        for id in ["r-1", "r-2", "r-3"] {
            book.put_result("", id, &result(id)).unwrap();
        }
        book.put_result("", "r-1", &result("asked again")).unwrap();
        assert_eq!(kept(&book), ["r-1", "r-2", "r-3"]);
        set("UPDATE results SET created_ms = 0 WHERE id = 'r-3'");
        assert_eq!(kept(&book), ["r-1", "r-2"], "an expired result is hidden before it is deleted");
        set("UPDATE results SET bytes = 600 << 20 WHERE id = 'r-2'");
        book.put_result("", "r-4", &result("r-4")).unwrap();
        assert_eq!(kept(&book), ["r-1"], "the total size is too large");
        set("WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
             INSERT INTO results (owner, id, request, bytes, created_ms, envelope, documents) \
             SELECT '', 'n-' || i, '{}', 1, unixepoch() * 1000, x'', x'' FROM n");
        book.put_result("", "n-2001", &result("n")).unwrap();
        assert!(kept(&book).is_empty(), "2,000 results are newer");
        assert_eq!((book.result("", "n-1").unwrap(), book.result("", "n-2").unwrap().is_some()), (None, true));
        let large = result(&" ".repeat(MAX_UNPACKED_BYTES as usize + 1));
        assert!(!book.put_result("", "r-1", &large).unwrap(), "it is too large to be read back");
    }

    #[test]
    fn eviction_hits_owner_with_most_results() {
        let dir = tempfile::tempdir().unwrap();
        let book = CorpusStore::open(&dir.path().join("corpus.sqlite")).unwrap();
        let set = |sql: &str| book.database.write(|db| Ok(db.execute(sql, []).map(drop)?)).unwrap();
        let is_kept = |owner: &str, id: &str| book.result(owner, id).unwrap().is_some();
        for (owner, id) in [("", "r-1"), ("/w/a", "r-1"), ("/w/a", "r-2")] {
            book.put_result(owner, id, &result(id)).unwrap();
        }
        set("WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
             INSERT INTO results (owner, id, request, bytes, created_ms, envelope, documents) \
             SELECT '/w/b', 'n-' || i, '{}', 1, unixepoch() * 1000, x'', x'' FROM n");
        book.put_result("/w/b", "last", &result("last")).unwrap();
        assert!(is_kept("", "r-1") && is_kept("/w/a", "r-1") && is_kept("/w/a", "r-2"));
        assert_eq!(
            [4, 5, 2_000].map(|it| is_kept("/w/b", &format!("n-{it}"))),
            [false, true, true],
            "the other owners have 3 of the 2,000"
        );
        set(
            "UPDATE results SET bytes = 40 << 20 WHERE owner = '/w/b' AND number > (SELECT max(number) FROM results) - 20",
        );
        set("UPDATE results SET bytes = 100 << 20 WHERE owner = '/w/a' AND id = 'r-1'");
        book.put_result("", "r-2", &result("r-2")).unwrap();
        assert!(is_kept("", "r-1") && is_kept("/w/a", "r-1") && is_kept("/w/a", "r-2"), "these owners have less");
        assert_eq!(["n-1991", "n-1992", "last"].map(|it| is_kept("/w/b", it)), [false, true, true]);
        set("UPDATE results SET bytes = 400 << 20 WHERE id = 'r-1' OR id = 'last'");
        book.put_result("/w/b", "next", &result("next")).unwrap();
        assert!(is_kept("/w/b", "next") && is_kept("", "r-2") && is_kept("/w/a", "r-2"), "the newest of each is kept");
    }

    #[test]
    fn expired_results_do_not_evict_others() {
        let dir = tempfile::tempdir().unwrap();
        let book = CorpusStore::open(&dir.path().join("corpus.sqlite")).unwrap();
        for (owner, id) in [("", "r-1"), ("", "r-2"), ("/w/a", "old"), ("/w/b", "old")] {
            book.put_result(owner, id, &result(id)).unwrap();
        }
        let old = "UPDATE results SET created_ms = 0, bytes = 600 << 20 WHERE id = 'old'";
        book.database.write(|db| Ok(db.execute(old, []).map(drop)?)).unwrap();
        book.put_result("", "r-3", &result("r-3")).unwrap();
        assert_eq!(["r-1", "r-2", "r-3"].map(|it| book.result("", it).unwrap().is_some()), [true; 3]);
        let count = "SELECT count(*) FROM results";
        let kept: i64 = book.database.read(|db| Ok(db.query_row(count, [], |row| row.get(0))?)).unwrap();
        assert_eq!(kept, 3, "expired results are deleted");
    }

    #[test]
    fn upgrade_from_format_1_keeps_sessions_and_results() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("corpus.sqlite");
        let old = Connection::open(&path).unwrap();
        old.execute_batch(
            "CREATE TABLE views (owner TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, created_ms INTEGER NOT NULL,
                 PRIMARY KEY (owner, name)) WITHOUT ROWID;
             CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, body TEXT NOT NULL,
                 created_ms INTEGER NOT NULL);
             CREATE TABLE session_files (session INTEGER NOT NULL, file INTEGER NOT NULL, path TEXT NOT NULL, hash BLOB,
                 size INTEGER NOT NULL, modified_ns INTEGER NOT NULL, problem TEXT NOT NULL DEFAULT '',
                 PRIMARY KEY (session, file)) WITHOUT ROWID;
             CREATE TABLE results (number INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, id TEXT NOT NULL,
                 request TEXT NOT NULL, envelope BLOB NOT NULL, UNIQUE (owner, id));
             CREATE TABLE jobs (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL,
                 state TEXT NOT NULL, body TEXT NOT NULL);
             CREATE TABLE readings (number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, body BLOB NOT NULL);
             CREATE TABLE facts (hash BLOB PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
             INSERT INTO sessions VALUES (3, '', '{}', 5), (7, '', '{}', 6);
             DELETE FROM sessions WHERE id = 7;
             INSERT INTO session_files VALUES (3, 8, 'a.md', NULL, 2, 4, ''), (3, 9, 'b.md', NULL, 2, 4, 'io');",
        )
        .unwrap();
        let envelope = compress("{\"data\": 1}").unwrap();
        old.execute("INSERT INTO results (owner, id, request, envelope) VALUES ('', 'r-1', '{}', ?1)", [envelope])
            .unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        drop(old);
        let book = CorpusStore::open(&path).unwrap();
        let files = book.session_files("", 3).unwrap();
        let told: Vec<(&str, &str)> = files.iter().map(|it| (it.path.as_str(), it.problem.as_str())).collect();
        assert_eq!(told, [("a.md", ""), ("b.md", "io")]);
        assert_eq!((book.sessions("").unwrap(), book.add_session("", "{}", &[]).unwrap()), (vec![3], 8));
        assert_eq!(book.result("", "r-1").unwrap().unwrap().envelope, "{\"data\": 1}");
    }
}
