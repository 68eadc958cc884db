//! Files that failed are left alone until they change; or until what failed on them has changed: the readers, with
//! another version of vic, or the jail that they need. Where the machine failed, nothing tells that it is well again:
//! each job tries.

use std::sync::Arc;

use tracing::{info, warn};

use crate::catalog::{Catalog, CorpusBook, EvidenceCache, RequeueScope};
use crate::error::Result;
use crate::index::{Inner, blocking};
use crate::model::{ExtractLimits, Reason, Redaction};
use crate::{chunk, extract, secrets};

/// Key in the catalog of the readers that read last.
const READERS: &str = "readers";

/// Key in the catalog of what was blacked out when files were read: the setting, and the version of its rules.
const BLACKED_OUT: &str = "blacked_out";

/// Key in the catalog of what files were cut into passages by.
const CUT: &str = "cut";

/// Fails the files that the last runs were killed over too often.
pub(crate) fn fail_struck(catalog: &Catalog) -> Result<()> {
    let struck = catalog.fail_struck()?;
    if struck > 0 {
        warn!(files = struck, "files whose readers died or hung when vic ended are left alone until they change");
    }
    Ok(())
}

/// Queues what earlier readers failed on, once for each version of the readers, and of the limits that are set for them.
pub(crate) fn retry_with_new_readers(catalog: &Catalog, limits: &ExtractLimits) -> Result<()> {
    let readers = format!("{} for {} s in {} MiB", extract::READERS, limits.seconds, limits.memory_mib);
    if catalog.meta_get(READERS)?.as_deref() == Some(&readers) {
        return Ok(());
    }
    let again = catalog.requeue(&RequeueScope::Failed(None))?;
    if again > 0 {
        info!(files = again, "files that failed are tried again, because the readers are new, or their limits");
    }
    catalog.meta_set(READERS, &readers)
}

/// Queues every file when something else is to be blacked out than when it was read, and forgets what skills and the contract
/// read until then. What is said of a file stays until it has been read again, and is on disk until the table is compacted.
pub(crate) fn read_by_other_rules(
    catalog: &Catalog,
    evidence: &EvidenceCache,
    book: &CorpusBook,
    redaction: Redaction,
) -> Result<()> {
    let rules = format!("{} {}", redaction.name(), secrets::RULES);
    if catalog.meta_get(BLACKED_OUT)?.as_deref() == Some(&rules) {
        return Ok(());
    }
    evidence.forget(&evidence.hashes()?)?;
    book.forget(&book.hashes()?)?;
    let again = catalog.requeue(&RequeueScope::All)?;
    if again > 0 {
        info!(files = again, "every file is read again, because other texts are blacked out than before");
    }
    catalog.meta_set(BLACKED_OUT, &rules)
}

/// Queues every file when it would be cut into other passages than it was, or these would have other places. What skills found
/// in it is kept, and so are the vectors of texts that stay the same; until a file is read again, its old passages answer.
pub(crate) fn cut_by_other_rules(catalog: &Catalog) -> Result<()> {
    let rules = chunk::rules();
    if catalog.meta_get(CUT)?.as_deref() == Some(&rules) {
        return Ok(());
    }
    let again = catalog.requeue(&RequeueScope::All)?;
    if again > 0 {
        info!(files = again, "every file is read again, because passages are made otherwise than before");
    }
    catalog.meta_set(CUT, &rules)
}

/// Queues what failed for no fault of its content: too many open files, a share that was away for a moment, a disk that
/// could not read, rights that a group or a folder above gives.
pub(crate) fn retry_what_the_machine_refused(catalog: &Catalog) -> Result<()> {
    for reason in [Reason::Io, Reason::PermissionDenied] {
        catalog.requeue(&RequeueScope::Failed(Some(reason)))?;
    }
    Ok(())
}

/// Finds out whether readers can be jailed here, and queues what waited for that.
pub(crate) async fn look_at_jail(inner: Arc<Inner>) {
    inner.pool.probe().await;
    if inner.pool.is_jailed() != Some(true) {
        return;
    }
    let catalog = inner.catalog.clone();
    match blocking(move || catalog.requeue(&RequeueScope::Failed(Some(Reason::NoJail)))).await {
        Ok(0) => {}
        Ok(_) => inner.changed.notify_one(),
        Err(error) => warn!(%error, "cannot queue the files that waited for a jail"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::catalog::{AsRead, Belief, EvidenceKey, ReasonMark};
    use crate::config::WalkConfig;
    use crate::model::{ContentHash, Contents, Document, FileKind, FileState};
    use crate::warehouse::{Leash, Rules, walk};

    /// A catalog with one file that failed.
    pub(in crate::index) fn catalog(folder: &std::path::Path) -> Catalog {
        std::fs::create_dir(folder.join("root")).unwrap();
        std::fs::write(folder.join("root/a.pdf"), "damaged").unwrap();
        let catalog = Catalog::open(&folder.join("catalog.sqlite")).unwrap();
        let root = catalog.add_root(&folder.join("root").canonicalize().unwrap()).unwrap();
        let config = WalkConfig { ignore: vec![], hidden: false, max_file_bytes: 99, watch: false, rescan_seconds: 9 };
        let mut found = Vec::new();
        let never = Leash::default();
        walk(&root.path, &Rules::new(&config).unwrap(), None, &never, |it| found.push(it)).unwrap();
        catalog.apply_scan(root.id, None, found, &[], true, Belief::All).unwrap();
        fail(&catalog, Reason::WorkerCrash);
        catalog
    }

    fn fail(catalog: &Catalog, reason: Reason) {
        let file = catalog.next_pending(0, 1).unwrap().remove(0);
        let mark = ReasonMark {
            file: AsRead::of(&file),
            reason,
            detail: String::new(),
            hash: None,
            kind: FileKind::Pdf,
            media_type: String::new(),
            contents: Contents::default(),
        };
        catalog.mark_reason(&[mark]).unwrap();
    }

    #[test]
    fn what_failed_is_tried_once_by_each_version_of_the_readers_and_of_their_limits() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path());
        let pending = || catalog.pending_count(None).unwrap();
        catalog.meta_set(READERS, "older").unwrap();
        let usual = ExtractLimits::default();
        for limits in [usual.clone(), ExtractLimits { seconds: usual.seconds + 1, ..usual.clone() }] {
            retry_with_new_readers(&catalog, &limits).unwrap();
            assert_eq!(pending(), 1);
            fail(&catalog, Reason::Timeout);
            retry_with_new_readers(&catalog, &limits).unwrap();
            assert_eq!(pending(), 0, "the same readers would fail again");
        }
    }

    #[test]
    fn what_was_read_is_read_again_once_when_something_else_is_to_be_blacked_out() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path());
        let evidence = EvidenceCache::open(&folder.path().join("evidence.sqlite"), 1 << 20).unwrap();
        let book = CorpusBook::open(&folder.path().join("corpus.sqlite")).unwrap();
        let pending_after = |redaction| {
            let hash = ContentHash([7; 32]);
            evidence.put(&EvidenceKey { hash, skill: "ocr_image".into(), version: "1".into() }, &Document::default());
            book.put_facts(hash, "{}").unwrap();
            read_by_other_rules(&catalog, &evidence, &book, redaction).unwrap();
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
    fn every_file_is_read_again_once_when_passages_are_made_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path());
        for (made_by, pending) in [(None, 1), (Some("0.9"), 1)] {
            if let Some(made_by) = made_by {
                catalog.meta_set(CUT, made_by).unwrap();
            }
            cut_by_other_rules(&catalog).unwrap();
            assert_eq!(catalog.pending_count(None).unwrap(), pending);
            fail(&catalog, Reason::WorkerCrash);
            cut_by_other_rules(&catalog).unwrap();
            assert_eq!(catalog.pending_count(None).unwrap(), 0, "it was cut by these");
        }
    }

    #[test]
    fn what_the_machine_refused_is_tried_again_and_what_is_wrong_with_the_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path());
        let pending_after = || {
            retry_what_the_machine_refused(&catalog).unwrap();
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
    fn only_what_failed_for_that_reason_is_queued() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path());
        let requeue = |reason| catalog.requeue(&RequeueScope::Failed(Some(reason))).unwrap();
        assert_eq!((requeue(Reason::NoJail), requeue(Reason::WorkerCrash)), (0, 1));
        let state = catalog.next_pending(0, 1).unwrap()[0].state;
        assert_eq!(state, FileState::Pending);
    }
}
