//! Cache of parsed documents by content hash; documents that a session uses are not evicted.

use std::collections::HashSet;

use rusqlite::{OptionalExtension, Transaction, params};

use crate::catalog::corpus_db::store::{CorpusStore, compress, decompress};
use crate::catalog::database::DbError;
use crate::error::Result;
use crate::model::ContentHash;

/// Maximum number of cached documents that no session uses; beyond it, the oldest are deleted. Each takes about 4 KiB when
/// compressed.
const MAX_CACHED_DOCUMENTS: i64 = 50_000;

impl CorpusStore {
    /// Stores a parsed document under a key that consists of content hash, parser and parser version.
    pub fn put_document(&self, key: &str, body: &str) -> Result<()> {
        let packed = compress(body)?;
        self.database.write(|db| {
            let sql = "INSERT INTO readings (key, body) VALUES (?1, ?2) \
                       ON CONFLICT (key) DO UPDATE SET body = excluded.body";
            db.prepare_cached(sql)?.execute(params![key, packed])?;
            evict_documents(db, MAX_CACHED_DOCUMENTS)
        })
    }

    /// Returns the parsed document with this key.
    pub fn document(&self, key: &str) -> Result<Option<String>> {
        let found = self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT body FROM readings WHERE key = ?1")?;
            Ok(statement.query_row([key], |row| row.get::<_, Vec<u8>>(0)).optional()?)
        })?;
        found.map(|packed| decompress(&packed)).transpose()
    }

    /// Stores the facts (counts, as JSON) about a content.
    pub fn put_facts(&self, hash: ContentHash, body: &str) -> Result<()> {
        self.database.write(|db| {
            let sql = "INSERT OR REPLACE INTO facts (hash, body) VALUES (?1, ?2)";
            db.prepare_cached(sql)?.execute(params![hash.0, body])?;
            Ok(())
        })
    }

    /// Returns the facts about every content that was parsed.
    pub fn facts(&self) -> Result<Vec<(ContentHash, String)>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT hash, body FROM facts")?;
            let rows = statement.query_map([], |row| Ok((ContentHash(row.get(0)?), row.get(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns the hashes of all contents with stored facts.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn hashes(&self) -> Result<HashSet<ContentHash>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT hash FROM facts")?;
            let rows = statement.query_map([], |row| Ok(ContentHash(row.get(0)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Deletes the facts and documents of these contents, except documents that a session uses.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub fn forget(&self, hashes: &HashSet<ContentHash>) -> Result<()> {
        self.database.write(|db| {
            let mut facts = db.prepare_cached("DELETE FROM facts WHERE hash = ?1")?;
            // Deletes all keys that begin with the hash and a dash; `.` is the character after `-`.
            let spare = "DELETE FROM readings WHERE held = 0 AND key > ?1 || '-' AND key < ?1 || '.'";
            let mut readings = db.prepare_cached(spare)?;
            for hash in hashes {
                facts.execute([hash.0])?;
                readings.execute([hash.to_string()])?;
            }
            Ok(())
        })
    }
}

/// Deletes the documents that no session uses, except the newest `kept`.
pub(in crate::catalog) fn evict_documents(db: &Transaction<'_>, kept: i64) -> Result<(), DbError> {
    let old = "DELETE FROM readings WHERE held = 0 AND number <= (SELECT max(number) FROM readings) - ?1";
    db.prepare_cached(old)?.execute([kept])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forget_drops_documents_not_held_by_session() {
        let dir = tempfile::tempdir().unwrap();
        let book = CorpusStore::open(&dir.path().join("corpus.sqlite")).unwrap();
        let hashes = [1, 2].map(|it| ContentHash([it; 32]));
        for hash in hashes {
            book.put_facts(hash, "{}").unwrap();
            book.put_document(&format!("{hash}-md-1"), "{}").unwrap();
        }
        book.database
            .write(|db| Ok(db.execute("UPDATE readings SET held = 1 WHERE key GLOB '*-md-1' AND number = 2", [])?))
            .unwrap();
        assert_eq!(book.hashes().unwrap(), HashSet::from(hashes));
        book.forget(&HashSet::from(hashes)).unwrap();
        assert_eq!(book.hashes().unwrap(), HashSet::new());
        let is_kept = hashes.map(|it| book.document(&format!("{it}-md-1")).unwrap().is_some());
        assert_eq!(is_kept, [false, true], "a session holds the other");
        book.put_facts(hashes[0], "{}").unwrap();
        book.forget(&HashSet::from([hashes[1]])).unwrap();
        assert_eq!(book.hashes().unwrap(), HashSet::from([hashes[0]]));
    }
}
