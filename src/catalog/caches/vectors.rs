//! Cache of vectors by text, so that no text is embedded twice: not after a move, not in a copy, and not after the index
//! is rebuilt.
//!
//! Commits are not synced (a power loss only costs vectors that can be computed again), a corrupt file is quarantined, and
//! an error of the cache is only logged; the text is then embedded again.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{OptionalExtension, Transaction, params};

use crate::catalog::database::{APPEND_CACHE_KIB, Database, Durability, Format};
use crate::catalog::files::row::signed;
use crate::catalog::quarantine;
use crate::error::Result;

/// When the cache is full, 1/20 of the rows is evicted at once, so that evictions are rare.
const PRUNE_FRACTION: u64 = 20;

/// Maximum number of cached vectors per chunk of the index: one for the current text, and one for an earlier text to
/// which an edit may return. Without this limit, files edited for years would fill the cache with vectors that are
/// never read.
const VECTORS_PER_CHUNK: u64 = 2;

/// The cache may always keep this many vectors, however small the index is: 6 MiB at 384 dimensions.
const MIN_VECTORS: u64 = 4_096;

/// Maximum number of rows deleted in one transaction; more would make the write-ahead log large, because it holds every
/// overwritten page.
const DELETE_BATCH: u64 = 4_096;

const FORMAT: Format = Format {
    name: "vector cache",
    version: 1,
    upgrades: &[],
    durability: Durability::Normal,
    cache_kib: APPEND_CACHE_KIB,
    hint: "delete the file; the vectors are then computed again",
    schema: "
        CREATE TABLE vectors (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, vector BLOB NOT NULL);
    ",
};

/// Key of a vector: BLAKE3 hash of the embedder's fingerprint and the text.
pub type VectorKey = [u8; 32];

/// Vectors of texts in a SQLite database of bounded size.
pub struct VectorCache {
    database: Database,
    rows: AtomicU64,
    max_rows: u64,
}

impl VectorCache {
    /// Opens or creates the cache at `path`, limited to about `max_rows` vectors. A corrupt file is renamed to
    /// `<path>.damaged` and replaced.
    ///
    /// # Errors
    /// When the file cannot be created, or a newer vic wrote it.
    pub fn open(path: &Path, max_rows: u64) -> Result<VectorCache> {
        Ok(quarantine::replace_if_corrupt(path, || VectorCache::try_open(path, max_rows))?.0)
    }

    fn try_open(path: &Path, max_rows: u64) -> Result<VectorCache> {
        let database = Database::open(path, &FORMAT)?;
        let rows: i64 = database.read(|db| Ok(db.query_row("SELECT count(*) FROM vectors", [], |row| row.get(0))?))?;
        Ok(VectorCache { database, rows: AtomicU64::new(rows.cast_unsigned()), max_rows })
    }

    /// Returns the key of a text for the embedder with this fingerprint (model, precision, prefix and so on).
    pub fn key(fingerprint: &str, text: &str) -> VectorKey {
        let mut hasher = blake3::Hasher::new();
        // Hashes the length of the fingerprint first, so that pairs that are equal when concatenated get different keys.
        hasher.update(&(fingerprint.len() as u64).to_le_bytes());
        hasher.update(fingerprint.as_bytes()).update(text.as_bytes());
        *hasher.finalize().as_bytes()
    }

    /// Returns the cached vector of each key, in order; `None` for a key without one.
    pub fn get(&self, keys: &[VectorKey]) -> Vec<Option<Vec<f32>>> {
        let found = self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT vector FROM vectors WHERE key = ?1")?;
            let mut vectors = Vec::with_capacity(keys.len());
            for key in keys {
                let vector = statement.query_row([key], |row| Ok(decode(row.get_ref(0)?.as_blob()?))).optional()?;
                vectors.push(vector);
            }
            Ok(vectors)
        });
        found.unwrap_or_else(|error| {
            tracing::warn!("{error}; the cache is ignored and vectors are computed again");
            vec![None; keys.len()]
        })
    }

    /// Stores these vectors and, if the cache exceeds its limit for an index of `chunks` chunks, drops the oldest.
    pub fn put(&self, vectors: &[(VectorKey, &[f32])], chunks: u64) {
        if let Err(error) = self.try_put(vectors, chunks) {
            tracing::warn!("{error}; vectors are not cached");
        }
    }

    fn try_put(&self, vectors: &[(VectorKey, &[f32])], chunks: u64) -> Result<()> {
        let most = (VECTORS_PER_CHUNK * chunks).max(MIN_VECTORS).min(self.max_rows);
        self.database.write(|db| {
            let mut insert = db.prepare_cached("INSERT OR IGNORE INTO vectors (key, vector) VALUES (?1, ?2)")?;
            let mut update = db.prepare_cached("UPDATE vectors SET vector = ?2 WHERE key = ?1")?;
            let mut rows = self.rows.load(Ordering::Relaxed);
            for (key, vector) in vectors {
                let vector = encode(vector);
                match insert.execute(params![key, vector])? {
                    0 => drop(update.execute(params![key, vector])?),
                    _ => rows += 1,
                }
            }
            if rows > most {
                rows -= drop_oldest(db, (rows - most + most / PRUNE_FRACTION).min(DELETE_BATCH))?;
            }
            // Updates the row count inside the transaction, where no other writer runs; if the commit fails, it is wrong
            // by a few rows.
            self.rows.store(rows, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Deletes all vectors and overwrites them on disk: they contain no words, but reveal something of the meaning of a
    /// text.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub fn clear(&self) -> Result<()> {
        let drop_some = || {
            self.database.write(|db| {
                let dropped = drop_oldest(db, DELETE_BATCH)?;
                self.rows.fetch_sub(dropped.min(self.rows.load(Ordering::Relaxed)), Ordering::Relaxed);
                Ok(dropped)
            })
        };
        while drop_some()? > 0 {}
        self.database.flush()
    }
}

fn drop_oldest(db: &Transaction<'_>, rows: u64) -> rusqlite::Result<u64> {
    let sql = "DELETE FROM vectors WHERE id IN (SELECT id FROM vectors ORDER BY id LIMIT ?1)";
    Ok(db.prepare_cached(sql)?.execute([signed(rows)])? as u64)
}

fn encode(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|it| it.to_le_bytes()).collect()
}

fn decode(bytes: &[u8]) -> Vec<f32> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers.iter().map(|it| f32::from_le_bytes(*it)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> VectorKey {
        VectorCache::key("model", &number.to_string())
    }

    #[test]
    fn vector_round_trips_exactly_for_text_and_model() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.sqlite");
        let vector = [1.0, -0.0, f32::MIN_POSITIVE, std::f32::consts::PI];
        VectorCache::open(&path, 10).unwrap().put(&[(key(1), &vector)], 1);
        let cache = VectorCache::open(&path, 10).unwrap();
        let got = cache.get(&[key(2), key(1), VectorCache::key("model1", "")]);
        assert_eq!(got, [None, Some(vector.to_vec()), None]);
        assert_eq!(got[1].as_ref().unwrap()[1].to_bits(), (-0.0f32).to_bits());
        assert_ne!(VectorCache::key("a", "bc"), VectorCache::key("ab", "c"));
    }

    #[test]
    fn full_cache_drops_oldest_vectors() {
        let dir = tempfile::tempdir().unwrap();
        let cache = VectorCache::open(&dir.path().join("v.sqlite"), 100).unwrap();
        for number in 0..250 {
            cache.put(&[(key(number), &[number as f32])], 1_000);
        }
        let known = cache.get(&(0..250).map(key).collect::<Vec<_>>());
        let count = known.iter().flatten().count();
        assert!((90..=100).contains(&count), "{count}");
        assert!(known[249].is_some() && known[0].is_none());
        assert!(known[..250 - count].iter().all(Option::is_none));
    }

    #[test]
    fn cache_shrinks_with_index_and_clears_fully() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.sqlite");
        let cache = VectorCache::open(&path, 1 << 20).unwrap();
        let vector = [0.5; 8];
        let put = |first: u64, chunks| {
            cache.put(&Vec::from_iter((first..first + 1_000).map(|it| (key(it), vector.as_slice()))), chunks);
        };
        let known = || cache.get(&(0..20_000).map(key).collect::<Vec<_>>()).iter().flatten().count() as u64;
        (0..10).for_each(|it| put(it * 1_000, 5_000));
        assert_eq!(known(), 10_000);
        // Imitates an index that has lost most of its chunks. The cache shrinks in steps, because deleting all excess
        // rows at once would make the write-ahead log as large as the cache.
        put(10_000, 10);
        assert!((4_096..8_000).contains(&known()), "{}", known());
        (11..20).for_each(|it| put(it * 1_000, 10));
        assert!((3_000..=MIN_VECTORS).contains(&known()), "{}", known());
        cache.clear().unwrap();
        assert_eq!(known(), 0);
        let kept = std::fs::read(&path).unwrap();
        let numbers = encode(&vector);
        assert!(!kept.windows(numbers.len()).any(|it| it == numbers), "they are overwritten");
        put(0, 10);
        assert_eq!(known(), 1_000);
    }

    #[test]
    fn written_vectors_do_not_stay_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let cache = VectorCache::open(&dir.path().join("v.sqlite"), 10_000).unwrap();
        let limit = cache.database.cache_limit_kib();
        assert!((1..=4 << 10).contains(&limit), "{limit} KiB");
    }

    #[test]
    fn corrupt_cache_is_renamed_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.sqlite");
        std::fs::write(&path, b"garbage ".repeat(1000)).unwrap();
        let cache = VectorCache::open(&path, 10).unwrap();
        cache.put(&[(key(1), &[1.0])], 1);
        assert_eq!(cache.get(&[key(1)]), [Some(vec![1.0])]);
        assert!(dir.path().join("v.sqlite.damaged").exists());
    }
}
