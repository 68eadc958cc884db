//! Crash counter: counts how often the worker of a skill crashed or timed out on a file. Each failure costs a question its
//! whole time budget, so after [`MAX_CRASHES`] failures the file is skipped for a day, or until its content or the skill
//! changes. The counts are kept in the evidence cache, so that they survive a restart.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::catalog::{EvidenceCache, EvidenceKey};
use crate::model::{Document, ExtractFailure, Reason};

/// A file is skipped after this many crashes and timeouts. A single one may have been caused by the machine.
pub(super) const MAX_CRASHES: usize = 2;
/// A timeout counts as a failure only if the worker had at least this many seconds, because a question may have only
/// one second left.
const MIN_COUNTED_SECONDS: u32 = 15;
/// The counts of a file expire this many seconds after the last failure: a timeout on a busy machine is not permanent.
const EXPIRY_SECONDS: u64 = 24 * 60 * 60;

/// Returns the recent crashes and timeouts of this skill on this content, oldest first.
pub(super) fn recent_crashes(cache: &EvidenceCache, key: &EvidenceKey) -> Vec<String> {
    let recent = |it: &Document| {
        let last = it.title.as_ref().and_then(|it| it.parse().ok()).unwrap_or(0);
        now_seconds().saturating_sub(last) < EXPIRY_SECONDS
    };
    cache.get(&counter_key(key)).filter(recent).map(|it| it.problems).unwrap_or_default()
}

/// Records a failure if it counts as a crash or timeout.
pub(super) fn record_failure(cache: &EvidenceCache, key: &EvidenceKey, failure: &ExtractFailure, seconds: u32) {
    let is_bad = match failure.reason {
        Reason::Timeout => seconds >= MIN_COUNTED_SECONDS,
        reason => reason.killed_worker(),
    };
    if is_bad {
        let mut problems = recent_crashes(cache, key);
        problems.push(format!("{} {}", failure.reason.name(), failure.detail).trim().to_string());
        // Stores the time of the last failure as the title of the cached document.
        cache.put(
            &counter_key(key),
            &Document { title: Some(now_seconds().to_string()), problems, ..Document::default() },
        );
    }
}

/// Returns the seconds since the epoch.
fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

/// Returns the cache key of the counts: that of the skill's result, with a suffix that no skill name has.
fn counter_key(key: &EvidenceKey) -> EvidenceKey {
    EvidenceKey { skill: format!("{}_ended_badly", key.skill), ..key.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ContentHash;

    #[test]
    fn crashes_count_per_content_and_skill_and_expire() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e.sqlite");
        let key = EvidenceKey { hash: ContentHash([1; 32]), skill: "ocr_image".into(), version: "1".into() };
        let cache = EvidenceCache::open(&path, 1 << 20).unwrap();
        let failed = |reason| ExtractFailure { reason, detail: "why".into() };
        for (reason, seconds) in [(Reason::Timeout, 3), (Reason::Damaged, 20), (Reason::Encrypted, 20)] {
            record_failure(&cache, &key, &failed(reason), seconds);
        }
        assert_eq!(recent_crashes(&cache, &key), [""; 0]);
        record_failure(&cache, &key, &failed(Reason::Timeout), 20);
        record_failure(&cache, &key, &failed(Reason::WorkerCrash), 1);
        drop(cache);
        let cache = EvidenceCache::open(&path, 1 << 20).unwrap();
        assert_eq!(recent_crashes(&cache, &key), ["timeout why", "worker_crash why"], "the counts survive a restart");
        assert_eq!(recent_crashes(&cache, &EvidenceKey { version: "2".into(), ..key.clone() }), [""; 0]);
        assert_eq!(recent_crashes(&cache, &EvidenceKey { hash: ContentHash([2; 32]), ..key.clone() }), [""; 0]);
        let old = (now_seconds() - EXPIRY_SECONDS).to_string();
        cache
            .put(&counter_key(&key), &Document { title: Some(old), problems: vec!["x".into()], ..Document::default() });
        assert_eq!(recent_crashes(&cache, &key), [""; 0], "the counts expire after a day");
    }
}
