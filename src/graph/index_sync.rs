//! Keeps the graph up to date with the index. After each catalog commit it extracts the files with a new version again, and
//! removes the nodes and edges of deleted files.
//!
//! It compares the current state of the catalog with the sources of the graph, so no change is missed after a crash or
//! after the catalog was rebuilt. The sync starts with the first question about the graph; in later runs of the daemon it
//! starts as soon as the graph is opened.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::catalog::FileVersion;
use crate::error::Result;
use crate::files::open_beneath;
use crate::graph::context::{GraphInputs, Shared};
use crate::graph::extract::{self, ExtractInput};
use crate::index::maintenance::purge;
use crate::index::{blocking, blocking_at_file};
use crate::machine;
use crate::model::{Document, FileId, FileRecord, FileState, GraphPart, GraphSource, StoredChunk};
use crate::store::FileSet;

/// Key in the settings table of the graph; present once the graph has been used, so that later runs start the sync at once.
pub(super) const USED_KEY: &str = "wanted";
/// Number of files whose nodes and edges are extracted and stored as one batch.
const BATCH_FILES: usize = 64;
/// Minimum time between two comparisons of catalog and graph, because an index job commits many times per second.
const MIN_INTERVAL: Duration = Duration::from_millis(150);
/// Ratio of sleep to work while an index job runs: with 4, the sync works a fifth of the time.
const SLEEP_FACTOR: u32 = 4;
/// Interval at which the snapshot is published during a long sync.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(5);
/// Sleep before the sync tries again after an error, usually a full disk; also the maximum sleep after a success.
const ERROR_BACKOFF: Duration = Duration::from_secs(10);

/// Starts the sync as a task, unless it has been started before.
pub(super) fn start_sync(shared: &Arc<Shared>) {
    if !shared.sync_started.swap(true, std::sync::atomic::Ordering::Relaxed)
        && let Some(reads) = shared.inputs.clone()
    {
        tokio::spawn(run(Arc::downgrade(shared), reads));
    }
}

/// Files and folders that the graph already has: the name of each source, with its path and version.
type StoredSources = HashMap<String, (String, String)>;

async fn run(shared: Weak<Shared>, reads: GraphInputs) {
    let mut changes = reads.catalog.commit_counter();
    let mut known: Option<StoredSources> = None;
    loop {
        changes.borrow_and_update();
        let Some(strong) = shared.upgrade() else { return };
        let shutdown = strong.shutdown.clone();
        let begun = Instant::now();
        let rest = match catch_up(&strong, &reads, &mut known).await {
            Ok(()) => MIN_INTERVAL.max(begun.elapsed() * SLEEP_FACTOR).min(ERROR_BACKOFF),
            Err(error) => {
                tracing::warn!("{error}; the graph is not up to date with the index, trying again");
                known = None;
                ERROR_BACKOFF
            }
        };
        drop(strong);
        let again = async {
            tokio::time::sleep(rest).await;
            changes.changed().await
        };
        tokio::select! {
            it = again => if it.is_err() { return },
            () = shutdown.cancelled() => return,
        }
    }
}

/// The differences between the catalog and the graph, which the sync applies.
#[derive(Default)]
struct Differences {
    changed: Vec<FileVersion>,
    /// New folders, each with the indexed root folder that contains it.
    folders: BTreeMap<PathBuf, PathBuf>,
    removed: Vec<String>,
}

async fn catch_up(shared: &Arc<Shared>, reads: &GraphInputs, known: &mut Option<StoredSources>) -> Result<()> {
    let before = match known.take() {
        Some(known) => known,
        None => stored_sources(shared).await?,
    };
    let catalog = reads.catalog.clone();
    let (purge, work, mut present) = blocking(move || {
        // Reads the last purge (erasure of deleted text from the index) before the file versions, so that these versions no
        // longer contain the files whose text it erased.
        let purge = purge::last_done(&catalog)?;
        Ok((purge, compare(catalog.file_versions()?, &before), before))
    })
    .await?;
    if work.changed.is_empty() && work.removed.is_empty() && work.folders.is_empty() {
        shared.load().await?;
    } else if !apply(shared, reads, work, &mut present).await? {
        return Ok(());
    }
    shared.files_behind.send_replace(0);
    shared.is_complete.send_replace(true);
    if let Some(purge) = purge {
        shared.with_write_lock(move |mut turn| turn.apply_purge(&purge)).await?;
    }
    *known = Some(present);
    Ok(())
}

/// Applies the differences and publishes the result. Returns `false` if the daemon shuts down before everything is applied.
async fn apply(
    shared: &Arc<Shared>,
    reads: &GraphInputs,
    work: Differences,
    present: &mut StoredSources,
) -> Result<bool> {
    shared.files_behind.send_replace(work.changed.len());
    let folders = work.folders.iter().map(|(path, root)| (folder_source(path, root), extract::folder_part(path, root)));
    store_parts(shared, present, work.removed, folders.collect()).await?;
    let mut shown = Instant::now();
    let all = work.changed.len();
    for (number, batch) in work.changed.chunks(BATCH_FILES).enumerate() {
        if shared.shutdown.is_cancelled() {
            return Ok(false);
        }
        let begun = Instant::now();
        let parts = extract_files(reads, batch).await?;
        store_parts(shared, present, Vec::new(), parts).await?;
        if shown.elapsed() > PUBLISH_INTERVAL {
            shared.publish().await?;
            shown = Instant::now();
        }
        shared.files_behind.send_replace(all.saturating_sub((number + 1) * BATCH_FILES));
        // Sleeps longest while an index job runs, because indexing has priority. Sleeps least until the first build is
        // complete, because questions wait for it.
        let (budget, took) = (machine::budget(), begun.elapsed());
        let rest = if !reads.index.running_jobs().is_empty() {
            took * SLEEP_FACTOR
        } else if *shared.is_complete.borrow() {
            budget.spend_background(took)
        } else {
            budget.spend(took)
        };
        tokio::time::sleep(rest).await;
    }
    shared.publish().await?;
    Ok(true)
}

async fn stored_sources(shared: &Arc<Shared>) -> Result<StoredSources> {
    let shared = shared.clone();
    blocking(move || {
        if shared.store.meta_get(USED_KEY)?.is_none() {
            shared.store.meta_set(USED_KEY, "1")?;
        }
        let own = |it: &GraphSource| it.name.starts_with("file:") || it.name.starts_with("folder:");
        let sources = shared.store.sources()?.into_iter().filter(own);
        Ok(sources.map(|it| (it.name, (it.path, it.version))).collect())
    })
    .await
}

async fn store_parts(
    shared: &Arc<Shared>,
    known: &mut StoredSources,
    removed: Vec<String>,
    parts: Vec<(GraphSource, GraphPart)>,
) -> Result<()> {
    if removed.is_empty() && parts.is_empty() {
        return Ok(());
    }
    removed.iter().for_each(|it| drop(known.remove(it)));
    let new = parts.iter().map(|(it, _)| (it.name.clone(), (it.path.clone(), it.version.clone())));
    known.extend(new);
    shared.with_write_lock(move |mut turn| turn.store(&removed, parts)).await
}

/// Compares the files in the catalog with the sources of the graph.
fn compare(versions: Vec<FileVersion>, known: &StoredSources) -> Differences {
    let mut work = Differences::default();
    let mut present: HashMap<String, ()> = HashMap::with_capacity(versions.len());
    let mut folders: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for file in versions {
        let name = extract::file_key(file.id);
        let path = file.path.to_string_lossy();
        let is_known = known.get(&name).is_some_and(|(old, version)| {
            // A file whose content is not extracted yet counts as unchanged: the graph keeps its old content until then.
            *old == path && file.content.as_ref().is_none_or(|it| *version == version_of(it))
        });
        present.insert(name, ());
        let above = file.path.ancestors().skip(1).take_while(|it| it.starts_with(&file.root));
        for folder in above {
            if folders.contains_key(folder) {
                break;
            }
            folders.insert(folder.to_path_buf(), file.root.clone());
        }
        if !is_known {
            work.changed.push(file);
        }
    }
    present.extend(folders.keys().map(|it| (folder_name(it), ())));
    work.removed = known.keys().filter(|it| !present.contains_key(*it)).cloned().collect();
    work.removed.sort_unstable();
    // A known folder counts as new if its root has changed: a new root above the old one gives the old one a parent folder.
    let is_new = |path: &Path, root: &Path| {
        known.get(&folder_name(path)).is_none_or(|(_, version)| *version != root.to_string_lossy())
    };
    work.folders = folders.into_iter().filter(|(path, root)| is_new(path, root)).collect();
    work
}

fn version_of(content: &str) -> String {
    format!("{} {content}", extract::VERSION)
}

fn folder_name(path: &Path) -> String {
    format!("folder:{}", path.display())
}

fn folder_source(path: &Path, root: &Path) -> GraphSource {
    let shown = |it: &Path| it.to_string_lossy().into_owned();
    GraphSource { name: folder_name(path), path: shown(path), version: shown(root) }
}

/// Extracts the graph parts (nodes and edges) of files.
async fn extract_files(reads: &GraphInputs, files: &[FileVersion]) -> Result<Vec<(GraphSource, GraphPart)>> {
    let ids: Vec<FileId> = files.iter().map(|it| it.id).collect();
    let catalog = reads.catalog.clone();
    let wanted = ids.clone();
    let records = blocking(move || catalog.records(&wanted)).await?;
    let mut chunks: HashMap<FileId, Vec<StoredChunk>> = HashMap::new();
    let indexed: Vec<FileId> = records.iter().filter(|it| it.chunks > 0).map(|it| it.id).collect();
    if !indexed.is_empty() {
        let mut take = |stored: StoredChunk| {
            chunks.entry(stored.file_id).or_default().push(stored);
            true
        };
        reads.index.serving().store.scan(&FileSet::Only(Arc::new(indexed)), &mut take).await?;
    }
    let contents: HashMap<FileId, &FileVersion> = files.iter().map(|it| (it.id, it)).collect();
    let mut parts = Vec::with_capacity(records.len());
    for record in records {
        let document = reread_document(reads, &record).await;
        let mut held = chunks.remove(&record.id).unwrap_or_default();
        held.sort_by_key(|it| it.chunk.ordinal);
        // Stores the version that the comparison saw, so that the next comparison detects a change made since then.
        let content = contents.get(&record.id).and_then(|it| it.content.as_deref()).map(version_of);
        let source = GraphSource {
            name: extract::file_key(record.id),
            path: record.absolute().to_string_lossy().into_owned(),
            version: content.unwrap_or_default(),
        };
        let made = blocking(move || {
            Ok(extract::extract_part(&ExtractInput { record: &record, chunks: &held, document: document.as_ref() }))
        });
        parts.push((source, made.await?));
    }
    Ok(parts)
}

/// Extracts the document of a file again. `None` if the graph needs only its passages, or if the file is unreadable.
async fn reread_document(reads: &GraphInputs, record: &FileRecord) -> Option<Document> {
    if record.state != FileState::Indexed || !extract::is_reread(record.kind) {
        return None;
    }
    let (root, path) = (record.root.clone(), record.found.path.clone());
    let name = path.file_name()?.to_string_lossy().into_owned();
    let file = blocking_at_file(record, move || Ok(open_beneath(&root, &path).ok())).await.ok().flatten().flatten()?;
    reads.pool.extract(file, &name).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(id: FileId, path: &str, content: Option<&str>) -> FileVersion {
        FileVersion { id, root: "/w".into(), path: path.into(), content: content.map(String::from) }
    }

    fn known(work: &Differences) -> StoredSources {
        let files = work.changed.iter().map(|it| {
            let version = it.content.as_deref().map(version_of).unwrap_or_default();
            (extract::file_key(it.id), (it.path.to_string_lossy().into_owned(), version))
        });
        let folders = work.folders.keys().map(|it| (folder_name(it), (it.display().to_string(), "/w".to_string())));
        files.chain(folders).collect()
    }

    #[test]
    fn compare_returns_only_differences() {
        let files = vec![file(1, "/w/a/x.md", Some("h1 2")), file(2, "/w/y.md", Some("h2 1"))];
        let first = compare(files.clone(), &StoredSources::new());
        assert_eq!((first.changed.len(), first.folders.len()), (2, 2));
        let known = known(&first);
        let again = compare(files, &known);
        assert!(again.changed.is_empty() && again.removed.is_empty() && again.folders.is_empty());
        // File 1 has moved out of the folder `a`, which is gone; file 2 has a new version that is not extracted yet.
        let now = compare(vec![file(1, "/w/x.md", Some("h1 2")), file(2, "/w/y.md", None)], &known);
        assert_eq!(now.changed.iter().map(|it| it.id).collect::<Vec<_>>(), [1]);
        assert_eq!(now.removed, ["folder:/w/a"]);
        let now = compare(vec![file(2, "/w/y.md", Some("h3 1"))], &known);
        assert_eq!((now.changed.len(), now.removed), (1, vec!["file:1".to_string(), "folder:/w/a".to_string()]));
    }
}
