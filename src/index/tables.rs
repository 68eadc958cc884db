//! The tables of chunks: which one answers queries and which one is being built.
//!
//! Vectors of different models cannot be compared, so each model has its own table. Normally a single table is written
//! to and answers queries. After a change of model the old table answers, with its own embedder, until every file is in
//! the new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use crate::catalog::{Catalog, RequeueScope};
use crate::embed::Embedder;
use crate::error::{Error, Result};
use crate::model::{ChunkId, FileChunks, FileId, StoredChunk};
use crate::store::{Backend, Durability, Maintenance, Store, StoreStats};

/// A job updates the keyword index when a quarter of all rows are outside it, but not for fewer rows than this, which a
/// query scans in about 10 ms.
const MIN_UNINDEXED_ROWS: u64 = 10_000;
/// A job always updates the keyword index when more rows than this are outside it. On a busy machine a query took seven
/// seconds with 225,000 of a million rows outside.
const MOST_UNINDEXED_ROWS: u64 = 30_000;
/// While queries run, rows are added to the keyword index when more than this many are outside it. Each saved file is a
/// commit, and a query opens the file of every commit with rows outside the index: 350 commits cost about 3 ms.
pub(crate) const ATTENDED_ROWS: u64 = 20;
/// Maximum fragments of the table while queries run. With more, full maintenance merges them, also during a job.
const MAX_FRAGMENTS: u64 = 100;

/// Catalog key of the fingerprint of the table that answers queries.
const SERVING_KEY: &str = "serving_fingerprint";
/// Catalog key of the vector dimension of the table that answers queries.
const SERVING_DIMENSION_KEY: &str = "serving_dimension";
/// Catalog key of the embedding settings (JSON) of the table that answers queries, to reopen its embedder.
const SERVING_MODEL_KEY: &str = "serving_model";
/// Catalog key of the fingerprint of the table being built; empty if none is.
const BUILDING_KEY: &str = "building_fingerprint";
/// Catalog key of the place of the tables that the catalog describes; missing for LanceDB of an older vic.
const PLACE_KEY: &str = "store_place";

/// Returns the fingerprint and the vector dimension of the table that answers queries, or `None` before the first
/// table.
///
/// # Errors
/// The catalog cannot be read.
pub fn serving_table(catalog: &Catalog) -> Result<Option<(String, usize)>> {
    let dimension = catalog.meta_get(SERVING_DIMENSION_KEY)?.and_then(|it| it.parse().ok());
    Ok(catalog.meta_get(SERVING_KEY)?.zip(dimension))
}

/// Returns whether a new model's table is being built beside the one that answers queries. The catalog then describes
/// the table being built.
///
/// # Errors
/// The catalog cannot be read.
pub fn is_building(catalog: &Catalog) -> Result<bool> {
    let building = catalog.meta_get(BUILDING_KEY)?.filter(|it| !it.is_empty());
    Ok(building.is_some() && building != catalog.meta_get(SERVING_KEY)?)
}

/// A table that answers queries, and the embedder that made its vectors.
#[derive(Clone)]
pub struct ServingTable {
    /// The table of chunks and their vectors.
    pub store: Arc<dyn Store>,
    /// Embeds queries. `None` if the model of an old table cannot be loaded: only keyword search then works, until the
    /// new table is complete.
    pub embedder: Option<Arc<dyn Embedder>>,
}

/// The table that is written to and the table that answers queries, normally the same.
pub(crate) struct Tables {
    catalog: Catalog,
    backend: Arc<dyn Backend>,
    target: Arc<dyn Store>,
    embedder: Arc<dyn Embedder>,
    model: String,
    serving: RwLock<ServingTable>,
    /// The previous model's table, which answers queries while `target` is being built.
    old: RwLock<Option<OldTable>>,
}

#[derive(Clone)]
struct OldTable {
    store: Arc<dyn Store>,
    fingerprint: String,
    /// Why the model of this table cannot be loaded; `None` if it is loaded.
    problem: Option<String>,
}

impl Tables {
    /// Opens the table of `embedder`. If another model's table answered queries before, opens that table too.
    ///
    /// `model` is a text that is saved with the table, so that `open_old` can reopen this embedder after a change of
    /// model.
    pub(crate) async fn open<F>(
        catalog: &Catalog,
        backend: Arc<dyn Backend>,
        embedder: Arc<dyn Embedder>,
        model: String,
        open_old: F,
    ) -> Result<Tables>
    where
        F: AsyncFnOnce(&str) -> Result<Arc<dyn Embedder>>,
    {
        let fingerprint = embedder.fingerprint().to_string();
        let target = backend.open(&fingerprint, embedder.dimension()).await?;
        if target.recovery().has_lost_commits {
            // The catalog may describe rows that the table has lost, so every file is indexed again.
            catalog.requeue(&RequeueScope::All)?;
            target.accept_loss().await?;
        }
        if catalog.meta_get(PLACE_KEY)?.unwrap_or_else(|| "lance".into()) != backend.place() {
            // The table is empty or has old texts, as files changed while another store was in use.
            target.delete(&target.file_ids()).await?;
            catalog.requeue(&RequeueScope::All)?;
            catalog.meta_set(PLACE_KEY, &backend.place())?;
        }
        let mut serving = ServingTable { store: target.clone(), embedder: Some(embedder.clone()) };
        let mut old = None;
        match catalog.meta_get(SERVING_KEY)? {
            Some(before) if before != fingerprint => {
                let dimension = catalog.meta_get(SERVING_DIMENSION_KEY)?.and_then(|it| it.parse().ok());
                let dimension = dimension.unwrap_or(embedder.dimension());
                let store = backend.open(&before, dimension).await?;
                let old_model = catalog.meta_get(SERVING_MODEL_KEY)?.unwrap_or_default();
                let (embedder, problem) = matching_embedder(open_old(&old_model).await, &before);
                serving = ServingTable { store: store.clone(), embedder };
                old = Some(OldTable { store, fingerprint: before, problem });
                if catalog.meta_get(BUILDING_KEY)?.as_deref() != Some(&fingerprint) {
                    catalog.requeue(&RequeueScope::All)?;
                    catalog.meta_set(BUILDING_KEY, &fingerprint)?;
                }
            }
            Some(_) => abandon_building(catalog)?,
            None => save_serving_table(catalog, &fingerprint, embedder.dimension(), &model)?,
        }
        let answering = old.as_ref().map_or(&fingerprint, |it: &OldTable| &it.fingerprint);
        backend.set_serving(answering).await?;
        drop_unused_tables(&*backend, &[&fingerprint, answering]).await;
        Ok(Tables {
            catalog: catalog.clone(),
            backend,
            target,
            embedder,
            model,
            serving: RwLock::new(serving),
            old: RwLock::new(old),
        })
    }

    /// Returns the table that answers queries.
    pub(crate) fn serving(&self) -> ServingTable {
        self.serving.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a writer to the current model's table.
    pub(crate) fn writing(&self) -> TableWriter {
        TableWriter { target: self.target.clone(), old: self.old().map(|it| it.store) }
    }

    /// Returns the new paths of the tables that were damaged at startup and renamed.
    pub(crate) fn quarantined(&self) -> Vec<std::path::PathBuf> {
        let old = self.old().map(|it| it.store);
        let both = [Some(self.target.clone()), old];
        both.into_iter().flatten().flat_map(|it| it.recovery().quarantined).collect()
    }

    /// Returns whether the previous model's table still answers queries.
    pub(crate) fn is_switching(&self) -> bool {
        self.old().is_some()
    }

    /// Returns why only keyword search works on the previous model's table, if its model cannot be loaded.
    pub(crate) fn old_problem(&self) -> Option<String> {
        self.old()?.problem
    }

    /// Makes the new table answer queries and drops the old one. The caller has checked that no file is pending.
    pub(crate) async fn switch(&self) -> Result<()> {
        if self.old().is_none() {
            return Ok(());
        }
        self.backend.set_serving(self.embedder.fingerprint()).await?;
        save_serving_table(&self.catalog, self.embedder.fingerprint(), self.embedder.dimension(), &self.model)?;
        *self.serving.write().unwrap_or_else(PoisonError::into_inner) =
            ServingTable { store: self.target.clone(), embedder: Some(self.embedder.clone()) };
        *self.old.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.backend.drop_tables_except(&[self.embedder.fingerprint()]).await
    }

    fn old(&self) -> Option<OldTable> {
        self.old.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns the opened embedder if its fingerprint is that of the table, otherwise why it cannot be used. An embedding
/// server may now use the model's name for another model, whose vectors would not be comparable.
fn matching_embedder(
    opened: Result<Arc<dyn Embedder>>,
    fingerprint: &str,
) -> (Option<Arc<dyn Embedder>>, Option<String>) {
    let problem = match opened {
        Ok(embedder) if embedder.fingerprint() == fingerprint => return (Some(embedder), None),
        Ok(_) => "another model now has this name".to_string(),
        Err(Error { message, hint: Some(cure), .. }) => format!("{message}; {cure}, and restart the daemon"),
        Err(Error { message, .. }) => message,
    };
    tracing::warn!("cannot load the model of the index that answers queries: {problem}");
    (None, Some(problem))
}

/// Abandons the table that is being built for another model, because the settings name the model of the answering table
/// again. Files that changed meanwhile are only in the abandoned table, so every file is requeued. The vector cache
/// makes indexing them again cheap.
fn abandon_building(catalog: &Catalog) -> Result<()> {
    if catalog.meta_get(BUILDING_KEY)?.is_none_or(|it| it.is_empty()) {
        return Ok(());
    }
    catalog.requeue(&RequeueScope::All)?;
    catalog.meta_set(BUILDING_KEY, "")
}

/// Drops the tables that neither answer queries nor are being built: no query reads them, and purges would not reach
/// them. Other files in the directory are not vic's and stay.
async fn drop_unused_tables(backend: &dyn Backend, kept: &[&str]) {
    if let Err(error) = backend.drop_tables_except(kept).await {
        tracing::warn!(%error, "cannot remove the index of an unused model; the next start tries again");
    }
}

/// Saves which table answers queries and that none is being built. Uses one transaction, because a half-written state
/// would describe no table.
fn save_serving_table(catalog: &Catalog, fingerprint: &str, dimension: usize, model: &str) -> Result<()> {
    catalog.meta_set_all(&[
        (SERVING_DIMENSION_KEY, &dimension.to_string()),
        (SERVING_MODEL_KEY, model),
        (SERVING_KEY, fingerprint),
        (BUILDING_KEY, ""),
    ])
}

/// Writes to the table of the current model. Deletions also go to the previous model's table while that one answers
/// queries.
#[derive(Clone)]
pub(crate) struct TableWriter {
    target: Arc<dyn Store>,
    old: Option<Arc<dyn Store>>,
}

impl TableWriter {
    /// Replaces the chunks of these files.
    pub(crate) async fn replace(&self, files: Vec<FileChunks>) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        self.target.replace(files).await
    }

    /// Replaces the chunks of a file that have these ordinals. Returns how many chunks the file then has.
    pub(crate) async fn replace_part(&self, file: FileChunks, ordinals: std::ops::Range<u32>) -> Result<u64> {
        self.target.replace_part(file, ordinals).await
    }

    /// Returns whether the table has all these chunks of a file.
    pub(crate) async fn contains(&self, file: FileId, chunks: &[ChunkId]) -> Result<bool> {
        let ids: Vec<(FileId, ChunkId)> = chunks.iter().map(|it| (file, it.clone())).collect();
        Ok(self.target.chunks(&ids).await?.len() == ids.len())
    }

    /// For each pair of files with the same content, copies the chunks of the first file to the second. Returns how
    /// many chunks each second file then has.
    pub(crate) async fn copy(&self, copies: &[(FileId, FileId)]) -> Result<Vec<u64>> {
        if copies.is_empty() {
            return Ok(Vec::new());
        }
        self.target.copy(copies).await
    }

    /// Returns whether chunks may be stored without vectors for now. Not while the old model's table answers
    /// queries, because the new table must be complete when it replaces the old one.
    pub(crate) fn allows_missing_vectors(&self) -> bool {
        self.old.is_none() && self.target.capabilities().allows_missing_vectors
    }

    /// Returns whether the store may have lost rows since it was opened: a server syncs to disk later.
    pub(crate) fn may_lose_rows(&self) -> bool {
        self.target.capabilities().durability == Durability::ProcessExit
    }

    /// Returns the number of chunks in the table.
    pub(crate) fn chunk_count(&self) -> u64 {
        self.target.chunk_count()
    }

    /// Returns whether the table has chunks of a file.
    pub(crate) fn has_file(&self, file: FileId) -> bool {
        self.target.has_file(file)
    }

    /// Returns all chunks of these files, unordered.
    pub(crate) async fn chunks_of(&self, files: Vec<FileId>) -> Result<Vec<StoredChunk>> {
        self.target.chunks_of(files).await
    }

    /// Deletes the chunks of these files, also from the previous model's table while that one answers queries.
    pub(crate) async fn delete(&self, files: &[FileId]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        if let Some(old) = &self.old {
            old.delete(files).await?;
        }
        self.target.delete(files).await
    }

    /// Returns the files with vectors that were damaged when the table was opened.
    pub(crate) fn damaged(&self) -> BTreeSet<FileId> {
        self.target.recovery().damaged
    }

    /// Returns how many chunks each file has.
    pub(crate) fn rows_by_file(&self) -> BTreeMap<FileId, u64> {
        self.target.rows_by_file()
    }

    /// Returns the number of the newest version of the table.
    pub(crate) fn version(&self) -> u64 {
        self.target.version()
    }

    /// Returns the number of versions of the table on disk.
    pub(crate) fn version_count(&self) -> Result<u64> {
        self.target.version_count()
    }

    /// Returns counts and sizes of the table.
    pub(crate) async fn stats(&self) -> Result<StoreStats> {
        self.target.stats().await
    }

    /// Updates the indexes if a job has added many rows that they do not cover. Every query scans such rows, and a job
    /// may take hours.
    ///
    /// With `is_attended`, because queries run or the next commit may be minutes away, new rows are added to the keyword
    /// index after almost every commit, which takes a tenth of a second. Full maintenance runs only when there are many
    /// fragments.
    pub(crate) async fn catch_up(&self, is_attended: bool) {
        let outcome = match self.stats().await {
            Ok(stats) if stats.unindexed_rows > (stats.chunks / 4).clamp(MIN_UNINDEXED_ROWS, MOST_UNINDEXED_ROWS) => {
                self.maintain().await
            }
            Ok(stats) if stats.unindexed_rows > ATTENDED_ROWS && is_attended => match stats.fragments {
                0..=MAX_FRAGMENTS => self.target.maintain(Maintenance::Keywords).await,
                _ => self.maintain().await,
            },
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            tracing::warn!(%error, "maintenance of the index failed; it is retried later");
        }
    }

    /// Loads the keyword index of the table that answers queries into memory.
    pub(crate) async fn preload(&self) {
        let answers = self.old.as_ref().unwrap_or(&self.target);
        if let Err(error) = answers.preload().await {
            tracing::warn!(%error, "cannot load the index into memory; the first queries are slow");
        }
    }

    /// Rewrites all data that holds deleted rows, in both tables. Returns each table with the version before which all
    /// versions must be pruned.
    pub(crate) async fn purge(&self) -> Result<Vec<(Arc<dyn Store>, u64)>> {
        let mut versions = Vec::new();
        for store in self.old.iter().chain([&self.target]) {
            versions.push((store.clone(), store.purge().await?));
        }
        Ok(versions)
    }

    /// Prunes the versions before the given one of each table, except those that a running read needs. Returns whether
    /// all are pruned.
    pub(crate) async fn prune_before(&self, versions: &[(Arc<dyn Store>, u64)]) -> Result<bool> {
        let mut are_gone = true;
        for (store, version) in versions {
            are_gone &= store.prune_before(*version).await?;
        }
        Ok(are_gone)
    }

    /// Prunes old versions of the table.
    pub(crate) async fn prune(&self) -> Result<()> {
        self.target.maintain(Maintenance::Prune).await
    }

    /// Returns whether a query ran within the last half minute.
    pub(crate) fn is_queried(&self) -> bool {
        self.target.is_queried()
    }

    /// Runs full maintenance of the table.
    pub(crate) async fn maintain(&self) -> Result<()> {
        self.target.maintain(Maintenance::Full).await
    }

    /// Adds all rows to the keyword index, without other maintenance.
    pub(crate) async fn cover_keywords(&self) -> Result<()> {
        self.target.maintain(Maintenance::Keywords).await
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;
    use crate::index::tests::{FakeEmbedder, chunks_of};
    use crate::store::{LanceBackend, LanceStore, open_backend};

    fn backend(dir: &Path) -> Arc<dyn Backend> {
        Arc::new(LanceBackend::new(dir.to_owned()))
    }

    /// Opens the tables of a directory for one model after the other. Returns what the directory then contains.
    async fn tables_after(dir: &Path, models: &[&'static str]) -> (Catalog, Vec<String>) {
        let (catalog, index) = (Catalog::open(&dir.join("catalog.sqlite")).unwrap(), dir.join("index"));
        for model in models {
            let old = async |_: &str| Err(Error::not_found("it is not there"));
            drop(
                Tables::open(&catalog, backend(&index), Arc::new(FakeEmbedder(model)), "m".into(), old).await.unwrap(),
            );
        }
        (catalog, LanceStore::tables(&index).await.unwrap())
    }

    #[tokio::test]
    async fn index_of_unused_model_is_dropped_and_foreign_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b, c) = ("aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc");
        assert_eq!(tables_after(dir.path(), &[a, b]).await.1.len(), 2);
        // Creates a table of another program, which must stay.
        std::fs::create_dir(dir.path().join("index/mine.lance")).unwrap();
        assert_eq!(tables_after(dir.path(), &[c]).await.1, ["chunks_aaaaaaaaaaaa", "chunks_cccccccccccc", "mine"]);
        assert_eq!(tables_after(dir.path(), &[a]).await.1, ["chunks_aaaaaaaaaaaa", "mine"]);
    }

    #[tokio::test]
    async fn table_of_another_store_is_emptied_when_it_is_used_again() {
        let (dir, server) = (tempfile::tempdir().unwrap(), vic_milvus::mock::MockServer::start().await.unwrap());
        let catalog = Catalog::open(&dir.path().join("catalog.sqlite")).unwrap();
        let open = async |backend: Arc<dyn Backend>| {
            let old = async |_: &str| Err(Error::not_found("it is not there"));
            let embedder = Arc::new(FakeEmbedder("aaaaaaaaaaaa"));
            Tables::open(&catalog, backend, embedder, "m".into(), old).await.unwrap().writing()
        };
        let lance = backend(&dir.path().join("index"));
        open(lance.clone()).await.replace(vec![chunks_of(1)]).await.unwrap();
        assert!(open(lance.clone()).await.has_file(1));
        let lookup = |name: &str| match name {
            "VIC_DATA_DIR" => Some(dir.path().as_os_str().to_owned()),
            "VIC_VECTOR_BACKEND" => Some("milvus".into()),
            "VIC_MILVUS_URI" => Some(server.address().into()),
            _ => None,
        };
        let milvus = Config::from_lookup(&lookup).unwrap();
        assert!(!open(open_backend(&milvus).await.unwrap()).await.has_file(1));
        assert!(!open(lance).await.has_file(1), "the file may have changed while Milvus was in use");
    }

    #[tokio::test]
    async fn answering_index_stays_if_marked_as_being_built() {
        let dir = tempfile::tempdir().unwrap();
        let (catalog, _) = tables_after(dir.path(), &["aaaaaaaaaaaa"]).await;
        catalog.meta_set(BUILDING_KEY, "aaaaaaaaaaaa").unwrap();
        assert_eq!(tables_after(dir.path(), &["aaaaaaaaaaaa"]).await.1, ["chunks_aaaaaaaaaaaa"]);
        assert_eq!(catalog.meta_get(BUILDING_KEY).unwrap().as_deref(), Some(""));
    }

    /// Opens the tables of a directory last used with model `aaaaaaaaaaaa`, with settings that now give the model
    /// `reopened`. Returns why the old table has no embedder, or `None` if it has one.
    async fn old_table_with(reopened: Result<&'static str>) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(&dir.path().join("catalog.sqlite")).unwrap();
        let open = async |fingerprint| {
            let path = dir.path().join("index");
            let reopened = reopened.clone();
            let old = async move |_: &str| reopened.map(|it| Arc::new(FakeEmbedder(it)) as Arc<dyn Embedder>);
            Tables::open(&catalog, backend(&path), Arc::new(FakeEmbedder(fingerprint)), "m".into(), old).await.unwrap()
        };
        open("aaaaaaaaaaaa").await;
        let tables = open("bbbbbbbbbbbb").await;
        assert!(tables.is_switching());
        assert_eq!(tables.serving().embedder.is_none(), tables.old_problem().is_some());
        let problem = tables.old_problem();
        tables.switch().await.unwrap();
        assert_eq!(tables.old_problem(), None);
        problem
    }

    // Case B13
    #[tokio::test]
    async fn old_table_uses_its_own_model_only() {
        assert_eq!(old_table_with(Ok("aaaaaaaaaaaa")).await, None);
        assert!(old_table_with(Ok("cccccccccccc")).await.unwrap().contains("another model"));
    }

    #[tokio::test]
    async fn missing_old_model_is_reported_with_hint_until_switch() {
        let missing = Error::not_found("a file of `m` is missing").hint("run `vic models pull m`");
        let told = old_table_with(Err(missing)).await.unwrap();
        assert!(told.contains("a file of `m` is missing") && told.contains("vic models pull m"), "{told}");
    }
}
