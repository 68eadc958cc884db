//! What the stages of the pipeline share: their dependencies, and the options and state of one run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::catalog::Catalog;
use crate::index::disk_space::DiskSpace;
use crate::index::ocr::queue::OcrQueue;
use crate::index::pause::PauseGate;
use crate::index::pipeline::deferral::Deferral;
use crate::index::pipeline::run_control::RunControl;
use crate::index::pipeline::vanished::Places;
use crate::index::progress::{Progress, UnattendedTotals, snapshot_without_job};
use crate::index::state::{Caches, IndexState, Workers};
use crate::index::tables::TableWriter;
use crate::machine;
use crate::model::{FileRecord, IndexRequest, OcrMode, RootId};

/// Files in progress per worker: while the worker extracts one, others are opened, looked up and chunked.
const FILES_PER_WORKER: usize = 3;

/// The dependencies of the stages. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Pipeline {
    pub(crate) catalog: Catalog,
    pub(crate) table: TableWriter,
    pub(crate) caches: Arc<Caches>,
    pub(crate) workers: Arc<Workers>,
    /// Locks and queues that all runs share.
    pub(crate) runs: Arc<RunControl>,
    /// Checks free disk space.
    pub(crate) disk_space: Arc<DiskSpace>,
    /// Makes reading and embedding wait during a pause.
    pub(crate) pause: Arc<PauseGate>,
    pub(crate) ocr_queue: Arc<OcrQueue>,
    /// Files and chunks indexed by runs without a job.
    pub(crate) unattended: Arc<UnattendedTotals>,
    /// Maximum files read concurrently.
    pub(crate) readers: usize,
}

impl IndexState {
    /// Returns the dependencies of the stages, with a writer to the current table.
    pub(crate) fn pipeline(&self) -> Pipeline {
        Pipeline {
            catalog: self.catalog.clone(),
            table: self.tables.writing(),
            caches: self.caches.clone(),
            workers: self.workers.clone(),
            runs: self.runs.clone(),
            disk_space: self.disk_space.clone(),
            pause: self.pause.clone(),
            ocr_queue: self.ocr_queue.clone(),
            unattended: self.jobs.unattended.clone(),
            readers: read_concurrency(self.config.workers),
        }
    }
}

impl Pipeline {
    /// Updates the indexes of the table (see [`TableWriter::catch_up`]) unless disk space is below the reserve or indexing
    /// is paused.
    pub(super) async fn catch_up(&self, is_attended: bool) {
        if self.disk_space.check().is_ok() && self.pause.pause().is_none() {
            self.table.catch_up(is_attended).await;
        }
    }
}

/// Returns how many files to keep in progress for this many workers. With a CPU limit, a file is charged for the time
/// from its opening to its result, so files must not wait for a worker.
fn read_concurrency(workers: usize) -> usize {
    if machine::budget().is_limited() { workers } else { workers * FILES_PER_WORKER }
}

/// Which pending work a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Indexes all pending files, with their vectors.
    Whole,
    /// Indexes all pending files; files that are new in the index get keywords only.
    Words,
    /// Embeds the files that are indexed by keywords only.
    Vectors,
}

/// Options and state of one run.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) pass: Pass,
    /// Whether to ignore the vector cache and indexed copies of the same content.
    pub(crate) full: bool,
    /// Whether this run indexes just-saved files and takes priority over other runs where possible.
    pub(crate) urgent: bool,
    /// Maximum files to read, if limited.
    pub(crate) max_files: Option<u64>,
    /// Stops sending files into the pipeline; files in progress are finished and kept.
    pub(crate) cancel: CancellationToken,
    /// Which images are queued for OCR.
    pub(crate) ocr: OcrMode,
    /// Receives all counts of this run.
    pub(crate) progress: Arc<Progress>,
    /// Files that were missing at their paths, by root. They stay pending: only a walk can find whether they moved.
    pub(crate) vanished: Arc<Mutex<BTreeMap<RootId, Places>>>,
    /// Decides which files this run defers or skips.
    pub(crate) deferral: Arc<Deferral>,
}

impl Run {
    /// Records that a file was missing at its path.
    pub(crate) fn note_vanished(&self, record: &FileRecord) {
        let mut gone = self.vanished.lock().unwrap_or_else(PoisonError::into_inner);
        gone.entry(record.root_id).or_default().insert(record.id, record.found.path.clone());
    }

    /// Returns the files that were missing at their paths, and clears the list.
    pub(crate) fn take_vanished(&self) -> BTreeMap<RootId, Places> {
        std::mem::take(&mut *self.vanished.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether any file was missing at its path.
    pub(crate) fn has_vanished_files(&self) -> bool {
        !self.vanished.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Sleeps for this long, or until the run is cancelled.
    pub(crate) async fn rest(&self, time: Duration) {
        let _ = tokio::time::timeout(time, self.cancel.cancelled()).await;
    }

    /// Returns the options for the run of a job, taken from its request.
    pub(crate) fn of_job(request: &IndexRequest, progress: Arc<Progress>, cancel: CancellationToken) -> Run {
        Run { full: request.full, max_files: request.max_files, ocr: request.ocr, progress, ..Run::background(cancel) }
    }

    /// Returns the options for a run without a job: it indexes all pending files, and uses the vector cache and indexed
    /// copies.
    pub(crate) fn background(cancel: CancellationToken) -> Run {
        let progress = Arc::new(Progress::new(snapshot_without_job()));
        Run {
            pass: Pass::Whole,
            full: false,
            urgent: false,
            max_files: None,
            cancel,
            ocr: OcrMode::Never,
            progress,
            vanished: Arc::default(),
            deferral: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn cancelled_run_rest_returns_at_once() {
        let run = Run::background(CancellationToken::new());
        let hour = Duration::from_secs(3_600);
        let resting = tokio::spawn({
            let run = run.clone();
            async move { run.rest(hour).await }
        });
        run.cancel.cancel();
        let both = async {
            resting.await.unwrap();
            run.rest(hour).await;
        };
        tokio::time::timeout(Duration::from_secs(30), both).await.expect("the rest does not end");
    }
}
