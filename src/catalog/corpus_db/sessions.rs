//! Sessions of the corpus API. A session records the files of an ingest run as they were at that time; later changes of
//! the files do not affect it.
//!
//! A session keeps a row of metadata for each file, and holds the parsed documents of the files, which are not evicted
//! until the session is removed.

use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::catalog::corpus_db::store::CorpusStore;
use crate::catalog::database::DbError;
use crate::catalog::files::row::{now_ns, parse_state, signed};
use crate::catalog::files::row_predicate::{Cell, Column, PredicateRow};
use crate::error::Result;
use crate::model::{ContentHash, FileId, FileKind, FileRecord, FileState};

/// Value of `held` for a cached document that no session uses and that may be evicted.
const EVICTABLE: i64 = 0;

/// Value of `held` for a cached document that a session uses.
const HELD: i64 = 1;

/// Value of `held` for a cached document of a session that is not stored yet; after a crash, the next start makes the
/// document evictable.
const HELD_TEMPORARILY: i64 = 2;

/// The metadata of one file at the time when its session was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile {
    /// Id of the file in the catalog; negative if the file, such as a web page, is not in the catalog.
    pub file: FileId,
    /// Absolute path of the root of the file; empty if the file is not below a root.
    pub root: String,
    /// Path relative to the root.
    pub path: String,
    /// Hash of the content at that time; `None` if it was not read.
    pub hash: Option<ContentHash>,
    /// Size at that time, in bytes.
    pub size: u64,
    /// Modification time, as it was then, in nanoseconds since the epoch.
    pub modified_ns: i64,
    /// Lowercase extension without the dot.
    pub extension: String,
    /// Broad kind, such as mail or spreadsheet.
    pub kind: FileKind,
    /// Media type; empty if the content was not read.
    pub media_type: String,
    /// State of the file in the catalog at that time.
    pub state: FileState,
    /// User name of the owner of the file.
    pub owner: String,
    /// Number of chunks of the file.
    pub chunks: u32,
    /// Why the file could not be read; empty if it was read.
    pub problem: String,
    /// Counts about the content, as JSON; `None` if the text was not read for the session.
    pub facts: Option<String>,
    /// Key of the cached document that the session holds.
    pub document_key: Option<String>,
}

impl SessionFile {
    /// Returns the current metadata of a file in the catalog.
    pub fn new(record: &FileRecord) -> SessionFile {
        let problem = match record.state {
            FileState::Indexed => String::new(),
            FileState::Pending => "pending".into(),
            FileState::Skipped | FileState::Failed => record.reason.map_or("io", |it| it.name()).into(),
        };
        SessionFile {
            file: record.id,
            root: record.root.to_string_lossy().into_owned(),
            path: record.found.path.to_string_lossy().into_owned(),
            hash: record.hash,
            size: record.found.size,
            modified_ns: record.found.modified_ns,
            extension: record.extension.clone(),
            kind: record.kind,
            media_type: record.media_type.clone(),
            state: record.state,
            owner: record.owner.clone(),
            chunks: record.chunks,
            problem,
            facts: None,
            document_key: None,
        }
    }

    /// Returns the entry of a web page that could not be fetched; `file` is a negative id, not one of the catalog.
    pub fn failed_page(file: FileId, address: String, problem: String) -> SessionFile {
        SessionFile {
            file,
            root: String::new(),
            path: address,
            hash: None,
            size: 0,
            modified_ns: 0,
            extension: String::new(),
            kind: FileKind::Web,
            media_type: String::new(),
            state: FileState::Failed,
            owner: String::new(),
            chunks: 0,
            problem,
            facts: None,
            document_key: None,
        }
    }

    /// Returns the values of these columns, as the catalog would have returned them at the time of the session.
    pub fn predicate_row(&self, columns: &[Column]) -> PredicateRow {
        PredicateRow { id: self.file, cells: columns.iter().map(|it| self.cell(*it)).collect() }
    }

    fn cell(&self, column: Column) -> Cell {
        let text = |text: &str| if text.is_empty() { Cell::Absent } else { Cell::Text(text.into()) };
        match column {
            Column::Path => text(&self.path),
            Column::Name => text(&crate::catalog::files::row::search_name(self.path.as_ref())),
            Column::Extension => Cell::Text(self.extension.clone()),
            Column::Size => Cell::Number(signed(self.size)),
            Column::Modified => Cell::Number(self.modified_ns),
            Column::Kind => text(self.kind.name()),
            Column::MediaType => Cell::Text(self.media_type.clone()),
            Column::State => text(self.state.name()),
            Column::Reason if matches!(self.state, FileState::Skipped | FileState::Failed) => text(&self.problem),
            Column::Reason => Cell::Absent,
            Column::Owner => text(&self.owner),
            Column::Chunks => Cell::Number(self.chunks.into()),
            Column::Hash => self.hash.map_or(Cell::Absent, Cell::Hash),
        }
    }
}

impl CorpusStore {
    /// Stores a session with its files and returns its number. Each owner's sessions are numbered from 1; numbers are
    /// never reused.
    pub fn add_session(&self, owner: &str, body: &str, files: &[SessionFile]) -> Result<i64> {
        self.database.write(|db| {
            let next = "INSERT INTO session_numbers VALUES (?1, 1) \
                        ON CONFLICT (owner) DO UPDATE SET last = last + 1 RETURNING last";
            let number: i64 = db.prepare_cached(next)?.query_row([owner], |row| row.get(0))?;
            let sql = "INSERT INTO sessions (owner, number, body, created_ms) VALUES (?1, ?2, ?3, ?4)";
            db.prepare_cached(sql)?.execute(params![owner, number, body, now_ns() / 1_000_000])?;
            put_files(db, db.last_insert_rowid(), files)?;
            Ok(number)
        })
    }

    /// Removes the files `gone` of a session, except those without a problem, and adds `files`, the results of a second
    /// attempt to read them.
    pub fn amend_session(&self, owner: &str, number: i64, gone: &[FileId], files: &[SessionFile]) -> Result<()> {
        self.database.write(|db| {
            // Does nothing if the session was removed meanwhile.
            let Some(session) = session_row_id(db, owner, number)? else { return Ok(()) };
            let mut statement =
                db.prepare_cached("DELETE FROM session_metadata WHERE session = ?1 AND file = ?2 AND problem != ''")?;
            for file in gone {
                statement.execute([session, *file])?;
            }
            put_files(db, session, files)
        })
    }

    /// Deletes a session of an owner and releases the documents that no other session uses; returns false if there is
    /// none.
    pub fn remove_session(&self, owner: &str, number: i64) -> Result<bool> {
        self.database.write(|db| {
            let Some(session) = session_row_id(db, owner, number)? else { return Ok(false) };
            db.prepare_cached("DELETE FROM sessions WHERE id = ?1")?.execute([session])?;
            let release = "UPDATE readings SET held = ?2 WHERE key IN \
                           (SELECT reading FROM session_metadata WHERE session = ?1 AND reading IS NOT NULL) \
                           AND key NOT IN (SELECT reading FROM session_metadata \
                           WHERE session != ?1 AND reading IS NOT NULL)";
            db.prepare_cached(release)?.execute([session, EVICTABLE])?;
            db.prepare_cached("DELETE FROM session_metadata WHERE session = ?1")?.execute([session])?;
            Ok(true)
        })
    }

    /// Returns the body and the creation time (in ms) of a session of an owner.
    pub fn session(&self, owner: &str, number: i64) -> Result<Option<(String, i64)>> {
        self.database.read(|db| {
            let mut statement =
                db.prepare_cached("SELECT body, created_ms FROM sessions WHERE owner = ?1 AND number = ?2")?;
            Ok(statement.query_row(params![owner, number], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
        })
    }

    /// Returns the numbers of the sessions of an owner, in ascending order, which is the order of creation.
    pub fn sessions(&self, owner: &str) -> Result<Vec<i64>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT number FROM sessions WHERE owner = ?1 ORDER BY number")?;
            let rows = statement.query_map([owner], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns the newest of an owner's sessions that were created at or before `at_ms`; if `file` is given, the newest
    /// of those that read this file.
    pub fn last_session(&self, owner: &str, at_ms: Option<i64>, file: Option<FileId>) -> Result<Option<i64>> {
        self.database.read(|db| {
            let sql = "SELECT max(number) FROM sessions WHERE owner = ?1 AND created_ms <= ?2 AND (?3 IS NULL OR EXISTS \
                       (SELECT 1 FROM session_metadata WHERE session = id AND file = ?3 AND problem = ''))";
            let mut statement = db.prepare_cached(sql)?;
            Ok(statement.query_row(params![owner, at_ms.unwrap_or(i64::MAX), file], |row| row.get(0))?)
        })
    }

    /// Returns the files of a session of an owner, by id.
    pub fn session_files(&self, owner: &str, number: i64) -> Result<Vec<SessionFile>> {
        self.database.read(|db| {
            let Some(session) = session_row_id(db, owner, number)? else { return Ok(Vec::new()) };
            let sql = "SELECT file, root, path, hash, size, modified_ns, extension, kind, media_type, state, owner, \
                       chunks, problem, facts, reading FROM session_metadata WHERE session = ?1 ORDER BY file";
            let mut statement = db.prepare_cached(sql)?;
            let rows = statement.query_map([session], read_session_file)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Protects documents from eviction until the session that needs them is stored.
    pub fn hold_documents(&self, keys: &[String]) -> Result<()> {
        self.database.write(|db| {
            let mut statement = db.prepare_cached("UPDATE readings SET held = ?2 WHERE key = ?1 AND held = ?3")?;
            for key in keys {
                statement.execute(params![key, HELD_TEMPORARILY, EVICTABLE])?;
            }
            Ok(())
        })
    }

    /// Makes documents evictable that were held for a session that was never stored.
    pub(in crate::catalog) fn release_unfinished(&self) -> Result<()> {
        self.database.write(|db| {
            db.execute("UPDATE readings SET held = ?1 WHERE held = ?2", [EVICTABLE, HELD_TEMPORARILY])?;
            Ok(())
        })
    }
}

/// Returns the row id of a session, which identifies it in the table of its files.
fn session_row_id(db: &Transaction<'_>, owner: &str, number: i64) -> rusqlite::Result<Option<i64>> {
    let mut statement = db.prepare_cached("SELECT id FROM sessions WHERE owner = ?1 AND number = ?2")?;
    statement.query_row(params![owner, number], |row| row.get(0)).optional()
}

fn put_files(db: &Transaction<'_>, session: i64, files: &[SessionFile]) -> Result<(), DbError> {
    let sql = "INSERT OR REPLACE INTO session_metadata (session, file, root, path, hash, size, modified_ns, extension, \
               kind, media_type, state, owner, chunks, problem, facts, reading) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
    let mut statement = db.prepare_cached(sql)?;
    let mut hold = db.prepare_cached("UPDATE readings SET held = ?2 WHERE key = ?1")?;
    for it in files {
        let (hash, size) = (it.hash.map(|it| it.0), signed(it.size));
        let (kind, state) = (it.kind.name(), it.state.name());
        statement.execute(params![
            session,
            it.file,
            it.root,
            it.path,
            hash,
            size,
            it.modified_ns,
            it.extension,
            kind,
            it.media_type,
            state,
            it.owner,
            it.chunks,
            it.problem,
            it.facts,
            it.document_key
        ])?;
        if let Some(key) = &it.document_key {
            hold.execute(params![key, HELD])?;
        }
    }
    Ok(())
}

fn read_session_file(row: &Row<'_>) -> rusqlite::Result<SessionFile> {
    Ok(SessionFile {
        file: row.get(0)?,
        root: row.get(1)?,
        path: row.get(2)?,
        hash: row.get::<_, Option<[u8; 32]>>(3)?.map(ContentHash),
        size: row.get::<_, i64>(4)?.cast_unsigned(),
        modified_ns: row.get(5)?,
        extension: row.get(6)?,
        kind: FileKind::from_name(row.get_ref(7)?.as_str()?),
        media_type: row.get(8)?,
        state: parse_state(row.get_ref(9)?.as_str()?),
        owner: row.get(10)?,
        chunks: row.get(11)?,
        problem: row.get(12)?,
        facts: row.get(13)?,
        document_key: row.get(14)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::corpus_db::document_cache::evict_documents;

    fn file(number: FileId) -> SessionFile {
        let key = format!("k{number}");
        SessionFile {
            hash: Some(ContentHash([number as u8; 32])),
            state: FileState::Indexed,
            facts: Some("{}".into()),
            document_key: Some(key),
            ..SessionFile::failed_page(number, format!("w/{number}.md"), String::new())
        }
    }

    /// Returns a store with one document for each of two sessions, and an older document without a session.
    fn book(dir: &std::path::Path) -> CorpusStore {
        let book = CorpusStore::open(&dir.join("corpus.sqlite")).unwrap();
        for key in ["k0", "k1", "k2"] {
            book.put_document(key, key).unwrap();
        }
        book
    }

    #[test]
    fn session_holds_documents_until_last_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let book = book(dir.path());
        let one = book.add_session("", "{}", &[file(1), file(2)]).unwrap();
        let other = book.add_session("", "{}", &[file(2)]).unwrap();
        let left = |book: &CorpusStore| -> Vec<bool> {
            book.database.write(|db| evict_documents(db, 0)).unwrap();
            ["k0", "k1", "k2"].iter().map(|it| book.document(it).unwrap().is_some()).collect()
        };
        assert_eq!(left(&book), [false, true, true]);
        assert!(!book.remove_session("/w/a", one).unwrap(), "it belongs to another owner");
        assert!(book.remove_session("", one).unwrap());
        assert_eq!(left(&book), [false, false, true]);
        assert!(book.session_files("", one).unwrap().is_empty());
        assert!(book.remove_session("", other).unwrap() && !book.remove_session("", other).unwrap());
        assert_eq!(left(&book), [false, false, false]);
    }

    #[test]
    fn session_numbers_count_per_owner_and_are_not_reused() {
        let dir = tempfile::tempdir().unwrap();
        let book = book(dir.path());
        let add = |owner: &str| book.add_session(owner, "{}", &[file(1)]).unwrap();
        assert_eq!([add(""), add(""), add("/w/a"), add("")], [1, 2, 1, 3]);
        assert!(book.remove_session("/w/a", 1).unwrap() && book.remove_session("", 3).unwrap());
        assert_eq!(book.session_files("", 1).unwrap(), [file(1)], "the session of another owner with the same number");
        assert_eq!([add("/w/a"), add("")], [2, 4]);
        assert_eq!((book.sessions("").unwrap(), book.sessions("/w/a").unwrap()), (vec![1, 2, 4], vec![2]));
    }

    #[test]
    fn documents_held_by_crashed_session_are_released() {
        let dir = tempfile::tempdir().unwrap();
        let first = book(dir.path());
        first.hold_documents(&["k1".into(), "k2".into()]).unwrap();
        first.add_session("", "{}", &[file(1)]).unwrap();
        first.database.write(|db| evict_documents(db, 0)).unwrap();
        drop(first);
        let book = CorpusStore::open(&dir.path().join("corpus.sqlite")).unwrap();
        book.database.write(|db| evict_documents(db, 0)).unwrap();
        assert_eq!((book.document("k1").unwrap(), book.document("k2").unwrap()), (Some("k1".into()), None));
    }

    #[test]
    fn amend_session_replaces_only_failures() {
        let dir = tempfile::tempdir().unwrap();
        let book = book(dir.path());
        let failed = SessionFile::failed_page(3, "w/3.md".into(), "io".into());
        let session = book.add_session("", "{}", &[file(1), failed]).unwrap();
        // The file was found again under another id, and file 1 is wrongly listed as failed.
        book.amend_session("", session, &[3, 1], &[file(4)]).unwrap();
        assert_eq!(book.session_files("", session).unwrap(), [file(1), file(4)]);
    }

    #[test]
    fn last_session_respects_time_and_file() {
        let dir = tempfile::tempdir().unwrap();
        let book = book(dir.path());
        let first = book.add_session("", "{}", &[file(1)]).unwrap();
        let second = book.add_session("", "{}", &[file(2)]).unwrap();
        assert_eq!(book.last_session("", None, None).unwrap(), Some(second));
        assert_eq!(book.last_session("", None, Some(1)).unwrap(), Some(first));
        assert_eq!(book.last_session("", Some(0), None).unwrap(), None);
        assert_eq!(book.last_session("/w/a", None, None).unwrap(), None);
    }

    #[test]
    fn session_cells_reflect_recorded_state() {
        let file = SessionFile { size: 7, extension: "md".into(), owner: "ann".into(), ..file(1) };
        let row = file.predicate_row(&[Column::Name, Column::Extension, Column::Size, Column::State, Column::Reason]);
        let text = |it: &str| Cell::Text(it.into());
        assert_eq!(row.cells, [text("1.md"), text("md"), Cell::Number(7), text("indexed"), Cell::Absent]);
    }
}
