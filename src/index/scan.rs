//! Roots to catalog: what is on disk now against what was known.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, ScanOutcome};
use crate::error::{Error, ErrorCode, Result};
use crate::index::blocking;
use crate::index::tables::Table;
use crate::model::Root;
use crate::warehouse::{self, Rules};

/// Files deleted from the store in one commit.
const DELETE_BATCH: usize = 5_000;

/// Compares a root, or a part of it, with the catalog. A root that cannot be read is marked so, and loses nothing.
pub(crate) async fn scan(
    catalog: &Catalog,
    rules: &Rules,
    root: &Root,
    within: Option<PathBuf>,
    cancel: &CancellationToken,
) -> Result<ScanOutcome> {
    let stop = Arc::new(AtomicBool::new(false));
    let walking = walk_and_apply(catalog.clone(), rules.clone(), root.clone(), within, stop.clone());
    tokio::pin!(walking);
    tokio::select! {
        outcome = &mut walking => outcome,
        () = cancel.cancelled() => {
            // The walk looks at the flag at every entry: it ends at once, and applies nothing.
            stop.store(true, Ordering::Relaxed);
            walking.await
        }
    }
}

async fn walk_and_apply(
    catalog: Catalog,
    rules: Rules,
    root: Root,
    within: Option<PathBuf>,
    stop: Arc<AtomicBool>,
) -> Result<ScanOutcome> {
    blocking(move || {
        let mut found = Vec::new();
        match warehouse::walk(&root.path, &rules, within.as_deref(), &stop, |file| found.push(file)) {
            Ok(report) => {
                if stop.load(Ordering::Relaxed) {
                    return Err(Error::new(ErrorCode::Cancelled, "the scan was cancelled"));
                }
                if within.is_none() {
                    // It could be read; what else is wrong with it, applying the walk says.
                    catalog.set_root_state(root.id, true, "")?;
                }
                let outcome =
                    catalog.apply_scan(root.id, within.as_deref(), found, &report.unreadable, report.complete)?;
                Ok(outcome)
            }
            Err(error) => {
                catalog.set_root_state(root.id, false, &error.message)?;
                Err(error)
            }
        }
    })
    .await
}

/// Deletes from the store what the catalog has given up, then forgets it.
pub(crate) async fn bury(catalog: &Catalog, table: &Table) -> Result<u64> {
    let mut buried = 0;
    loop {
        let reader = catalog.clone();
        let dead = blocking(move || reader.tombstones(DELETE_BATCH)).await?;
        if dead.is_empty() {
            return Ok(buried);
        }
        table.clear(&dead).await?;
        buried += dead.len() as u64;
        let writer = catalog.clone();
        blocking(move || writer.forget(&dead)).await?;
    }
}

/// Splits an absolute path into a known root and the part below it.
pub(crate) fn below<'a>(roots: &'a [Root], path: &Path) -> Option<(&'a Root, PathBuf)> {
    roots.iter().find_map(|root| Some((root, path.strip_prefix(&root.path).ok()?.to_path_buf())))
}
