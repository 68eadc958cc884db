//! One time slice of OCR on a file: repeated worker calls until no page is left or the slice is over.
//!
//! A slice is bounded because a book takes an hour. Other work gets the processors between two calls, and a pause ends
//! the slice. The pages read so far are kept with the list of pages left, so that the next slice continues there.

use std::ffi::OsStr;
use std::fs::File;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::extract::{Purpose, ReadObserver, SkillJob, Tools, WorkerPool};
use crate::index::ocr::throttle::Throttle;
use crate::index::paths::{StatBefore, blocking_at_file};
use crate::index::pause::PauseGate;
use crate::model::{ContentHash, Document, ExtractFailure, FileRecord, MAX_BLOCKS, Reason};
use crate::{files, machine};

/// Name of the skill that the workers run for OCR.
pub(in crate::index) const OCR_SKILL: &str = "ocr_image";
/// Maximum time of one worker call. A document of many pages takes many calls.
const CALL_TIMEOUT_SECONDS: u32 = 60;
/// After this many seconds a worker call begins no further page, so that other work gets the processors and a pause can
/// begin.
const YIELD_AFTER_SECONDS: u32 = 4;
/// Maximum time of a slice, however low the CPU limit is, because its text becomes searchable only after the slice
/// ends.
const MAX_SLICE_TIME: Duration = Duration::from_secs(600);
/// Maximum worker calls per slice; pages that are left after them wait for the next slice.
const MAX_CALLS_PER_SLICE: usize = 100;
/// Pages requested per worker call, once the pages left are known: a worker opens all of them before it reads the
/// first.
const PAGES_PER_CALL: usize = 16;
/// Maximum bytes of OCR text per file, as for extracted text. OCR of the file ends at the limit.
const MAX_TEXT_BYTES: usize = 10 << 20;

/// The pool of OCR workers, the throttle of their CPU time, and the gate that reports whether indexing is paused.
pub(in crate::index) struct OcrWorkers<'a> {
    pub(in crate::index) pool: &'a WorkerPool,
    pub(in crate::index) pace: &'a Throttle,
    pub(in crate::index) gate: &'a PauseGate,
}

/// Measures how long a worker works on a call, without the wait for a free worker.
#[derive(Default)]
struct CallTimer(OnceLock<Instant>);

impl CallTimer {
    fn elapsed(&self) -> Duration {
        self.0.get().map_or(Duration::ZERO, Instant::elapsed)
    }
}

#[async_trait::async_trait]
impl ReadObserver for CallTimer {
    fn attempt_started(&self) {
        self.0.get_or_init(Instant::now);
    }

    async fn may_retry(&self) -> bool {
        true
    }
}

/// Runs a time slice on a file with this content. Returns `None` if the file has other content before or after the
/// slice: the text then belongs to no complete content, and the write itself requeues the file.
pub(in crate::index) async fn run_slice(
    reader: &OcrWorkers<'_>,
    record: &FileRecord,
    hash: ContentHash,
    tools: &Tools,
    every: bool,
    begun: Document,
) -> Result<Option<OcrSlice>> {
    let Some((file, before)) = open_if_unchanged(record, hash).await? else { return Ok(None) };
    let name = record.found.path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let job = SkillJob {
        skill: OCR_SKILL.into(),
        pages: None,
        seconds: CALL_TIMEOUT_SECONDS,
        rest_after: Some(YIELD_AFTER_SECONDS),
        purpose: if every { Purpose::EveryText } else { Purpose::UnreadText },
        width: None,
        member: None,
        tools: tools.clone(),
    };
    let turn = call_worker(reader, (&file, &name), job, begun).await?;
    Ok((before.check_unchanged(record).await? == Some(true)).then_some(turn))
}

/// Opens the file if it still has this content. If it does not, the watcher requeues it.
async fn open_if_unchanged(record: &FileRecord, hash: ContentHash) -> Result<Option<(File, StatBefore)>> {
    let (root, path) = (record.root.clone(), record.found.path.clone());
    let opened = blocking_at_file(record, move || {
        let Ok(file) = files::open_beneath(&root, &path) else { return Ok(None) };
        let before = StatBefore::new(&file);
        Ok(files::hash(&file).is_ok_and(|now| now == hash).then_some((file, before)))
    });
    Ok(opened.await?.flatten())
}

/// OCR result of a file after a time slice.
#[derive(Debug)]
pub(in crate::index) struct OcrSlice {
    pub(in crate::index) read: Document,
    /// Whether the slice processed at least one page; the page may be empty.
    pub(in crate::index) progressed: bool,
    pub(in crate::index) failure: Option<ExtractFailure>,
}

/// Calls the OCR worker until no page is left, the slice is over, or a pause begins.
async fn call_worker(
    &OcrWorkers { pool, pace, gate }: &OcrWorkers<'_>,
    (file, name): (&File, &str),
    job: SkillJob,
    begun: Document,
) -> Result<OcrSlice> {
    let threads = job.tools.ocr.as_ref().map_or(1, |it| u32::try_from(it.threads).unwrap_or(1));
    let call = move |pages: Option<Vec<u32>>| {
        let (job, file) = (SkillJob { pages, ..job.clone() }, file.try_clone());
        async move {
            let file = file.map_err(|error| ExtractFailure { reason: Reason::Io, detail: error.to_string() })?;
            let work = CallTimer::default();
            let outcome = pool.run_skill_observed(file, name, job, &work).await;
            pace.add_work(work.elapsed() * threads);
            outcome
        }
    };
    let goes_on = || async {
        pace.sleep_off(machine::budget()).await;
        gate.pause().is_none()
    };
    let turn = run_calls(begun, call, goes_on).await;
    match turn.failure {
        Some(ExtractFailure { reason: Reason::Io, detail }) => Err(Error::internal(detail)),
        failure => Ok(OcrSlice { failure, ..turn }),
    }
}

/// Runs a time slice on the pages that are left, or on all pages if none was read yet.
async fn run_calls<W, G>(begun: Document, call: impl Fn(Option<Vec<u32>>) -> W, goes_on: impl Fn() -> G) -> OcrSlice
where
    W: Future<Output = Result<Document, ExtractFailure>>,
    G: Future<Output = bool>,
{
    let mut turn = OcrSlice { read: begun, progressed: false, failure: None };
    let since = Instant::now();
    for number in 0..MAX_CALLS_PER_SLICE {
        // The first call needs no check for a pause, because the caller has waited for its end.
        if number > 0 && (since.elapsed() > MAX_SLICE_TIME || !goes_on().await) {
            break;
        }
        let left = turn.read.pages_without_text.clone();
        let (asked, rest) = left.split_at(left.len().min(PAGES_PER_CALL));
        let part = match call((!left.is_empty()).then(|| asked.to_vec())).await {
            Ok(part) => part,
            Err(failure) => {
                turn.failure = Some(failure);
                break;
            }
        };
        let is_stuck = !asked.is_empty() && part.pages_without_text.len() >= asked.len();
        turn.progressed |= !is_stuck;
        append_pages(&mut turn.read, part, rest);
        if is_stuck {
            let detail = format!("OCR finished no page within {CALL_TIMEOUT_SECONDS} s");
            turn.failure = Some(ExtractFailure { reason: Reason::Timeout, detail });
        }
        if is_stuck || !is_partial(&turn.read) {
            break;
        }
    }
    turn.read.blocks.sort_by_key(|it| it.anchor.page);
    turn
}

/// Appends the result of a worker call. `rest` are the pages left that the call did not request.
fn append_pages(read: &mut Document, part: Document, rest: &[u32]) {
    let before = std::mem::take(read);
    *read = Document {
        blocks: before.blocks,
        problems: before.problems,
        title: before.title.or(part.title),
        words: before.words,
        ..part
    };
    read.add_words(part.words);
    read.blocks.extend(part.blocks);
    read.problems.extend(part.problems);
    read.pages_without_text.extend(rest);
    read.truncated = !read.pages_without_text.is_empty();
    let bytes: usize = read.blocks.iter().map(|it| it.text.len()).sum();
    if read.truncated && (bytes > MAX_TEXT_BYTES || read.blocks.len() > MAX_BLOCKS / 2) {
        read.truncated = false;
        read.problems.push("the OCR text is truncated at the size limit".to_string());
    }
}

pub(in crate::index) fn is_partial(read: &Document) -> bool {
    read.truncated && !read.pages_without_text.is_empty()
}

#[cfg(test)]
pub(in crate::index) mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::extract::scripted_worker;
    use crate::model::{Anchor, Block, BlockKind, FileKind, PlacedWord, Region};

    /// Returns a worker's result with these pages read and those left.
    pub(in crate::index) fn part(read: impl IntoIterator<Item = u32>, left: impl IntoIterator<Item = u32>) -> Document {
        let block = |page| Block {
            kind: BlockKind::Paragraph,
            text: format!("page {page}"),
            anchor: Anchor { page: Some(page), ..Anchor::default() },
            rows: Vec::new(),
        };
        let (blocks, pages_without_text) =
            (read.into_iter().map(block).collect(), left.into_iter().collect::<Vec<_>>());
        Document { blocks, truncated: !pages_without_text.is_empty(), pages_without_text, ..Document::default() }
    }

    #[test]
    fn words_of_all_calls_are_kept() {
        let words = |page| vec![PlacedWord { page, text: "a".into(), region: Region::default() }];
        let mut read = Document { words: words(1), ..part([1], [2]) };
        append_pages(&mut read, Document { words: words(2), ..part([2], []) }, &[]);
        assert_eq!(read.words.iter().map(|it| it.page).collect::<Vec<_>>(), [1, 2]);
    }

    /// Runs a slice with a fake worker that has `pages` pages and reads `in_a_call` of them per call.
    async fn turn(begun: Document, pages: u32, in_a_call: usize) -> (OcrSlice, Vec<usize>) {
        let asked = RefCell::new(Vec::new());
        let call = |wanted: Option<Vec<u32>>| {
            let wanted = wanted.unwrap_or_else(|| (1..=pages).collect());
            asked.borrow_mut().push(wanted.len());
            let (read, left) = wanted.split_at(in_a_call.min(wanted.len()));
            std::future::ready(Ok(part(read.iter().copied(), left.iter().copied())))
        };
        let turn = run_calls(begun, call, || std::future::ready(true)).await;
        (turn, asked.into_inner())
    }

    #[tokio::test]
    async fn long_book_is_read_in_slices_to_last_page() {
        let (mut read, mut turns) = (Document::default(), 0);
        while turns == 0 || is_partial(&read) {
            let (turn, asked) = turn(read, 4_500, 200).await;
            assert!(turn.progressed && turn.failure.is_none());
            assert!(asked.len() <= MAX_CALLS_PER_SLICE);
            assert!(asked[usize::from(turns == 0)..].iter().all(|it| *it <= PAGES_PER_CALL), "{asked:?}");
            (read, turns) = (turn.read, turns + 1);
        }
        let pages: Vec<u32> = read.blocks.iter().filter_map(|it| it.anchor.page).collect();
        assert_eq!((pages, turns), ((1..=4_500).collect::<Vec<u32>>(), 3));
    }

    #[tokio::test]
    async fn finished_or_empty_document_is_not_partial() {
        for (pages, in_a_call, calls) in [(0, 1, 1), (1, 1, 1), (3, 2, 2)] {
            let (turn, asked) = turn(Document::default(), pages, in_a_call).await;
            assert_eq!((turn.progressed, is_partial(&turn.read), asked.len()), (true, false, calls));
        }
    }

    #[tokio::test]
    async fn pause_ends_slice_and_keeps_pages() {
        let calls = Cell::new(0);
        let call = |_| {
            calls.set(calls.get() + 1);
            std::future::ready(Ok(part([calls.get()], calls.get() + 1..=9)))
        };
        let turn = run_calls(Document::default(), call, || std::future::ready(calls.get() < 2)).await;
        assert_eq!((turn.read.blocks.len(), turn.progressed, is_partial(&turn.read)), (2, true, true));
        // The next slice continues after the last page read, and makes one call even if a pause begins.
        let turn = run_calls(turn.read, call, || std::future::ready(false)).await;
        assert_eq!((turn.read.blocks.len(), calls.get()), (3, 3));
    }

    #[tokio::test]
    async fn slice_without_progress_fails_with_timeout() {
        let (turn, asked) = turn(part([1], [2, 3]), 3, 0).await;
        assert_eq!((turn.progressed, asked), (false, vec![2]));
        assert_eq!(turn.failure.unwrap().reason, Reason::Timeout);
        assert_eq!(turn.read.pages_without_text, [2, 3]);
    }

    #[tokio::test]
    async fn ocr_ends_at_text_limit() {
        let mut long = part([1], [2, 3]);
        long.blocks[0].text = "x".repeat(MAX_TEXT_BYTES + 1);
        let (turn, _) = turn(long, 3, 1).await;
        assert!(!is_partial(&turn.read) && turn.read.pages_without_text == [3] && turn.read.problems.len() == 1);
    }

    // Case C14
    #[tokio::test]
    async fn ocr_of_file_modified_meanwhile_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = root.join("a.png");
        let read = Document { title: Some("read".into()), ..Document::default() };
        for (does, expected) in
            [(String::new(), Some(read.clone())), (format!("echo more >> {}", path.display()), None)]
        {
            std::fs::write(&path, "a picture").unwrap();
            let hash = files::hash(&File::open(&path).unwrap()).unwrap();
            let record = crate::model::samples::indexed_file(&root, "a.png", FileKind::Image, hash);
            let pool = scripted_worker::scripted_pool(folder.path(), &does, &Ok(read.clone()));
            let (pace, gate, tools) = (Throttle::default(), PauseGate::always_open(), Tools::default());
            let reader = OcrWorkers { pool: &pool, pace: &pace, gate: &gate };
            let found = run_slice(&reader, &record, hash, &tools, false, Document::default()).await.unwrap();
            let found = found.map(|it| it.read);
            assert_eq!(found, expected, "{does}");
        }
    }
}
