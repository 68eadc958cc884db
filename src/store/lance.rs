//! The open table of an embedding model: its handles, its locks and its parts in memory. `lance_backend` answers
//! queries from it, `commit` changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use lancedb::Table;

use crate::error::{Error, Result};
use crate::model::{FileId, MemoryCap};
use crate::store::durable_version::DurableVersion;
use crate::store::footer_check::FooterCheck;
use crate::store::indexes::KEYWORD_MEMORY_MIB;
use crate::store::lance_error::StoreContext;
use crate::store::memory::{MAX_VECTOR_BYTES, MemoryIndex, max_rows};
use crate::store::recovery::{
    INDEX_CACHE_BYTES, LibraryCaches, METADATA_CACHE_BYTES, OpenedTable, TableLocation, connect,
};
use crate::store::version_pins::VersionPins;
use crate::store::{fsync, recovery, schema};

/// Prefix of the names of vic's tables.
const TABLE_PREFIX: &str = "chunks_";
/// Number of hex digits of the model's fingerprint in a table name.
const FINGERPRINT_DIGITS: usize = 12;

/// The store counts as in use for this long after a keyword query.
const QUERIED_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the memory limits of the store, for the status.
pub fn memory_caps() -> Vec<MemoryCap> {
    let cap = |part: &str, bytes: usize| MemoryCap { part: part.into(), mib: bytes.div_ceil(1 << 20) as u64 };
    vec![
        cap("opened indexes of the store", INDEX_CACHE_BYTES),
        cap("page tables of the store", METADATA_CACHE_BYTES),
        cap("vectors that are searched in memory", MAX_VECTOR_BYTES),
        MemoryCap { part: "building the keyword index".into(), mib: KEYWORD_MEMORY_MIB },
    ]
}

/// A table with the chunks of one embedding model.
///
/// One lock serialises all writes, because concurrent commits of the same rows can duplicate them. Reads do not take
/// this lock.
///
/// A change may consist of several commits of the library; queries see either none or all of them. Queries use their
/// own table handle, which stays at the last durable version until the change is published.
pub struct LanceStore {
    /// The table handle for changes.
    pub(super) table: Table,
    /// The table handle for queries.
    pub(super) published: Table,
    /// Caches of the library, which also keep data of replaced versions: see [`LanceStore::forget_replaced`].
    pub(super) cached: LibraryCaches,
    /// The versions that running reads need.
    pub(super) version_pins: VersionPins,
    pub(super) dir: PathBuf,
    pub(super) place: TableLocation,
    pub(super) dimension: usize,
    pub(super) writer: tokio::sync::Mutex<()>,
    pub(super) rows: RwLock<BTreeMap<FileId, u64>>,
    /// Total number of rows: the sum of `rows`.
    pub(super) chunks: AtomicU64,
    pub(super) memory: RwLock<MemoryIndex>,
    pub(super) durable: DurableVersion,
    pub(super) footers: FooterCheck,
    /// When the last keyword query ran.
    last_query: Mutex<Option<Instant>>,
    /// True while a change runs or after it was interrupted: some of its commits may exist and have to be undone.
    pub(super) is_uncertain: AtomicBool,
    /// True if a change was undone, so that its files may still exist although they belong to no version.
    pub(super) has_undone: AtomicBool,
    pub(super) has_lost_commits: AtomicBool,
    /// Whether the published version has the column of analysed terms and its index.
    pub(super) has_terms: AtomicBool,
    pub(super) quarantined: Vec<PathBuf>,
    pub(super) damaged: BTreeSet<FileId>,
    maintenance: Mutex<MaintenanceState>,
}

/// The state of maintenance, for the status.
#[derive(Clone, Debug, Default)]
pub(super) struct MaintenanceState {
    /// Name of the maintenance step that is running, if any.
    pub(super) now: Option<&'static str>,
    pub(super) error: Option<String>,
}

impl LanceStore {
    /// Opens the table of this model below `dir`, or creates it. `fingerprint` identifies the model and its settings,
    /// `dimension` is the length of its vectors. A damaged table is rolled back to its last readable version. If there
    /// is none, the table is renamed and an empty one is created: see `Store::recovery`.
    ///
    /// # Errors
    /// The directory is not an index of vic, or cannot be read or written.
    pub async fn open(dir: &Path, fingerprint: &str, dimension: usize) -> Result<LanceStore> {
        fsync::prepare_dir(dir)?;
        let place = TableLocation { dir: dir.to_owned(), name: table_name(fingerprint), dimension };
        let synced = DurableVersion::new(&place.table_dir());
        let OpenedTable { table, cached, rows, hot, whole, set_aside, has_lost } =
            recovery::open(&place, &synced).await?;
        for it in &set_aside {
            tracing::warn!("the index was damaged: the unreadable part is kept as `{}`", it.display());
        }
        let damaged = hot.damaged().clone();
        let shown = connect(dir, &cached).await?.open_table(&place.name).execute().await.on("open", dir)?;
        let has_terms = schema::has_terms(&shown).await.on("read", dir)?;
        let readings = VersionPins::new(shown.version().await.on("read", dir)?);
        Ok(LanceStore {
            table,
            published: shown,
            cached,
            version_pins: readings,
            dir: dir.to_owned(),
            place,
            dimension,
            writer: tokio::sync::Mutex::new(()),
            chunks: AtomicU64::new(rows.values().sum()),
            rows: RwLock::new(rows),
            memory: RwLock::new(hot),
            durable: synced,
            footers: whole,
            last_query: Mutex::default(),
            is_uncertain: AtomicBool::new(false),
            has_undone: AtomicBool::new(false),
            has_lost_commits: AtomicBool::new(has_lost),
            has_terms: AtomicBool::new(has_terms),
            quarantined: set_aside,
            damaged,
            maintenance: Mutex::default(),
        })
    }

    /// Returns the names of all tables below `dir`: one for each model that was used and not dropped since.
    ///
    /// # Errors
    /// The directory is not an index of vic, or cannot be read.
    pub async fn tables(dir: &Path) -> Result<Vec<String>> {
        fsync::prepare_dir(dir)?;
        connect(dir, &LibraryCaches::new()).await?.table_names().execute().await.on("list", dir)
    }

    /// Returns the name of the table of this model.
    pub fn table_of(fingerprint: &str) -> String {
        table_name(fingerprint)
    }

    /// Returns whether a name has the form of a model's table.
    pub fn is_model_table(name: &str) -> bool {
        let digits = name.strip_prefix(TABLE_PREFIX).unwrap_or_default();
        digits.len() == FINGERPRINT_DIGITS && digits.bytes().all(|it| it.is_ascii_hexdigit())
    }

    /// Drops a table with all its data.
    ///
    /// # Errors
    /// The table does not exist, or cannot be removed.
    pub async fn drop_table(dir: &Path, name: &str) -> Result<()> {
        connect(dir, &LibraryCaches::new()).await?.drop_table(name, &[]).await.on("drop a table of", dir)?;
        DurableVersion::new(&dir.join(format!("{name}.lance"))).remove()
    }

    /// Returns whether all vectors are in memory.
    pub(super) fn has_vectors_in_memory(&self) -> bool {
        self.memory().vectors().is_some() && self.chunks.load(Ordering::Relaxed) < max_rows(self.dimension) as u64
    }

    /// Returns the number of rows of each file, kept in memory so that no query has to count.
    pub(super) fn rows(&self) -> RwLockReadGuard<'_, BTreeMap<FileId, u64>> {
        // Ignores poisoning: the map is updated key by key, so it is consistent after a panic.
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the part of the table that is in memory.
    pub(super) fn memory(&self) -> RwLockReadGuard<'_, MemoryIndex> {
        self.memory.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Simulates a table too large for memory.
    #[cfg(test)]
    pub(super) fn drop_memory(&self) {
        *self.memory_mut() = MemoryIndex::default();
    }

    /// Imitates a change that was interrupted.
    #[cfg(test)]
    pub(super) fn mark_interrupted(&self) {
        self.is_uncertain.store(true, Ordering::Relaxed);
    }

    pub(super) fn memory_mut(&self) -> RwLockWriteGuard<'_, MemoryIndex> {
        self.memory.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Clears the library's caches of indexes, manifests and files. The library keeps replaced data, with its memory
    /// and open files, until it needs the space: after an hour of changes, hundreds of indexes and as many manifests
    /// and page tables as fit. No query reads this data again.
    pub(super) async fn forget_replaced(&self) {
        self.cached.clear().await;
    }

    /// Returns whether a keyword query ran within the last half minute.
    pub(super) fn was_queried(&self) -> bool {
        let asked = *self.last_query.lock().unwrap_or_else(PoisonError::into_inner);
        asked.is_some_and(|it| it.elapsed() < QUERIED_TIMEOUT)
    }

    /// Records that a keyword query runs now.
    pub(super) fn note_query(&self) {
        *self.last_query.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    pub(super) fn end_maintenance(&self, done: &Result<()>) {
        let mut state = self.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        *state = MaintenanceState { now: None, error: done.as_ref().err().map(Error::to_string) };
    }

    pub(super) fn maintenance_state(&self) -> MaintenanceState {
        self.maintenance.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the current maintenance step, for the status.
    pub(super) fn set_step(&self, what: &'static str) {
        self.maintenance.lock().unwrap_or_else(PoisonError::into_inner).now = Some(what);
    }
}

/// Logs the failure to load row ids or the keyword index into memory, which only makes queries slower.
pub(super) fn log_slower(error: &Error) {
    tracing::warn!(%error, "cannot load part of the index into memory; queries are slower");
}

/// Returns the table name of a model. A fingerprint that is too short or not hexadecimal is hashed, because it may
/// contain characters that a table name may not.
fn table_name(fingerprint: &str) -> String {
    let is_hex = fingerprint.len() >= FINGERPRINT_DIGITS && fingerprint.bytes().all(|it| it.is_ascii_hexdigit());
    let digits =
        if is_hex { fingerprint.to_ascii_lowercase() } else { blake3::hash(fingerprint.as_bytes()).to_string() };
    format!("{TABLE_PREFIX}{}", &digits[..FINGERPRINT_DIGITS])
}
