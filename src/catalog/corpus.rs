//! What the contract keeps: views, sessions, results, jobs, and what was read out of documents, by content.
//!
//! Each row of a caller carries whose it is, so that a key that opens some folders sees nothing of what others asked. What
//! was read out of documents is a cache: it is bounded, and the oldest goes first.

use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::catalog::aside;
use crate::catalog::database::{Database, Durability, Failed, Format};
use crate::catalog::row::{now_ns, signed};
use crate::error::{Error, Result};
use crate::model::{ContentHash, FileId};

/// Results that are kept, of all callers; older ones are dropped.
const KEPT_RESULTS: u32 = 2_000;

/// Documents whose readings are kept; some 4 KiB each when packed.
const KEPT_READINGS: u32 = 50_000;

/// A packed value that unpacks to more is damaged.
const MOST_BYTES: u64 = 64 << 20;

const FORMAT: Format = Format {
    name: "book of views and results",
    version: 1,
    durability: Durability::Full,
    hint: "move it aside; views, sessions and results of the contract are lost, files and index are not",
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
            created_ms INTEGER NOT NULL
        );
        CREATE TABLE session_files (
            session INTEGER NOT NULL,
            file INTEGER NOT NULL,
            path TEXT NOT NULL,
            hash BLOB,
            size INTEGER NOT NULL,
            modified_ns INTEGER NOT NULL,
            problem TEXT NOT NULL DEFAULT '',
            PRIMARY KEY (session, file)
        ) WITHOUT ROWID;
        CREATE TABLE results (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            owner TEXT NOT NULL,
            id TEXT NOT NULL,
            request TEXT NOT NULL,
            envelope BLOB NOT NULL,
            UNIQUE (owner, id)
        );
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
            body BLOB NOT NULL
        );
        CREATE TABLE facts (
            hash BLOB PRIMARY KEY,
            body TEXT NOT NULL
        ) WITHOUT ROWID;
    ",
};

/// One file as a session saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile {
    /// Its number in the catalog; negative where it never got one.
    pub file: FileId,
    /// Its path.
    pub path: String,
    /// Its content then, where it was read.
    pub hash: Option<ContentHash>,
    /// Its size then.
    pub size: u64,
    /// Its last change then, nanoseconds since the epoch.
    pub modified_ns: i64,
    /// Why it is not in the view; empty when it is.
    pub problem: String,
}

/// A job of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookedJob {
    /// Its id.
    pub id: String,
    /// `running`, `completed`, `failed`.
    pub state: String,
    /// What became of it, as JSON.
    pub body: String,
}

/// The book. Every method blocks for a moment.
pub struct CorpusBook {
    database: Database,
}

impl CorpusBook {
    /// Opens or creates the book at `path`. A damaged one is renamed to `<path>.damaged` and begun anew. Jobs that the last
    /// run left open end as failed.
    ///
    /// # Errors
    /// As [`crate::catalog::Catalog::open`], but for damage.
    pub fn open(path: &Path) -> Result<CorpusBook> {
        let book = CorpusBook { database: aside::open_or_begin_anew(path, &FORMAT)?.0 };
        book.database.write(|db| {
            db.execute("UPDATE jobs SET state = 'failed', body = '{}' WHERE state = 'running'", [])?;
            Ok(())
        })?;
        Ok(book)
    }

    /// Keeps a view; false when there is one of that name.
    pub fn add_view(&self, owner: &str, name: &str, body: &str) -> Result<bool> {
        self.database.write(|db| {
            let sql = "INSERT OR IGNORE INTO views (owner, name, body, created_ms) VALUES (?1, ?2, ?3, ?4)";
            Ok(db.prepare_cached(sql)?.execute(params![owner, name, body, now_ns() / 1_000_000])? > 0)
        })
    }

    /// Returns the views of an owner as name and body, by name.
    pub fn views(&self, owner: &str) -> Result<Vec<(String, String)>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT name, body FROM views WHERE owner = ?1 ORDER BY name")?;
            let rows = statement.query_map([owner], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Forgets a view; false when there is none.
    pub fn remove_view(&self, owner: &str, name: &str) -> Result<bool> {
        self.database.write(|db| {
            Ok(db.prepare_cached("DELETE FROM views WHERE owner = ?1 AND name = ?2")?.execute([owner, name])? > 0)
        })
    }

    /// Keeps a session with its files and returns its number.
    pub fn add_session(&self, owner: &str, body: &str, files: &[SessionFile]) -> Result<i64> {
        self.database.write(|db| {
            let sql = "INSERT INTO sessions (owner, body, created_ms) VALUES (?1, ?2, ?3)";
            db.prepare_cached(sql)?.execute(params![owner, body, now_ns() / 1_000_000])?;
            let session = db.last_insert_rowid();
            put_files(db, session, files)?;
            Ok(session)
        })
    }

    /// Replaces what is said of some files of a session, and its body: a second try is part of the same run.
    pub fn update_session(&self, session: i64, body: &str, files: &[SessionFile]) -> Result<()> {
        self.database.write(|db| {
            db.prepare_cached("UPDATE sessions SET body = ?2 WHERE id = ?1")?.execute(params![session, body])?;
            db.prepare_cached("DELETE FROM session_files WHERE session = ?1")?.execute([session])?;
            put_files(db, session, files)
        })
    }

    /// Returns the body and the moment of a session of an owner.
    pub fn session(&self, owner: &str, session: i64) -> Result<Option<(String, i64)>> {
        self.database.read(|db| {
            let mut statement =
                db.prepare_cached("SELECT body, created_ms FROM sessions WHERE owner = ?1 AND id = ?2")?;
            Ok(statement.query_row(params![owner, session], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
        })
    }

    /// Returns the numbers of the sessions of an owner, newest last.
    pub fn sessions(&self, owner: &str) -> Result<Vec<i64>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT id FROM sessions WHERE owner = ?1 ORDER BY id")?;
            let rows = statement.query_map([owner], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns the files of a session by number.
    pub fn session_files(&self, session: i64) -> Result<Vec<SessionFile>> {
        self.database.read(|db| {
            let sql = "SELECT file, path, hash, size, modified_ns, problem FROM session_files \
                       WHERE session = ?1 ORDER BY file";
            let mut statement = db.prepare_cached(sql)?;
            let rows = statement.query_map([session], session_file)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Keeps a result, over the one of the same id.
    pub fn put_result(&self, owner: &str, id: &str, request: &str, envelope: &str) -> Result<()> {
        let packed = pack(envelope)?;
        self.database.write(|db| {
            let sql = "INSERT INTO results (owner, id, request, envelope) VALUES (?1, ?2, ?3, ?4) \
                       ON CONFLICT (owner, id) DO UPDATE SET envelope = excluded.envelope";
            db.prepare_cached(sql)?.execute(params![owner, id, request, packed])?;
            let old = "DELETE FROM results WHERE number <= (SELECT max(number) FROM results) - ?1";
            db.prepare_cached(old)?.execute([KEPT_RESULTS])?;
            Ok(())
        })
    }

    /// Returns the request and the envelope of a result of an owner.
    pub fn result(&self, owner: &str, id: &str) -> Result<Option<(String, String)>> {
        let found = self.database.read(|db| {
            let mut statement =
                db.prepare_cached("SELECT request, envelope FROM results WHERE owner = ?1 AND id = ?2")?;
            let row = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?));
            Ok(statement.query_row([owner, id], row).optional()?)
        })?;
        found.map(|(request, packed)| Ok((request, unpack(&packed)?))).transpose()
    }

    /// Keeps what is known of a job.
    pub fn put_job(&self, owner: &str, job: &BookedJob) -> Result<()> {
        self.database.write(|db| {
            let sql = "INSERT INTO jobs (id, owner, state, body) VALUES (?1, ?2, ?3, ?4) \
                       ON CONFLICT (id) DO UPDATE SET state = excluded.state, body = excluded.body";
            db.prepare_cached(sql)?.execute(params![job.id, owner, job.state, job.body])?;
            let old = "DELETE FROM jobs WHERE state != 'running' AND number <= (SELECT max(number) FROM jobs) - ?1";
            db.prepare_cached(old)?.execute([KEPT_RESULTS])?;
            Ok(())
        })
    }

    /// Returns a job of an owner.
    pub fn job(&self, owner: &str, id: &str) -> Result<Option<BookedJob>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT id, state, body FROM jobs WHERE owner = ?1 AND id = ?2")?;
            let row = |row: &Row<'_>| Ok(BookedJob { id: row.get(0)?, state: row.get(1)?, body: row.get(2)? });
            Ok(statement.query_row([owner, id], row).optional()?)
        })
    }

    /// Keeps what was read out of a content, under a key that names content, reader and version.
    pub fn put_reading(&self, key: &str, body: &str) -> Result<()> {
        let packed = pack(body)?;
        self.database.write(|db| {
            let sql = "INSERT OR REPLACE INTO readings (key, body) VALUES (?1, ?2)";
            db.prepare_cached(sql)?.execute(params![key, packed])?;
            let old = "DELETE FROM readings WHERE number <= (SELECT max(number) FROM readings) - ?1";
            db.prepare_cached(old)?.execute([KEPT_READINGS])?;
            Ok(())
        })
    }

    /// Returns what was read out of a content.
    pub fn reading(&self, key: &str) -> Result<Option<String>> {
        let found = self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT body FROM readings WHERE key = ?1")?;
            Ok(statement.query_row([key], |row| row.get::<_, Vec<u8>>(0)).optional()?)
        })?;
        found.map(|packed| unpack(&packed)).transpose()
    }

    /// Keeps the facts of a content.
    pub fn put_facts(&self, hash: ContentHash, body: &str) -> Result<()> {
        self.database.write(|db| {
            let sql = "INSERT OR REPLACE INTO facts (hash, body) VALUES (?1, ?2)";
            db.prepare_cached(sql)?.execute(params![hash.0, body])?;
            Ok(())
        })
    }

    /// Returns the facts of every content that was read.
    pub fn facts(&self) -> Result<Vec<(ContentHash, String)>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT hash, body FROM facts")?;
            let rows = statement.query_map([], |row| Ok((ContentHash(row.get(0)?), row.get(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }
}

fn put_files(db: &Transaction<'_>, session: i64, files: &[SessionFile]) -> Result<(), Failed> {
    let sql = "INSERT OR REPLACE INTO session_files (session, file, path, hash, size, modified_ns, problem) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let mut statement = db.prepare_cached(sql)?;
    for file in files {
        let hash = file.hash.map(|it| it.0);
        let size = signed(file.size);
        statement.execute(params![session, file.file, file.path, hash, size, file.modified_ns, file.problem])?;
    }
    Ok(())
}

fn session_file(row: &Row<'_>) -> rusqlite::Result<SessionFile> {
    Ok(SessionFile {
        file: row.get(0)?,
        path: row.get(1)?,
        hash: row.get::<_, Option<[u8; 32]>>(2)?.map(ContentHash),
        size: row.get::<_, i64>(3)?.cast_unsigned(),
        modified_ns: row.get(4)?,
        problem: row.get(5)?,
    })
}

fn pack(text: &str) -> Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).map_err(Error::internal)?;
    encoder.finish().map_err(Error::internal)
}

fn unpack(packed: &[u8]) -> Result<String> {
    let mut text = String::new();
    DeflateDecoder::new(packed).take(MOST_BYTES).read_to_string(&mut text).map_err(Error::internal)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: FileId) -> SessionFile {
        let hash = Some(ContentHash([number as u8; 32]));
        SessionFile {
            file: number,
            path: format!("/w/{number}"),
            hash,
            size: 3,
            modified_ns: 4,
            problem: String::new(),
        }
    }

    #[test]
    fn what_is_kept_survives_and_belongs_to_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("corpus.sqlite");
        let book = CorpusBook::open(&path).unwrap();
        assert!(book.add_view("", "papers", "{}").unwrap());
        assert!(!book.add_view("", "papers", "{\"other\": 1}").unwrap(), "a name is taken once");
        assert!(book.add_view("/w/a", "papers", "[]").unwrap());
        let session = book.add_session("", "{}", &[file(1), file(2)]).unwrap();
        book.put_result("", "r-1", "{}", "{\"data\": 1}").unwrap();
        drop(book);
        let book = CorpusBook::open(&path).unwrap();
        assert_eq!(book.views("").unwrap(), [("papers".to_string(), "{}".to_string())]);
        assert_eq!(book.session_files(session).unwrap(), [file(1), file(2)]);
        assert_eq!(book.result("", "r-1").unwrap().unwrap().1, "{\"data\": 1}");
        assert_eq!(book.result("/w/a", "r-1").unwrap(), None);
        assert_eq!(book.session("/w/a", session).unwrap(), None);
        assert!(book.remove_view("", "papers").unwrap() && !book.remove_view("", "papers").unwrap());
    }

    #[test]
    fn a_job_that_the_last_run_left_open_has_failed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("corpus.sqlite");
        let job = BookedJob { id: "j".into(), state: "running".into(), body: "{}".into() };
        CorpusBook::open(&path).unwrap().put_job("", &job).unwrap();
        let state = CorpusBook::open(&path).unwrap().job("", "j").unwrap().unwrap().state;
        assert_eq!(state, "failed");
    }
}
