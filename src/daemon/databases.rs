//! Opens the databases of a data directory when the daemon starts, and reports damaged ones.

use std::path::Path;
use std::sync::Arc;

use tracing::warn;

use crate::catalog::{AuditLog, Catalog, CorpusStore, EvidenceCache, JobLog, Recovery, SearchLog};
use crate::config::Config;
use crate::daemon::process;
use crate::egress;
use crate::error::Result;
use crate::index::Index;

/// Maximum size of the cache of skill results (OCR text etc.): enough for some hundred thousand scanned pages. Beyond it,
/// the oldest are evicted.
const EVIDENCE_BYTES: u64 = 512 << 20;

/// The open databases of a data directory.
pub(super) struct Databases {
    pub(super) catalog: Catalog,
    pub(super) jobs: JobLog,
    pub(super) audit: Arc<AuditLog>,
    pub(super) evidence: Arc<EvidenceCache>,
    pub(super) book: Arc<CorpusStore>,
    pub(super) searches: SearchLog,
    /// What was recovered from a damaged catalog; `None` if it was intact.
    pub(super) rescue: Option<Recovery>,
}

impl Databases {
    /// Opens or creates each database. From then on, outgoing requests are written to the audit log.
    ///
    /// # Errors
    /// A database cannot be read or written, or was written by a newer vic.
    pub(super) fn open(config: &Config) -> Result<Databases> {
        let (catalog, rescue) = Catalog::open_or_recover(&config.catalog_path())?;
        process::private_dir(config.job_db_path.parent().unwrap_or(&config.data_dir))?;
        let jobs = JobLog::open(&config.job_db_path)?;
        if let Err(error) = jobs.cancel_interrupted() {
            // Not fatal, e.g. on a full disk: the next start marks these jobs as interrupted.
            warn!(%error, "cannot mark the jobs of the last run as interrupted");
        }
        // Opens the audit log twice. Only the first open can find it damaged, so that one is kept in `audit` for the
        // report.
        let audit = Arc::new(AuditLog::open(&config.audit_path())?);
        egress::set_audit_log(AuditLog::open(&config.audit_path())?);
        Ok(Databases {
            catalog,
            jobs,
            audit,
            evidence: Arc::new(EvidenceCache::open(&config.evidence_path(), EVIDENCE_BYTES)?),
            book: Arc::new(CorpusStore::open(&config.corpus_path())?),
            searches: SearchLog::open(&config.searches_path())?,
            rescue,
        })
    }
}

/// Reports in the status that a damaged catalog was moved aside and its files are read again.
pub(super) fn report_catalog_recovery(rescue: Option<Recovery>, index: &Index) {
    if let Some(Recovery { set_aside, roots }) = rescue {
        let (kept, roots) = (set_aside.display(), roots.len());
        let sentence =
            format!("the catalog was damaged and is kept as `{kept}`; re-reading the files of its {roots} roots");
        index.note_damage("catalog", sentence);
    }
}

/// Reports in the status that a damaged database, whose content cannot be rebuilt from files, was moved aside.
pub(super) fn report_loss(index: &Index, what: &str, set_aside: Option<&Path>) {
    if let Some(kept) = set_aside {
        index.note_damage(
            what,
            format!("{what}: damaged and recreated; the damaged file is kept as `{}`", kept.display()),
        );
    }
}
