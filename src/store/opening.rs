//! From a directory to an open table, whatever a crash or a disk has done to it.
//!
//! Versions that were never synced are set aside. Of the others the newest that can be read is opened; damaged ones are
//! renamed. When none can be read, the whole table is renamed and an empty one takes its place. Nothing is deleted, and
//! nothing is touched for any other reason than damage: a disk that does not answer or a folder that may not be entered is
//! an error, the same one at every start.

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
use crate::store::failure::{StoreContext, as_damage};
use crate::store::hot::Hot;
use crate::store::manifests::{self, Manifest};
use crate::store::synced::Synced;
use crate::store::whole::Whole;
use crate::store::{schema, sync, upkeep};

/// Bytes of opened indexes kept in memory. The library's default is 6 GiB; the keyword index of a million short chunks fits
/// here.
pub(super) const INDEX_CACHE_BYTES: usize = 192 << 20;

/// Bytes of manifests and page tables kept in memory. The library's default is 1 GiB.
pub(super) const METADATA_CACHE_BYTES: usize = 32 << 20;

/// Format of the files of a new table; an older one keeps its own. In 2.2, the library's default, a page whose rows are all
/// alike is unfolded whole for every row that is read of it.
const FILE_VERSION: &str = "2.1";

/// Where a table lies, and what it holds.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    pub(super) name: String,
    pub(super) dimension: usize,
}

impl Place {
    /// The table's own directory.
    pub(super) fn table_dir(&self) -> PathBuf {
        self.dir.join(format!("{}.lance", self.name))
    }
}

/// What the library keeps in memory of a table.
#[derive(Clone)]
pub(super) struct Cached {
    /// Opened indexes.
    pub(super) indexes: Arc<dyn CacheBackend>,
    /// Has manifests and page tables, and knows the indexes.
    pub(super) session: Arc<Session>,
}

impl Cached {
    /// Nothing so far.
    pub(super) fn new() -> Cached {
        // As the library makes one of its own, in one shard: an index of that size has to fit in.
        let indexes = QuickCacheBackend::with_shard_policy(INDEX_CACHE_BYTES, QuickCacheShardPolicy::Single);
        let indexes: Arc<dyn CacheBackend> = Arc::new(indexes);
        let registry = Arc::new(ObjectStoreRegistry::default());
        let session = Session::with_index_cache_backend(indexes.clone(), METADATA_CACHE_BYTES, registry);
        Cached { indexes, session: Arc::new(session) }
    }

    /// Forgets all of it; what is still needed is read again.
    pub(super) async fn clear(&self) {
        self.indexes.clear().await;
        self.session.file_metadata_cache().clear().await;
    }
}

/// A table, and what is kept of it in memory.
pub(super) struct Opened {
    pub(super) table: Table,
    pub(super) cached: Cached,
    pub(super) rows: BTreeMap<FileId, u64>,
    pub(super) hot: Hot,
    pub(super) whole: Whole,
    /// What was damaged and is called otherwise now.
    pub(super) set_aside: Vec<PathBuf>,
    /// Whether versions that were synced once could not be read.
    pub(super) has_lost: bool,
}

/// Opens the table, or makes it.
///
/// # Errors
/// The directory cannot be read or written, or the table is of another version of vic.
pub(super) async fn open(place: &Place, synced: &Synced) -> Result<Opened> {
    let table_dir = place.table_dir();
    if table_dir.symlink_metadata().is_err_and(|it| it.kind() == std::io::ErrorKind::NotFound) {
        return create(place, synced).await;
    }
    let last = synced.read()?;
    if let Some(last) = last {
        let unsynced = manifests::set_unsynced_aside(&table_dir, last)?;
        if unsynced > 0 {
            tracing::info!(unsynced, "set aside what an interrupted commit left; its files are read again");
        }
    }
    let Some(mut opened) = newest_whole(place).await? else {
        let set_aside = vec![manifests::set_table_aside(&table_dir)?];
        return Ok(Opened { set_aside, has_lost: true, ..create(place, synced).await? });
    };
    let version = opened.table.version().await.on("read", &place.dir)?;
    opened.has_lost = last.is_some_and(|it| it > version) || (last.is_none() && !opened.set_aside.is_empty());
    opened.whole = Whole::of(&table_dir);
    let mended = upkeep::mend_indexes(&opened.table).await.on("index the words of", &place.dir)?;
    if mended || last != Some(version) {
        sync::sync(&place.dir).await?;
        opened.whole.check().await?;
    }
    // The old number is what tells of the loss until somebody has acted on it.
    if !opened.has_lost {
        note(&opened.table, place, synced).await?;
    }
    Ok(opened)
}

/// Says whether the table as it stands is noted to be on disk.
pub(super) async fn is_noted(table: &Table, place: &Place, synced: &Synced) -> Result<bool> {
    let version = table.version().await.on("read", &place.dir)?;
    let synced = synced.clone();
    tokio::task::spawn_blocking(move || synced.holds(version)).await.map_err(Error::internal)?
}

/// Notes that the table as it stands is on disk. The caller has synced it.
pub(super) async fn note(table: &Table, place: &Place, synced: &Synced) -> Result<()> {
    let version = table.version().await.on("read", &place.dir)?;
    let (synced, writing) = (synced.clone(), synced.writing().await);
    let note = move || {
        let _writing = writing;
        if synced.holds(version)? { Ok(()) } else { synced.write(version) }
    };
    tokio::task::spawn_blocking(note).await.map_err(Error::internal)?
}

/// Goes back version by version until one can be read. None, with everything as it was, when there is none.
async fn newest_whole(place: &Place) -> Result<Option<Opened>> {
    let table_dir = place.table_dir();
    let mut moved: Vec<(Manifest, PathBuf)> = Vec::new();
    loop {
        let error = match read(place).await {
            Ok(mut opened) => {
                opened.set_aside = moved.into_iter().map(|(_, aside)| aside).collect();
                return Ok(Some(opened));
            }
            Err(error) => error,
        };
        let newest = if error.code == ErrorCode::DataLoss { manifests::list(&table_dir)?.pop() } else { None };
        let Some(newest) = newest else {
            for (manifest, aside) in moved.iter().rev() {
                manifests::put_back(manifest, aside)?;
            }
            return if error.code == ErrorCode::DataLoss { Ok(None) } else { Err(error) };
        };
        tracing::warn!("{error}; going back to the version before `{}`", newest.path.display());
        let aside = manifests::set_corrupt_aside(&table_dir, &newest)?;
        moved.push((newest, aside));
    }
}

/// Reads the table as it stands. Every file of it is opened by that, and the columns that are kept in memory are decoded.
pub(super) async fn read(place: &Place) -> Result<Opened> {
    // A session of its own: another one may remember versions that are set aside by now.
    let cached = Cached::new();
    let table = connect(&place.dir, &cached).await?.open_table(&place.name).execute().await;
    let table = table.map_err(as_damage).on("open", &place.dir)?;
    let found = table.schema().await.map_err(as_damage).on("open", &place.dir)?;
    if found.fields() != schema::schema(place.dimension).fields() {
        let (name, dir) = (&place.name, place.dir.display());
        return Err(Error::new(ErrorCode::FailedPrecondition, format!("table `{name}` in `{dir}` has other columns"))
            .hint(format!(
                "it was written by another version of vic: move `{dir}` away, then run `vic index --full`"
            )));
    }
    let (rows, hot) = contents(&table, place).await?;
    let whole = Whole::of(&place.table_dir());
    Ok(Opened { table, cached, rows, hot, whole, set_aside: Vec::new(), has_lost: false })
}

/// Counts the rows of each file, and reads the vectors if they fit.
pub(super) async fn contents(table: &Table, place: &Place) -> Result<(BTreeMap<FileId, u64>, Hot)> {
    let rows = count_rows(table, &place.dir).await?;
    let mut hot = Hot::new(&place.dir, rows.values().sum(), place.dimension);
    hot.filling(rows.values().sum());
    let hot = if hot.vectors().is_some() { load(table, place, hot).await? } else { hot };
    Ok((rows, hot))
}

async fn create(place: &Place, synced: &Synced) -> Result<Opened> {
    // A number that is left of a table of that name would let a new one look as if it had lost something.
    synced.remove()?;
    let schema = schema::schema(place.dimension);
    let cached = Cached::new();
    let connection = connect(&place.dir, &cached).await?;
    let whole = Whole::of(&place.table_dir());
    let table = connection.create_empty_table(&place.name, schema);
    let table = table.storage_option(OPT_NEW_TABLE_STORAGE_VERSION, FILE_VERSION).execute().await;
    let table = table.on("create", &place.dir)?;
    sync::sync(&place.dir).await?;
    whole.check().await?;
    note(&table, place, synced).await?;
    let (rows, hot) = (BTreeMap::new(), Hot::new(&place.dir, 0, place.dimension));
    Ok(Opened { table, cached, rows, hot, whole, set_aside: Vec::new(), has_lost: false })
}

pub(super) async fn connect(dir: &Path, cached: &Cached) -> Result<Connection> {
    let Some(uri) = dir.to_str() else {
        return Err(Error::invalid(format!("the path `{}` is no valid Unicode", dir.display()))
            .hint("point VIC_DB_PATH at another directory"));
    };
    lancedb::connect(uri).session(cached.session.clone()).execute().await.on("open", dir)
}

/// Reads once what is kept of a table.
async fn load(table: &Table, place: &Place, mut hot: Hot) -> Result<Hot> {
    let query = table.query().select(hot.columns()).with_row_id();
    let mut stream = query.execute().await.map_err(as_damage).on("read", &place.dir)?;
    while let Some(batch) = stream.try_next().await.map_err(as_damage).on("read", &place.dir)? {
        hot.add_rows(&batch)?;
    }
    hot.filled();
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
