//! Reconciliation: repairs differences between the store and the catalog at startup, and between the catalog and the
//! files on disk on request.

use std::sync::Arc;

use tracing::warn;

use crate::catalog::RequeueScope;
use crate::error::{ErrorCode, Result};
use crate::index::blocking_tasks::blocking;
use crate::index::jobs::run;
use crate::index::problems::CHANGES_KEY;
use crate::index::state::IndexState;
use crate::index::watch::apply;
use crate::model::{IndexRequest, Principal, Root, Scope};

/// Key under which the status reports that a job cannot be saved in the job database.
const JOBS_KEY: &str = "jobs";

/// Prefix of the message when a walk that belongs to no job fails.
const NOT_WALKED: &str = "folders were not walked";

impl IndexState {
    /// Repairs differences between the store and the catalog after a crash: requeues files whose chunks are missing or
    /// damaged, and deletes chunks of files that the catalog does not have.
    pub(crate) async fn reconcile_store(&self) -> Result<()> {
        let table = self.tables.writing();
        let stored = table.rows_by_file();
        let (catalog, damaged) = (self.catalog.clone(), table.damaged());
        let (orphans, lost) = blocking(move || {
            let lost = catalog.files_with_wrong_chunks(&stored, &damaged)?;
            let orphans = catalog.orphaned_files(&stored)?;
            let count = lost.len();
            catalog.requeue(&RequeueScope::Ids(lost))?;
            Ok((orphans, count))
        })
        .await?;
        if lost > 0 {
            warn!(files = lost, "the store does not match the catalog for some files; re-indexing them");
        }
        match table.delete(&orphans).await {
            // Does not fail the start on a full disk, because the next start deletes these chunks.
            Err(error) if error.code == ErrorCode::StorageFull => {
                self.disk_space.note_error(&error);
                Ok(())
            }
            cleared => cleared,
        }
    }

    /// Walks every root in a job. If the job cannot be saved, walks without a job, and the status reports the reason.
    pub(crate) async fn reconcile_roots(self: &Arc<IndexState>) {
        let roots = match self.roots().await {
            Ok(roots) if !roots.is_empty() => roots,
            roots => {
                self.note_outcome(CHANGES_KEY, NOT_WALKED, roots.map(drop));
                return;
            }
        };
        let request = IndexRequest { ocr: self.config.ocr, ..IndexRequest::default() };
        let begun = run::start(self, request, &Scope::All, &Principal::Owner).await.map(drop);
        if begun.is_err() && self.jobs.has_queued_full_walk() {
            return;
        }
        // Walks without a job if the job database cannot be written: it may be on another disk, which the disk check
        // does not cover.
        if !self.problems.report(JOBS_KEY, "folders are walked without a job", begun) {
            self.walk_all_roots(&roots).await;
        }
    }

    async fn walk_all_roots(&self, roots: &[Root]) {
        let mut outcome = Ok(());
        for root in roots {
            let walked = apply::walk_root(self, root).await;
            outcome = outcome.and(self.ignore_if_unavailable(root.id, walked).await);
        }
        self.note_outcome(CHANGES_KEY, NOT_WALKED, outcome);
    }
}
