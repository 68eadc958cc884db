//! OCR of one file: runs its next time slice, and decides whether a failed one is tried again.
//!
//! If the OCR worker hung or died, the machine may be the cause, so the file is tried a second time. After that it is
//! skipped until the file or the version of the file readers changes, like unreadable files.

use std::sync::Arc;

use crate::catalog::{EvidenceCache, EvidenceKey, READ_BY_OCR, WITHOUT_TEXT_LAYER};
use crate::error::Result;
use crate::extract::Tools;
use crate::index::blocking_tasks::blocking;
use crate::index::ocr::cached_text::{OcrState, cache_key, failures_key, give_up_reason, note_failure, state_of_key};
use crate::index::ocr::time_slice::OcrSlice;
use crate::index::ocr::time_slice::OcrWorkers;
use crate::index::ocr::time_slice::is_partial;
use crate::index::ocr::time_slice::run_slice;
use crate::index::state::IndexState;
use crate::model::{Document, ExtractFailure, FileId, FileRecord, FileState, Reason};

/// Result of one step (at most one time slice) of the OCR of a file.
#[derive(Debug, Default, PartialEq)]
pub(in crate::index) struct OcrStep {
    /// Why the OCR models cannot be loaded; `None` if they can. Without the models no image can be read.
    pub(in crate::index) unloaded: Option<String>,
    /// True if the file is not indexed yet. It is queued again until it is indexed.
    pub(in crate::index) is_early: bool,
    /// True if the cache has OCR text of the file that is not in the index.
    pub(in crate::index) has_new_text: bool,
    /// True if another step is needed: more pages are left, or a failed attempt is repeated.
    pub(in crate::index) continues: bool,
}

/// Runs one time slice of OCR on a file, unless its OCR is finished.
pub(in crate::index) async fn advance(inner: &IndexState, tools: &Tools, id: FileId, every: bool) -> Result<OcrStep> {
    let (catalog, cache) = (inner.catalog.clone(), inner.caches.evidence.clone());
    let found = blocking(move || {
        let Some(record) = catalog.records(&[id])?.pop() else { return Ok(Err(false)) };
        let hash = record.hash.filter(|_| is_read(&record));
        let found = hash.map(|it| (it, state_of_key(&cache, &cache_key(it, every))));
        Ok(found.ok_or(record.state == FileState::Pending).map(|(hash, known)| (hash, known, record)))
    });
    let (hash, known, record) = match found.await? {
        Ok(found) => found,
        Err(is_early) => return Ok(OcrStep { is_early, ..OcrStep::default() }),
    };
    let begun = match known {
        OcrState::Read(read) => {
            return Ok(OcrStep { has_new_text: is_missing_in_index(&read, &record.detail), ..OcrStep::default() });
        }
        OcrState::GivenUp(_) => return Ok(OcrStep::default()),
        OcrState::Partial(read) => read,
        OcrState::Unread => Document::default(),
    };
    let reader = OcrWorkers { pool: &inner.workers.skills, pace: &inner.ocr_queue.throttle, gate: &inner.pause };
    let Some(turn) = run_slice(&reader, &record, hash, tools, every, begun).await? else {
        return Ok(OcrStep::default());
    };
    let cache: Arc<EvidenceCache> = inner.caches.evidence.clone();
    let looked = blocking(move || Ok(cache_slice(&cache, &cache_key(hash, every), &turn))).await?;
    // Checks after the slice, which takes minutes, whether the file was withdrawn meanwhile.
    inner.purge_if_withdrawn(&record).await?;
    Ok(looked)
}

/// Returns whether the index lacks this OCR text of a file: another file with the same content was read, or the daemon
/// ended before it indexed the text. `detail` is the catalog's note about the file.
fn is_missing_in_index(read: &Document, detail: &str) -> bool {
    let is_old = detail.contains(READ_BY_OCR);
    let is_older = read.pages_without_text.is_empty() && detail.contains(WITHOUT_TEXT_LAYER);
    !read.blocks.is_empty() && (!is_old || is_older)
}

fn is_read(record: &FileRecord) -> bool {
    record.state == FileState::Indexed || record.reason == Some(Reason::NoText)
}

/// Caches the result of a time slice.
fn cache_slice(cache: &EvidenceCache, key: &EvidenceKey, turn: &OcrSlice) -> OcrStep {
    let mut is_kept = true;
    if turn.progressed {
        cache.put(key, &turn.read);
        // If the cache did not keep the result, OCR stops: it would read the same pages for ever.
        is_kept = cache.has(key);
        if cache.has(&failures_key(key)) {
            cache.put(&failures_key(key), &Document::default());
        }
    }
    let has_text = is_kept && turn.progressed && !turn.read.blocks.is_empty();
    let unloaded = turn.failure.as_ref().and_then(ExtractFailure::ocr_unavailable_detail).map(String::from);
    let goes_on = match &turn.failure {
        Some(_) if unloaded.is_some() => false,
        // These failures may not be caused by the file, so they are not recorded: the next job tries the file again.
        Some(failure) if matches!(failure.reason, Reason::NoJail | Reason::UnsupportedType) => {
            tracing::warn!(reason = failure.reason.name(), "OCR of a file failed: {}", failure.detail);
            false
        }
        Some(failure) => {
            note_failure(cache, key, failure);
            give_up_reason(cache, key).is_none() && cache.has(&failures_key(key))
        }
        None => is_partial(&turn.read),
    };
    OcrStep { unloaded, has_new_text: has_text, continues: is_kept && goes_on, is_early: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::ocr::cached_text::cached_state;
    use crate::index::ocr::time_slice::tests::part;
    use crate::model::{ContentHash, OCR_MODELS_UNAVAILABLE, OcrMode};

    type Outcome = std::result::Result<Document, ExtractFailure>;

    fn failed(reason: Reason) -> Outcome {
        Err(ExtractFailure { reason, detail: "why".into() })
    }

    fn cache(dir: &tempfile::TempDir) -> EvidenceCache {
        EvidenceCache::open(&dir.path().join("e.sqlite"), 1 << 24).unwrap()
    }

    #[test]
    fn partial_ocr_is_cached_and_continues() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, hash) = (cache(&dir), ContentHash([1; 32]));
        let keep = |every, read| {
            cache_slice(&cache, &cache_key(hash, every), &OcrSlice { read, progressed: true, failure: None })
        };
        assert_eq!(cached_state(&cache, hash, OcrMode::Auto), OcrState::Unread);
        assert_eq!(keep(false, part([1], [2])), OcrStep { has_new_text: true, continues: true, ..OcrStep::default() });
        assert_eq!(cached_state(&cache, hash, OcrMode::Auto), OcrState::Partial(part([1], [2])));
        assert_eq!(cached_state(&cache, hash, OcrMode::Always), OcrState::Unread);
        keep(true, part([1, 2], [3]));
        assert_eq!(cached_state(&cache, hash, OcrMode::Auto), OcrState::Partial(part([1], [2])));
        assert_eq!(keep(true, part([1, 2, 3], [])), OcrStep { has_new_text: true, ..OcrStep::default() });
        assert_eq!(
            cached_state(&cache, hash, OcrMode::Auto),
            OcrState::Read(part([1, 2, 3], [])),
            "every page beats some pages"
        );
    }

    #[test]
    fn hung_reader_is_retried_once() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, key) = (cache(&dir), cache_key(ContentHash([1; 32]), false));
        let fail = |reason, read: Document, progressed| {
            let turn = OcrSlice { read, progressed, failure: failed(reason).err() };
            cache_slice(&cache, &key, &turn).continues
        };
        assert!(fail(Reason::Timeout, Document::default(), false));
        assert_eq!(state_of_key(&cache, &key), OcrState::Unread);
        // A page that is read in between resets the count of failures.
        assert!(fail(Reason::WorkerCrash, part([1], [2, 3]), true));
        assert_eq!(state_of_key(&cache, &key), OcrState::Partial(part([1], [2, 3])));
        assert!(!fail(Reason::OutOfMemory, part([1], [2, 3]), false));
        let OcrState::Read(read) = state_of_key(&cache, &key) else { panic!() };
        assert_eq!((read.problems, read.blocks.len()), (vec!["OCR of its images failed: out_of_memory why".into()], 1));
        // Drops the failures, as another version of the file readers does.
        cache.put(&EvidenceKey { version: "older".into(), ..failures_key(&key) }, &Document::default());
        assert_eq!(state_of_key(&cache, &key), OcrState::Partial(part([1], [2, 3])));
    }

    #[test]
    fn bad_file_is_given_up_at_once_but_missing_tools_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir);
        for (number, reason, expected) in [
            (1, Reason::Encrypted, OcrState::GivenUp("OCR of its images failed: encrypted why".into())),
            (2, Reason::UnsupportedType, OcrState::Unread),
            (3, Reason::NoJail, OcrState::Unread),
        ] {
            let key = cache_key(ContentHash([number; 32]), false);
            let turn = OcrSlice { read: Document::default(), progressed: false, failure: failed(reason).err() };
            assert_eq!(cache_slice(&cache, &key, &turn), OcrStep::default(), "{reason:?}");
            assert_eq!(state_of_key(&cache, &key), expected);
        }
    }

    #[test]
    fn unloaded_networks_are_reported_and_not_blamed_on_file() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, key) = (cache(&dir), cache_key(ContentHash([1; 32]), false));
        let detail = format!("{OCR_MODELS_UNAVAILABLE}: cannot load the model `det.onnx`");
        for (reason, expected) in [(Reason::UnsupportedType, Some(detail.clone())), (Reason::Damaged, None)] {
            let failure = Some(ExtractFailure { reason, detail: detail.clone() });
            let turn = OcrSlice { read: Document::default(), progressed: false, failure };
            assert_eq!(state_of_key(&cache, &key), OcrState::Unread);
            assert_eq!(cache_slice(&cache, &key, &turn).unloaded, expected);
        }
    }

    #[test]
    fn file_is_indexed_when_ocr_read_more_than_index_has() {
        for (detail, read, expected) in [
            ("2 pages without a text layer", part([1], []), true),
            ("1 pages read by OCR", part([1], []), false),
            ("1 pages read by OCR; 1 pages without a text layer", part([1, 2], []), true),
            ("1 pages read by OCR; 1 pages without a text layer", part([1], [2]), false),
            ("", part([], []), false),
        ] {
            assert_eq!(is_missing_in_index(&read, detail), expected, "{detail}");
        }
    }
}
