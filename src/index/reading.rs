//! Second stage: open, hash, extract and chunk, several files at a time.

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
use crate::extract::{self, Witness};
use crate::index::looking::{self, Known};
use crate::index::pipeline::{Pipeline, Run};
use crate::index::{Before, at_file, blocking, evidence, pictures};
use crate::machine;
use crate::model::{
    Chunk, ContentHash, Contents, Document, ExtractFailure, FileId, FileKind, FileRecord, OcrMode, Reason,
};
use crate::warehouse::{self, OpenProblem, silence};

/// A reader that is at a file for so long may never end: nearly all files take less than a tenth of it.
const SUSPICIOUS: Duration = Duration::from_secs(5);

/// What was learnt of a file by reading it.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) hash: ContentHash,
    pub(crate) kind: FileKind,
    pub(crate) media_type: String,
    /// Sentence for the catalog: what was cut or could not be read. Empty when all was well.
    pub(crate) detail: String,
    /// What lies in it.
    pub(crate) contents: Contents,
}

/// A file after reading.
#[derive(Debug)]
pub(crate) struct ReadFile {
    pub(crate) record: FileRecord,
    pub(crate) outcome: Outcome,
    /// Share of the memory budget; given back when the file is in the store.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// How reading went.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Text to embed.
    Chunks(Facts, Vec<Chunk>),
    /// Its content is in the store already, under that file.
    SameAs(Facts, FileId),
    /// Nothing to store, and why.
    Without(Option<Facts>, Reason, String),
}

/// Bounds the text between the readers and the store of one run.
pub(crate) struct TextBudget {
    permits: Arc<Semaphore>,
    kib: usize,
}

impl TextBudget {
    /// Lets so much text be in flight.
    pub(crate) fn new(kib: usize) -> TextBudget {
        TextBudget { permits: Arc::new(Semaphore::new(kib)), kib }
    }

    /// Takes this file's share. A file beyond the whole budget takes all of it and goes alone.
    pub(crate) async fn reserve(&self, chunks: &[Chunk]) -> OwnedSemaphorePermit {
        let kib = chunks.iter().map(|it| it.text.len()).sum::<usize>() / 1024 + 1;
        let kib = kib.min(self.kib) as u32;
        Arc::clone(&self.permits).acquire_many_owned(kib).await.expect("the budget is never closed")
    }
}

/// Reads files as they come, [`Pipeline::readers`] at a time, in any order.
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

/// Returns none for a file that is gone from its place.
async fn read_one(pipeline: &Pipeline, run: &Run, budget: &TextBudget, record: FileRecord) -> Result<Option<ReadFile>> {
    // The readers may have learnt that it is slow while it stood in the queue. What overtakes is not tried a second time,
    // and of a slow kind the rest is left to the long run.
    let waits = if run.urgent { run.waiting.is_slow(&record) } else { run.waiting.puts_off(&record) };
    if waits {
        return leave_pending(pipeline, run, &record).await;
    }
    tokio::select! {
        () = pipeline.gate.passed() => (),
        () = run.cancel.cancelled() => {
            run.progress.take_back(1);
            return Ok(None);
        }
    }
    let begun = Instant::now();
    let outcome = read_content(pipeline, run, &record).await?;
    let (processors, took) = (machine::budget(), begun.elapsed());
    run.rest(if run.urgent { processors.spend(took) } else { processors.spend_behind(took) }).await;
    let Some(outcome) = outcome else {
        run.lose(&record);
        return leave_pending(pipeline, run, &record).await;
    };
    let permit = match &outcome {
        Outcome::Chunks(_, chunks) => Some(budget.reserve(chunks).await),
        Outcome::SameAs(..) | Outcome::Without(..) => None,
    };
    Ok(Some(ReadFile { record, outcome, permit }))
}

/// Puts a file back as if it had not been taken.
async fn leave_pending(pipeline: &Pipeline, run: &Run, record: &FileRecord) -> Result<Option<ReadFile>> {
    let (catalog, id) = (pipeline.catalog.clone(), record.id);
    blocking(move || catalog.requeue(&RequeueScope::Ids(vec![id]))).await?;
    run.progress.take_back(1);
    Ok(None)
}

async fn read_content(pipeline: &Pipeline, run: &Run, record: &FileRecord) -> Result<Option<Outcome>> {
    match open(pipeline, run, record).await? {
        Ok(opened) => read_open(pipeline, run, record, opened).await,
        Err(OpenProblem::Gone) => Ok(None),
        Err(OpenProblem::Bad(failure)) => Ok(Some(Outcome::Without(None, failure.reason, failure.detail))),
    }
}

/// Returns none where the disk fell silent meanwhile: how that went says nothing of the file.
async fn read_open(pipeline: &Pipeline, run: &Run, record: &FileRecord, opened: Opened) -> Result<Option<Outcome>> {
    let Opened { file, before, hash, same } = opened;
    let is_seen = pipeline.pictures.take_seen(record.id);
    let name = record.found.path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let (media_type, detail, contents) = (String::new(), String::new(), Contents::default());
    let mut facts = Facts { hash, kind: extract::kind_of_name(&name), media_type, detail, contents };
    if let Some((known, contents)) = same {
        facts.contents = contents;
        facts.kind = known.kind;
        facts.media_type = known.media_type;
        facts.detail = known.detail;
        return Ok(Some(Outcome::SameAs(facts, known.id)));
    }
    let extracted = extract(pipeline, record, file, &name).await?;
    // Asked of the disk, as the first time.
    let is_as_it_was = before.still_holds(record).await?;
    let Some(is_as_it_was) = is_as_it_was.filter(|_| !silence::holds(&record.absolute())) else { return Ok(None) };
    if !is_as_it_was {
        facts.hash = of_no_content(hash, record.id);
    }
    let hash = facts.hash;
    let mut document = match extracted {
        Ok(document) => document,
        Err(failure) => {
            run.waiting.note(record, &failure);
            return Ok(Some(Outcome::Without(Some(facts), failure.reason, failure.detail)));
        }
    };
    facts.kind = extract::kind_of_media_type(&document.media_type);
    facts.media_type.clone_from(&document.media_type);
    facts.contents = Contents::of(&document);
    let askers = pipeline
        .pictures
        .askers((&run.progress.job_id(), run.ocr), is_seen, |mode| pictures::wants(mode, facts.kind, &document));
    let read_pictures = add_pictures(pipeline, run, (record, &askers), &facts, &mut document).await?;
    facts.detail = read_pictures.into_iter().chain(describe(&document)).collect::<Vec<_>>().join("; ");
    let (chunker, evidence) = (Arc::clone(&pipeline.chunker), pipeline.evidence.clone());
    let chunks = blocking(move || {
        let mut chunks = chunker.chunk(&document, &hash);
        chunks.extend(evidence::known(&evidence, &chunker, &hash));
        Ok(chunks)
    })
    .await?;
    if chunks.is_empty() {
        let detail = std::mem::take(&mut facts.detail);
        return Ok(Some(Outcome::Without(Some(facts), Reason::NoText, detail)));
    }
    Ok(Some(Outcome::Chunks(facts, chunks)))
}

/// Has a worker read it. That one died of it, or is at it for longer than files take, is on disk before anything else: should
/// vic end meanwhile, by whatever hand, the file has used up one of its tries all the same.
async fn extract(
    pipeline: &Pipeline,
    record: &FileRecord,
    file: File,
    name: &str,
) -> Result<Result<Document, ExtractFailure>> {
    let tries = Tries::new(&pipeline.catalog, record);
    let patience = SUSPICIOUS.min(pipeline.pool.time_limit() / 2);
    let read = pipeline.pool.extract_told(file, name, &tries);
    tokio::pin!(read);
    let extracted = loop {
        let lasts = async {
            tries.begins.notified().await;
            tokio::time::sleep(patience).await;
        };
        tokio::select! {
            biased;
            it = &mut read => break it,
            () = lasts => {
                tries.strike().await?;
            }
        }
    };
    if let Some(problem) = tries.problem.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(problem);
    }
    if extracted.as_ref().is_err_and(|it| it.reason.ends_its_reader()) {
        tries.strike().await?;
    }
    Ok(extracted)
}

/// The readers that were given a file, and what is on disk of them.
struct Tries {
    catalog: Catalog,
    id: FileId,
    path: PathBuf,
    begins: Notify,
    runs: AtomicU32,
    /// Those that are noted.
    struck: AtomicU32,
    /// Why one could not be noted.
    problem: Mutex<Option<Error>>,
}

impl Tries {
    fn new(catalog: &Catalog, record: &FileRecord) -> Tries {
        let (id, path) = (record.id, record.absolute());
        let (runs, struck) = (AtomicU32::new(0), AtomicU32::new(0));
        Tries { catalog: catalog.clone(), id, path, begins: Notify::new(), runs, struck, problem: Mutex::default() }
    }

    /// Notes every reader so far, and returns how many there were of the file in all runs of vic. One that waits for a disk
    /// that does not answer is not noted, and was the last for now.
    async fn strike(&self) -> Result<u32> {
        if silence::holds(&self.path) {
            return Ok(MAX_STRIKES);
        }
        let runs = self.runs.load(Ordering::Relaxed);
        let times = runs - self.struck.swap(runs, Ordering::Relaxed);
        let (catalog, id) = (self.catalog.clone(), self.id);
        blocking(move || catalog.strike(id, times)).await
    }
}

#[async_trait::async_trait]
impl Witness for Tries {
    fn begins(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.begins.notify_one();
    }

    async fn may_again(&self) -> bool {
        match self.strike().await {
            Ok(strikes) => strikes < MAX_STRIKES,
            Err(problem) => {
                *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
                false
            }
        }
    }
}

/// Adds the text of pictures where it is known, and has it read later, for those who ask for that, where it is not. Returns
/// what was added.
async fn add_pictures(
    pipeline: &Pipeline,
    run: &Run,
    (record, askers): (&FileRecord, &[(String, bool)]),
    facts: &Facts,
    document: &mut Document,
) -> Result<Option<String>> {
    let push = || askers.iter().for_each(|(by, every)| pipeline.pictures.push(by, record.id, *every));
    let (cache, hash, mode) = (pipeline.evidence.clone(), facts.hash, run.ocr);
    if !pictures::wants(mode, facts.kind, document) {
        // This run wants none. The watcher may, and who had every page read before did not do so in vain.
        push();
        if pictures::wants(OcrMode::Always, facts.kind, document) {
            let known = blocking(move || Ok(looking::known(&cache, hash, OcrMode::Auto))).await?;
            return Ok(pictures::merge_beside(document, facts.kind, known));
        }
        return Ok(None);
    }
    match blocking(move || Ok(looking::known(&cache, hash, mode))).await? {
        Known::Read(read) => Ok(pictures::merge(document, read)),
        Known::Begun(read) => {
            // The lane has it wait already for those who want it read.
            if !pipeline.pictures.has(record.id) {
                askers.iter().for_each(|(by, every)| pipeline.pictures.push_later(by, record.id, *every));
            }
            Ok(pictures::merge(document, read))
        }
        Known::GivenUp(why) => {
            document.problems.push(why);
            Ok(None)
        }
        Known::Unread => {
            push();
            Ok(None)
        }
    }
}

/// A file, and an indexed one with the same content, if there is any.
struct Opened {
    file: File,
    /// How it was before it was hashed.
    before: Before,
    hash: ContentHash,
    same: Option<(FileRecord, Contents)>,
}

/// Opens the file below its root, hashes it through the same descriptor that the worker will read, and looks its content
/// up: all of it in one go on another thread, because for a small file the ways there and back take longer than the work.
///
/// A file on a disk that does not answer counts as gone, so that the others are read.
async fn open(pipeline: &Pipeline, run: &Run, record: &FileRecord) -> Result<Result<Opened, OpenProblem>> {
    let (root, path, extension) = (record.root.clone(), record.found.path.clone(), record.extension.clone());
    let known = (!run.full).then(|| pipeline.catalog.clone());
    let opened = at_file(record, move || {
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

/// The hash of a file that was written to while it was read: its text is of no content that has ever been there as a whole,
/// so that no copy takes it over and no comparison finds it right. The write itself has the file read again.
fn of_no_content(hash: ContentHash, id: FileId) -> ContentHash {
    let told = [hash.0.as_slice(), &id.to_le_bytes(), b"written to while it was read"].concat();
    ContentHash(*blake3::hash(&told).as_bytes())
}

fn open_and_hash(root: &Path, path: &Path) -> Result<(File, Before, ContentHash), OpenProblem> {
    let file = warehouse::open_beneath(root, path)?;
    let before = Before::of(&file);
    let unreadable = |error: std::io::Error| {
        let reason = if error.kind() == ErrorKind::FileTooLarge { Reason::TooLarge } else { Reason::Io };
        OpenProblem::Bad(ExtractFailure { reason, detail: error.to_string() })
    };
    let hash = warehouse::hash(&file).map_err(unreadable)?;
    Ok((file, before, hash))
}

/// Returns an indexed file with this content and this extension, and what lies in it: another may mean another reader.
fn same_content(catalog: &Catalog, hash: ContentHash, extension: &str) -> Result<Option<(FileRecord, Contents)>> {
    let Some(id) = catalog.same_content(hash)? else { return Ok(None) };
    let Some(record) = catalog.records(&[id])?.pop().filter(|it| it.extension == extension) else { return Ok(None) };
    Ok(Some((record, catalog.contents(&[id])?.remove(&id).unwrap_or_default())))
}

/// Says in one sentence what of the document was cut, could not be read or waits for OCR.
fn describe(document: &Document) -> Option<String> {
    let mut parts = Vec::new();
    if document.truncated {
        parts.push("text cut at the limit".to_string());
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

    #[test]
    fn what_was_written_to_while_it_was_read_has_the_hash_of_nothing_else() {
        let hash = ContentHash([7; 32]);
        assert_eq!(of_no_content(hash, 1), of_no_content(hash, 1));
        assert!(of_no_content(hash, 1) != of_no_content(hash, 2) && of_no_content(hash, 1) != hash);
    }
}
