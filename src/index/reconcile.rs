//! What is on disk is the truth: the store is set right against the catalog at start, the catalog against the roots
//! when somebody asks for it.

use std::sync::Arc;

use tracing::warn;

use crate::catalog::RequeueScope;
use crate::error::{ErrorCode, Result};
use crate::index::watching::{self, CHANGES};
use crate::index::{Inner, blocking, jobs};
use crate::model::{Holder, IndexRequest, Root, Scope};

/// The part whose problem is that no job can be noted.
const JOBS: &str = "jobs";

/// What failed when a walk that nobody asked for did.
const NOT_WALKED: &str = "folders were not walked";

impl Inner {
    /// Sets right what a crash left between store and catalog.
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
            warn!(files = lost, "the store has not what the catalog says of some files; they are read again");
        }
        match table.clear(&orphans).await {
            // A full disk is no reason not to answer: the next start clears them.
            Err(error) if error.code == ErrorCode::StorageFull => {
                self.space.note(&error);
                Ok(())
            }
            cleared => cleared,
        }
    }

    /// Walks every root in a job of its own; where none can be noted, without one, and the status says why.
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
        // The list may lie on another disk, whose room nobody looks at.
        if !self.tell_outcome(JOBS, "folders are walked without a job", begun) {
            self.walk_all(&roots).await;
        }
    }

    async fn walk_all(&self, roots: &[Root]) {
        let mut outcome = Ok(());
        for root in roots {
            let walked = watching::look_everywhere(self, root).await;
            outcome = outcome.and(self.unless_away(root.id, walked).await);
        }
        self.note_outcome(CHANGES, NOT_WALKED, outcome);
    }
}
