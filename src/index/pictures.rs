//! Pictures of text that a job or the watcher brings in: read one file at a time, beside the pipeline.
//!
//! Reading a page takes a second or more, so no other file waits for it: the pipeline indexes what text there is and
//! leaves the file's number in [`Pictures`]. A lane of its own has the file read by the skill `ocr_image`, puts what it
//! found into the evidence cache, and makes the file pending again: the pipeline then merges it in, see [`merge`]. So
//! text from pictures is ordinary text of the document, and reading twice costs nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, EvidenceCache, EvidenceKey, READ_BY_OCR, RequeueScope};
use crate::embed::models::ModelStore;
use crate::error::{Error, Result};
use crate::extract::{self, OcrTools, Purpose, SkillJob, Tools, WorkerPool};
use crate::index::pipeline::Run;
use crate::index::progress::Progress;
use crate::index::{Before, Inner, at_file, blocking};
use crate::model::{
    Block, BlockKind, ContentHash, Document, FileId, FileKind, FileRecord, FileState, OcrMode, Phase, Reason,
};
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
const TICK: Duration = Duration::from_secs(60);
/// Seconds of one call to the worker. A document of many pages takes several.
const CALL_SECONDS: u32 = 60;
/// Calls for one file at most: some thousand pages.
const MOST_CALLS: usize = 50;
/// The skill that reads pictures.
const SKILL: &str = "ocr_image";
/// Entry of the model catalog that holds what the skill needs.
const OCR_MODEL: &str = "ppocr";
/// Changes whenever the text of the same picture would be another.
const VERSION: &str = "1";

/// Files whose pictures are to be read.
#[derive(Default)]
pub(crate) struct Pictures {
    /// By number: whether every page is to be read, or only what has no text.
    waiting: Mutex<BTreeMap<FileId, bool>>,
    /// Told when there is something to read.
    pub(crate) arrived: Notify,
    /// Whoever holds it reads.
    lane: tokio::sync::Mutex<()>,
}

impl Pictures {
    /// Adds a file.
    pub(crate) fn push(&self, id: FileId, every_page: bool) {
        let mut waiting = self.waiting();
        if waiting.len() < MOST_WAITING {
            *waiting.entry(id).or_default() |= every_page;
        }
    }

    fn pop(&self) -> Option<(FileId, bool)> {
        self.waiting().pop_first()
    }

    fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    fn clear(&self) {
        self.waiting().clear();
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, BTreeMap<FileId, bool>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of a file's text came out of pictures, as the pipeline asks for it.
pub(crate) enum Known {
    /// This, maybe nothing.
    Read(Document),
    /// Nobody has looked yet.
    Unread,
}

/// Looks up what the lane found in this content.
pub(crate) fn known(cache: &EvidenceCache, hash: ContentHash, mode: OcrMode) -> Known {
    let every = cache.get(&key(hash, true));
    let found = if mode == OcrMode::Always { every } else { every.or_else(|| cache.get(&key(hash, false))) };
    found.map_or(Known::Unread, Known::Read)
}

/// Adds to a document what was read out of the pictures of its file before: by the lane, or else for a question.
pub(crate) fn add_known(cache: &EvidenceCache, hash: ContentHash, document: &mut Document) {
    if let Known::Read(read) = known(cache, hash, OcrMode::Auto) {
        merge(document, read);
        return;
    }
    let is_picture = extract::kind_of_media_type(&document.media_type) == FileKind::Image;
    if !is_picture && document.pages_without_text.is_empty() {
        return;
    }
    let mut found = cache.all(hash);
    // The plainest reader first.
    let best =
        ["ocr_image", "pdf_layout", "vision"].iter().find_map(|skill| found.iter().position(|it| it.0 == *skill));
    if let Some(place) = best {
        let mut read = found.swap_remove(place).1;
        // Tables and facts repeat the text that they were made of.
        read.blocks.retain(|it| !matches!(it.kind, BlockKind::Table | BlockKind::Metadata));
        let unread = &document.pages_without_text;
        read.blocks.retain(|it| is_picture || it.anchor.page.is_some_and(|page| unread.contains(&page)));
        merge(document, read);
    }
}

/// Says whether a document that was just extracted has pictures for the lane.
pub(crate) fn wants(mode: OcrMode, kind: FileKind, document: &Document) -> bool {
    match (mode, kind) {
        (OcrMode::Never, _) => false,
        (_, FileKind::Image) => true,
        (OcrMode::Always, FileKind::Pdf) => true,
        (OcrMode::Auto, FileKind::Pdf) => !document.pages_without_text.is_empty(),
        _ => false,
    }
}

/// Puts text out of pictures behind the other text of its page. Returns a sentence for the catalog.
pub(crate) fn merge(document: &mut Document, read: Document) -> Option<String> {
    document.pages_without_text = read.pages_without_text;
    document.problems.extend(read.problems);
    if document.title.is_none() {
        document.title = read.title;
    }
    let page = |block: &Block| block.anchor.page.unwrap_or(0);
    let mut pages: Vec<u32> = read.blocks.iter().map(page).collect();
    pages.dedup();
    let known = words_of_pages(document, &read.blocks);
    for block in read.blocks {
        if known.get(&block.anchor.page).is_some_and(|known| repeats(known, &block)) {
            continue;
        }
        let place = document.blocks.iter().rposition(|it| page(it) <= page(&block)).map_or(0, |it| it + 1);
        document.blocks.insert(place, block);
    }
    (!pages.is_empty()).then(|| format!("{} pages {READ_BY_OCR}", pages.len()))
}

/// The words of the document's own text on each page of which something was read.
fn words_of_pages(document: &Document, read: &[Block]) -> HashMap<Option<u32>, HashSet<String>> {
    let mut known: HashMap<_, _> = read.iter().map(|it| (it.anchor.page, HashSet::new())).collect();
    for block in document.blocks.iter().filter(|it| it.anchor.region.is_none()) {
        if let Some(words) = known.get_mut(&block.anchor.page) {
            words.extend(block.text.split_whitespace().map(str::to_lowercase));
        }
    }
    known
}

/// Says whether most words of a picture's block are known of its page already.
fn repeats(known: &HashSet<String>, block: &Block) -> bool {
    let words: Vec<String> = block.text.split_whitespace().map(str::to_lowercase).collect();
    let repeated = words.iter().filter(|it| known.contains(*it)).count();
    !words.is_empty() && repeated * 5 >= words.len() * 4
}

/// Returns what skills work with, as far as it is there now.
///
/// # Errors
/// The models are not there, with the command that fetches them; or the catalog of models cannot be read.
pub fn ocr_tools(models: &ModelStore) -> Result<Tools> {
    let runtime = models.library("onnxruntime")?;
    let entry = models.list()?.into_iter().find(|it| it.name == OCR_MODEL);
    let folder = entry.filter(|it| it.present).map(|it| it.path).ok_or_else(|| {
        Error::not_found("the models that read pictures of text are not there")
            .hint(format!("run `vic models pull {OCR_MODEL}`"))
    })?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let ocr = Some(OcrTools { runtime, models: folder, threads });
    Ok(Tools { pdfium: models.library("pdfium").ok(), ocr })
}

/// Adds the files of a job: those below these folders that hold unread pictures.
pub(crate) async fn collect(inner: &Inner, folders: &[PathBuf], mode: OcrMode) -> Result<()> {
    let every = mode == OcrMode::Always;
    for folder in folders {
        let mut after = 0;
        loop {
            let (catalog, folder): (Catalog, PathBuf) = (inner.catalog.clone(), folder.clone());
            let page = blocking(move || catalog.pictures(Some(&folder), every, after, LISTED_AT_ONCE)).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            page.iter().for_each(|it| inner.pictures.push(it.id, every));
        }
    }
    Ok(())
}

/// Reads what the watcher brings in, for as long as the daemon lives.
pub(crate) async fn follow(inner: Arc<Inner>) {
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            () = inner.shutdown.cancelled() => return,
            () = inner.pictures.arrived.notified() => (),
            _ = ticks.tick() => {
                inner.skills.dismiss_rested();
                continue;
            }
        }
        let progress = Arc::new(Progress::new(crate::index::jobs::unnamed()));
        if let Err(error) = read(&inner, inner.config.ocr, &progress, &inner.shutdown.clone()).await {
            tracing::warn!(%error, "cannot index what pictures say");
        }
    }
}

/// Reads everything that waits, and brings it into the index as it comes.
pub(crate) async fn read(
    inner: &Arc<Inner>,
    mode: OcrMode,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Result<()> {
    if inner.pictures.is_empty() {
        return Ok(());
    }
    let _lane = tokio::select! {
        lane = inner.pictures.lane.lock() => lane,
        () = cancel.cancelled() => return Ok(()),
    };
    let Some(tools) = tools(inner) else { return Ok(()) };
    progress.enter(Phase::Indexing);
    let run = Run { ocr: mode, progress: progress.clone(), ..Run::quiet(cancel.clone()) };
    let mut ready: Vec<FileId> = Vec::new();
    let mut since = Instant::now();
    while let Some((id, every)) = inner.pictures.pop() {
        let read = tokio::select! {
            read = async {
                inner.gate.passed().await;
                read_one(inner, &tools, id, every).await
            } => read,
            () = cancel.cancelled() => {
                inner.pictures.clear();
                break;
            }
        };
        let has_text = match read {
            Ok(has_text) => has_text,
            Err(error) => {
                // Neither it nor what was read before it waits for the next walk.
                inner.pictures.push(id, every);
                bring_in(inner, &run, ready).await?;
                return Err(error);
            }
        };
        if has_text {
            if ready.is_empty() {
                since = Instant::now();
            }
            ready.push(id);
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

/// Makes these files pending and runs the pipeline, which finds their text in the cache.
async fn bring_in(inner: &Arc<Inner>, run: &Run, files: Vec<FileId>) -> Result<()> {
    if files.is_empty() || run.cancel.is_cancelled() {
        return Ok(());
    }
    let _engine = inner.engine.lock().await;
    let catalog = inner.catalog.clone();
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
    let Some((file, before)) = open(&record, hash).await? else { return Ok(false) };
    let name = record.found.path.file_name().map(OsStr::to_string_lossy).unwrap_or_default().into_owned();
    let read = read_file(&inner.skills, &file, &name, tools, every).await?;
    if before.still_holds(&record).await? != Some(true) {
        // What was read is of no content that was ever there as a whole. The write itself has it read again.
        return Ok(false);
    }
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

/// The lane's results lie beside those of questions, under names that no question uses.
fn key(hash: ContentHash, every: bool) -> EvidenceKey {
    let skill = if every { "index_every_page" } else { "index_pictures" };
    EvidenceKey { hash, skill: skill.into(), version: VERSION.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Anchor, Region};

    fn document(blocks: &[(u32, &str)], region: Option<Region>) -> Document {
        let block = |(page, text): &(u32, &str)| Block {
            kind: BlockKind::Paragraph,
            text: (*text).to_string(),
            anchor: Anchor { page: (*page > 0).then_some(*page), region, ..Anchor::default() },
        };
        Document { blocks: blocks.iter().map(block).collect(), ..Document::default() }
    }

    fn check(text: &[(u32, &str)], read: &[(u32, &str)], expected: &[&str]) -> Option<String> {
        let mut merged = document(text, None);
        let said = merge(&mut merged, document(read, Some(Region::default())));
        let found: Vec<&str> = merged.blocks.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(found, expected);
        said
    }

    #[test]
    fn pages_out_of_pictures_come_in_their_place() {
        let said = check(
            &[(0, "facts"), (1, "first"), (3, "third")],
            &[(2, "second a"), (2, "second b"), (4, "fourth")],
            &["facts", "first", "second a", "second b", "third", "fourth"],
        );
        assert_eq!(said.as_deref(), Some("2 pages read by OCR"));
    }

    #[test]
    fn what_the_text_layer_says_is_not_said_twice() {
        check(
            &[(1, "the same few words here")],
            &[(1, "The same few words"), (1, "a stamp")],
            &["the same few words here", "a stamp"],
        );
    }

    #[test]
    fn what_was_read_before_stands_in_a_document_that_is_extracted_anew() {
        let dir = tempfile::tempdir().unwrap();
        let cache = EvidenceCache::open(&dir.path().join("e.sqlite"), 1 << 20).unwrap();
        let hash = ContentHash([7; 32]);
        let scan = || Document {
            pages_without_text: vec![2],
            media_type: "application/pdf".into(),
            ..document(&[(1, "first")], None)
        };
        let shown = || {
            let mut shown = scan();
            add_known(&cache, hash, &mut shown);
            shown.blocks.iter().map(|it| it.text.clone()).collect::<Vec<_>>()
        };
        assert_eq!(shown(), ["first"]);
        let put = |skill: &str, document: &Document| {
            cache.put(&EvidenceKey { hash, skill: skill.into(), version: "1".into() }, document);
        };
        let mut looked = document(&[(1, "heading of the first"), (2, "by a question"), (2, "Signed by: A")], None);
        looked.blocks[2].kind = BlockKind::Metadata;
        put("pdf_layout", &looked);
        assert_eq!(shown(), ["first", "by a question"], "only what has no text, and nothing twice");
        put("index_pictures", &document(&[(2, "by the lane")], Some(Region::default())));
        assert_eq!(shown(), ["first", "by the lane"]);
        let mut text = Document { pages_without_text: vec![], ..scan() };
        cache.put(&key(ContentHash([8; 32]), false), &Document::default());
        put("ocr_image", &looked);
        add_known(&cache, ContentHash([9; 32]), &mut text);
        assert_eq!(text.blocks.len(), 1, "another content has nothing to do with it");
    }

    #[test]
    fn a_picture_without_text_adds_nothing() {
        assert_eq!(check(&[(0, "camera: X")], &[], &["camera: X"]), None);
    }

    #[test]
    fn only_what_may_hold_unread_text_is_wanted() {
        let scan = Document { pages_without_text: vec![2], ..Document::default() };
        let text = Document::default();
        for (mode, kind, document, expected) in [
            (OcrMode::Auto, FileKind::Pdf, &scan, true),
            (OcrMode::Auto, FileKind::Pdf, &text, false),
            (OcrMode::Always, FileKind::Pdf, &text, true),
            (OcrMode::Auto, FileKind::Image, &text, true),
            (OcrMode::Never, FileKind::Image, &text, false),
            (OcrMode::Always, FileKind::Text, &text, false),
        ] {
            assert_eq!(wants(mode, kind, document), expected, "{mode:?} {kind:?}");
        }
    }
}
