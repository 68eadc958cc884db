//! Which table answers and which one is being built.
//!
//! Vectors of different models are never compared, so each model has a table of its own. Normally one table does both.
//! After a change of model the old one goes on answering, with its own embedder, until every file is in the new one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use crate::catalog::{Catalog, RequeueScope};
use crate::embed::Embedder;
use crate::error::{Error, Result};
use crate::model::{ChunkId, FileChunks, FileId, StoredChunk};
use crate::store::{LanceStore, Store, StoreStats};

/// Rows outside the keyword index that a job may leave to its next commit, at least: scanned in some ten milliseconds.
const CATCH_UP_ROWS: u64 = 10_000;
/// The same at most. Measured on a busy machine: with 225,000 such rows of a million a question took seven seconds.
const MOST_UNINDEXED_ROWS: u64 = 30_000;
/// The same while somebody asks. A question opens the file of every commit that has such rows, and those of single files that
/// were saved are commits of their own: 350 of them make it some 3 ms longer.
pub(crate) const ATTENDED_ROWS: u64 = 20;
/// Fragments that a job may leave to its next commit while somebody asks.
const MOST_FRAGMENTS: u64 = 100;

/// Catalog key of the fingerprint whose table answers.
const SERVING: &str = "serving_fingerprint";
/// Catalog key of the dimension of that table.
const SERVING_DIMENSION: &str = "serving_dimension";
/// Catalog key of the embedding settings (JSON) of that table, to open its embedder again.
const SERVING_MODEL: &str = "serving_model";
/// Catalog key of the fingerprint whose table is being built beside it.
const BUILDING: &str = "building_fingerprint";

/// Returns fingerprint and dimension of the table that answers; None before there is one.
///
/// # Errors
/// The catalog cannot be read.
pub fn serving_table(catalog: &Catalog) -> Result<Option<(String, usize)>> {
    let dimension = catalog.meta_get(SERVING_DIMENSION)?.and_then(|it| it.parse().ok());
    Ok(catalog.meta_get(SERVING)?.zip(dimension))
}

/// Says whether another model's table is being built beside the one that answers: what the catalog says of files is true of
/// that one then.
///
/// # Errors
/// The catalog cannot be read.
pub fn is_building(catalog: &Catalog) -> Result<bool> {
    let building = catalog.meta_get(BUILDING)?.filter(|it| !it.is_empty());
    Ok(building.is_some() && building != catalog.meta_get(SERVING)?)
}

/// A table and the embedder of its vectors.
#[derive(Clone)]
pub struct Served {
    /// The table.
    pub store: Arc<dyn Store>,
    /// Makes vectors of questions. None when the model of an old table cannot be loaded any more: then only the keyword
    /// leg answers until the new table is complete.
    pub embedder: Option<Arc<dyn Embedder>>,
}

/// The two roles, shared by everybody.
pub(crate) struct Tables {
    catalog: Catalog,
    directory: std::path::PathBuf,
    target: Arc<LanceStore>,
    embedder: Arc<dyn Embedder>,
    model: String,
    serving: RwLock<Served>,
    /// The table that answers while `target` is being built.
    old: RwLock<Option<Old>>,
}

#[derive(Clone)]
struct Old {
    store: Arc<LanceStore>,
    fingerprint: String,
    /// Why it has no embedder.
    problem: Option<String>,
}

impl Tables {
    /// Opens the table of `embedder`, and beside it the one that answered before if that is another.
    ///
    /// `model` is a text from which `open_old` can open the embedder of an old table again.
    pub(crate) async fn open<F>(
        catalog: &Catalog,
        directory: &Path,
        embedder: Arc<dyn Embedder>,
        model: String,
        open_old: F,
    ) -> Result<Tables>
    where
        F: AsyncFnOnce(&str) -> Result<Arc<dyn Embedder>>,
    {
        let fingerprint = embedder.fingerprint().to_string();
        let target = Arc::new(LanceStore::open(directory, &fingerprint, embedder.dimension()).await?);
        if target.has_lost() {
            // What the catalog says of these files may be true of rows that are gone.
            catalog.requeue(&RequeueScope::All)?;
            target.accept_loss().await?;
        }
        let mut serving = Served { store: target.clone(), embedder: Some(embedder.clone()) };
        let mut old = None;
        match catalog.meta_get(SERVING)? {
            Some(before) if before != fingerprint => {
                let dimension = catalog.meta_get(SERVING_DIMENSION)?.and_then(|it| it.parse().ok());
                let dimension = dimension.unwrap_or(embedder.dimension());
                let store = Arc::new(LanceStore::open(directory, &before, dimension).await?);
                let old_model = catalog.meta_get(SERVING_MODEL)?.unwrap_or_default();
                let (embedder, problem) = of_the_model(open_old(&old_model).await, &before);
                serving = Served { store: store.clone(), embedder };
                old = Some(Old { store, fingerprint: before, problem });
                if catalog.meta_get(BUILDING)?.as_deref() != Some(&fingerprint) {
                    catalog.requeue(&RequeueScope::All)?;
                    catalog.meta_set(BUILDING, &fingerprint)?;
                }
            }
            Some(_) => abandon_building(catalog)?,
            None => answers_from_now_on(catalog, &fingerprint, embedder.dimension(), &model)?,
        }
        let kept = [Some(&fingerprint), old.as_ref().map(|it: &Old| &it.fingerprint)];
        drop_others(directory, &kept.into_iter().flatten().collect::<Vec<_>>()).await;
        Ok(Tables {
            catalog: catalog.clone(),
            directory: directory.to_path_buf(),
            target,
            embedder,
            model,
            serving: RwLock::new(serving),
            old: RwLock::new(old),
        })
    }

    /// Returns the table that answers.
    pub(crate) fn serving(&self) -> Served {
        self.serving.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the table to write to.
    pub(crate) fn writing(&self) -> Table {
        Table { target: self.target.clone(), old: self.old().map(|it| it.store) }
    }

    /// Returns what of the tables was damaged at start, under its new names.
    pub(crate) fn set_aside(&self) -> Vec<std::path::PathBuf> {
        let old = self.old().map(|it| it.store);
        let both = [Some(self.target.clone()), old];
        both.into_iter().flatten().flat_map(|it| it.set_aside().to_vec()).collect()
    }

    /// Says whether another model's table still answers.
    pub(crate) fn is_switching(&self) -> bool {
        self.old().is_some()
    }

    /// Returns why another model's table that answers is asked for words alone, if it is.
    pub(crate) fn old_problem(&self) -> Option<String> {
        self.old()?.problem
    }

    /// Lets the new table answer, and drops the old one. Called when no file is pending.
    pub(crate) async fn switch(&self) -> Result<()> {
        let Some(old) = self.old() else { return Ok(()) };
        answers_from_now_on(&self.catalog, self.embedder.fingerprint(), self.embedder.dimension(), &self.model)?;
        *self.serving.write().unwrap_or_else(PoisonError::into_inner) =
            Served { store: self.target.clone(), embedder: Some(self.embedder.clone()) };
        *self.old.write().unwrap_or_else(PoisonError::into_inner) = None;
        LanceStore::drop_table(&self.directory, &LanceStore::table_of(&old.fingerprint)).await
    }

    fn old(&self) -> Option<Old> {
        self.old.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The embedder of a table, or why it has none. A server may have another model under that name by now: its vectors would mean
/// nothing here.
fn of_the_model(opened: Result<Arc<dyn Embedder>>, fingerprint: &str) -> (Option<Arc<dyn Embedder>>, Option<String>) {
    let problem = match opened {
        Ok(embedder) if embedder.fingerprint() == fingerprint => return (Some(embedder), None),
        Ok(_) => "another model has its name by now".to_string(),
        Err(Error { message, hint: Some(cure), .. }) => format!("{message}; {cure}, and start the daemon again"),
        Err(Error { message, .. }) => message,
    };
    tracing::warn!("the model of the index that answers cannot be loaded: {problem}");
    (None, Some(problem))
}

/// Back at the model that answers while another was being built: files that changed meanwhile went to the other table
/// only, so every file is looked at again. The vector cache makes that cheap.
fn abandon_building(catalog: &Catalog) -> Result<()> {
    if catalog.meta_get(BUILDING)?.is_none_or(|it| it.is_empty()) {
        return Ok(());
    }
    catalog.requeue(&RequeueScope::All)?;
    catalog.meta_set(BUILDING, "")
}

/// Removes the tables of models that neither answer nor are being built: nobody asks them, and nothing that is purged would
/// leave them. Whatever else lies there is not vic's.
async fn drop_others(directory: &Path, kept: &[&String]) {
    let kept: Vec<String> = kept.iter().map(|it| LanceStore::table_of(it)).collect();
    let dropped = async {
        let mut tables = LanceStore::tables(directory).await?;
        tables.retain(|it| LanceStore::is_of_a_model(it) && !kept.contains(it));
        for table in tables {
            tracing::info!(table, "the index of a model that is not used any more goes");
            LanceStore::drop_table(directory, &table).await?;
        }
        Ok::<_, crate::error::Error>(())
    };
    if let Err(error) = dropped.await {
        tracing::warn!(%error, "the index of a model that is not used any more could not be removed; the next start tries again");
    }
}

/// Notes which table answers, and that none is being built: all at once, as half of it would be true of no table.
fn answers_from_now_on(catalog: &Catalog, fingerprint: &str, dimension: usize, model: &str) -> Result<()> {
    catalog.meta_set_all(&[
        (SERVING_DIMENSION, &dimension.to_string()),
        (SERVING_MODEL, model),
        (SERVING, fingerprint),
        (BUILDING, ""),
    ])
}

/// The writing end: everything goes to the table of the present model; what is deleted leaves the old one too.
#[derive(Clone)]
pub(crate) struct Table {
    target: Arc<LanceStore>,
    old: Option<Arc<LanceStore>>,
}

impl Table {
    /// Replaces the chunks of these files.
    pub(crate) async fn replace(&self, files: Vec<FileChunks>) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        self.target.replace(files).await
    }

    /// Replaces the chunks of a file whose ordinals lie in that range; returns how many chunks the file has then.
    pub(crate) async fn replace_part(&self, file: FileChunks, ordinals: std::ops::Range<u32>) -> Result<u64> {
        self.target.replace_part(file, ordinals).await
    }

    /// Says whether all of these chunks of a file are there.
    pub(crate) async fn holds(&self, file: FileId, chunks: &[ChunkId]) -> Result<bool> {
        let ids: Vec<(FileId, ChunkId)> = chunks.iter().map(|it| (file, it.clone())).collect();
        Ok(self.target.chunks(&ids).await?.len() == ids.len())
    }

    /// Copies the chunks of files to others with the same content; returns how many each has.
    pub(crate) async fn copy(&self, copies: &[(FileId, FileId)]) -> Result<Vec<u64>> {
        if copies.is_empty() {
            return Ok(Vec::new());
        }
        self.target.copy(copies).await
    }

    /// Says whether chunks may be there for a while without their vectors. Not while another model's table answers: this one
    /// is to be whole when it takes over. Nor in one that is too large for memory, whose approximate index is made of what
    /// vectors there are.
    pub(crate) fn may_wait_for_vectors(&self) -> bool {
        self.old.is_none() && self.target.compares_in_memory()
    }

    /// Number of chunks that the table has.
    pub(crate) fn chunk_count(&self) -> u64 {
        self.target.chunk_count()
    }

    /// Says whether the table has chunks of a file.
    pub(crate) fn knows(&self, file: FileId) -> bool {
        self.target.has(file)
    }

    /// Returns all chunks of these files, in no order.
    pub(crate) async fn chunks_of(&self, files: Vec<FileId>) -> Result<Vec<StoredChunk>> {
        self.target.chunks_of(files).await
    }

    /// Deletes the chunks of these files everywhere.
    pub(crate) async fn clear(&self, files: &[FileId]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        if let Some(old) = &self.old {
            old.delete(files).await?;
        }
        self.target.delete(files).await
    }

    /// Files of which a vector was damaged when the table was opened.
    pub(crate) fn damaged(&self) -> &BTreeSet<FileId> {
        self.target.damaged()
    }

    /// Returns how many chunks each file has.
    pub(crate) fn rows_by_file(&self) -> BTreeMap<FileId, u64> {
        self.target.rows_by_file()
    }

    /// Returns the number of versions that are kept.
    pub(crate) fn version_count(&self) -> Result<u64> {
        self.target.version_count()
    }

    /// Returns counts and sizes.
    pub(crate) async fn stats(&self) -> Result<StoreStats> {
        self.target.stats().await
    }

    /// Brings the indexes up to date when a job has outrun them by a good part of the table. What they do not cover is
    /// scanned for every question, and a job may take hours.
    ///
    /// Where somebody asks meanwhile, the words of what is new are indexed after almost every commit, which takes a tenth of
    /// a second; the rest of upkeep waits until there are many fragments.
    pub(crate) async fn catch_up(&self) {
        let outcome = match self.stats().await {
            Ok(stats) if stats.unindexed_rows > (stats.chunks / 4).clamp(CATCH_UP_ROWS, MOST_UNINDEXED_ROWS) => {
                self.upkeep().await
            }
            Ok(stats) if stats.unindexed_rows > ATTENDED_ROWS && self.target.is_asked() => match stats.fragments {
                0..=MOST_FRAGMENTS => self.target.cover_words().await,
                _ => self.upkeep().await,
            },
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            tracing::warn!(%error, "upkeep of the index failed; it is tried again when the job ends");
        }
    }

    /// Reads what every question needs into memory.
    pub(crate) async fn warm(&self) {
        let answers = self.old.as_ref().unwrap_or(&self.target);
        if let Err(error) = answers.warm().await {
            tracing::warn!(%error, "the first questions will be slow");
        }
    }

    /// Rewrites whatever holds deleted rows, in either table; returns for each the version before which all are to go.
    pub(crate) async fn purge(&self) -> Result<Vec<(Arc<LanceStore>, u64)>> {
        let mut versions = Vec::new();
        for store in self.old.iter().chain([&self.target]) {
            versions.push((store.clone(), store.purge().await?));
        }
        Ok(versions)
    }

    /// Drops the versions before these that nobody reads; says whether all are gone.
    pub(crate) async fn prune_before(&self, versions: &[(Arc<LanceStore>, u64)]) -> Result<bool> {
        let mut are_gone = true;
        for (store, version) in versions {
            are_gone &= store.prune_before(*version).await?;
        }
        Ok(are_gone)
    }

    /// Drops old versions of the table.
    pub(crate) async fn prune(&self) -> Result<()> {
        self.target.prune().await
    }

    /// Says whether somebody asks these days.
    pub(crate) fn is_asked(&self) -> bool {
        self.target.is_asked()
    }

    /// Brings the indexes of the table up to date.
    pub(crate) async fn upkeep(&self) -> Result<()> {
        self.target.upkeep().await
    }

    /// Has the keyword index cover all rows, and does nothing else of upkeep.
    pub(crate) async fn cover_words(&self) -> Result<()> {
        self.target.cover_words().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::tests::Fake;

    /// Opens the tables of a directory for one model after the other; gives what is in it then.
    async fn tables_after(dir: &Path, models: &[&'static str]) -> (Catalog, Vec<String>) {
        let (catalog, index) = (Catalog::open(&dir.join("catalog.sqlite")).unwrap(), dir.join("index"));
        for model in models {
            let old = async |_: &str| Err(Error::not_found("it is not there"));
            drop(Tables::open(&catalog, &index, Arc::new(Fake(model)), "m".into(), old).await.unwrap());
        }
        (catalog, LanceStore::tables(&index).await.unwrap())
    }

    #[tokio::test]
    async fn the_index_of_a_model_that_neither_answers_nor_is_built_goes_and_nothing_else_does() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b, c) = ("aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc");
        assert_eq!(tables_after(dir.path(), &[a, b]).await.1.len(), 2);
        // Of somebody else.
        std::fs::create_dir(dir.path().join("index/mine.lance")).unwrap();
        assert_eq!(tables_after(dir.path(), &[c]).await.1, ["chunks_aaaaaaaaaaaa", "chunks_cccccccccccc", "mine"]);
        assert_eq!(tables_after(dir.path(), &[a]).await.1, ["chunks_aaaaaaaaaaaa", "mine"]);
    }

    #[tokio::test]
    async fn the_index_that_answers_stays_also_where_it_is_noted_as_being_built() {
        let dir = tempfile::tempdir().unwrap();
        let (catalog, _) = tables_after(dir.path(), &["aaaaaaaaaaaa"]).await;
        catalog.meta_set(BUILDING, "aaaaaaaaaaaa").unwrap();
        assert_eq!(tables_after(dir.path(), &["aaaaaaaaaaaa"]).await.1, ["chunks_aaaaaaaaaaaa"]);
        assert_eq!(catalog.meta_get(BUILDING).unwrap().as_deref(), Some(""));
    }

    /// Opens the tables of a directory that was last used with model `aaaaaaaaaaaa`; says whether the old table has an
    /// embedder when its settings now give the model `reopened`, or else why not.
    async fn old_table_with(reopened: Result<&'static str>) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(&dir.path().join("catalog.sqlite")).unwrap();
        let open = async |fingerprint| {
            let path = dir.path().join("index");
            let reopened = reopened.clone();
            let old = async move |_: &str| reopened.map(|it| Arc::new(Fake(it)) as Arc<dyn Embedder>);
            Tables::open(&catalog, &path, Arc::new(Fake(fingerprint)), "m".into(), old).await.unwrap()
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

    #[tokio::test]
    async fn an_old_table_is_asked_with_its_own_model_and_never_with_another_of_that_name() {
        assert_eq!(old_table_with(Ok("aaaaaaaaaaaa")).await, None);
        assert!(old_table_with(Ok("cccccccccccc")).await.unwrap().contains("another model"));
    }

    #[tokio::test]
    async fn why_the_model_of_an_old_table_cannot_be_loaded_is_told_with_the_cure_until_the_new_one_answers() {
        let missing = Error::not_found("a file of `m` is missing").hint("run `vic models pull m`");
        let told = old_table_with(Err(missing)).await.unwrap();
        assert!(told.contains("a file of `m` is missing") && told.contains("vic models pull m"), "{told}");
    }
}
