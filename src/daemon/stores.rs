//! The databases of a data directory, and what opening them found.

use std::path::Path;
use std::sync::Arc;

use tracing::warn;

use crate::catalog::{AuditLog, Catalog, CorpusBook, EvidenceCache, Jobs, Rescue};
use crate::config::Config;
use crate::daemon::process;
use crate::embed::egress;
use crate::error::Result;
use crate::index::Index;

/// Kept of what skills found: the text of some hundred thousand scanned pages.
const EVIDENCE_BYTES: u64 = 512 << 20;

/// See the module.
pub(super) struct Stores {
    pub(super) catalog: Catalog,
    pub(super) jobs: Jobs,
    pub(super) audit: Arc<AuditLog>,
    pub(super) evidence: Arc<EvidenceCache>,
    pub(super) book: Arc<CorpusBook>,
    /// What became of a damaged catalog.
    pub(super) rescue: Option<Rescue>,
}

impl Stores {
    /// Opens or makes each. From here on the gate writes to its log.
    ///
    /// # Errors
    /// One cannot be read or written, or a newer vic wrote it.
    pub(super) fn open(config: &Config) -> Result<Stores> {
        let (catalog, rescue) = Catalog::open_or_rescue(&config.catalog_path())?;
        process::private_dir(config.job_db_path.parent().unwrap_or(&config.data_dir))?;
        let jobs = Jobs::open(&config.job_db_path)?;
        if let Err(error) = jobs.interrupt_running() {
            // A full disk, say. They are ended at the next start.
            warn!(%error, "cannot end the jobs of the last run");
        }
        // Whichever is opened first finds the damage.
        let audit = Arc::new(AuditLog::open(&config.audit_path())?);
        egress::keep_log(AuditLog::open(&config.audit_path())?);
        Ok(Stores {
            catalog,
            jobs,
            audit,
            evidence: Arc::new(EvidenceCache::open(&config.evidence_path(), EVIDENCE_BYTES)?),
            book: Arc::new(CorpusBook::open(&config.corpus_path())?),
            rescue,
        })
    }
}

/// Has the index tell of a catalog that could not be read.
pub(super) fn report(rescue: Option<Rescue>, index: &Index) {
    if let Some(Rescue { set_aside, roots }) = rescue {
        let (kept, roots) = (set_aside.display(), roots.len());
        let sentence =
            format!("the catalog was damaged: the files of its {roots} roots are read again, it is kept as `{kept}`");
        index.note_damage("catalog", sentence);
    }
}

/// Has the index tell of a database that was damaged, whose content no file gives again.
pub(super) fn report_loss(index: &Index, what: &str, set_aside: Option<&Path>) {
    if let Some(kept) = set_aside {
        index.note_damage(
            what,
            format!("{what}: damaged, and begun anew; what there was is kept as `{}`", kept.display()),
        );
    }
}
