//! What is on disk is the truth: the store is set right against the catalog at start, the catalog against the roots
//! when somebody asks for it.

use std::sync::Arc;

use tracing::{info, warn};

use crate::catalog::RequeueScope;
use crate::error::{ErrorCode, Result};
use crate::index::{Inner, blocking, jobs};
use crate::model::{Holder, IndexRequest, Scope};

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

    /// Walks every root in a job of its own.
    pub(crate) async fn reconcile_roots(self: &Arc<Inner>) {
        match self.roots().await {
            Ok(roots) if !roots.is_empty() => {
                let request = IndexRequest { ocr: self.config.ocr, ..IndexRequest::default() };
                if let Err(error) = jobs::start(self, request, &Scope::All, &Holder::Owner).await {
                    info!(%error, "cannot reconcile the roots");
                }
            }
            Ok(_) | Err(_) => (),
        }
    }
}
