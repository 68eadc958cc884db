//! Cache of skill results (such as OCR) by content, so that no content is processed twice: not in a copy, not after a
//! move, and not after the index is rebuilt.
//!
//! It works like the vector cache: commits are not synced, a corrupt file is quarantined, the oldest entries are evicted,
//! and an error of the cache is only logged; the skill then runs again.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use rusqlite::{OptionalExtension, params};

use crate::catalog::database::{APPEND_CACHE_KIB, Database, Durability, Format};
use crate::catalog::files::row::signed;
use crate::catalog::quarantine;
use crate::error::{Error, ErrorCode, Result};
use crate::model::{ContentHash, Document};

/// When the cache is full, at least 1/20 of its bytes is evicted at once, so that evictions are rare.
const PRUNE_FRACTION: u64 = 20;

/// A document larger than this, as JSON, is not cached; a thousand pages of dense text take less.
const MAX_DOCUMENT_BYTES: u64 = 64 << 20;

const FORMAT: Format = Format {
    name: "evidence cache",
    version: 1,
    upgrades: &[],
    durability: Durability::Normal,
    cache_kib: APPEND_CACHE_KIB,
    hint: "delete the file; skills such as OCR then run again on your files",
    schema: "
        CREATE TABLE evidence (
            id INTEGER PRIMARY KEY,
            hash BLOB NOT NULL,
            skill TEXT NOT NULL,
            version TEXT NOT NULL,
            document BLOB NOT NULL,
            UNIQUE (hash, skill)
        );
    ",
};

/// Key of a cached result: a content and a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceKey {
    /// Hash of the content that the skill processed.
    pub hash: ContentHash,
    /// Name of the skill.
    pub skill: String,
    /// Version of the skill and of everything else on which its results depend. A result of a new version replaces the
    /// cached one.
    pub version: String,
}

/// Compressed results of skills in a SQLite database of bounded size.
pub struct EvidenceCache {
    database: Database,
    bytes: AtomicU64,
    max_bytes: u64,
}

impl EvidenceCache {
    /// Opens or creates the cache at `path`, limited to about `max_bytes` of compressed documents. A corrupt file is
    /// renamed to `<path>.damaged` and replaced.
    ///
    /// # Errors
    /// When the file cannot be created, or a newer vic wrote it.
    pub fn open(path: &Path, max_bytes: u64) -> Result<EvidenceCache> {
        Ok(quarantine::replace_if_corrupt(path, || EvidenceCache::try_open(path, max_bytes))?.0)
    }

    fn try_open(path: &Path, max_bytes: u64) -> Result<EvidenceCache> {
        let database = Database::open(path, &FORMAT)?;
        let sql = "SELECT coalesce(sum(length(document)), 0) FROM evidence";
        let bytes: i64 = database.read(|db| Ok(db.query_row(sql, [], |row| row.get(0))?))?;
        Ok(EvidenceCache { database, bytes: AtomicU64::new(bytes.cast_unsigned()), max_bytes })
    }

    /// Returns the cached result for this content, skill and version.
    pub fn get(&self, key: &EvidenceKey) -> Option<Document> {
        let sql = "SELECT document FROM evidence WHERE hash = ?1 AND skill = ?2 AND version = ?3";
        let found = self.database.read(|db| {
            let row = params![key.hash.0, key.skill, key.version];
            Ok(db.prepare_cached(sql)?.query_row(row, |row| row.get::<_, Vec<u8>>(0)).optional()?)
        });
        decode(&ok_or_log(found).flatten()?)
    }

    /// Returns whether a result for this content, skill and version is cached.
    pub fn has(&self, key: &EvidenceKey) -> bool {
        let sql = "SELECT 1 FROM evidence WHERE hash = ?1 AND skill = ?2 AND version = ?3";
        let found = self.database.read(|db| {
            let row = params![key.hash.0, key.skill, key.version];
            Ok(db.prepare_cached(sql)?.query_row(row, |_| Ok(())).optional()?)
        });
        ok_or_log(found).flatten().is_some()
    }

    /// Returns the results of all skills for this content, in any version, with the names of the skills.
    pub fn get_all(&self, hash: ContentHash) -> Vec<(String, Document)> {
        let found = self.database.read(|db| {
            let mut statement =
                db.prepare_cached("SELECT skill, document FROM evidence WHERE hash = ?1 ORDER BY skill")?;
            let rows =
                statement.query_map([hash.0], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
        });
        let rows = ok_or_log(found).unwrap_or_default();
        rows.into_iter().filter_map(|(skill, bytes)| Some((skill, decode(&bytes)?))).collect()
    }

    /// Returns the hashes of all contents with cached results.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn hashes(&self) -> Result<HashSet<ContentHash>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT DISTINCT hash FROM evidence")?;
            let hashes = statement.query_map([], |row| Ok(ContentHash(row.get(0)?)))?;
            Ok(hashes.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Deletes the results for these contents.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub fn forget(&self, hashes: &HashSet<ContentHash>) -> Result<()> {
        if hashes.is_empty() {
            return Ok(());
        }
        self.database.write(|db| {
            for hash in hashes {
                db.prepare_cached("DELETE FROM evidence WHERE hash = ?1")?.execute([hash.0])?;
            }
            let sql = "SELECT coalesce(sum(length(document)), 0) FROM evidence";
            let bytes = db.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0))?.cast_unsigned();
            self.bytes.store(bytes, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Stores the result of a skill and, if the cache exceeds its limit, evicts the oldest entries.
    pub fn put(&self, key: &EvidenceKey, document: &Document) {
        let kept = encode(document).and_then(|bytes| self.try_put(key, &bytes));
        if let Err(error) = kept {
            tracing::warn!("{error}; the result of `{}` is not cached", key.skill);
        }
    }

    fn try_put(&self, key: &EvidenceKey, document: &[u8]) -> Result<()> {
        self.database.write(|db| {
            let mut bytes = self.bytes.load(Ordering::Relaxed);
            let sql = "DELETE FROM evidence WHERE hash = ?1 AND skill = ?2 RETURNING length(document)";
            let row = params![key.hash.0, key.skill];
            let replaced: Option<i64> = db.prepare_cached(sql)?.query_row(row, |row| row.get(0)).optional()?;
            let sql = "INSERT INTO evidence (hash, skill, version, document) VALUES (?1, ?2, ?3, ?4)";
            db.prepare_cached(sql)?.execute(params![key.hash.0, key.skill, key.version, document])?;
            bytes = (bytes + document.len() as u64).saturating_sub(replaced.unwrap_or(0).cast_unsigned());
            if bytes > self.max_bytes {
                let excess = bytes - self.max_bytes + self.max_bytes / PRUNE_FRACTION;
                // Deletes the oldest rows, up to the one with which enough bytes are freed.
                let sql = "DELETE FROM evidence WHERE id <= (SELECT min(id) FROM \
                           (SELECT id, sum(length(document)) OVER (ORDER BY id) AS upto FROM evidence) WHERE upto >= ?1)";
                db.prepare_cached(sql)?.execute([signed(excess)])?;
                let sql = "SELECT coalesce(sum(length(document)), 0) FROM evidence";
                bytes = db.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0))?.cast_unsigned();
            }
            // Updates the size inside the transaction, where no other writer runs; if the commit fails, the size is
            // slightly wrong.
            self.bytes.store(bytes, Ordering::Relaxed);
            Ok(())
        })
    }
}

/// Logs an error of the cache and returns `None`, as for a missing entry.
fn ok_or_log<T>(found: Result<T>) -> Option<T> {
    found.inspect_err(|error| tracing::warn!("{error}; the cache is ignored and skills run again")).ok()
}

fn encode(document: &Document) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(document).map_err(Error::internal)?;
    if json.len() as u64 > MAX_DOCUMENT_BYTES {
        return Err(Error::new(ErrorCode::ResourceExhausted, "the document is too large for the cache"));
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&json).map_err(Error::internal)?;
    encoder.finish().map_err(Error::internal)
}

fn decode(bytes: &[u8]) -> Option<Document> {
    let mut json = Vec::new();
    DeflateDecoder::new(bytes).take(MAX_DOCUMENT_BYTES).read_to_end(&mut json).ok()?;
    serde_json::from_slice(&json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Anchor, Block, BlockKind, Region};

    fn key(number: u8, skill: &str) -> EvidenceKey {
        EvidenceKey { hash: ContentHash([number; 32]), skill: skill.into(), version: "1".into() }
    }

    fn document(text: &str) -> Document {
        let region = Some(Region { left: 0.25, top: 0.5, right: 0.75, bottom: 1.0 });
        let anchor = Anchor { page: Some(2), region, ..Anchor::default() };
        let block = Block { kind: BlockKind::Metadata, text: text.into(), anchor, rows: Vec::new() };
        Document { blocks: vec![block], ..Document::default() }
    }

    #[test]
    fn evidence_round_trips_for_content_skill_and_version() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e.sqlite");
        EvidenceCache::open(&path, 1 << 20).unwrap().put(&key(1, "a"), &document("found"));
        let cache = EvidenceCache::open(&path, 1 << 20).unwrap();
        assert_eq!(cache.get(&key(1, "a")), Some(document("found")));
        assert!(cache.has(&key(1, "a")));
        let newer = EvidenceKey { version: "2".into(), ..key(1, "a") };
        for other in [key(2, "a"), key(1, "b"), newer.clone()] {
            assert!(cache.get(&other).is_none() && !cache.has(&other), "{other:?}");
        }
        cache.put(&newer, &document("more"));
        cache.put(&key(1, "b"), &document("else"));
        assert_eq!(cache.get(&key(1, "a")), None, "a newer version replaces an older one");
        let all = cache.get_all(ContentHash([1; 32]));
        assert_eq!(all, [("a".to_string(), document("more")), ("b".to_string(), document("else"))]);
    }

    #[test]
    fn full_cache_evicts_oldest_evidence() {
        let dir = tempfile::tempdir().unwrap();
        let one = encode(&document("x")).unwrap().len() as u64;
        let cache = EvidenceCache::open(&dir.path().join("e.sqlite"), one * 40).unwrap();
        for number in 0..100 {
            cache.put(&key(number, "a"), &document("x"));
        }
        let kept = (0..100).filter(|it| cache.has(&key(*it, "a"))).count();
        assert!((35..=40).contains(&kept), "{kept}");
        assert!(cache.has(&key(99, "a")) && !cache.has(&key(0, "a")));
    }

    #[test]
    fn corrupt_cache_is_renamed_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e.sqlite");
        std::fs::write(&path, b"garbage ".repeat(1000)).unwrap();
        let cache = EvidenceCache::open(&path, 1 << 20).unwrap();
        cache.put(&key(1, "a"), &document("found"));
        assert!(cache.has(&key(1, "a")) && dir.path().join("e.sqlite.damaged").exists());
    }
}
