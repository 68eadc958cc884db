//! Files over which a skill's worker hung or died. Each such end costs a question its whole time, so after some of them a
//! file is left alone for a day, or until its content, or the skill, changes. Kept in the evidence cache, so that a restart
//! forgets nothing.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::catalog::{EvidenceCache, EvidenceKey};
use crate::model::{Document, ExtractFailure, Reason};

/// Bad ends after which a file is not tried again. The first may have been the machine's fault.
pub(super) const MOST: usize = 2;
/// Whoever had less time than this is not to blame for needing more: the rest of a question's budget may be a second.
const FAIR_SECONDS: u32 = 15;
/// After so long a file is tried again: a machine that was too busy to read a page is not so for ever.
const FORGOTTEN_AFTER_SECONDS: u64 = 24 * 60 * 60;

/// The bad ends of this skill over this content, oldest first.
pub(super) fn of(cache: &EvidenceCache, key: &EvidenceKey) -> Vec<String> {
    let recent = |it: &Document| {
        let last = it.title.as_ref().and_then(|it| it.parse().ok()).unwrap_or(0);
        now().saturating_sub(last) < FORGOTTEN_AFTER_SECONDS
    };
    cache.get(&own(key)).filter(recent).map(|it| it.problems).unwrap_or_default()
}

/// Writes one down, if it was the file's fault.
pub(super) fn add(cache: &EvidenceCache, key: &EvidenceKey, failure: &ExtractFailure, seconds: u32) {
    let is_bad = match failure.reason {
        Reason::Timeout => seconds >= FAIR_SECONDS,
        reason => reason.ends_its_reader(),
    };
    if is_bad {
        let mut problems = of(cache, key);
        problems.push(format!("{} {}", failure.reason.name(), failure.detail).trim().to_string());
        // With the moment of the last one.
        cache.put(&own(key), &Document { title: Some(now().to_string()), problems, ..Document::default() });
    }
}

/// Seconds since the epoch.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

/// Lies beside what the skill found, under a name that no skill has.
fn own(key: &EvidenceKey) -> EvidenceKey {
    EvidenceKey { skill: format!("{}_ended_badly", key.skill), ..key.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ContentHash;

    #[test]
    fn only_ends_that_are_the_files_fault_count_and_only_for_its_content_and_skill() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e.sqlite");
        let key = EvidenceKey { hash: ContentHash([1; 32]), skill: "ocr_image".into(), version: "1".into() };
        let cache = EvidenceCache::open(&path, 1 << 20).unwrap();
        let failed = |reason| ExtractFailure { reason, detail: "why".into() };
        for (reason, seconds) in [(Reason::Timeout, 3), (Reason::Damaged, 20), (Reason::Encrypted, 20)] {
            add(&cache, &key, &failed(reason), seconds);
        }
        assert_eq!(of(&cache, &key), [""; 0]);
        add(&cache, &key, &failed(Reason::Timeout), 20);
        add(&cache, &key, &failed(Reason::WorkerCrash), 1);
        drop(cache);
        let cache = EvidenceCache::open(&path, 1 << 20).unwrap();
        assert_eq!(of(&cache, &key), ["timeout why", "worker_crash why"], "a restart forgets nothing");
        assert_eq!(of(&cache, &EvidenceKey { version: "2".into(), ..key.clone() }), [""; 0]);
        assert_eq!(of(&cache, &EvidenceKey { hash: ContentHash([2; 32]), ..key.clone() }), [""; 0]);
        let old = (now() - FORGOTTEN_AFTER_SECONDS).to_string();
        cache.put(&own(&key), &Document { title: Some(old), problems: vec!["x".into()], ..Document::default() });
        assert_eq!(of(&cache, &key), [""; 0], "a day later it is tried again");
    }
}
