//! The OCR text of a file in the evidence cache, and its failed attempts.

use crate::catalog::{EvidenceCache, EvidenceKey};
use crate::extract::READERS_VERSION;
use crate::index::ocr::time_slice::is_partial;
use crate::model::{ContentHash, Document, ExtractFailure, OcrMode};

/// Failed attempts, with no page read in between, after which a file is skipped.
const MAX_FAILURES: usize = 2;
/// Changed whenever OCR would return another text for the same image.
const OCR_VERSION: &str = "1";

/// The OCR text of a file in the cache.
#[derive(Debug, PartialEq)]
pub(crate) enum OcrState {
    /// Finished. The document may be empty.
    Read(Document),
    /// Partial: pages are left.
    Partial(Document),
    /// Failed for good, for this reason.
    GivenUp(String),
    /// Not started.
    Unread,
}

/// Returns the cached OCR state of this content.
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

/// OCR results are stored beside skill results of queries, under names that no query uses.
pub(in crate::index) fn cache_key(hash: ContentHash, every: bool) -> EvidenceKey {
    let skill = if every { "index_every_page" } else { "index_pictures" };
    EvidenceKey { hash, skill: skill.into(), version: OCR_VERSION.into() }
}

/// Failures are keyed by the version of the readers: new readers try again.
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

/// Returns why a file is not tried any more.
pub(in crate::index) fn give_up_reason(cache: &EvidenceCache, key: &EvidenceKey) -> Option<String> {
    let tries = cache.get(&failures_key(key))?;
    let is_over = tries.truncated || tries.problems.len() >= MAX_FAILURES;
    tries.problems.last().filter(|_| is_over).map(|it| format!("its pictures were not read: {it}"))
}

/// Records a failure. Only failures that ended their worker are retried: the others say that the file is unreadable.
pub(in crate::index) fn note_failure(cache: &EvidenceCache, key: &EvidenceKey, failure: &ExtractFailure) {
    let own = failures_key(key);
    let mut tries = cache.get(&own).unwrap_or_default();
    tries.problems.push(format!("{} {}", failure.reason.name(), failure.detail).trim().to_string());
    // The same refusal would come again.
    tries.truncated |= !failure.reason.killed_worker();
    cache.put(&own, &tries);
}
