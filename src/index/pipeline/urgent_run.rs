//! The short runs of the pipeline over urgent files.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::catalog::Catalog;
use crate::error::Result;
use crate::index::blocking_tasks::blocking;
use crate::index::pipeline::context::Run;
use crate::index::pipeline::urgent_queue::UrgentQueue;
use crate::index::problems::{CANNOT_INDEX, INDEXING_KEY};
use crate::index::state::IndexState;
use crate::model::{FileId, FileRecord};

/// Runs the pipeline for urgent files until the daemon ends. The daemon starts [`URGENT_RUNS`] of these loops.
///
/// [`URGENT_RUNS`]: crate::index::pipeline::urgent_queue::URGENT_RUNS
pub(crate) async fn urgent_loop(inner: Arc<IndexState>) {
    while inner.shutdown.run_until_cancelled(inner.runs.urgent.arrived()).await.is_some() {
        let _running = inner.runs.begin_urgent_run().await;
        if inner.shutdown.is_cancelled() {
            return;
        }
        let outcome = run_once(&inner).await;
        inner.note_outcome(INDEXING_KEY, CANNOT_INDEX, outcome);
    }
}

async fn run_once(inner: &Arc<IndexState>) -> Result<()> {
    inner.disk_space.check()?;
    let files = take_files(&inner.runs.urgent, &inner.catalog, &inner.runs.changed).await?;
    if files.is_empty() {
        return Ok(());
    }
    let ids: Vec<FileId> = files.iter().map(|it| it.id).collect();
    let run = Run { urgent: true, ocr: inner.config.ocr, ..Run::background(inner.shutdown.clone()) };
    let outcome = inner.pipeline().run_files(&run, files).await;
    inner.runs.urgent.end_run(&ids);
    let outcome = inner.clear_attempts_on_interrupt(&run, outcome).await;
    // Wakes the background run, which takes unfinished files and does the maintenance after many runs.
    inner.runs.changed.notify_one();
    inner.ocr_queue.arrived.notify_one();
    outcome
}

/// Takes the files of one urgent run. Notifies `changed` if the background run must take some of them.
async fn take_files(urgent: &Arc<UrgentQueue>, catalog: &Catalog, changed: &Notify) -> Result<Vec<FileRecord>> {
    let (urgent, catalog) = (urgent.clone(), catalog.clone());
    let taken = blocking(move || urgent.take_run(&catalog)).await;
    // Notifies `changed` also if the catalog could not be read, because the files are still pending there.
    if taken.as_ref().map_or(true, |(_, are_left)| *are_left) {
        changed.notify_one();
    }
    Ok(taken?.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn file_is_left_to_background_run_when_catalog_fails() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = crate::index::maintenance::retry::tests::catalog(folder.path());
        catalog.requeue(&crate::catalog::RequeueScope::All).unwrap();
        let file = catalog.next_pending(0, 1).unwrap()[0].id;
        let (urgent, changed) = (Arc::new(UrgentQueue::new()), Notify::new());
        let is_told = async || tokio::time::timeout(Duration::ZERO, changed.notified()).await.is_ok();
        let rename = |from: &str, to: &str| {
            let database = rusqlite::Connection::open(folder.path().join("catalog.sqlite")).unwrap();
            database.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).unwrap();
        };
        rename("files", "aside");
        urgent.force(&[file]);
        assert!(take_files(&urgent, &catalog, &changed).await.is_err());
        assert!(is_told().await && urgent.excluding(|is_taken| !is_taken(file)));
        rename("aside", "files");
        urgent.force(&[file]);
        assert_eq!(take_files(&urgent, &catalog, &changed).await.unwrap().len(), 1);
        assert!(!is_told().await, "nothing is left");
    }
}
