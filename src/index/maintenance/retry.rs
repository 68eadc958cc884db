//! Decides which failed files are tried again. A failed file is skipped until it changes, or until the cause of the
//! failure changes: the file readers (with another version of vic) or the sandbox that they need. No event reports that
//! an error of the machine has passed, so each job retries files that failed because of one.

use std::sync::Arc;

use tracing::{info, warn};

use crate::catalog::{Catalog, CorpusStore, EvidenceCache, RequeueScope};
use crate::error::Result;
use crate::index::blocking_tasks::blocking;
use crate::index::state::IndexState;
use crate::model::{ExtractLimits, Reason, Redaction};
use crate::{chunk, extract, secrets};

/// Catalog key of the version and limits of the file readers that ran last.
const READERS_KEY: &str = "readers";

/// Catalog key of the redaction setting and the version of its rules with which the indexed texts were redacted.
const REDACTION_KEY: &str = "blacked_out";

/// Catalog key of the chunking rules with which the indexed texts were chunked.
const CHUNKING_KEY: &str = "cut";

/// Marks files as failed if, in earlier runs of vic, too many attempts to read them crashed or hung the worker.
pub(crate) fn fail_repeat_offenders(catalog: &Catalog) -> Result<()> {
    let struck = catalog.fail_by_strikes()?;
    if struck > 0 {
        warn!(files = struck, "files that repeatedly crashed or hung their reader are skipped until they change");
    }
    Ok(())
}

/// Requeues failed files if the version of the file readers or their limits changed since the last start.
pub(crate) fn retry_with_new_readers(catalog: &Catalog, limits: &ExtractLimits) -> Result<()> {
    let readers = format!("{} for {} s in {} MiB", extract::READERS_VERSION, limits.seconds, limits.memory_mib);
    if catalog.meta_get(READERS_KEY)?.as_deref() == Some(&readers) {
        return Ok(());
    }
    let again = catalog.requeue(&RequeueScope::Failed(None))?;
    if again > 0 {
        info!(files = again, "retrying failed files: the readers or their limits changed");
    }
    catalog.meta_set(READERS_KEY, &readers)
}

/// Requeues every file if the redaction rules changed, and drops the cached results of skills and of the corpus API.
/// Queries return the old text of a file until it is indexed again, and the old text stays on disk until the table is
/// compacted.
pub(crate) fn requeue_if_redaction_changed(
    catalog: &Catalog,
    evidence: &EvidenceCache,
    book: &CorpusStore,
    redaction: Redaction,
) -> Result<()> {
    let rules = format!("{} {}", redaction.name(), secrets::RULES_VERSION);
    if catalog.meta_get(REDACTION_KEY)?.as_deref() == Some(&rules) {
        return Ok(());
    }
    evidence.forget(&evidence.hashes()?)?;
    book.forget(&book.hashes()?)?;
    let again = catalog.requeue(&RequeueScope::All)?;
    if again > 0 {
        info!(files = again, "redaction rules changed; re-indexing all files");
    }
    catalog.meta_set(REDACTION_KEY, &rules)
}

/// Requeues every file if the chunking rules changed. Skill results, and vectors of unchanged texts, are kept. Queries
/// return the old chunks of a file until it is indexed again.
pub(crate) fn requeue_if_chunking_changed(catalog: &Catalog) -> Result<()> {
    let rules = chunk::version();
    if catalog.meta_get(CHUNKING_KEY)?.as_deref() == Some(&rules) {
        return Ok(());
    }
    let again = catalog.requeue(&RequeueScope::All)?;
    if again > 0 {
        info!(files = again, "chunking rules changed; re-indexing all files");
    }
    catalog.meta_set(CHUNKING_KEY, &rules)
}

/// Requeues files that failed for reasons outside their content: too many open files, an unavailable share, a disk
/// error, or permissions of a group or a parent folder.
pub(crate) fn retry_machine_errors(catalog: &Catalog) -> Result<()> {
    for reason in [Reason::Io, Reason::PermissionDenied] {
        catalog.requeue(&RequeueScope::Failed(Some(reason)))?;
    }
    Ok(())
}

/// Checks whether file readers can run in a sandbox. If so, requeues the files that waited for a sandbox.
pub(crate) async fn probe_jail(inner: Arc<IndexState>) {
    inner.workers.pool.probe().await;
    if inner.workers.pool.is_jailed() != Some(true) {
        return;
    }
    let catalog = inner.catalog.clone();
    match blocking(move || catalog.requeue(&RequeueScope::Failed(Some(Reason::NoJail)))).await {
        Ok(0) => {}
        Ok(_) => inner.runs.changed.notify_one(),
        Err(error) => warn!(%error, "cannot requeue the files that waited for a sandbox"),
    }
}

#[cfg(test)]
pub(in crate::index) mod tests {
    use super::*;
    use crate::catalog::{DeletionPolicy, EvidenceKey, FileStamp, ReasonMark};
    use crate::config::WalkConfig;
    use crate::files::{Rules, WalkToken, walk};
    use crate::model::{ContentHash, Contents, Document, FileKind, FileState};

    /// Creates a catalog with one failed file.
    pub(in crate::index) fn catalog(folder: &std::path::Path) -> Catalog {
        std::fs::create_dir(folder.join("root")).unwrap();
        std::fs::write(folder.join("root/a.pdf"), "damaged").unwrap();
        let catalog = Catalog::open(&folder.join("catalog.sqlite")).unwrap();
        let root = catalog.add_root(&folder.join("root").canonicalize().unwrap()).unwrap();
        let config =
            WalkConfig { ignore: vec![], include_hidden: false, max_file_bytes: 99, watch: false, rescan_seconds: 9 };
        let mut found = Vec::new();
        let never = WalkToken::default();
        walk(&root.path, &Rules::new(&config).unwrap(), None, &never, |it| found.push(it)).unwrap();
        catalog.apply_scan(root.id, None, found, &[], true, DeletionPolicy::All).unwrap();
        fail(&catalog, Reason::WorkerCrash);
        catalog
    }

    fn fail(catalog: &Catalog, reason: Reason) {
        let file = catalog.next_pending(0, 1).unwrap().remove(0);
        let mark = ReasonMark {
            file: FileStamp::new(&file),
            reason,
            detail: String::new(),
            hash: None,
            kind: FileKind::Pdf,
            media_type: String::new(),
            contents: Contents::default(),
        };
        catalog.mark_reason(&[mark]).unwrap();
    }

    // Case C12
    #[test]
    fn failed_file_is_retried_once_per_reader_version_and_limits() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path());
        let pending = || catalog.pending_count(None).unwrap();
        catalog.meta_set(READERS_KEY, "older").unwrap();
        let usual = ExtractLimits::default();
        for limits in [usual.clone(), ExtractLimits { seconds: usual.seconds + 1, ..usual.clone() }] {
            retry_with_new_readers(&catalog, &limits).unwrap();
            assert_eq!(pending(), 1);
            fail(&catalog, Reason::Timeout);
            retry_with_new_readers(&catalog, &limits).unwrap();
            assert_eq!(pending(), 0, "the same readers would fail again");
        }
    }

    // Case E13
    #[test]
    fn redaction_change_requeues_all_files_once() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path());
        let evidence = EvidenceCache::open(&folder.path().join("evidence.sqlite"), 1 << 20).unwrap();
        let book = CorpusStore::open(&folder.path().join("corpus.sqlite")).unwrap();
        let pending_after = |redaction| {
            let hash = ContentHash([7; 32]);
            evidence.put(&EvidenceKey { hash, skill: "ocr_image".into(), version: "1".into() }, &Document::default());
            book.put_facts(hash, "{}").unwrap();
            requeue_if_redaction_changed(&catalog, &evidence, &book, redaction).unwrap();
            let pending = catalog.pending_count(None).unwrap();
            let is_known = (!evidence.hashes().unwrap().is_empty(), !book.hashes().unwrap().is_empty());
            assert_eq!(is_known, (pending == 0, pending == 0));
            if pending > 0 {
                fail(&catalog, Reason::WorkerCrash);
            }
            pending
        };
        let modes = [Redaction::Keys, Redaction::Keys, Redaction::All, Redaction::All, Redaction::None];
        assert_eq!(modes.map(pending_after), [1, 0, 1, 0, 1]);
    }

    #[test]
    fn chunking_change_requeues_all_files_once() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path());
        for (made_by, pending) in [(None, 1), (Some("0.9"), 1)] {
            if let Some(made_by) = made_by {
                catalog.meta_set(CHUNKING_KEY, made_by).unwrap();
            }
            requeue_if_chunking_changed(&catalog).unwrap();
            assert_eq!(catalog.pending_count(None).unwrap(), pending);
            fail(&catalog, Reason::WorkerCrash);
            requeue_if_chunking_changed(&catalog).unwrap();
            assert_eq!(catalog.pending_count(None).unwrap(), 0, "the file was chunked by these rules");
        }
    }

    #[test]
    fn machine_errors_are_retried_and_file_errors_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path());
        let pending_after = || {
            retry_machine_errors(&catalog).unwrap();
            catalog.pending_count(None).unwrap()
        };
        assert_eq!(pending_after(), 0);
        for reason in [Reason::Io, Reason::PermissionDenied] {
            catalog.requeue(&RequeueScope::All).unwrap();
            fail(&catalog, reason);
            assert_eq!(pending_after(), 1, "{reason:?}");
        }
    }

    #[test]
    fn requeue_by_reason_leaves_other_failures() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path());
        let requeue = |reason| catalog.requeue(&RequeueScope::Failed(Some(reason))).unwrap();
        assert_eq!((requeue(Reason::NoJail), requeue(Reason::WorkerCrash)), (0, 1));
        let state = catalog.next_pending(0, 1).unwrap()[0].state;
        assert_eq!(state, FileState::Pending);
    }
}
