//! The lane in which pictures of text are read, one file at a time, beside the pipeline.
//!
//! Files wait in [`Pictures`], each with those who want it read: what a job asked for goes when the job is cancelled, and what
//! the watcher saw stays. What comes of it is in [`crate::index::pictures`].

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, READ_BY_OCR, RequeueScope};
use crate::error::{Error, Result};
use crate::extract::{Purpose, SkillJob, Tools, WorkerPool};
use crate::index::pictures::{key, ocr_tools};
use crate::index::pipeline::Run;
use crate::index::progress::Progress;
use crate::index::{Before, Inner, at_file, blocking};
use crate::model::{ContentHash, Document, FileId, FileRecord, FileState, OcrMode, Phase, Reason};
use crate::warehouse;

/// Files that may wait for the lane; what is beyond is found again by the next job.
const MOST_WAITING: usize = 100_000;
/// Files taken from the catalog at a time.
const LISTED_AT_ONCE: usize = 1_000;
/// Files that are read before they are brought into the index together, if that does not take long.
const FILES_TOGETHER: usize = 32;
/// The longest that a file which has been read waits for its neighbours.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often workers at rest are looked for.
const TICK: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(60) };
/// Seconds of one call to the worker. A document of many pages takes several.
const CALL_SECONDS: u32 = 60;
/// Calls for one file at most: some thousand pages.
const MOST_CALLS: usize = 50;
/// The skill that reads pictures.
const SKILL: &str = "ocr_image";

/// Files whose pictures are to be read.
#[derive(Default)]
pub(crate) struct Pictures {
    /// By who wants that (the id of a job, which is empty for the watcher) and number: whether every page is to be read, or
    /// only what has no text.
    waiting: Mutex<BTreeMap<String, BTreeMap<FileId, bool>>>,
    /// Told when there is something to read.
    pub(crate) arrived: Notify,
    /// Whoever holds it reads.
    pub(super) lane: tokio::sync::Mutex<()>,
}

/// A file whose turn it is, with those who want it read and whether all of it.
#[derive(Debug, PartialEq)]
struct Wanted {
    id: FileId,
    by: Vec<(String, bool)>,
}

impl Wanted {
    fn every_page(&self) -> bool {
        self.by.iter().any(|it| it.1)
    }
}

impl Pictures {
    /// Adds a file that this job wants read.
    pub(crate) fn push(&self, job: &str, id: FileId, every_page: bool) {
        let mut waiting = self.waiting();
        if waiting.values().map(BTreeMap::len).sum::<usize>() < MOST_WAITING {
            *waiting.entry(job.to_string()).or_default().entry(id).or_default() |= every_page;
        }
    }

    fn pop(&self) -> Option<Wanted> {
        let mut waiting = self.waiting();
        let id = *waiting.values().filter_map(|it| it.keys().next()).min()?;
        let by = waiting.iter_mut().filter_map(|(job, files)| Some((job.clone(), files.remove(&id)?))).collect();
        waiting.retain(|_, files| !files.is_empty());
        Some(Wanted { id, by })
    }

    /// Adds a file again that was not read after all.
    fn put_back(&self, wanted: Wanted) {
        wanted.by.iter().for_each(|(job, every_page)| self.push(job, wanted.id, *every_page));
    }

    /// Drops what this job wants, and nobody else.
    fn forget(&self, job: &str) {
        self.waiting().remove(job);
    }

    fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    fn clear(&self) {
        self.waiting().clear();
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<FileId, bool>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the files of a job: those below these folders that hold unread pictures.
pub(crate) async fn collect(inner: &Inner, job: &str, folders: &[PathBuf], mode: OcrMode) -> Result<()> {
    let every = mode == OcrMode::Always;
    for folder in folders {
        let mut after = 0;
        loop {
            let (catalog, folder): (Catalog, PathBuf) = (inner.catalog.clone(), folder.clone());
            let page = blocking(move || catalog.pictures(Some(&folder), every, after, LISTED_AT_ONCE)).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            page.iter().for_each(|it| inner.pictures.push(job, it.id, every));
        }
    }
    Ok(())
}

/// Reads what the watcher brings in, for as long as the daemon lives.
pub(crate) async fn follow(inner: Arc<Inner>) {
    loop {
        tokio::select! {
            () = inner.shutdown.cancelled() => return,
            () = inner.pictures.arrived.notified() => (),
        }
        let progress = Arc::new(Progress::new(crate::index::jobs::unnamed()));
        if let Err(error) = read(&inner, inner.config.ocr, &progress, &inner.shutdown.clone()).await {
            tracing::warn!(%error, "cannot index what pictures say");
        }
    }
}

/// Ends workers that have been at rest for long, for as long as the daemon lives. On its own: whoever reads may wait for the
/// end of a pause, with hundreds of MiB of models in memory.
pub(crate) async fn dismiss_rested(inner: Arc<Inner>) {
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            () = inner.shutdown.cancelled() => return,
            _ = ticks.tick() => inner.skills.dismiss_rested(),
        }
    }
}

/// Reads everything that waits, and brings it into the index as it comes. When that is cancelled, what was read for this job
/// alone is dropped.
pub(crate) async fn read(
    inner: &Arc<Inner>,
    mode: OcrMode,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Result<()> {
    if inner.pictures.is_empty() {
        return Ok(());
    }
    let outcome = read_in_turn(inner, mode, progress, cancel).await;
    if cancel.is_cancelled() {
        inner.pictures.forget(&progress.job_id());
        // Nobody may be told again of what others want.
        inner.pictures.arrived.notify_one();
    }
    outcome
}

async fn read_in_turn(
    inner: &Arc<Inner>,
    mode: OcrMode,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Result<()> {
    let Some(_lane) = cancel.run_until_cancelled(inner.pictures.lane.lock()).await else { return Ok(()) };
    let Some(tools) = tools(inner) else { return Ok(()) };
    progress.enter(Phase::Indexing);
    let run = Run { ocr: mode, progress: progress.clone(), ..Run::quiet(cancel.clone()) };
    let mut ready: Vec<Wanted> = Vec::new();
    let mut since = Instant::now();
    while let Some(wanted) = inner.pictures.pop() {
        let read = cancel.run_until_cancelled(async {
            inner.gate.passed().await;
            read_one(inner, &tools, wanted.id, wanted.every_page()).await
        });
        let has_text = match read.await {
            Some(Ok(has_text)) => has_text,
            None => {
                inner.pictures.put_back(wanted);
                break;
            }
            Some(Err(error)) => {
                // Neither it nor what was read before it waits for the next walk.
                inner.pictures.put_back(wanted);
                bring_in(inner, &run, ready).await?;
                return Err(error);
            }
        };
        if has_text {
            if ready.is_empty() {
                since = Instant::now();
            }
            ready.push(wanted);
        }
        if ready.len() >= FILES_TOGETHER || (!ready.is_empty() && since.elapsed() > PATIENCE) {
            bring_in(inner, &run, std::mem::take(&mut ready)).await?;
        }
    }
    bring_in(inner, &run, ready).await
}

/// The models, or a sentence for `vic status` that says how to get them.
fn tools(inner: &Inner) -> Option<Tools> {
    match ocr_tools(&inner.models) {
        Ok(tools) => {
            inner.note("ocr", None);
            Some(tools)
        }
        Err(error) => {
            // The next job finds the files again.
            inner.pictures.clear();
            let cure = error.hint.unwrap_or_else(|| "see `vic models list`".into());
            inner.note("ocr", Some(format!("pictures of text are not read: {}; {cure}", error.message)));
            None
        }
    }
}

/// Makes these files pending and runs the pipeline, which finds their text in the cache. Once that is cancelled, they wait
/// for whoever else wants them.
async fn bring_in(inner: &Arc<Inner>, run: &Run, ready: Vec<Wanted>) -> Result<()> {
    if run.cancel.is_cancelled() {
        ready.into_iter().for_each(|it| inner.pictures.put_back(it));
        return Ok(());
    }
    if ready.is_empty() {
        return Ok(());
    }
    let _engine = inner.engine.lock().await;
    let (catalog, files) = (inner.catalog.clone(), ready.iter().map(|it| it.id).collect());
    blocking(move || catalog.requeue(&RequeueScope::Ids(files))).await?;
    inner.drain(run).await?;
    inner.upkeep_if_due().await;
    Ok(())
}

/// Has one file read unless that was done before. Returns whether there is text to bring in.
async fn read_one(inner: &Inner, tools: &Tools, id: FileId, every: bool) -> Result<bool> {
    let (catalog, cache) = (inner.catalog.clone(), inner.evidence.clone());
    let found = blocking(move || {
        let record = catalog.records(&[id])?.pop().filter(is_read);
        Ok(record.and_then(|it| Some((it.hash?, it))).map(|(hash, it)| (hash, cache.get(&key(hash, every)), it)))
    });
    let Some((hash, known, record)) = found.await? else { return Ok(false) };
    if let Some(known) = known {
        // Found in a copy of it, or before the daemon ended.
        return Ok(!known.blocks.is_empty() && !record.detail.contains(READ_BY_OCR));
    }
    let Some(read) = read_content(&inner.skills, &record, hash, tools, every).await? else { return Ok(false) };
    let has_text = !read.blocks.is_empty();
    let cache = inner.evidence.clone();
    blocking(move || {
        cache.put(&key(hash, every), &read);
        Ok(has_text)
    })
    .await
}

fn is_read(record: &FileRecord) -> bool {
    record.state == FileState::Indexed || record.reason == Some(Reason::NoText)
}

/// Has a file read that holds this content. None where it holds another, before or afterwards: what was read then is of no
/// content that was ever there as a whole, and the write itself has it read again.
async fn read_content(
    pool: &WorkerPool,
    record: &FileRecord,
    hash: ContentHash,
    tools: &Tools,
    every: bool,
) -> Result<Option<Document>> {
    let Some((file, before)) = open(record, hash).await? else { return Ok(None) };
    let name = record.found.path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let read = read_file(pool, &file, &name, tools, every).await?;
    Ok((before.still_holds(record).await? == Some(true)).then_some(read))
}

/// Opens the file if it still holds this; the watcher brings in what it holds else.
async fn open(record: &FileRecord, hash: ContentHash) -> Result<Option<(File, Before)>> {
    let (root, path) = (record.root.clone(), record.found.path.clone());
    let opened = at_file(record, move || {
        let Ok(file) = warehouse::open_beneath(&root, &path) else { return Ok(None) };
        let before = Before::of(&file);
        Ok(warehouse::hash(&file).is_ok_and(|now| now == hash).then_some((file, before)))
    });
    Ok(opened.await?.flatten())
}

/// Calls the worker until no page is left. What it cannot read is a problem of the document.
async fn read_file(pool: &WorkerPool, file: &File, name: &str, tools: &Tools, every: bool) -> Result<Document> {
    let mut whole = Document::default();
    let mut pages = None;
    for call in 0..MOST_CALLS {
        let job = SkillJob {
            skill: SKILL.into(),
            pages: pages.take(),
            seconds: CALL_SECONDS,
            purpose: if every { Purpose::EveryText } else { Purpose::UnreadText },
            tools: tools.clone(),
        };
        let file = file.try_clone().map_err(Error::internal)?;
        match pool.run_skill(file, name, job).await {
            Ok(part) => {
                let left = part.pages_without_text.clone();
                let progressed = call == 0 || left.len() < whole.pages_without_text.len();
                let blocks = std::mem::take(&mut whole.blocks);
                whole = Document { blocks, problems: whole.problems, title: whole.title.or(part.title), ..part };
                whole.blocks.extend(part.blocks);
                whole.problems.extend(part.problems);
                if left.is_empty() || !progressed {
                    break;
                }
                pages = Some(left);
            }
            Err(failure) if failure.reason == Reason::Io => return Err(Error::internal(failure.detail)),
            Err(failure) => {
                whole.problems.push(format!(
                    "its pictures were not read: {} {}",
                    failure.reason.name(),
                    failure.detail
                ));
                break;
            }
        }
    }
    whole.blocks.sort_by_key(|it| it.anchor.page);
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::scripted;
    use crate::model::FileKind;

    #[test]
    fn a_job_that_is_cancelled_takes_nothing_along_that_somebody_else_wants() {
        let pictures = Pictures::default();
        for (job, id, every_page) in [("", 1, false), ("", 3, false), ("a", 1, true), ("a", 2, true), ("b", 2, false)] {
            pictures.push(job, id, every_page);
        }
        let first = pictures.pop().unwrap();
        assert_eq!((first.id, first.every_page()), (1, true));
        // It is under way when the job is cancelled.
        pictures.put_back(first);
        pictures.forget("a");
        let left: Vec<_> = std::iter::from_fn(|| pictures.pop()).map(|it| (it.id, it.every_page())).collect();
        assert_eq!(left, [(1, false), (2, false), (3, false)]);
        assert!(pictures.is_empty());
    }

    #[tokio::test]
    async fn what_was_read_in_pictures_of_a_file_that_somebody_wrote_to_meanwhile_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = root.join("a.png");
        let read = Document { title: Some("read".into()), ..Document::default() };
        for (does, expected) in
            [(String::new(), Some(read.clone())), (format!("echo more >> {}", path.display()), None)]
        {
            std::fs::write(&path, "a picture").unwrap();
            let hash = warehouse::hash(&File::open(&path).unwrap()).unwrap();
            let record = FileRecord::for_test(&root, "a.png", FileKind::Image, hash);
            let pool = scripted::pool(folder.path(), &does, &Ok(read.clone()));
            let found = read_content(&pool, &record, hash, &Tools::default(), false).await.unwrap();
            assert_eq!(found, expected, "{does}");
        }
    }
}
