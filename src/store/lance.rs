//! The store on LanceDB: opening and counting. `legs` has the queries, `writing` the changes, `upkeep` the maintenance.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use lancedb::Table;
use lancedb::query::{ExecutableQuery, QueryBase, Select};

use crate::error::{Error, Result};
use crate::model::{ChunkId, FileChunks, FileId, LegHit, MemoryCap, StoredChunk};
use crate::store::durable_version::Synced;
use crate::store::footer_check::Whole;
use crate::store::lance_error::StoreContext;
use crate::store::memory::{HOT_VECTOR_BYTES, Hot, hot_rows};
use crate::store::recovery::{Cached, INDEX_CACHE_BYTES, METADATA_CACHE_BYTES, Opened, Place, connect};
use crate::store::version_pins::Readings;
use crate::store::{
    FileSet, KeywordQuery, Store, StoreStats, fsync, maintenance, manifests, queries, recovery, schema,
};

/// Prefix of table names.
const TABLE_PREFIX: &str = "chunks_";
/// Hex digits of a model's fingerprint in its table name.
const FINGERPRINT_DIGITS: usize = 12;

/// How long after a query the store counts as queried.
const ATTENDED: Duration = Duration::from_secs(30);

/// Returns the memory limits of the store.
pub fn memory_caps() -> Vec<MemoryCap> {
    let cap = |part: &str, bytes: usize| MemoryCap { part: part.into(), mib: bytes.div_ceil(1 << 20) as u64 };
    vec![
        cap("opened indexes of the store", INDEX_CACHE_BYTES),
        cap("page tables of the store", METADATA_CACHE_BYTES),
        cap("vectors that are searched in memory", HOT_VECTOR_BYTES),
        MemoryCap { part: "building the keyword index".into(), mib: maintenance::KEYWORD_MEMORY_MIB },
    ]
}

/// One table of chunks, of one model.
///
/// One lock serialises all writes, because concurrent commits of the same rows can duplicate them. Readers take no
/// lock.
///
/// A change may be several commits of the library, and queries see none of them alone. They use a table handle of their
/// own, which stays at the last durable version until the change is published.
pub struct LanceStore {
    /// The handle for changes.
    pub(super) table: Table,
    /// The handle for queries.
    pub(super) shown: Table,
    /// Also holds replaced data: see [`LanceStore::forget_replaced`].
    pub(super) cached: Cached,
    /// Versions held by running reads.
    pub(super) readings: Readings,
    pub(super) dir: PathBuf,
    pub(super) place: Place,
    pub(super) dimension: usize,
    pub(super) writer: tokio::sync::Mutex<()>,
    pub(super) rows: RwLock<BTreeMap<FileId, u64>>,
    /// Sum of `rows`.
    pub(super) chunks: AtomicU64,
    pub(super) hot: RwLock<Hot>,
    pub(super) synced: Synced,
    pub(super) whole: Whole,
    /// When the last query ran.
    asked: Mutex<Option<Instant>>,
    /// Whether a write was interrupted: then it is unknown which of its commits exist.
    pub(super) is_uncertain: AtomicBool,
    /// Whether a change was undone: then files without a version may exist.
    pub(super) has_undone: AtomicBool,
    has_lost: AtomicBool,
    set_aside: Vec<PathBuf>,
    damaged: BTreeSet<FileId>,
    upkeep: Mutex<Upkeep>,
}

/// Maintenance state for the status.
#[derive(Clone, Debug, Default)]
struct Upkeep {
    /// The current step.
    now: Option<&'static str>,
    error: Option<String>,
}

impl LanceStore {
    /// Opens the table of this model below `dir`, or creates it. `fingerprint` identifies the model and its settings,
    /// `dimension` is the length of its vectors. A damaged table is rolled back to its last readable version, or
    /// quarantined and created anew: see [`LanceStore::set_aside`] and [`LanceStore::has_lost`].
    ///
    /// # Errors
    /// The directory is not an index, or cannot be read or written.
    pub async fn open(dir: &Path, fingerprint: &str, dimension: usize) -> Result<LanceStore> {
        fsync::prepare(dir)?;
        let place = Place { dir: dir.to_owned(), name: table_name(fingerprint), dimension };
        let synced = Synced::of(&place.table_dir());
        let Opened { table, cached, rows, hot, whole, set_aside, has_lost } = recovery::open(&place, &synced).await?;
        for it in &set_aside {
            tracing::warn!("the index was damaged: the unreadable part is kept as `{}`", it.display());
        }
        let damaged = hot.damaged().clone();
        let shown = connect(dir, &cached).await?.open_table(&place.name).execute().await.on("open", dir)?;
        let readings = Readings::of(shown.version().await.on("read", dir)?);
        Ok(LanceStore {
            table,
            shown,
            cached,
            readings,
            dir: dir.to_owned(),
            place,
            dimension,
            writer: tokio::sync::Mutex::new(()),
            chunks: AtomicU64::new(rows.values().sum()),
            rows: RwLock::new(rows),
            hot: RwLock::new(hot),
            synced,
            whole,
            asked: Mutex::default(),
            is_uncertain: AtomicBool::new(false),
            has_undone: AtomicBool::new(false),
            has_lost: AtomicBool::new(has_lost),
            set_aside,
            damaged,
            upkeep: Mutex::default(),
        })
    }

    /// Returns the new paths of the parts that were quarantined when the table was opened.
    pub fn set_aside(&self) -> &[PathBuf] {
        &self.set_aside
    }

    /// Returns the files with vectors that were damaged when the table was opened, as far as it was read. They must be
    /// indexed again.
    pub fn damaged(&self) -> &BTreeSet<FileId> {
        &self.damaged
    }

    /// Returns whether durable commits were lost. Records elsewhere about this table are then wrong. Stays true across
    /// restarts until [`LanceStore::accept_loss`].
    pub fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }

    /// Accepts the table as it is. Call it when everything that may be missing is queued again.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn accept_loss(&self) -> Result<()> {
        recovery::note(&self.table, &self.place, &self.synced).await?;
        self.has_lost.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the names of the tables below `dir`, one per model that was ever used.
    ///
    /// # Errors
    /// The directory is not an index, or cannot be read.
    pub async fn tables(dir: &Path) -> Result<Vec<String>> {
        fsync::prepare(dir)?;
        connect(dir, &Cached::new()).await?.table_names().execute().await.on("list", dir)
    }

    /// Returns the name of the table of this model.
    pub fn table_of(fingerprint: &str) -> String {
        table_name(fingerprint)
    }

    /// Returns whether a name is that of a model's table.
    pub fn is_of_a_model(name: &str) -> bool {
        let digits = name.strip_prefix(TABLE_PREFIX).unwrap_or_default();
        digits.len() == FINGERPRINT_DIGITS && digits.bytes().all(|it| it.is_ascii_hexdigit())
    }

    /// Drops a table with all its data.
    ///
    /// # Errors
    /// The table does not exist, or cannot be removed.
    pub async fn drop_table(dir: &Path, name: &str) -> Result<()> {
        connect(dir, &Cached::new()).await?.drop_table(name, &[]).await.on("drop a table of", dir)?;
        Synced::of(&dir.join(format!("{name}.lance"))).remove()
    }

    /// Returns the number of chunks of each file.
    pub fn rows_by_file(&self) -> BTreeMap<FileId, u64> {
        self.rows().clone()
    }

    /// Returns whether the table has chunks of a file.
    pub fn has(&self, file: FileId) -> bool {
        self.rows().contains_key(&file)
    }

    /// Returns whether all vectors are in memory, so that missing ones can be added later.
    pub fn compares_in_memory(&self) -> bool {
        self.hot().vectors().is_some() && self.chunk_count() < hot_rows(self.dimension) as u64
    }

    /// Returns all chunks of these files, unordered.
    ///
    /// # Errors
    /// The table cannot be read.
    pub async fn chunks_of(&self, mut files: Vec<FileId>) -> Result<Vec<StoredChunk>> {
        let _reading = self.readings.begin();
        if let Some(Ok(found)) = self.hot().passages().map(|it| it.of_files(&files)) {
            return Ok(found);
        }
        let mut found = Vec::new();
        let mut take = |it| {
            found.push(it);
            true
        };
        files.sort_unstable();
        queries::scan(self, &FileSet::Only(files.into()), &mut take).await?;
        Ok(found)
    }

    /// Rows per file, in memory so that no query has to count.
    pub(super) fn rows(&self) -> RwLockReadGuard<'_, BTreeMap<FileId, u64>> {
        // The map is updated key by key, so it is consistent after a panic.
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part of the table in memory.
    pub(super) fn hot(&self) -> RwLockReadGuard<'_, Hot> {
        self.hot.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Simulates a table too large for memory.
    #[cfg(test)]
    pub(super) fn drop_hot(&self) {
        *self.hot_mut() = Hot::default();
    }

    /// Simulates a write that failed at its end.
    #[cfg(test)]
    pub(super) fn break_off(&self) {
        self.is_uncertain.store(true, Ordering::Relaxed);
    }

    pub(super) fn hot_mut(&self) -> RwLockWriteGuard<'_, Hot> {
        self.hot.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all rows of these files.
    pub(super) async fn rows_of(&self, table: &Table, files: &[FileId]) -> Result<Vec<RecordBatch>> {
        let query = table.query().only_if_expr(queries::of_files(files)).select(Select::All);
        collect(query.execute().await, "read", &self.dir).await
    }

    /// Clears the library's caches of indexes, manifests and files. The library keeps replaced ones, with their memory
    /// and open files, until it needs the space. After an hour of changes these are hundreds of indexes and as many
    /// manifests and page tables as fit, none of them ever read again.
    pub(super) async fn forget_replaced(&self) {
        self.cached.clear().await;
    }

    /// Loads the keyword index into memory, so that no query waits for the disk. Skips one that would not fit.
    ///
    /// # Errors
    /// The index cannot be read.
    pub async fn warm(&self) -> Result<()> {
        let _reading = self.readings.begin();
        let bytes = fsync::bytes_below(&self.place.table_dir().join("_indices")).await?;
        // In memory it takes about twice as much.
        if bytes * 2 <= INDEX_CACHE_BYTES as u64 {
            maintenance::warm(&self.shown).await.on("read the index of", &self.dir)?;
        }
        Ok(())
    }

    /// Returns whether a query ran within the last half minute.
    pub fn is_asked(&self) -> bool {
        let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.is_some_and(|it| it.elapsed() < ATTENDED)
    }

    /// Adds all rows to the keyword index, without other maintenance: for queries during a job.
    ///
    /// # Errors
    /// The directory cannot be read or written.
    pub async fn cover_words(&self) -> Result<()> {
        let done = self.change(maintenance::cover(self)).await;
        self.upkeep_ended(&done);
        done
    }

    /// Prunes old versions, without other maintenance: needs hardly any disk space.
    ///
    /// # Errors
    /// The directory cannot be read or written.
    pub async fn prune(&self) -> Result<()> {
        let done = self.change(maintenance::prune_only(self)).await;
        self.upkeep_ended(&done);
        done
    }

    pub(super) fn upkeep_ended(&self, done: &Result<()>) {
        let mut state = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        *state = Upkeep { now: None, error: done.as_ref().err().map(Error::to_string) };
    }

    /// Sets the current maintenance step, for the status.
    pub(super) fn doing(&self, what: &'static str) {
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner).now = Some(what);
    }

    /// Returns the number of versions on disk.
    pub fn version_count(&self) -> Result<u64> {
        Ok(manifests::list(&self.place.table_dir())?.len() as u64)
    }
}

/// Keeps only hits of these files. A commit may come between making the filter and the search, and a new file must not
/// pass for one of them.
fn within(files: &FileSet, mut hits: Vec<LegHit>) -> Vec<LegHit> {
    hits.retain(|it| files.holds(it.file_id));
    hits
}

/// Logs the failure of an optimisation.
pub(super) fn slower(error: &Error) {
    tracing::warn!(%error, "queries are slower");
}

#[async_trait::async_trait]
impl Store for LanceStore {
    async fn replace(&self, files: Vec<FileChunks>) -> Result<()> {
        self.replace_files(&files).await
    }

    async fn replace_part(&self, file: FileChunks, ordinals: Range<u32>) -> Result<u64> {
        self.replace_ordinals(&file, &ordinals).await
    }

    async fn delete(&self, files: &[FileId]) -> Result<()> {
        self.delete_files(files).await
    }

    async fn copy(&self, copies: &[(FileId, FileId)]) -> Result<Vec<u64>> {
        self.copy_files(copies).await
    }

    async fn vector_leg(&self, vector: &[f32], files: &FileSet, limit: usize) -> Result<Vec<LegHit>> {
        let _reading = self.readings.begin();
        queries::vector(self, vector, files, limit).await.map(|it| within(files, it))
    }

    async fn keyword_leg(&self, query: &KeywordQuery, files: &FileSet, limit: usize) -> Result<Vec<LegHit>> {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let _reading = self.readings.begin();
        queries::keyword(self, query, files, limit).await.map(|it| within(files, it))
    }

    async fn chunks(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<StoredChunk>> {
        if let Some(Ok(found)) = self.hot().passages().map(|it| it.get(ids)) {
            return Ok(found);
        }
        let _reading = self.readings.begin();
        let batches = queries::rows(self, ids, &schema::CHUNK_COLUMNS).await?;
        let mut chunks = Vec::with_capacity(ids.len());
        for batch in &batches {
            chunks.extend(schema::stored_chunks(batch)?);
        }
        queries::keep_asked(&mut chunks, ids, |it| (it.file_id, &it.chunk.id));
        Ok(chunks)
    }

    async fn similarities(&self, vector: &[f32], ids: &[(FileId, ChunkId)]) -> Result<Vec<LegHit>> {
        let _reading = self.readings.begin();
        queries::similarities(self, vector, ids).await
    }

    async fn vectors(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<((FileId, ChunkId), Vec<f32>)>> {
        let _reading = self.readings.begin();
        queries::vectors(self, ids).await
    }

    async fn files_with(&self, words: &str, files: &FileSet) -> Result<Vec<FileId>> {
        let _reading = self.readings.begin();
        let hits = within(files, queries::all_words(self, words, files).await?);
        let files: std::collections::BTreeSet<FileId> = hits.into_iter().map(|it| it.file_id).collect();
        Ok(files.into_iter().collect())
    }

    async fn scan(&self, files: &FileSet, each: &mut (dyn FnMut(StoredChunk) -> bool + Send)) -> Result<()> {
        let _reading = self.readings.begin();
        queries::scan(self, files, each).await
    }

    async fn file_vectors(&self, file: FileId) -> Result<Vec<Vec<f32>>> {
        let _reading = self.readings.begin();
        let mut vectors = Vec::new();
        for batch in self.rows_of(&self.shown, &[file]).await? {
            vectors.extend(schema::vectors(&batch)?.filter(|it| !schema::awaits(it)).map(<[f32]>::to_vec));
        }
        Ok(vectors)
    }

    async fn file_ids(&self) -> Result<Vec<FileId>> {
        Ok(self.rows().keys().copied().collect())
    }

    async fn upkeep(&self) -> Result<()> {
        let done = self.change(maintenance::run(self)).await;
        self.upkeep_ended(&done);
        done
    }

    fn version(&self) -> u64 {
        self.readings.newest()
    }

    fn chunk_count(&self) -> u64 {
        self.chunks.load(Ordering::Relaxed)
    }

    async fn stats(&self) -> Result<StoreStats> {
        let _reading = self.readings.begin();
        let fragments = self.shown.stats().await.on("read", &self.dir)?.fragment_stats.num_fragments;
        let upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(StoreStats {
            chunks: self.chunk_count(),
            bytes: fsync::bytes_below(&self.place.table_dir()).await?,
            fragments: fragments as u64,
            versions: self.version_count()?,
            unindexed_rows: maintenance::unindexed(&self.shown).await.on("read", &self.dir)?,
            upkeep_now: upkeep.now,
            upkeep_error: upkeep.error,
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

/// A fingerprint may be any text, but a table name may not.
fn table_name(fingerprint: &str) -> String {
    let is_hex = fingerprint.len() >= FINGERPRINT_DIGITS && fingerprint.bytes().all(|it| it.is_ascii_hexdigit());
    let digits =
        if is_hex { fingerprint.to_ascii_lowercase() } else { blake3::hash(fingerprint.as_bytes()).to_string() };
    format!("{TABLE_PREFIX}{}", &digits[..FINGERPRINT_DIGITS])
}
