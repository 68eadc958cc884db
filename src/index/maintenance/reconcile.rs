//! Reconciliation with the state on disk: the store with the catalog at startup, and the catalog with the roots on
//! request.

use std::sync::Arc;

use tracing::warn;

use crate::catalog::RequeueScope;
use crate::error::{ErrorCode, Result};
use crate::index::watch::CHANGES;
use crate::index::{Inner, blocking, jobs, watch};
use crate::model::{Holder, IndexRequest, Root, Scope};

/// Key of the problem that no job can be saved.
const JOBS: &str = "jobs";

/// Prefix of the error of a failed walk without a request.
const NOT_WALKED: &str = "folders were not walked";

impl Inner {
    /// Repairs differences between store and catalog after a crash.
    pub(crate) async fn reconcile_store(&self) -> Result<()> {
        let table = self.tables.writing();
        let stored = table.rows_by_file();
        let (catalog, damaged) = (self.catalog.clone(), table.damaged().clone());
        let (orphans, lost) = blocking(move || {
            let lost = catalog.lost_ids(&stored, &damaged)?;
            let orphans = catalog.orphan_ids(&stored)?;
            let count = lost.len();
            catalog.requeue(&RequeueScope::Ids(lost))?;
            Ok((orphans, count))
        })
        .await?;
        if lost > 0 {
            warn!(files = lost, "the store does not match the catalog for some files; re-indexing them");
        }
        match table.clear(&orphans).await {
            // A full disk must not prevent the start: the next one deletes them.
            Err(error) if error.code == ErrorCode::StorageFull => {
                self.space.note(&error);
                Ok(())
            }
            cleared => cleared,
        }
    }

    /// Walks every root in a job. If no job can be saved, walks without one, and the status reports why.
    pub(crate) async fn reconcile_roots(self: &Arc<Inner>) {
        let roots = match self.roots().await {
            Ok(roots) if !roots.is_empty() => roots,
            roots => {
                self.note_outcome(CHANGES, NOT_WALKED, roots.map(drop));
                return;
            }
        };
        let request = IndexRequest { ocr: self.config.ocr, ..IndexRequest::default() };
        let begun = jobs::start(self, request, &Scope::All, &Holder::Owner).await.map(drop);
        if begun.is_err() && jobs::one_will_walk_all(&self.running()) {
            return;
        }
        // The job list may be on another disk, which the disk check does not cover.
        if !self.tell_outcome(JOBS, "folders are walked without a job", begun) {
            self.walk_all(&roots).await;
        }
    }

    async fn walk_all(&self, roots: &[Root]) {
        let mut outcome = Ok(());
        for root in roots {
            let walked = watch::look_everywhere(self, root).await;
            outcome = outcome.and(self.unless_away(root.id, walked).await);
        }
        self.note_outcome(CHANGES, NOT_WALKED, outcome);
    }
}
