//! Syncs the graph with the index. After each catalog commit it re-reads the files with a new version and removes the nodes
//! and edges of deleted files.
//!
//! It compares the present state of the catalog with the sources of the graph, so no change is missed after a crash or a
//! rebuilt catalog. It starts with the first question, and automatically in every later run.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::catalog::FileVersion;
use crate::error::Result;
use crate::files::open_beneath;
use crate::graph::extract::{self, Reading};
use crate::graph::{Reads, Shared};
use crate::index::maintenance::purge;
use crate::index::{at_file, blocking};
use crate::machine;
use crate::model::{Document, FileId, FileRecord, FileState, GraphPart, GraphSource, StoredChunk};
use crate::store::FileSet;

/// Key in the graph's settings table: the graph has been used.
pub(super) const WANTED: &str = "wanted";
/// Files per batch.
const BATCH: usize = 64;
/// Minimum time between two comparisons; a job commits many times a second.
const REST: Duration = Duration::from_millis(150);
/// Sleep after work, as a multiple of the work: during a job the graph takes a fifth of the time.
const SHARE: u32 = 4;
/// How often the snapshot is published during a long sync.
const SHOW_AFTER: Duration = Duration::from_secs(5);
/// Sleep after an error, most often a full disk.
const AFTER_ERROR: Duration = Duration::from_secs(10);

/// Starts the sync, once.
pub(super) fn start(shared: &Arc<Shared>) {
    if !shared.following.swap(true, std::sync::atomic::Ordering::Relaxed)
        && let Some(reads) = shared.reads.clone()
    {
        tokio::spawn(follow(Arc::downgrade(shared), reads));
    }
}

/// Stored sources of files and folders: name to path and version.
type Known = HashMap<String, (String, String)>;

async fn follow(shared: Weak<Shared>, reads: Reads) {
    let mut changes = reads.catalog.changes();
    let mut known: Option<Known> = None;
    loop {
        changes.borrow_and_update();
        let Some(strong) = shared.upgrade() else { return };
        let shutdown = strong.shutdown.clone();
        let begun = Instant::now();
        let rest = match catch_up(&strong, &reads, &mut known).await {
            Ok(()) => REST.max(begun.elapsed() * SHARE).min(AFTER_ERROR),
            Err(error) => {
                tracing::warn!("{error}; the graph is not up to date");
                known = None;
                AFTER_ERROR
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

/// The differences to apply.
#[derive(Default)]
struct Work {
    changed: Vec<FileVersion>,
    /// New folders with their roots.
    folders: BTreeMap<PathBuf, PathBuf>,
    gone: Vec<String>,
}

async fn catch_up(shared: &Arc<Shared>, reads: &Reads, known: &mut Option<Known>) -> Result<()> {
    let before = match known.take() {
        Some(known) => known,
        None => stored(shared).await?,
    };
    let catalog = reads.catalog.clone();
    let (purge, work, mut present) = blocking(move || {
        // Read before the files: all files of that purge are absent from the versions then.
        let purge = purge::last(&catalog)?;
        Ok((purge, compare(catalog.versions()?, &before), before))
    })
    .await?;
    if work.changed.is_empty() && work.gone.is_empty() && work.folders.is_empty() {
        shared.load().await?;
    } else if !bring_in(shared, reads, work, &mut present).await? {
        return Ok(());
    }
    shared.behind.send_replace(0);
    shared.ready.send_replace(true);
    if let Some(purge) = purge {
        shared.in_turn(move |mut turn| turn.follow_purge(&purge)).await?;
    }
    *known = Some(present);
    Ok(())
}

/// Applies the differences and publishes the result; returns false if the daemon shuts down first.
async fn bring_in(shared: &Arc<Shared>, reads: &Reads, work: Work, present: &mut Known) -> Result<bool> {
    shared.behind.send_replace(work.changed.len());
    let folders = work.folders.iter().map(|(path, root)| (folder_source(path, root), extract::folder(path, root)));
    write(shared, present, work.gone, folders.collect()).await?;
    let mut shown = Instant::now();
    let all = work.changed.len();
    for (number, batch) in work.changed.chunks(BATCH).enumerate() {
        if shared.shutdown.is_cancelled() {
            return Ok(false);
        }
        let begun = Instant::now();
        let parts = read(reads, batch).await?;
        write(shared, present, Vec::new(), parts).await?;
        if shown.elapsed() > SHOW_AFTER {
            shared.publish().await?;
            shown = Instant::now();
        }
        shared.behind.send_replace(all.saturating_sub((number + 1) * BATCH));
        // A running job has priority. A question that waits for the first build gets more CPU time.
        let (budget, took) = (machine::budget(), begun.elapsed());
        let rest = if !reads.index.running_jobs().is_empty() {
            took * SHARE
        } else if *shared.ready.borrow() {
            budget.spend_behind(took)
        } else {
            budget.spend(took)
        };
        tokio::time::sleep(rest).await;
    }
    shared.publish().await?;
    Ok(true)
}

async fn stored(shared: &Arc<Shared>) -> Result<Known> {
    let shared = shared.clone();
    blocking(move || {
        if shared.store.meta_get(WANTED)?.is_none() {
            shared.store.meta_set(WANTED, "1")?;
        }
        let own = |it: &GraphSource| it.name.starts_with("file:") || it.name.starts_with("folder:");
        let sources = shared.store.sources()?.into_iter().filter(own);
        Ok(sources.map(|it| (it.name, (it.path, it.version))).collect())
    })
    .await
}

async fn write(
    shared: &Arc<Shared>,
    known: &mut Known,
    gone: Vec<String>,
    parts: Vec<(GraphSource, GraphPart)>,
) -> Result<()> {
    if gone.is_empty() && parts.is_empty() {
        return Ok(());
    }
    gone.iter().for_each(|it| drop(known.remove(it)));
    let new = parts.iter().map(|(it, _)| (it.name.clone(), (it.path.clone(), it.version.clone())));
    known.extend(new);
    shared.in_turn(move |mut turn| turn.store(&gone, parts)).await
}

/// Compares the files of the catalog with the sources of the graph.
fn compare(versions: Vec<FileVersion>, known: &Known) -> Work {
    let mut work = Work::default();
    let mut present: HashMap<String, ()> = HashMap::with_capacity(versions.len());
    let mut folders: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for file in versions {
        let name = extract::file_key(file.id);
        let path = file.path.to_string_lossy();
        let is_known = known.get(&name).is_some_and(|(old, version)| {
            // A file that waits for extraction keeps its old content in the graph until then.
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
    work.gone = known.keys().filter(|it| !present.contains_key(*it)).cloned().collect();
    work.gone.sort_unstable();
    // A new root above another root changes the topmost folders.
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

/// Extracts the graph parts of some files.
async fn read(reads: &Reads, files: &[FileVersion]) -> Result<Vec<(GraphSource, GraphPart)>> {
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
        let document = document(reads, &record).await;
        let mut held = chunks.remove(&record.id).unwrap_or_default();
        held.sort_by_key(|it| it.chunk.ordinal);
        // The version from the comparison: a later change is seen the next time.
        let content = contents.get(&record.id).and_then(|it| it.content.as_deref()).map(version_of);
        let source = GraphSource {
            name: extract::file_key(record.id),
            path: record.absolute().to_string_lossy().into_owned(),
            version: content.unwrap_or_default(),
        };
        let made = blocking(move || {
            Ok(extract::part(&Reading { record: &record, chunks: &held, document: document.as_ref() }))
        });
        parts.push((source, made.await?));
    }
    Ok(parts)
}

/// Re-reads the document of a file when its passages are not enough. Returns `None` if it cannot be read.
async fn document(reads: &Reads, record: &FileRecord) -> Option<Document> {
    if record.state != FileState::Indexed || !extract::is_reread(record.kind) {
        return None;
    }
    let (root, path) = (record.root.clone(), record.found.path.clone());
    let name = path.file_name()?.to_string_lossy().into_owned();
    let file = at_file(record, move || Ok(open_beneath(&root, &path).ok())).await.ok().flatten().flatten()?;
    reads.pool.extract(file, &name).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(id: FileId, path: &str, content: Option<&str>) -> FileVersion {
        FileVersion { id, root: "/w".into(), path: path.into(), content: content.map(String::from) }
    }

    fn known(work: &Work) -> Known {
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
        let first = compare(files.clone(), &Known::new());
        assert_eq!((first.changed.len(), first.folders.len()), (2, 2));
        let known = known(&first);
        let again = compare(files, &known);
        assert!(again.changed.is_empty() && again.gone.is_empty() && again.folders.is_empty());
        // One file is saved and waits, one has moved, and its folder is gone.
        let now = compare(vec![file(1, "/w/x.md", Some("h1 2")), file(2, "/w/y.md", None)], &known);
        assert_eq!(now.changed.iter().map(|it| it.id).collect::<Vec<_>>(), [1]);
        assert_eq!(now.gone, ["folder:/w/a"]);
        let now = compare(vec![file(2, "/w/y.md", Some("h3 1"))], &known);
        assert_eq!((now.changed.len(), now.gone), (1, vec!["file:1".to_string(), "folder:/w/a".to_string()]));
    }
}
