//! Reads and writes OCR results in the evidence cache: the OCR text of a file's content, and failed OCR attempts.

use crate::catalog::{EvidenceCache, EvidenceKey};
use crate::extract::READERS_VERSION;
use crate::index::ocr::time_slice::is_partial;
use crate::model::{ContentHash, Document, ExtractFailure, OcrMode};

/// A file is skipped after this many failed attempts in a row during which no page was read.
const MAX_FAILURES: usize = 2;
/// Version of the OCR results. Must be increased when OCR returns another text for the same image.
const OCR_VERSION: &str = "1";

/// How far the OCR of a file's content has come, as recorded in the cache.
#[derive(Debug, PartialEq)]
pub(crate) enum OcrState {
    /// OCR is finished. The document may be empty.
    Read(Document),
    /// OCR has read some pages; others are left.
    Partial(Document),
    /// OCR failed and is not tried again, for this reason.
    GivenUp(String),
    /// OCR has read no page.
    Unread,
}

/// Returns the cached OCR state of this content, preferring a finished OCR of every page.
pub(crate) fn cached_state(cache: &EvidenceCache, hash: ContentHash, mode: OcrMode) -> OcrState {
    let every = state_of_key(cache, &cache_key(hash, true));
    if mode == OcrMode::Always || matches!(every, OcrState::Read(_)) {
        return every;
    }
    match (state_of_key(cache, &cache_key(hash, false)), every) {
        (OcrState::Unread, OcrState::Partial(read)) => OcrState::Partial(read),
        (unread, _) => unread,
    }
}

/// Returns the cache key of OCR results. The cache also holds results of skills that queries ran, under other names.
pub(in crate::index) fn cache_key(hash: ContentHash, every: bool) -> EvidenceKey {
    let skill = if every { "index_every_page" } else { "index_pictures" };
    EvidenceKey { hash, skill: skill.into(), version: OCR_VERSION.into() }
}

/// Returns the cache key of failed attempts. It has the file readers' version, so that a new version tries again.
pub(in crate::index) fn failures_key(key: &EvidenceKey) -> EvidenceKey {
    EvidenceKey { skill: format!("{}_ended_badly", key.skill), version: READERS_VERSION.into(), ..key.clone() }
}

pub(in crate::index) fn state_of_key(cache: &EvidenceCache, key: &EvidenceKey) -> OcrState {
    match cache.get(key) {
        Some(read) if !is_partial(&read) => OcrState::Read(read),
        found => match (found, give_up_reason(cache, key)) {
            (Some(mut read), Some(why)) => {
                read.problems.push(why);
                OcrState::Read(read)
            }
            (Some(read), None) => OcrState::Partial(read),
            (None, Some(why)) => OcrState::GivenUp(why),
            (None, None) => OcrState::Unread,
        },
    }
}

/// Returns why OCR of a file is not tried again, or `None` if it will be tried again.
pub(in crate::index) fn give_up_reason(cache: &EvidenceCache, key: &EvidenceKey) -> Option<String> {
    let tries = cache.get(&failures_key(key))?;
    let is_over = tries.truncated || tries.problems.len() >= MAX_FAILURES;
    tries.problems.last().filter(|_| is_over).map(|it| format!("OCR of its images failed: {it}"))
}

/// Records a failed attempt. OCR is tried again only if the attempt ended the worker; any other failure means that the
/// file is unreadable.
pub(in crate::index) fn note_failure(cache: &EvidenceCache, key: &EvidenceKey, failure: &ExtractFailure) {
    let own = failures_key(key);
    let mut tries = cache.get(&own).unwrap_or_default();
    tries.problems.push(format!("{} {}", failure.reason.name(), failure.detail).trim().to_string());
    // `truncated` marks a failure that would come again, so that the file is given up at once.
    tries.truncated |= !failure.reason.killed_worker();
    cache.put(&own, &tries);
}
