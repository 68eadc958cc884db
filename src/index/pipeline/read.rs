//! Second stage of the pipeline: opens, hashes, extracts and chunks files concurrently.

use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::catalog::{Catalog, MAX_STRIKES, RequeueScope, WITHOUT_TEXT_LAYER};
use crate::error::{Error, Result};
use crate::extract::{self, ReadObserver};
use crate::files::{OpenProblem, unresponsive};
use crate::index::blocking_tasks::blocking;
use crate::index::evidence_chunks;
use crate::index::ocr::cached_text::{self, OcrState};
use crate::index::ocr::merge;
use crate::index::paths::{StatBefore, blocking_at_file};
use crate::index::pipeline::context::{Pipeline, Run};
use crate::model::{
    Chunk, ContentHash, Contents, Document, ExtractFailure, FileId, FileKind, FileRecord, OcrMode, Reason,
};
use crate::{files, machine};

/// An attempt that takes longer than this is recorded on disk at once, because the worker may hang: nearly all files take
/// less than a tenth of this time.
const SUSPECT_AFTER: Duration = Duration::from_secs(5);

/// Facts about a file that are known after it was read.
#[derive(Clone, Debug)]
pub(crate) struct FileFacts {
    pub(crate) hash: ContentHash,
    pub(crate) kind: FileKind,
    pub(crate) media_type: String,
    /// Note for the catalog about what was truncated or unreadable. Empty if the file was read in full.
    pub(crate) detail: String,
    /// Counts and properties of the document.
    pub(crate) contents: Contents,
}

/// A file after the read stage.
#[derive(Debug)]
pub(crate) struct ReadFile {
    pub(crate) record: FileRecord,
    pub(crate) outcome: ReadOutcome,
    /// Permits for this file's text in the text budget, released when the file is in the store.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// Result of reading a file.
#[derive(Debug)]
pub(crate) enum ReadOutcome {
    /// Chunks to embed.
    Chunks(FileFacts, Vec<Chunk>),
    /// The store already holds this content, under the file with this id.
    SameAs(FileFacts, FileId),
    /// There is nothing to store, for this reason and with this detail.
    Without(Option<FileFacts>, Reason, String),
}

/// Limits the text of one run that is between the read stage and the store.
pub(crate) struct TextBudget {
    permits: Arc<Semaphore>,
    kib: usize,
}

impl TextBudget {
    /// Creates a budget for `kib` KiB of text.
    pub(crate) fn new(kib: usize) -> TextBudget {
        TextBudget { permits: Arc::new(Semaphore::new(kib)), kib }
    }

    /// Waits for and reserves budget for the text of a file. A file larger than the whole budget takes all of it and is
    /// processed alone.
    pub(crate) async fn reserve(&self, chunks: &[Chunk]) -> OwnedSemaphorePermit {
        let kib = chunks.iter().map(|it| it.text.len()).sum::<usize>() / 1024 + 1;
        let kib = kib.min(self.kib) as u32;
        Arc::clone(&self.permits).acquire_many_owned(kib).await.expect("the budget is never closed")
    }
}

/// Reads files as they arrive, [`Pipeline::readers`] at a time. The results are in no fixed order.
pub(crate) async fn read(
    pipeline: &Pipeline,
    run: &Run,
    text_budget: TextBudget,
    files: mpsc::Receiver<FileRecord>,
    to_embed: mpsc::Sender<ReadFile>,
) -> Result<()> {
    let mut read = ReceiverStream::new(files)
        .take_until(Box::pin(run.cancel.cancelled()))
        .map(|record| read_one(pipeline, run, &text_budget, record))
        .buffer_unordered(pipeline.readers);
    while let Some(file) = read.next().await {
        if let Some(file) = file?
            && to_embed.send(file).await.is_err()
        {
            break;
        }
    }
    Ok(())
}

/// Reads one file. Returns `None` if the file is missing at its path or left to a later run.
async fn read_one(pipeline: &Pipeline, run: &Run, budget: &TextBudget, record: FileRecord) -> Result<Option<ReadFile>> {
    // Checks again whether the file is deferred: another one of its folder and extension may have timed out while it
    // was queued. An urgent run leaves only files of slow groups to the background run.
    let waits = if run.urgent { run.deferral.is_slow(&record) } else { run.deferral.should_defer(&record) };
    if waits {
        return leave_pending(pipeline, run, &record).await;
    }
    tokio::select! {
        () = pipeline.pause.wait_until_open() => (),
        () = run.cancel.cancelled() => {
            run.progress.remove_expected(1);
            return Ok(None);
        }
    }
    let begun = Instant::now();
    let outcome = read_content(pipeline, run, &record).await?;
    let (processors, took) = (machine::budget(), begun.elapsed());
    run.rest(if run.urgent { processors.spend(took) } else { processors.spend_background(took) }).await;
    let Some(outcome) = outcome else {
        run.note_vanished(&record);
        return leave_pending(pipeline, run, &record).await;
    };
    let permit = match &outcome {
        ReadOutcome::Chunks(_, chunks) => Some(budget.reserve(chunks).await),
        ReadOutcome::SameAs(..) | ReadOutcome::Without(..) => None,
    };
    Ok(Some(ReadFile { record, outcome, permit }))
}

/// Leaves a file to a later run: requeues it and takes back its attempt.
async fn leave_pending(pipeline: &Pipeline, run: &Run, record: &FileRecord) -> Result<Option<ReadFile>> {
    let (catalog, id) = (pipeline.catalog.clone(), record.id);
    blocking(move || catalog.requeue(&RequeueScope::Ids(vec![id]))).await?;
    run.progress.remove_expected(1);
    Ok(None)
}

async fn read_content(pipeline: &Pipeline, run: &Run, record: &FileRecord) -> Result<Option<ReadOutcome>> {
    match open_and_look_up(pipeline, run, record).await? {
        Ok(opened) => read_open(pipeline, run, record, opened).await,
        Err(OpenProblem::Gone) => Ok(None),
        Err(OpenProblem::Bad(failure)) => Ok(Some(ReadOutcome::Without(None, failure.reason, failure.detail))),
    }
}

/// Extracts and chunks an open file. Returns `None` if the disk stopped responding: the result then says nothing about
/// the file.
async fn read_open(pipeline: &Pipeline, run: &Run, record: &FileRecord, opened: Opened) -> Result<Option<ReadOutcome>> {
    let Opened { file, before, hash, same } = opened;
    let is_seen = pipeline.ocr_queue.take_changed(record.id);
    let name = record.found.path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let (media_type, detail, contents) = (String::new(), String::new(), Contents::default());
    let mut facts = FileFacts { hash, kind: extract::kind_of_name(&name), media_type, detail, contents };
    if let Some((known, contents)) = same {
        facts.contents = contents;
        facts.kind = known.kind;
        facts.media_type = known.media_type;
        facts.detail = known.detail;
        return Ok(Some(ReadOutcome::SameAs(facts, known.id)));
    }
    let extracted = extract(pipeline, record, file, &name).await?;
    // Compares size and modification time with those from before the read.
    let is_as_it_was = before.check_unchanged(record).await?;
    let Some(is_as_it_was) = is_as_it_was.filter(|_| !unresponsive::is_unresponsive(&record.absolute())) else {
        return Ok(None);
    };
    if !is_as_it_was {
        facts.hash = torn_read_hash(hash, record.id);
    }
    let hash = facts.hash;
    let mut document = match extracted {
        Ok(document) => document,
        Err(failure) => {
            run.deferral.note_failure(record, &failure);
            return Ok(Some(ReadOutcome::Without(Some(facts), failure.reason, failure.detail)));
        }
    };
    facts.kind = extract::kind_of_media_type(&document.media_type);
    facts.media_type.clone_from(&document.media_type);
    facts.contents = Contents::from_document(&document);
    let askers = pipeline
        .ocr_queue
        .requesters((&run.progress.job_id(), run.ocr), is_seen, |mode| merge::needs_ocr(mode, facts.kind, &document));
    let read_pictures = merge_or_queue_ocr(pipeline, run, (record, &askers), &facts, &mut document).await?;
    facts.detail = read_pictures.into_iter().chain(describe(&document)).collect::<Vec<_>>().join("; ");
    let (chunker, evidence) = (Arc::clone(&pipeline.workers.chunker), pipeline.caches.evidence.clone());
    let chunks = blocking(move || {
        let mut chunks = chunker.chunk(&document, &hash);
        chunks.extend(evidence_chunks::cached_chunks(&evidence, &chunker, &hash));
        Ok(chunks)
    })
    .await?;
    if chunks.is_empty() {
        let detail = std::mem::take(&mut facts.detail);
        return Ok(Some(ReadOutcome::Without(Some(facts), Reason::NoText, detail)));
    }
    Ok(Some(ReadOutcome::Chunks(facts, chunks)))
}

/// Extracts the text of a file in a worker. An attempt that kills its worker or takes suspiciously long is recorded on
/// disk at once, so that it counts even if vic dies before the call returns.
async fn extract(
    pipeline: &Pipeline,
    record: &FileRecord,
    file: File,
    name: &str,
) -> Result<Result<Document, ExtractFailure>> {
    let tries = AttemptRecorder::new(&pipeline.catalog, record);
    let patience = SUSPECT_AFTER.min(pipeline.workers.pool.time_limit() / 2);
    let read = pipeline.workers.pool.extract_observed(file, name, &tries);
    tokio::pin!(read);
    let extracted = loop {
        let lasts = async {
            tries.started.notified().await;
            tokio::time::sleep(patience).await;
        };
        tokio::select! {
            biased;
            it = &mut read => break it,
            () = lasts => {
                tries.record_attempts().await?;
            }
        }
    };
    if let Some(problem) = tries.problem.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(problem);
    }
    if extracted.as_ref().is_err_and(|it| it.reason.killed_worker()) {
        tries.record_attempts().await?;
    }
    Ok(extracted)
}

/// Counts the attempts of workers to read one file and records them in the catalog.
struct AttemptRecorder {
    catalog: Catalog,
    id: FileId,
    path: PathBuf,
    started: Notify,
    runs: AtomicU32,
    /// Number of attempts already recorded.
    recorded: AtomicU32,
    /// Error of a failed write to the catalog.
    problem: Mutex<Option<Error>>,
}

impl AttemptRecorder {
    fn new(catalog: &Catalog, record: &FileRecord) -> AttemptRecorder {
        let (id, path) = (record.id, record.absolute());
        let (runs, recorded) = (AtomicU32::new(0), AtomicU32::new(0));
        AttemptRecorder {
            catalog: catalog.clone(),
            id,
            path,
            started: Notify::new(),
            runs,
            recorded,
            problem: Mutex::default(),
        }
    }

    /// Records all attempts so far and returns their total for this file, including earlier runs of vic. An attempt on
    /// a disk that does not respond is not recorded and, for now, not repeated.
    async fn record_attempts(&self) -> Result<u32> {
        if unresponsive::is_unresponsive(&self.path) {
            return Ok(MAX_STRIKES);
        }
        let runs = self.runs.load(Ordering::Relaxed);
        let times = runs - self.recorded.swap(runs, Ordering::Relaxed);
        let (catalog, id) = (self.catalog.clone(), self.id);
        blocking(move || catalog.add_strikes(id, times)).await
    }
}

#[async_trait::async_trait]
impl ReadObserver for AttemptRecorder {
    fn attempt_started(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.started.notify_one();
    }

    async fn may_retry(&self) -> bool {
        match self.record_attempts().await {
            Ok(strikes) => strikes < MAX_STRIKES,
            Err(problem) => {
                *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
                false
            }
        }
    }
}

/// Merges cached OCR text into the document, or queues the file for OCR on behalf of the job and the watcher, whichever
/// requested it. Returns a note for the catalog about the merged text.
async fn merge_or_queue_ocr(
    pipeline: &Pipeline,
    run: &Run,
    (record, askers): (&FileRecord, &[(String, bool)]),
    facts: &FileFacts,
    document: &mut Document,
) -> Result<Option<String>> {
    let push = || askers.iter().for_each(|(by, every)| pipeline.ocr_queue.push(by, record.id, *every));
    let (cache, hash, mode) = (pipeline.caches.evidence.clone(), facts.hash, run.ocr);
    if !merge::needs_ocr(mode, facts.kind, document) {
        // Queues the file for the watcher, which may request OCR even if this run does not. Text that an earlier OCR
        // of every page has found is merged below, so that it stays in the index.
        push();
        if merge::needs_ocr(OcrMode::Always, facts.kind, document) {
            let known = blocking(move || Ok(cached_text::cached_state(&cache, hash, OcrMode::Auto))).await?;
            return Ok(merge::merge_unrequested_ocr(document, facts.kind, known));
        }
        return Ok(None);
    }
    match blocking(move || Ok(cached_text::cached_state(&cache, hash, mode))).await? {
        OcrState::Read(read) => Ok(merge::merge_ocr(document, read)),
        OcrState::Partial(read) => {
            // Queues the file for its remaining pages, unless the OCR queue already holds it.
            if !pipeline.ocr_queue.contains(record.id) {
                askers.iter().for_each(|(by, every)| pipeline.ocr_queue.push_later(by, record.id, *every));
            }
            Ok(merge::merge_ocr(document, read))
        }
        OcrState::GivenUp(why) => {
            document.problems.push(why);
            Ok(None)
        }
        OcrState::Unread => {
            push();
            Ok(None)
        }
    }
}

/// An open file with its content hash and, if there is one, an indexed file with the same content.
struct Opened {
    file: File,
    /// Size and modification time before hashing.
    before: StatBefore,
    hash: ContentHash,
    same: Option<(FileRecord, Contents)>,
}

/// Opens the file below its root, hashes it through the descriptor that the worker will read, and looks up indexed
/// files with the same content. All of this is one blocking task, because for a small file the switches of threads cost
/// more than the work.
///
/// A file on a disk that does not respond counts as missing, so that other files do not wait for it.
async fn open_and_look_up(pipeline: &Pipeline, run: &Run, record: &FileRecord) -> Result<Result<Opened, OpenProblem>> {
    let (root, path, extension) = (record.root.clone(), record.found.path.clone(), record.extension.clone());
    let known = (!run.full).then(|| pipeline.catalog.clone());
    let opened = blocking_at_file(record, move || {
        let (file, before, hash) = match open_and_hash(&root, &path) {
            Ok(opened) => opened,
            Err(problem) => return Ok(Err(problem)),
        };
        let same = match known {
            Some(catalog) => same_content(&catalog, hash, &extension)?,
            None => None,
        };
        Ok(Ok(Opened { file, before, hash, same }))
    });
    Ok(opened.await?.unwrap_or(Err(OpenProblem::Gone)))
}

/// Returns a hash, unique to this file, for a file that was written to while it was read. The text that was read may mix
/// old and new content, so no other file may copy it, and no later content may count as equal to it. The event of the
/// write requeues the file.
fn torn_read_hash(hash: ContentHash, id: FileId) -> ContentHash {
    let told = [hash.0.as_slice(), &id.to_le_bytes(), b"written to while it was read"].concat();
    ContentHash(*blake3::hash(&told).as_bytes())
}

fn open_and_hash(root: &Path, path: &Path) -> Result<(File, StatBefore, ContentHash), OpenProblem> {
    let file = files::open_beneath(root, path)?;
    let before = StatBefore::new(&file);
    let unreadable = |error: std::io::Error| {
        let reason = if error.kind() == ErrorKind::FileTooLarge { Reason::TooLarge } else { Reason::Io };
        OpenProblem::Bad(ExtractFailure { reason, detail: error.to_string() })
    };
    let hash = files::hash(&file).map_err(unreadable)?;
    Ok((file, before, hash))
}

/// Returns an indexed file with this content and this extension, and its contents. The extension must be the same,
/// because it may select another file reader.
fn same_content(catalog: &Catalog, hash: ContentHash, extension: &str) -> Result<Option<(FileRecord, Contents)>> {
    let Some(id) = catalog.same_content(hash)? else { return Ok(None) };
    let Some(record) = catalog.records(&[id])?.pop().filter(|it| it.extension == extension) else { return Ok(None) };
    Ok(Some((record, catalog.inner_contents(&[id])?.remove(&id).unwrap_or_default())))
}

/// Returns a note for the catalog about what in the document was truncated, was unreadable or needs OCR.
fn describe(document: &Document) -> Option<String> {
    let mut parts = Vec::new();
    if document.truncated {
        parts.push("text truncated at the size limit".to_string());
    }
    if !document.pages_without_text.is_empty() {
        parts.push(format!("{} pages {WITHOUT_TEXT_LAYER}", document.pages_without_text.len()));
    }
    parts.extend(document.problems.first().cloned());
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Cases A10, C14
    #[test]
    fn modified_while_read_hash_is_unique_per_file() {
        let hash = ContentHash([7; 32]);
        assert_eq!(torn_read_hash(hash, 1), torn_read_hash(hash, 1));
        assert!(torn_read_hash(hash, 1) != torn_read_hash(hash, 2) && torn_read_hash(hash, 1) != hash);
    }
}
