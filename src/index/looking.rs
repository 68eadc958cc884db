//! One file of the lane of pictures: what is known of its text, and a turn at reading more of it.
//!
//! A turn is bounded, because a book takes an hour: what was read is kept with the pages that are left, and the next turn
//! goes on there. A reader that hung or died may have been the machine's fault, so the file is tried a second time; after
//! that it is left alone until it changes or the readers are others, as files are that cannot be read at all.

use std::ffi::OsStr;
use std::fs::File;
use std::sync::Arc;

use crate::catalog::{EvidenceCache, EvidenceKey, READ_BY_OCR, WITHOUT_TEXT_LAYER};
use crate::error::{Error, Result};
use crate::extract::{Purpose, READERS, SkillJob, Tools, WorkerPool};
use crate::index::{Before, Inner, at_file, blocking};
use crate::model::{
    ContentHash, Document, ExtractFailure, FileId, FileRecord, FileState, MOST_BLOCKS, OcrMode, Reason,
};
use crate::warehouse;

/// Seconds of one call to the worker. A document of many pages takes several.
const CALL_SECONDS: u32 = 60;
/// Calls of one turn.
const CALLS_OF_A_TURN: usize = 10;
/// Pages that are asked for in one call, once it is known which are left: each of them is opened before the first is read.
const PAGES_OF_A_CALL: usize = 250;
/// Text of one file's pictures, as of a file that has its text itself.
const MOST_TEXT_BYTES: usize = 10 << 20;
/// Tries that end badly, without a page read between them, after which a file is left alone.
const MOST_TRIES: usize = 2;
/// The skill that reads pictures.
pub(super) const SKILL: &str = "ocr_image";
/// Changes whenever the text of the same picture would be another.
const VERSION: &str = "1";

/// What of a file's text came out of pictures, as the pipeline asks for it.
#[derive(Debug, PartialEq)]
pub(crate) enum Known {
    /// This, maybe nothing: there is no more, or none that can be read.
    Read(Document),
    /// This, and there are pages left.
    Begun(Document),
    /// Nothing, and nobody tries any more, for this reason.
    GivenUp(String),
    /// Nobody has looked yet.
    Unread,
}

/// What came of a turn.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Looked {
    /// Why no picture at all can be read.
    pub(super) unloaded: Option<String>,
    /// The index does not have the file yet: its turn comes once it does.
    pub(super) is_early: bool,
    /// There is text to bring in.
    pub(super) has_text: bool,
    /// There is something to do in another turn.
    pub(super) goes_on: bool,
}

/// Looks up what the lane found in this content.
pub(crate) fn known(cache: &EvidenceCache, hash: ContentHash, mode: OcrMode) -> Known {
    let every = of(cache, &key(hash, true));
    if mode == OcrMode::Always || matches!(every, Known::Read(_)) {
        return every;
    }
    match (of(cache, &key(hash, false)), every) {
        (Known::Unread, Known::Begun(read)) => Known::Begun(read),
        (unread, _) => unread,
    }
}

/// The lane's results lie beside those of questions, under names that no question uses.
pub(super) fn key(hash: ContentHash, every: bool) -> EvidenceKey {
    let skill = if every { "index_every_page" } else { "index_pictures" };
    EvidenceKey { hash, skill: skill.into(), version: VERSION.into() }
}

/// Readers that are others have not tried yet.
fn key_of_tries(key: &EvidenceKey) -> EvidenceKey {
    EvidenceKey { skill: format!("{}_ended_badly", key.skill), version: READERS.into(), ..key.clone() }
}

fn of(cache: &EvidenceCache, key: &EvidenceKey) -> Known {
    match cache.get(key) {
        Some(read) if !is_begun(&read) => Known::Read(read),
        found => match (found, given_up(cache, key)) {
            (Some(mut read), Some(why)) => {
                read.problems.push(why);
                Known::Read(read)
            }
            (Some(read), None) => Known::Begun(read),
            (None, Some(why)) => Known::GivenUp(why),
            (None, None) => Known::Unread,
        },
    }
}

fn is_begun(read: &Document) -> bool {
    read.truncated && !read.pages_without_text.is_empty()
}

/// Says why a file is not tried any more.
fn given_up(cache: &EvidenceCache, key: &EvidenceKey) -> Option<String> {
    let tries = cache.get(&key_of_tries(key))?;
    let is_over = tries.truncated || tries.problems.len() >= MOST_TRIES;
    tries.problems.last().filter(|_| is_over).map(|it| format!("its pictures were not read: {it}"))
}

/// Writes down that a try failed. Whether the file is to blame is asked of those alone that ended their reader.
fn note_failure(cache: &EvidenceCache, key: &EvidenceKey, failure: &ExtractFailure) {
    let own = key_of_tries(key);
    let mut tries = cache.get(&own).unwrap_or_default();
    tries.problems.push(format!("{} {}", failure.reason.name(), failure.detail).trim().to_string());
    // What was refused would be refused again.
    tries.truncated |= !failure.reason.ends_its_reader();
    cache.put(&own, &tries);
}

/// Has more of one file read, unless all of it was before.
pub(super) async fn look(inner: &Inner, tools: &Tools, id: FileId, every: bool) -> Result<Looked> {
    let (catalog, cache) = (inner.catalog.clone(), inner.evidence.clone());
    let found = blocking(move || {
        let Some(record) = catalog.records(&[id])?.pop() else { return Ok(Err(false)) };
        let hash = record.hash.filter(|_| is_read(&record));
        let found = hash.map(|it| (it, of(&cache, &key(it, every))));
        Ok(found.ok_or(record.state == FileState::Pending).map(|(hash, known)| (hash, known, record)))
    });
    let (hash, known, record) = match found.await? {
        Ok(found) => found,
        Err(is_early) => return Ok(Looked { is_early, ..Looked::default() }),
    };
    let begun = match known {
        Known::Read(read) => return Ok(Looked { has_text: is_news(&read, &record.detail), ..Looked::default() }),
        Known::GivenUp(_) => return Ok(Looked::default()),
        Known::Begun(read) => read,
        Known::Unread => Document::default(),
    };
    let Some(turn) = read_content(&inner.skills, &record, hash, tools, every, begun).await? else {
        return Ok(Looked::default());
    };
    let cache: Arc<EvidenceCache> = inner.evidence.clone();
    let looked = blocking(move || Ok(keep(&cache, &key(hash, every), &turn))).await?;
    // A turn takes minutes.
    inner.purge_if_withdrawn(&record).await?;
    Ok(looked)
}

/// Takes a turn at a file that holds this content. None where it holds another, before or afterwards: what was read then is
/// of no content that was ever there as a whole, and the write itself has it read again.
async fn read_content(
    pool: &WorkerPool,
    record: &FileRecord,
    hash: ContentHash,
    tools: &Tools,
    every: bool,
    begun: Document,
) -> Result<Option<Turn>> {
    let Some((file, before)) = open(record, hash).await? else { return Ok(None) };
    let name = record.found.path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let job = SkillJob {
        skill: SKILL.into(),
        pages: None,
        seconds: CALL_SECONDS,
        purpose: if every { Purpose::EveryText } else { Purpose::UnreadText },
        tools: tools.clone(),
    };
    let turn = read_file(pool, (&file, &name), job, begun).await?;
    Ok((before.still_holds(record).await? == Some(true)).then_some(turn))
}

/// Says whether a file was read in a copy of it, or before the daemon ended, so that its index knows nothing of it.
fn is_news(read: &Document, detail: &str) -> bool {
    let is_old = detail.contains(READ_BY_OCR);
    let is_older = read.pages_without_text.is_empty() && detail.contains(WITHOUT_TEXT_LAYER);
    !read.blocks.is_empty() && (!is_old || is_older)
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

/// What is known of a file after a turn.
#[derive(Debug)]
struct Turn {
    read: Document,
    /// Something was read in this turn, if only that there is nothing.
    progressed: bool,
    failure: Option<ExtractFailure>,
}

/// Keeps what a turn brought.
fn keep(cache: &EvidenceCache, key: &EvidenceKey, turn: &Turn) -> Looked {
    let mut is_kept = true;
    if turn.progressed {
        cache.put(key, &turn.read);
        // What is not kept would be read for ever.
        is_kept = cache.has(key);
        if cache.has(&key_of_tries(key)) {
            cache.put(&key_of_tries(key), &Document::default());
        }
    }
    let has_text = is_kept && turn.progressed && !turn.read.blocks.is_empty();
    let unloaded = turn.failure.as_ref().and_then(ExtractFailure::unloaded).map(String::from);
    let goes_on = match &turn.failure {
        Some(_) if unloaded.is_some() => false,
        // Not always the file's fault: the next job finds it again.
        Some(failure) if matches!(failure.reason, Reason::NoJail | Reason::UnsupportedType) => {
            tracing::warn!(
                reason = failure.reason.name(),
                "the pictures of a file could not be read: {}",
                failure.detail
            );
            false
        }
        Some(failure) => {
            note_failure(cache, key, failure);
            given_up(cache, key).is_none() && cache.has(&key_of_tries(key))
        }
        None => is_begun(&turn.read),
    };
    Looked { unloaded, has_text, goes_on: is_kept && goes_on, is_early: false }
}

/// Calls the worker until no page is left, or the turn is over.
async fn read_file(pool: &WorkerPool, (file, name): (&File, &str), job: SkillJob, begun: Document) -> Result<Turn> {
    let call = move |pages: Option<Vec<u32>>| {
        let (job, file) = (SkillJob { pages, ..job.clone() }, file.try_clone());
        async move {
            let file = file.map_err(|error| ExtractFailure { reason: Reason::Io, detail: error.to_string() })?;
            pool.run_skill(file, name, job).await
        }
    };
    let turn = take_turn(begun, call).await;
    match turn.failure {
        Some(ExtractFailure { reason: Reason::Io, detail }) => Err(Error::internal(detail)),
        failure => Ok(Turn { failure, ..turn }),
    }
}

/// A turn at what is left of a document; all of it where nothing was read yet.
async fn take_turn<W>(begun: Document, call: impl Fn(Option<Vec<u32>>) -> W) -> Turn
where
    W: Future<Output = Result<Document, ExtractFailure>>,
{
    let mut turn = Turn { read: begun, progressed: false, failure: None };
    for _ in 0..CALLS_OF_A_TURN {
        let left = turn.read.pages_without_text.clone();
        let (asked, rest) = left.split_at(left.len().min(PAGES_OF_A_CALL));
        let part = match call((!left.is_empty()).then(|| asked.to_vec())).await {
            Ok(part) => part,
            Err(failure) => {
                turn.failure = Some(failure);
                break;
            }
        };
        let is_stuck = !asked.is_empty() && part.pages_without_text.len() >= asked.len();
        turn.progressed |= !is_stuck;
        add(&mut turn.read, part, rest);
        if is_stuck {
            let detail = format!("no page of them was read in {CALL_SECONDS} s");
            turn.failure = Some(ExtractFailure { reason: Reason::Timeout, detail });
        }
        if is_stuck || !is_begun(&turn.read) {
            break;
        }
    }
    turn.read.blocks.sort_by_key(|it| it.anchor.page);
    turn
}

/// Adds what a call read. `rest` are the pages that it was not asked for.
fn add(read: &mut Document, part: Document, rest: &[u32]) {
    let before = std::mem::take(read);
    *read = Document { blocks: before.blocks, problems: before.problems, title: before.title.or(part.title), ..part };
    read.blocks.extend(part.blocks);
    read.problems.extend(part.problems);
    read.pages_without_text.extend(rest);
    read.truncated = !read.pages_without_text.is_empty();
    let bytes: usize = read.blocks.iter().map(|it| it.text.len()).sum();
    if read.truncated && (bytes > MOST_TEXT_BYTES || read.blocks.len() > MOST_BLOCKS / 2) {
        read.truncated = false;
        read.problems.push("the text of its pictures is cut at the limit".to_string());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::extract::scripted;
    use crate::model::{Anchor, Block, BlockKind, FileKind, NETWORKS_UNLOADED};

    type Outcome = std::result::Result<Document, ExtractFailure>;

    /// What a worker says that has read these pages and not those.
    fn part(read: impl IntoIterator<Item = u32>, left: impl IntoIterator<Item = u32>) -> Document {
        let block = |page| Block {
            kind: BlockKind::Paragraph,
            text: format!("page {page}"),
            anchor: Anchor { page: Some(page), ..Anchor::default() },
        };
        let (blocks, pages_without_text) =
            (read.into_iter().map(block).collect(), left.into_iter().collect::<Vec<_>>());
        Document { blocks, truncated: !pages_without_text.is_empty(), pages_without_text, ..Document::default() }
    }

    fn failed(reason: Reason) -> Outcome {
        Err(ExtractFailure { reason, detail: "why".into() })
    }

    /// Takes a turn with a worker that has a number of pages and reads so many in a call.
    async fn turn(begun: Document, pages: u32, in_a_call: usize) -> (Turn, Vec<usize>) {
        let asked = RefCell::new(Vec::new());
        let turn = take_turn(begun, |wanted: Option<Vec<u32>>| {
            let wanted = wanted.unwrap_or_else(|| (1..=pages).collect());
            asked.borrow_mut().push(wanted.len());
            let (read, left) = wanted.split_at(in_a_call.min(wanted.len()));
            std::future::ready(Ok(part(read.iter().copied(), left.iter().copied())))
        });
        (turn.await, asked.into_inner())
    }

    fn cache(dir: &tempfile::TempDir) -> EvidenceCache {
        EvidenceCache::open(&dir.path().join("e.sqlite"), 1 << 24).unwrap()
    }

    #[tokio::test]
    async fn a_book_is_read_in_turns_to_its_last_page() {
        let (mut read, mut turns) = (Document::default(), 0);
        while turns == 0 || is_begun(&read) {
            let (turn, asked) = turn(read, 4_500, 200).await;
            assert!(turn.progressed && turn.failure.is_none());
            assert!(asked.len() <= CALLS_OF_A_TURN);
            assert!(asked[usize::from(turns == 0)..].iter().all(|it| *it <= PAGES_OF_A_CALL), "{asked:?}");
            (read, turns) = (turn.read, turns + 1);
        }
        let pages: Vec<u32> = read.blocks.iter().filter_map(|it| it.anchor.page).collect();
        assert_eq!((pages, turns), ((1..=4_500).collect::<Vec<u32>>(), 3));
    }

    #[tokio::test]
    async fn what_is_read_to_its_end_or_holds_nothing_is_never_begun_again() {
        for (pages, in_a_call, calls) in [(0, 1, 1), (1, 1, 1), (3, 2, 2)] {
            let (turn, asked) = turn(Document::default(), pages, in_a_call).await;
            assert_eq!((turn.progressed, is_begun(&turn.read), asked.len()), (true, false, calls));
        }
    }

    #[tokio::test]
    async fn a_turn_in_which_no_page_is_read_has_failed() {
        let (turn, asked) = turn(part([1], [2, 3]), 3, 0).await;
        assert_eq!((turn.progressed, asked), (false, vec![2]));
        assert_eq!(turn.failure.unwrap().reason, Reason::Timeout);
        assert_eq!(turn.read.pages_without_text, [2, 3]);
    }

    #[tokio::test]
    async fn more_text_than_any_document_has_is_the_end() {
        let mut long = part([1], [2, 3]);
        long.blocks[0].text = "x".repeat(MOST_TEXT_BYTES + 1);
        let (turn, _) = turn(long, 3, 1).await;
        assert!(!is_begun(&turn.read) && turn.read.pages_without_text == [3] && turn.read.problems.len() == 1);
    }

    #[test]
    fn what_is_left_of_a_book_is_known_and_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, hash) = (cache(&dir), ContentHash([1; 32]));
        let keep = |every, read| keep(&cache, &key(hash, every), &Turn { read, progressed: true, failure: None });
        assert_eq!(known(&cache, hash, OcrMode::Auto), Known::Unread);
        assert_eq!(keep(false, part([1], [2])), Looked { has_text: true, goes_on: true, ..Looked::default() });
        assert_eq!(known(&cache, hash, OcrMode::Auto), Known::Begun(part([1], [2])));
        assert_eq!(known(&cache, hash, OcrMode::Always), Known::Unread);
        keep(true, part([1, 2], [3]));
        assert_eq!(known(&cache, hash, OcrMode::Auto), Known::Begun(part([1], [2])));
        assert_eq!(keep(true, part([1, 2, 3], [])), Looked { has_text: true, ..Looked::default() });
        assert_eq!(known(&cache, hash, OcrMode::Auto), Known::Read(part([1, 2, 3], [])), "all is better than some");
    }

    #[test]
    fn a_reader_that_hung_once_is_tried_a_second_time_and_no_third() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, key) = (cache(&dir), key(ContentHash([1; 32]), false));
        let fail = |reason, read: Document, progressed| {
            let turn = Turn { read, progressed, failure: failed(reason).err() };
            keep(&cache, &key, &turn).goes_on
        };
        assert!(fail(Reason::Timeout, Document::default(), false));
        assert_eq!(of(&cache, &key), Known::Unread);
        // What was read since makes up for it.
        assert!(fail(Reason::WorkerCrash, part([1], [2, 3]), true));
        assert_eq!(of(&cache, &key), Known::Begun(part([1], [2, 3])));
        assert!(!fail(Reason::OutOfMemory, part([1], [2, 3]), false));
        let Known::Read(read) = of(&cache, &key) else { panic!() };
        assert_eq!(
            (read.problems, read.blocks.len()),
            (vec!["its pictures were not read: out_of_memory why".into()], 1)
        );
        // As by readers of another version.
        cache.put(&EvidenceKey { version: "older".into(), ..key_of_tries(&key) }, &Document::default());
        assert_eq!(of(&cache, &key), Known::Begun(part([1], [2, 3])));
    }

    #[test]
    fn a_file_is_given_up_at_once_for_its_own_fault_and_never_for_want_of_tools() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir);
        for (number, reason, expected) in [
            (1, Reason::Encrypted, Known::GivenUp("its pictures were not read: encrypted why".into())),
            (2, Reason::UnsupportedType, Known::Unread),
            (3, Reason::NoJail, Known::Unread),
        ] {
            let key = key(ContentHash([number; 32]), false);
            let turn = Turn { read: Document::default(), progressed: false, failure: failed(reason).err() };
            assert_eq!(keep(&cache, &key, &turn), Looked::default(), "{reason:?}");
            assert_eq!(of(&cache, &key), expected);
        }
    }

    #[test]
    fn that_nothing_can_be_read_for_want_of_networks_is_told_and_no_fault_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, key) = (cache(&dir), key(ContentHash([1; 32]), false));
        let detail = format!("{NETWORKS_UNLOADED}: cannot load the model `det.onnx`");
        for (reason, expected) in [(Reason::UnsupportedType, Some(detail.clone())), (Reason::Damaged, None)] {
            let failure = Some(ExtractFailure { reason, detail: detail.clone() });
            let turn = Turn { read: Document::default(), progressed: false, failure };
            assert_eq!(of(&cache, &key), Known::Unread);
            assert_eq!(keep(&cache, &key, &turn).unloaded, expected);
        }
    }

    #[test]
    fn a_file_is_brought_in_when_its_index_knows_less_than_was_read() {
        for (detail, read, expected) in [
            ("2 pages without a text layer", part([1], []), true),
            ("1 pages read by OCR", part([1], []), false),
            ("1 pages read by OCR; 1 pages without a text layer", part([1, 2], []), true),
            ("1 pages read by OCR; 1 pages without a text layer", part([1], [2]), false),
            ("", part([], []), false),
        ] {
            assert_eq!(is_news(&read, detail), expected, "{detail}");
        }
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
            let tools = Tools::default();
            let found = read_content(&pool, &record, hash, &tools, false, Document::default()).await.unwrap();
            let found = found.map(|it| it.read);
            assert_eq!(found, expected, "{does}");
        }
    }
}
