//! Vectors by text, so that no text is embedded twice: not after a move, not in a copy, not after a rebuilt index.
//!
//! A cache, and treated as one: commits are not synced (a power loss costs vectors that can be made again), a damaged
//! file is put aside, and no error of it ever stops the work; the text is embedded once more then.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{OptionalExtension, Transaction, params};

use crate::catalog::aside;
use crate::catalog::database::{ADDED_TO_KIB, Database, Durability, Format};
use crate::catalog::row::signed;
use crate::error::Result;

/// Share of the rows dropped at a time when the cache is full, so that pruning is rare.
const PRUNE_SHARE: u64 = 20;

/// Vectors kept for each chunk that the index has: its own, and one that it may have again. A folder whose files are edited
/// for years makes more, and nobody asks for them.
const FOR_EACH_CHUNK: u64 = 2;

/// Vectors kept however small the index is: 6 MiB of 384 numbers.
const AT_LEAST: u64 = 4_096;

/// Rows deleted in one transaction, whose pages the log has to hold: they are overwritten.
const AT_ONCE: u64 = 4_096;

const FORMAT: Format = Format {
    name: "vector cache",
    version: 1,
    upgrades: &[],
    durability: Durability::Normal,
    cache_kib: ADDED_TO_KIB,
    hint: "delete it; only time is lost",
    schema: "
        CREATE TABLE vectors (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, vector BLOB NOT NULL);
    ",
};

/// Names a vector: BLAKE3 over the embedder's fingerprint and the text.
pub type Key = [u8; 32];

/// The cache.
pub struct VectorCache {
    database: Database,
    rows: AtomicU64,
    max_rows: u64,
}

impl VectorCache {
    /// Opens or creates the cache at `path`, bounded to about `max_rows` vectors. A damaged file is renamed to
    /// `<path>.damaged` and a new one is made.
    ///
    /// # Errors
    /// When the file cannot be made, or a newer vic wrote it.
    pub fn open(path: &Path, max_rows: u64) -> Result<VectorCache> {
        Ok(aside::begin_anew_if_damaged(path, || VectorCache::try_open(path, max_rows))?.0)
    }

    fn try_open(path: &Path, max_rows: u64) -> Result<VectorCache> {
        let database = Database::open(path, &FORMAT)?;
        let rows: i64 = database.read(|db| Ok(db.query_row("SELECT count(*) FROM vectors", [], |row| row.get(0))?))?;
        Ok(VectorCache { database, rows: AtomicU64::new(rows.cast_unsigned()), max_rows })
    }

    /// Returns the key of a text for the embedder with this fingerprint (model, precision, prefix and so on).
    pub fn key(fingerprint: &str, text: &str) -> Key {
        let mut hasher = blake3::Hasher::new();
        // The length keeps apart what would read the same when joined.
        hasher.update(&(fingerprint.len() as u64).to_le_bytes());
        hasher.update(fingerprint.as_bytes()).update(text.as_bytes());
        *hasher.finalize().as_bytes()
    }

    /// Returns the vector of each key, in order, where it is known.
    pub fn get(&self, keys: &[Key]) -> Vec<Option<Vec<f32>>> {
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
            tracing::warn!("{error}; vectors are made anew");
            vec![None; keys.len()]
        })
    }

    /// Keeps these vectors; drops the oldest when there are too many for an index of so many chunks.
    pub fn put(&self, vectors: &[(Key, &[f32])], chunks: u64) {
        if let Err(error) = self.try_put(vectors, chunks) {
            tracing::warn!("{error}; vectors are not kept");
        }
    }

    fn try_put(&self, vectors: &[(Key, &[f32])], chunks: u64) -> Result<()> {
        let most = (FOR_EACH_CHUNK * chunks).max(AT_LEAST).min(self.max_rows);
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
                rows -= drop_oldest(db, (rows - most + most / PRUNE_SHARE).min(AT_ONCE))?;
            }
            // Inside, where there is one writer; a commit that fails after it costs a few rows of the bound.
            self.rows.store(rows, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Forgets all vectors, and has their bytes leave the disk: from them no word can be read, but something of the sense.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn clear(&self) -> Result<()> {
        let drop_some = || {
            self.database.write(|db| {
                let dropped = drop_oldest(db, AT_ONCE)?;
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

    fn key(number: u64) -> Key {
        VectorCache::key("model", &number.to_string())
    }

    #[test]
    fn a_vector_comes_back_bit_by_bit_and_only_for_its_text_and_model() {
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
    fn a_full_cache_drops_its_oldest() {
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
    fn an_index_that_stays_small_keeps_few_vectors_and_a_cleared_cache_none() {
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
        // All but a few chunks are gone: not all at once, where the log would be as large as the cache.
        put(10_000, 10);
        assert!((4_096..8_000).contains(&known()), "{}", known());
        (11..20).for_each(|it| put(it * 1_000, 10));
        assert!((3_000..=AT_LEAST).contains(&known()), "{}", known());
        cache.clear().unwrap();
        assert_eq!(known(), 0);
        let kept = std::fs::read(&path).unwrap();
        let numbers = encode(&vector);
        assert!(!kept.windows(numbers.len()).any(|it| it == numbers), "they are overwritten");
        put(0, 10);
        assert_eq!(known(), 1_000);
    }

    #[test]
    fn vectors_that_were_written_do_not_stay_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let cache = VectorCache::open(&dir.path().join("v.sqlite"), 10_000).unwrap();
        let vector = [0.5; 384];
        for batch in 0..80 {
            cache.put(&Vec::from_iter((0..100).map(|it| (key(batch * 100 + it), vector.as_slice()))), 10_000);
        }
        let kept = cache.database.kept_kib();
        assert!((1..=4 << 10).contains(&kept), "{kept} KiB of 12 MiB");
    }

    #[test]
    fn a_damaged_cache_is_put_aside_and_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.sqlite");
        std::fs::write(&path, b"garbage ".repeat(1000)).unwrap();
        let cache = VectorCache::open(&path, 10).unwrap();
        cache.put(&[(key(1), &[1.0])], 1);
        assert_eq!(cache.get(&[key(1)]), [Some(vec![1.0])]);
        assert!(dir.path().join("v.sqlite.damaged").exists());
    }
}
