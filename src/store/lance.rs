//! The store in LanceDB: opening, writing, counting. The queries are in `legs`, the housekeeping in `upkeep`.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use lancedb::query::{ExecutableQuery, QueryBase, Select};
use lancedb::{Connection, ObjectStoreRegistry, Session, Table};

use crate::error::{Error, ErrorCode, Result};
use crate::model::{ChunkId, FileChunks, FileId, LegHit, MemoryCap, StoredChunk};
use crate::store::failure::StoreContext;
use crate::store::hot::{HOT_ROWS, HOT_TEXT_BYTES, Hot};
use crate::store::{FileSet, KeywordQuery, Store, StoreStats, legs, schema, sync, upkeep};

/// Bytes of opened indexes kept in memory. The library's default is 6 GiB; the keyword index of 100,000 chunks fits here.
const INDEX_CACHE_BYTES: usize = 64 << 20;

/// Bytes of manifests and page tables kept in memory. The library's default is 1 GiB.
const METADATA_CACHE_BYTES: usize = 32 << 20;

/// Hex digits of a model's fingerprint in the name of its table.
const FINGERPRINT_DIGITS: usize = 12;

/// What the store may hold in memory at most, with vectors of this length.
pub fn memory_caps(dimension: usize) -> Vec<MemoryCap> {
    let cap = |part: &str, bytes: usize| MemoryCap { part: part.into(), mib: bytes.div_ceil(1 << 20) as u64 };
    vec![
        cap("opened indexes of the store", INDEX_CACHE_BYTES),
        cap("page tables of the store", METADATA_CACHE_BYTES),
        cap("vectors that are searched in memory", HOT_ROWS * dimension),
        cap("passages that are shown from memory", HOT_TEXT_BYTES),
        MemoryCap { part: "building the keyword index".into(), mib: upkeep::KEYWORD_MEMORY_MIB },
    ]
}

/// One table of chunks, of one model.
///
/// Every write goes through one lock, because concurrent commits of the same rows can duplicate them; readers take none.
pub struct LanceStore {
    pub(super) table: Table,
    pub(super) dir: PathBuf,
    table_dir: PathBuf,
    pub(super) dimension: usize,
    pub(super) writer: tokio::sync::Mutex<()>,
    rows: RwLock<BTreeMap<FileId, u64>>,
    /// Sum of `rows`.
    chunks: AtomicU64,
    hot: RwLock<Hot>,
    upkeep_error: Mutex<Option<String>>,
}

impl LanceStore {
    /// Opens the table of this model below `dir`, or makes it. `fingerprint` identifies the model and its settings,
    /// `dimension` is the length of its vectors.
    ///
    /// # Errors
    /// The directory is no index, cannot be written, or the table is damaged.
    pub async fn open(dir: &Path, fingerprint: &str, dimension: usize) -> Result<LanceStore> {
        sync::prepare(dir)?;
        let name = table_name(fingerprint);
        let table_dir = dir.join(format!("{name}.lance"));
        for moved in sync::heal(&table_dir)? {
            tracing::warn!("moved the torn file `{}` aside, going on from the version before", moved.display());
        }
        let connection = connect(dir).await?;
        let table = open_table(&connection, dir, &name, dimension).await?;
        let rows = count_rows(&table, dir).await?;
        let chunks = rows.values().sum::<u64>();
        let hot = if chunks > HOT_ROWS as u64 { Hot::default() } else { load(&table, dir, dimension).await? };
        Ok(LanceStore {
            table,
            dir: dir.to_owned(),
            table_dir,
            dimension,
            writer: tokio::sync::Mutex::new(()),
            rows: RwLock::new(rows),
            chunks: AtomicU64::new(chunks),
            hot: RwLock::new(hot),
            upkeep_error: Mutex::new(None),
        })
    }

    /// Returns the names of the tables below `dir`, one for each model that was ever used.
    ///
    /// # Errors
    /// The directory is no index or cannot be read.
    pub async fn tables(dir: &Path) -> Result<Vec<String>> {
        sync::prepare(dir)?;
        connect(dir).await?.table_names().execute().await.on("list", dir)
    }

    /// Returns the name of the table of this model.
    pub fn table_of(fingerprint: &str) -> String {
        table_name(fingerprint)
    }

    /// Removes a table with everything in it.
    ///
    /// # Errors
    /// There is no such table, or it cannot be removed.
    pub async fn drop_table(dir: &Path, name: &str) -> Result<()> {
        connect(dir).await?.drop_table(name, &[]).await.on("drop a table of", dir)
    }

    /// Number of rows of each file, held in memory so that no question has to count.
    pub(super) fn rows(&self) -> RwLockReadGuard<'_, BTreeMap<FileId, u64>> {
        // The map is replaced key by key: a panic elsewhere leaves nothing half done.
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_rows(&self, file_id: FileId, rows: u64) {
        let mut map = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        let before = match rows {
            0 => map.remove(&file_id),
            _ => map.insert(file_id, rows),
        };
        self.chunks.fetch_add(rows, Ordering::Relaxed);
        self.chunks.fetch_sub(before.unwrap_or(0), Ordering::Relaxed);
    }

    /// Deletes the rows of those of these files that have any. The caller holds the writer's lock.
    async fn delete_rows(&self, files: &[FileId]) -> Result<bool> {
        let known: Vec<FileId> = self.known(files);
        if known.is_empty() {
            return Ok(false);
        }
        self.table.delete(&legs::of_files(&known)).await.on("delete from", &self.dir)?;
        self.hot_mut().remove(&known);
        known.into_iter().for_each(|it| self.set_rows(it, 0));
        Ok(true)
    }

    /// Deletes the rows of a file whose ordinals lie in the range; returns how many. The caller holds the writer's lock.
    async fn delete_part(&self, file_id: FileId, ordinals: &Range<u32>) -> Result<u64> {
        let part = legs::of_part(file_id, ordinals);
        let query = self.table.query().only_if_expr(part.clone()).select(Select::columns(&["chunk_id", "file_id"]));
        let mut gone = HashSet::new();
        for batch in collect(query.execute().await, "read", &self.dir).await? {
            gone.extend(schema::ids(&batch)?.into_iter().map(|it| it.chunk_id));
        }
        if gone.is_empty() {
            return Ok(0);
        }
        self.table.delete(&part).await.on("delete from", &self.dir)?;
        self.hot_mut().remove_chunks(file_id, &gone);
        let left = self.rows().get(&file_id).copied().unwrap_or(0).saturating_sub(gone.len() as u64);
        self.set_rows(file_id, left);
        Ok(gone.len() as u64)
    }

    /// What of the table is in memory.
    pub(super) fn hot(&self) -> RwLockReadGuard<'_, Hot> {
        self.hot.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn hot_mut(&self) -> RwLockWriteGuard<'_, Hot> {
        self.hot.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does as if the table were too large for memory.
    #[cfg(test)]
    pub(super) fn drop_hot(&self) {
        *self.hot_mut() = Hot::default();
    }

    fn known(&self, files: &[FileId]) -> Vec<FileId> {
        let rows = self.rows();
        files.iter().copied().filter(|it| rows.contains_key(it)).collect()
    }

    /// Adds rows. The caller holds the writer's lock, and counts them before it does anything else that can fail: rows
    /// that are not counted are not deleted when their file is replaced.
    async fn add_rows(&self, batches: Vec<RecordBatch>) -> Result<()> {
        for batch in batches.into_iter().filter(|it| it.num_rows() > 0) {
            // One fragment a commit: more would only have to be compacted again.
            self.table.add(batch).write_parallelism(1).execute().await.on("write", &self.dir)?;
        }
        Ok(())
    }

    /// Makes sure that there is a keyword index, once there are rows.
    async fn index_words(&self, first: bool) -> Result<()> {
        if first {
            upkeep::ensure_keyword_index(&self.table).await.on("index the words of", &self.dir)?;
        }
        Ok(())
    }

    async fn rows_of(&self, file_id: FileId) -> Result<Vec<RecordBatch>> {
        let query = self.table.query().only_if_expr(legs::of_files(&[file_id])).select(Select::All);
        collect(query.execute().await, "read", &self.dir).await
    }

    async fn writing(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.writer.lock().await
    }
}

#[async_trait::async_trait]
impl Store for LanceStore {
    async fn replace(&self, files: Vec<FileChunks>) -> Result<()> {
        let batch = schema::batch(&files, self.dimension)?;
        let _writing = self.writing().await;
        let ids: Vec<FileId> = files.iter().map(|it| it.file_id).collect();
        let deleted = self.delete_rows(&ids).await?;
        if batch.num_rows() == 0 && !deleted {
            return Ok(());
        }
        let first = self.rows().is_empty();
        self.add_rows(vec![batch]).await?;
        let mut counts = BTreeMap::<FileId, u64>::new();
        for file in &files {
            *counts.entry(file.file_id).or_default() += file.chunks.len() as u64;
        }
        counts.into_iter().for_each(|(file_id, rows)| self.set_rows(file_id, rows));
        files.iter().for_each(|it| self.hot_mut().add(it.file_id, &it.chunks));
        self.index_words(first).await?;
        sync::sync(&self.dir).await
    }

    async fn replace_part(&self, file: FileChunks, ordinals: Range<u32>) -> Result<u64> {
        let FileChunks { file_id, .. } = file;
        let batch = schema::batch(std::slice::from_ref(&file), self.dimension)?;
        let _writing = self.writing().await;
        let before = self.rows().get(&file_id).copied().unwrap_or(0);
        let deleted = if before > 0 { self.delete_part(file_id, &ordinals).await? } else { 0 };
        let first = self.rows().is_empty();
        let rows = before.saturating_sub(deleted) + file.chunks.len() as u64;
        if batch.num_rows() > 0 {
            self.add_rows(vec![batch]).await?;
            self.set_rows(file_id, rows);
            self.hot_mut().add(file_id, &file.chunks);
            self.index_words(first).await?;
        }
        if deleted > 0 || !file.chunks.is_empty() {
            sync::sync(&self.dir).await?;
        }
        Ok(rows)
    }

    async fn delete(&self, files: &[FileId]) -> Result<()> {
        let _writing = self.writing().await;
        if self.delete_rows(files).await? { sync::sync(&self.dir).await } else { Ok(()) }
    }

    async fn copy(&self, from: FileId, to: FileId) -> Result<u64> {
        let _writing = self.writing().await;
        let copied = self.rows().get(&from).copied().unwrap_or(0);
        if from == to {
            return Ok(copied);
        }
        let batches = self.rows_of(from).await?;
        let batches = batches.iter().map(|it| schema::with_file(it, to)).collect::<Result<Vec<_>>>()?;
        self.delete_rows(&[to]).await?;
        self.add_rows(batches.clone()).await?;
        self.set_rows(to, copied);
        batches.iter().try_for_each(|it| self.hot_mut().add_rows(it))?;
        sync::sync(&self.dir).await?;
        Ok(copied)
    }

    async fn vector_leg(&self, vector: &[f32], files: &FileSet, limit: usize) -> Result<Vec<LegHit>> {
        legs::vector(self, vector, files, limit).await
    }

    async fn keyword_leg(&self, query: &KeywordQuery, files: &FileSet, limit: usize) -> Result<Vec<LegHit>> {
        legs::keyword(self, query, files, limit).await
    }

    async fn chunks(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<StoredChunk>> {
        if let Some(passages) = self.hot().passages() {
            return Ok(passages.get(ids));
        }
        let batches = legs::rows(self, ids, &schema::CHUNK_COLUMNS).await?;
        let mut chunks = Vec::with_capacity(ids.len());
        for batch in &batches {
            chunks.extend(schema::stored_chunks(batch)?);
        }
        legs::keep_asked(&mut chunks, ids, |it| (it.file_id, &it.chunk.id));
        Ok(chunks)
    }

    async fn similarities(&self, vector: &[f32], ids: &[(FileId, ChunkId)]) -> Result<Vec<LegHit>> {
        legs::similarities(self, vector, ids).await
    }

    async fn vectors(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<((FileId, ChunkId), Vec<f32>)>> {
        legs::vectors(self, ids).await
    }

    async fn files_with(&self, words: &str, files: &FileSet) -> Result<Vec<FileId>> {
        let hits = legs::all_words(self, words, files).await?;
        let files: std::collections::BTreeSet<FileId> = hits.into_iter().map(|it| it.file_id).collect();
        Ok(files.into_iter().collect())
    }

    async fn scan(&self, files: &FileSet, each: &mut (dyn FnMut(StoredChunk) -> bool + Send)) -> Result<()> {
        legs::scan(self, files, each).await
    }

    async fn file_vectors(&self, file: FileId) -> Result<Vec<Vec<f32>>> {
        let mut vectors = Vec::new();
        for batch in self.rows_of(file).await? {
            vectors.extend(schema::vectors(&batch)?);
        }
        Ok(vectors)
    }

    async fn file_ids(&self) -> Result<Vec<FileId>> {
        Ok(self.rows().keys().copied().collect())
    }

    async fn upkeep(&self) -> Result<()> {
        let _writing = self.writing().await;
        let done = upkeep::run(self).await;
        let mut last = self.upkeep_error.lock().unwrap_or_else(PoisonError::into_inner);
        *last = done.as_ref().err().map(Error::to_string);
        done
    }

    fn chunk_count(&self) -> u64 {
        self.chunks.load(Ordering::Relaxed)
    }

    async fn stats(&self) -> Result<StoreStats> {
        let fragments = self.table.stats().await.on("read", &self.dir)?.fragment_stats.num_fragments;
        let upkeep_error = self.upkeep_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(StoreStats {
            chunks: self.chunk_count(),
            bytes: sync::bytes_below(&self.table_dir).await?,
            fragments: fragments as u64,
            unindexed_rows: upkeep::unindexed(&self.table).await.on("read", &self.dir)?,
            upkeep_error,
        })
    }
}

/// Collects the batches of a query.
pub(super) async fn collect(
    stream: lancedb::Result<lancedb::arrow::SendableRecordBatchStream>,
    action: &str,
    dir: &Path,
) -> Result<Vec<RecordBatch>> {
    stream.on(action, dir)?.try_collect().await.on(action, dir)
}

/// A fingerprint may be any text; a table's name may not.
fn table_name(fingerprint: &str) -> String {
    let is_hex = fingerprint.len() >= FINGERPRINT_DIGITS && fingerprint.bytes().all(|it| it.is_ascii_hexdigit());
    let digits =
        if is_hex { fingerprint.to_ascii_lowercase() } else { blake3::hash(fingerprint.as_bytes()).to_string() };
    format!("chunks_{}", &digits[..FINGERPRINT_DIGITS])
}

async fn connect(dir: &Path) -> Result<Connection> {
    let Some(uri) = dir.to_str() else {
        return Err(Error::invalid(format!("the path `{}` is no valid Unicode", dir.display()))
            .hint("point VIC_DB_PATH at another directory"));
    };
    let registry = Arc::new(ObjectStoreRegistry::default());
    let session = Arc::new(Session::new(INDEX_CACHE_BYTES, METADATA_CACHE_BYTES, registry));
    lancedb::connect(uri).session(session).execute().await.on("open", dir)
}

async fn open_table(connection: &Connection, dir: &Path, name: &str, dimension: usize) -> Result<Table> {
    let names = connection.table_names().execute().await.on("list", dir)?;
    let schema = schema::schema(dimension);
    if !names.iter().any(|it| it == name) {
        let table = connection.create_empty_table(name, schema).execute().await.on("create", dir)?;
        sync::sync(dir).await?;
        return Ok(table);
    }
    let table = connection.open_table(name).execute().await.map_err(as_damage).on("open", dir)?;
    let found = table.schema().await.map_err(as_damage).on("open", dir)?;
    if found.fields() != schema.fields() {
        return Err(Error::new(
            ErrorCode::FailedPrecondition,
            format!("table `{name}` in `{}` has other columns", dir.display()),
        )
        .hint(format!(
            "it was written by another version of vic: move `{}` away, then run `vic index --full`",
            dir.display()
        )));
    }
    Ok(table)
}

/// A table that is there but cannot be opened is damaged, whatever the library calls it; a full disk stays what it is.
fn as_damage(error: lancedb::Error) -> lancedb::Error {
    lancedb::Error::TableCorrupted { name: String::new(), source: Box::new(error) }
}

/// Reads a table that is not large once.
async fn load(table: &Table, dir: &Path, dimension: usize) -> Result<Hot> {
    let query = table.query().select(Select::All);
    let mut stream = query.execute().await.map_err(as_damage).on("read", dir)?;
    let mut hot = Hot::new(dimension);
    while let Some(batch) = stream.try_next().await.map_err(as_damage).on("read", dir)? {
        hot.add_rows(&batch)?;
    }
    Ok(hot)
}

async fn count_rows(table: &Table, dir: &Path) -> Result<BTreeMap<FileId, u64>> {
    let query = table.query().select(Select::columns(&["file_id"]));
    let mut stream = query.execute().await.map_err(as_damage).on("read", dir)?;
    let mut rows = BTreeMap::new();
    while let Some(batch) = stream.try_next().await.map_err(as_damage).on("read", dir)? {
        for file_id in schema::file_ids(&batch)?.values() {
            *rows.entry(*file_id).or_default() += 1;
        }
    }
    Ok(rows)
}
