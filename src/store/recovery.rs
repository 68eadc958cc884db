//! Opens a table after any crash or disk damage.
//!
//! Versions that never became durable are quarantined (renamed). Of the others, the newest readable one is opened, and
//! damaged ones are renamed. If none is readable, the whole table is renamed and an empty one is created. Nothing is
//! deleted, and a durable version is renamed only because of damage. An unresponsive disk or missing permission is an
//! error, the same one at every start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt;
use lance_core::cache::{CacheBackend, QuickCacheBackend, QuickCacheShardPolicy};
use lancedb::database::listing::OPT_NEW_TABLE_STORAGE_VERSION;
use lancedb::query::{ExecutableQuery, QueryBase, Select};
use lancedb::{Connection, ObjectStoreRegistry, Session, Table};

use crate::error::{Error, ErrorCode, Result};
use crate::model::FileId;
use crate::store::durable_version::DurableVersion;
use crate::store::footer_check::FooterCheck;
use crate::store::lance_error::{StoreContext, mark_damaged};
use crate::store::manifests::{self, Manifest};
use crate::store::memory::MemoryIndex;
use crate::store::{fsync, indexes, schema};

/// Maximum memory for opened indexes. The library's default is 6 GiB; the keyword index of a million short chunks fits
/// into this.
pub(super) const INDEX_CACHE_BYTES: usize = 192 << 20;

/// Maximum memory for manifests and page tables. The library's default is 1 GiB.
pub(super) const METADATA_CACHE_BYTES: usize = 32 << 20;

/// Version of the file format of new tables; existing tables keep theirs. In version 2.2, the library's default,
/// reading one row of a page with equal rows decodes the whole page.
const FILE_VERSION: &str = "2.1";

/// Location of a table, and the length of its vectors.
#[derive(Clone, Debug)]
pub(super) struct TableLocation {
    pub(super) dir: PathBuf,
    pub(super) name: String,
    pub(super) dimension: usize,
}

impl TableLocation {
    /// Returns the table's own directory.
    pub(super) fn table_dir(&self) -> PathBuf {
        self.dir.join(format!("{}.lance", self.name))
    }
}

/// Memory caches of the library.
#[derive(Clone)]
pub(super) struct LibraryCaches {
    /// Cache of opened indexes.
    pub(super) indexes: Arc<dyn CacheBackend>,
    /// Library session, which caches manifests and page tables and refers to the cache of indexes.
    pub(super) session: Arc<Session>,
}

impl LibraryCaches {
    /// Creates empty caches.
    pub(super) fn new() -> LibraryCaches {
        // Uses the library's own cache type with a single shard, so that one large index may fill the whole cache.
        let indexes = QuickCacheBackend::with_shard_policy(INDEX_CACHE_BYTES, QuickCacheShardPolicy::Single);
        let indexes: Arc<dyn CacheBackend> = Arc::new(indexes);
        let registry = Arc::new(ObjectStoreRegistry::default());
        let session = Session::with_index_cache_backend(indexes.clone(), METADATA_CACHE_BYTES, registry);
        LibraryCaches { indexes, session: Arc::new(session) }
    }

    /// Clears all caches. Data that is still needed is read again.
    pub(super) async fn clear(&self) {
        self.indexes.clear().await;
        self.session.file_metadata_cache().clear().await;
    }
}

/// A table that was opened, with its in-memory parts.
pub(super) struct OpenedTable {
    pub(super) table: Table,
    pub(super) cached: LibraryCaches,
    pub(super) rows: BTreeMap<FileId, u64>,
    pub(super) hot: MemoryIndex,
    pub(super) whole: FooterCheck,
    /// New paths of the damaged parts that were renamed.
    pub(super) set_aside: Vec<PathBuf>,
    /// True if some durable versions could not be read, so that their commits are lost.
    pub(super) has_lost: bool,
}

/// Opens the table, or creates it.
///
/// # Errors
/// The directory cannot be read or written, or the table was written by another version of vic.
pub(super) async fn open(place: &TableLocation, synced: &DurableVersion) -> Result<OpenedTable> {
    let table_dir = place.table_dir();
    if table_dir.symlink_metadata().is_err_and(|it| it.kind() == std::io::ErrorKind::NotFound) {
        return create(place, synced).await;
    }
    let last = synced.read()?;
    if let Some(last) = last {
        let unsynced = manifests::quarantine_unsynced(&table_dir, last)?;
        if unsynced > 0 {
            tracing::info!(unsynced, "renamed the versions of an interrupted commit; their files are indexed again");
        }
    }
    let Some(mut opened) = newest_readable(place).await? else {
        let set_aside = vec![manifests::quarantine_table(&table_dir)?];
        return Ok(OpenedTable { set_aside, has_lost: true, ..create(place, synced).await? });
    };
    let version = opened.table.version().await.on("read", &place.dir)?;
    opened.has_lost = last.is_some_and(|it| it > version) || (last.is_none() && !opened.set_aside.is_empty());
    opened.whole = FooterCheck::new(&table_dir);
    let mended = indexes::repair_indexes(&opened.table).await.on("update keywords in", &place.dir)?;
    if mended || last != Some(version) {
        fsync::sync(&place.dir).await?;
        opened.whole.check().await?;
    }
    // Does not record the current version if commits were lost. The file then still holds the number of the lost
    // version, which shows the loss at every start until the caller accepts it.
    if !opened.has_lost {
        synced.record(&opened.table, &place.dir).await?;
    }
    Ok(opened)
}

/// Returns the newest version that can be read, and renames the damaged manifests of newer versions. If no version is
/// readable, gives all manifests their names back and returns `None`.
async fn newest_readable(place: &TableLocation) -> Result<Option<OpenedTable>> {
    let table_dir = place.table_dir();
    let mut moved: Vec<(Manifest, PathBuf)> = Vec::new();
    loop {
        let error = match read_current(place).await {
            Ok(mut opened) => {
                opened.set_aside = moved.into_iter().map(|(_, aside)| aside).collect();
                return Ok(Some(opened));
            }
            Err(error) => error,
        };
        let newest = if error.code == ErrorCode::DataLoss { manifests::list(&table_dir)?.pop() } else { None };
        let Some(newest) = newest else {
            for (manifest, aside) in moved.iter().rev() {
                manifests::restore(manifest, aside)?;
            }
            return if error.code == ErrorCode::DataLoss { Ok(None) } else { Err(error) };
        };
        tracing::warn!("{error}; trying the version of the index before `{}`", newest.path.display());
        let aside = manifests::quarantine_corrupt(&table_dir, &newest)?;
        moved.push((newest, aside));
    }
}

/// Reads the newest version of the table. This opens all its files and decodes the columns that are kept in memory.
pub(super) async fn read_current(place: &TableLocation) -> Result<OpenedTable> {
    // Uses a new session, because another one may have cached versions that are quarantined by now.
    let cached = LibraryCaches::new();
    let table = connect(&place.dir, &cached).await?.open_table(&place.name).execute().await;
    let table = table.map_err(mark_damaged).on("open", &place.dir)?;
    let found = table.schema().await.map_err(mark_damaged).on("open", &place.dir)?;
    let known = [schema::schema(place.dimension), schema::schema_without_terms(place.dimension)];
    if !known.iter().any(|it| it.fields() == found.fields()) {
        return Err(wrong_columns(schema::vector_length(&found), place));
    }
    let (rows, hot) = load_contents(&table, place).await?;
    let whole = FooterCheck::new(&place.table_dir());
    Ok(OpenedTable { table, cached, rows, hot, whole, set_aside: Vec::new(), has_lost: false })
}

/// Returns the error that a table has other columns than expected, or vectors of another `length`.
fn wrong_columns(length: Option<usize>, place: &TableLocation) -> Error {
    let (name, dir, expected) = (&place.name, place.dir.display(), place.dimension);
    let (what, who) = match length {
        Some(length) if length != expected => {
            (format!("vectors of {length} numbers, but the model gives {expected}"), "another model")
        }
        _ => ("wrong columns".to_string(), "another version of vic"),
    };
    Error::new(ErrorCode::FailedPrecondition, format!("table `{name}` in `{dir}` has {what}"))
        .hint(format!("it was written by {who}: move `{dir}` away, then run `vic index --full`"))
}

/// Counts the rows of each file, and loads vectors and passages into memory if they fit.
pub(super) async fn load_contents(
    table: &Table,
    place: &TableLocation,
) -> Result<(BTreeMap<FileId, u64>, MemoryIndex)> {
    let rows = count_rows(table, &place.dir).await?;
    let mut hot = MemoryIndex::new(&place.dir, rows.values().sum(), place.dimension);
    hot.begin_load(rows.values().sum());
    let hot = if hot.vectors().is_some() { load_memory(table, place, hot).await? } else { hot };
    Ok((rows, hot))
}

async fn create(place: &TableLocation, synced: &DurableVersion) -> Result<OpenedTable> {
    // Removes the durable version of an earlier table of this name: it would make the new table look as if it had lost
    // commits.
    synced.remove()?;
    let schema = schema::schema(place.dimension);
    let cached = LibraryCaches::new();
    let connection = connect(&place.dir, &cached).await?;
    let whole = FooterCheck::new(&place.table_dir());
    let table = connection.create_empty_table(&place.name, schema);
    let table = table.storage_option(OPT_NEW_TABLE_STORAGE_VERSION, FILE_VERSION).execute().await;
    let table = table.on("create", &place.dir)?;
    fsync::sync(&place.dir).await?;
    whole.check().await?;
    synced.record(&table, &place.dir).await?;
    let (rows, hot) = (BTreeMap::new(), MemoryIndex::new(&place.dir, 0, place.dimension));
    Ok(OpenedTable { table, cached, rows, hot, whole, set_aside: Vec::new(), has_lost: false })
}

pub(super) async fn connect(dir: &Path, cached: &LibraryCaches) -> Result<Connection> {
    let Some(uri) = dir.to_str() else {
        return Err(Error::invalid(format!("the path `{}` is not valid Unicode", dir.display()))
            .hint("point VIC_DB_PATH at another directory"));
    };
    lancedb::connect(uri).session(cached.session.clone()).execute().await.on("open", dir)
}

/// Loads the columns of a table that are kept in memory.
async fn load_memory(table: &Table, place: &TableLocation, mut hot: MemoryIndex) -> Result<MemoryIndex> {
    let query = table.query().select(hot.columns()).with_row_id();
    let mut stream = query.execute().await.map_err(mark_damaged).on("read", &place.dir)?;
    while let Some(batch) = stream.try_next().await.map_err(mark_damaged).on("read", &place.dir)? {
        hot.add_rows(&batch)?;
    }
    hot.end_load();
    Ok(hot)
}

async fn count_rows(table: &Table, dir: &Path) -> Result<BTreeMap<FileId, u64>> {
    let query = table.query().select(Select::columns(&["file_id"]));
    let mut stream = query.execute().await.map_err(mark_damaged).on("read", dir)?;
    let mut rows = BTreeMap::new();
    while let Some(batch) = stream.try_next().await.map_err(mark_damaged).on("read", dir)? {
        for file_id in schema::file_ids(&batch)?.values() {
            *rows.entry(*file_id).or_default() += 1;
        }
    }
    Ok(rows)
}
