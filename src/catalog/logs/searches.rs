//! Remembered and saved searches of the web page, for each caller.

use std::path::Path;

use rusqlite::{Transaction, params};

use crate::catalog::database::{APPEND_CACHE_KIB, Database, DbError, Durability, Format};
use crate::catalog::quarantine;
use crate::error::{Error, ErrorCode, Result};
use crate::model::{ForgetSearches, PastSearch, PastSearches, Principal, SearchNote};

/// Maximum number of searches in the history of a caller. Beyond it, the oldest are deleted.
const MAX_HISTORY: i64 = 500;

/// Number of searches of the history that are returned.
const SHOWN_HISTORY: i64 = 100;

/// Maximum number of saved searches of a caller.
const MAX_SAVED: i64 = 500;

const FORMAT: Format = Format {
    name: "list of searches",
    version: 1,
    upgrades: &[],
    durability: Durability::Full,
    cache_kib: APPEND_CACHE_KIB,
    hint: "move the file aside; only remembered and saved searches are lost",
    schema: "
        CREATE TABLE history (
            holder TEXT NOT NULL,
            query TEXT NOT NULL,
            time_ms INTEGER NOT NULL,
            PRIMARY KEY (holder, query)
        );
        CREATE TABLE saved (
            holder TEXT NOT NULL,
            name TEXT NOT NULL,
            query TEXT NOT NULL,
            time_ms INTEGER NOT NULL,
            PRIMARY KEY (holder, name)
        );
    ",
};

/// The remembered searches of all callers.
pub struct SearchLog {
    database: Database,
}

impl SearchLog {
    /// Opens or creates the list at `path`. A corrupt file is renamed to `<path>.damaged` and replaced by an empty one.
    ///
    /// # Errors
    /// As [`crate::catalog::Catalog::open`], except for corruption.
    pub fn open(path: &Path) -> Result<SearchLog> {
        Ok(SearchLog { database: quarantine::open_or_replace(path, &FORMAT)? })
    }

    /// Returns the new path of the corrupt file that this database replaced when it was opened.
    pub fn quarantined(&self) -> Option<&Path> {
        self.database.quarantined.as_deref()
    }

    /// Returns the searches of a caller.
    pub fn list(&self, holder: &Principal) -> Result<PastSearches> {
        let holder = holder_name(holder);
        self.database.read(|db| {
            let sql =
                "SELECT query, time_ms, NULL FROM history WHERE holder = ?1 ORDER BY time_ms DESC, query LIMIT ?2";
            let history = read_searches(db, sql, &holder, SHOWN_HISTORY)?;
            let sql = "SELECT query, time_ms, name FROM saved WHERE holder = ?1 ORDER BY name LIMIT ?2";
            Ok(PastSearches { history, saved: read_searches(db, sql, &holder, MAX_SAVED)? })
        })
    }

    /// Remembers a search of a caller at `time_ms`; with a name, saves it too, in place of one with this name.
    ///
    /// # Errors
    /// `ResourceExhausted` if the caller has too many saved searches.
    pub fn add(&self, holder: &Principal, note: &SearchNote, time_ms: i64) -> Result<()> {
        let holder = holder_name(holder);
        self.database.write(|db| {
            db.prepare_cached(
                "INSERT INTO history VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET time_ms = excluded.time_ms",
            )?
            .execute(params![holder, note.query, time_ms])?;
            db.prepare_cached(
                "DELETE FROM history WHERE holder = ?1 AND query IN \
                 (SELECT query FROM history WHERE holder = ?1 ORDER BY time_ms DESC LIMIT -1 OFFSET ?2)",
            )?
            .execute(params![holder, MAX_HISTORY])?;
            if let Some(name) = &note.name {
                save(db, &holder, name, &note.query, time_ms)?;
            }
            Ok(())
        })
    }

    /// Deletes searches of a caller.
    pub fn remove(&self, holder: &Principal, which: &ForgetSearches) -> Result<()> {
        let holder = holder_name(holder);
        self.database.write(|db| {
            if let Some(name) = &which.name {
                db.execute("DELETE FROM saved WHERE holder = ?1 AND name = ?2", params![holder, name])?;
            }
            if let Some(query) = &which.query {
                db.execute("DELETE FROM history WHERE holder = ?1 AND query = ?2", params![holder, query])?;
            }
            if which.all {
                db.execute("DELETE FROM history WHERE holder = ?1", params![holder])?;
            }
            Ok(())
        })
    }
}

fn save(db: &Transaction<'_>, holder: &str, name: &str, query: &str, time_ms: i64) -> Result<(), DbError> {
    let sql = "SELECT count(*) FROM saved WHERE holder = ?1 AND name <> ?2";
    let others: i64 = db.query_row(sql, params![holder, name], |row| row.get(0))?;
    if others >= MAX_SAVED {
        let text = format!("there are {MAX_SAVED} saved searches already, the maximum");
        return Err(Error::new(ErrorCode::ResourceExhausted, text).hint("remove some of them").into());
    }
    db.execute(
        "INSERT INTO saved VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT DO UPDATE SET query = excluded.query, time_ms = excluded.time_ms",
        params![holder, name, query, time_ms],
    )?;
    Ok(())
}

fn read_searches(db: &Transaction<'_>, sql: &str, holder: &str, limit: i64) -> Result<Vec<PastSearch>, DbError> {
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map(params![holder, limit], |row| {
        Ok(PastSearch { query: row.get(0)?, time_ms: row.get(1)?, name: row.get(2)? })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the name of a caller in the database: the hash of a key, or nothing for the owner.
fn holder_name(holder: &Principal) -> String {
    match holder {
        Principal::Owner => String::new(),
        Principal::Key(hash) => hash.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(query: &str, name: Option<&str>) -> SearchNote {
        SearchNote { query: query.into(), name: name.map(Into::into) }
    }

    #[test]
    fn searches_are_kept_by_caller_newest_first() {
        let dir = tempfile::tempdir().unwrap();
        let log = SearchLog::open(&dir.path().join("searches.sqlite")).unwrap();
        let ada = Principal::Key("ada".into());
        log.add(&Principal::Owner, &note("q=a", None), 1).unwrap();
        log.add(&Principal::Owner, &note("q=b", Some("mine")), 2).unwrap();
        log.add(&Principal::Owner, &note("q=a", None), 3).unwrap();
        log.add(&ada, &note("q=c", None), 4).unwrap();
        let found = log.list(&Principal::Owner).unwrap();
        let queries: Vec<&str> = found.history.iter().map(|it| it.query.as_str()).collect();
        assert_eq!((queries, found.saved[0].name.as_deref()), (vec!["q=a", "q=b"], Some("mine")));
        assert_eq!(log.list(&ada).unwrap().history.len(), 1);
        log.remove(&Principal::Owner, &ForgetSearches { all: true, ..ForgetSearches::default() }).unwrap();
        log.remove(&ada, &ForgetSearches { name: Some("mine".into()), ..ForgetSearches::default() }).unwrap();
        let left = log.list(&Principal::Owner).unwrap();
        assert_eq!((left.history.len(), left.saved.len()), (0, 1));
    }

    #[test]
    fn history_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let log = SearchLog::open(&dir.path().join("searches.sqlite")).unwrap();
        (0..MAX_HISTORY + 20).for_each(|it| log.add(&Principal::Owner, &note(&format!("q={it}"), None), it).unwrap());
        let rows: i64 =
            log.database.read(|db| Ok(db.query_row("SELECT count(*) FROM history", [], |row| row.get(0))?)).unwrap();
        assert_eq!(rows, MAX_HISTORY);
    }
}
