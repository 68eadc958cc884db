//! The order of the pipeline's stages. No other file knows it.
//!
//! ```text
//! catalog ── feed ──> read ─────────> embed ────────> store ──> catalog
//!            pending  open, hash,     cache, then     one       marks the
//!            files    extract, chunk  the embedder    commit    files
//! ```
//!
//! A large batch of new files passes twice, so that every file is searchable by keywords long before the last one is
//! embedded. The first pass skips the embedder. The second reads the chunks back from the store (`backfill_vectors`).
//!
//! Each stage owns the receiving end of a bounded queue and the sending end of the next. A slow stage therefore
//! throttles the ones before it. When a stage fails, its queue closes and the others end. Unmarked files stay pending
//! in the catalog.

pub(in crate::index) mod backfill_vectors;
pub(in crate::index) mod commit;
pub(in crate::index) mod deferral;
pub(in crate::index) mod embed;
pub(in crate::index) mod feed;
pub(in crate::index) mod read;
pub(in crate::index) mod run_pending;
pub(in crate::index) mod urgent_queue;
pub(in crate::index) mod vanished;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, EvidenceCache, VectorCache};
use crate::chunk::Chunker;
use crate::embed::Embedder;
use crate::error::Result;
use crate::extract::WorkerPool;
use crate::index::disk_space::DiskSpace;
use crate::index::ocr::queue::OcrQueue;
use crate::index::pause::PauseGate;
use crate::index::pipeline::deferral::Deferral;
use crate::index::pipeline::read::{ReadFile, TextBudget};
use crate::index::pipeline::urgent_queue::{URGENT_RUNS, UrgentQueue};
use crate::index::pipeline::vanished::{Places, Vanished};
use crate::index::progress::{Progress, UnattendedTotals};
use crate::index::tables::TableWriter;
use crate::machine;
use crate::model::{FileRecord, MemoryCap, OcrMode, RootId};

/// Files in progress per worker: while the worker reads one, others are opened, looked up and chunked.
const FILES_PER_WORKER: usize = 3;

/// Capacity of the queue of files to read, large enough that a reader never waits for the catalog.
const READ_QUEUE_CAPACITY: usize = 64;
/// Documents queued for the embedder. [`TEXT_IN_FLIGHT_KIB`] bounds their memory, not their number.
const EMBED_QUEUE_CAPACITY: usize = 256;
/// Embedded batches queued for the store: one being written, one ready.
const COMMIT_QUEUE_CAPACITY: usize = 2;
/// Chunk text between the readers and the store. With its vector and copies a chunk takes about four times its text, so
/// this keeps the pipeline below about 150 MiB.
const TEXT_IN_FLIGHT_KIB: usize = 32 << 10;
/// The same limit for a run over a few urgent files.
const URGENT_TEXT_IN_FLIGHT_KIB: usize = 4 << 10;
/// Memory of a chunk as a multiple of its text.
const CHUNK_MEMORY_FACTOR: usize = 4;

/// Returns the memory limits of the pipeline.
pub(crate) fn memory_caps() -> Vec<MemoryCap> {
    let cap = |part: &str, kib: usize| MemoryCap { part: part.into(), mib: (CHUNK_MEMORY_FACTOR * kib / 1024) as u64 };
    vec![
        cap("text being indexed", TEXT_IN_FLIGHT_KIB),
        cap("text of urgent files being indexed", URGENT_RUNS * URGENT_TEXT_IN_FLIGHT_KIB),
    ]
}

/// Dependencies of the stages. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Pipeline {
    pub(crate) catalog: Catalog,
    pub(crate) vectors: Arc<VectorCache>,
    pub(crate) pool: Arc<WorkerPool>,
    pub(crate) chunker: Arc<Chunker>,
    pub(crate) embedder: Arc<dyn Embedder>,
    pub(crate) table: TableWriter,
    /// Files reserved for urgent runs.
    pub(crate) urgent: Arc<UrgentQueue>,
    /// Commit lock: the catalog state that the holder checks stays valid until the files are marked.
    pub(crate) committing: Arc<tokio::sync::Mutex<()>>,
    /// Checks free disk space.
    pub(crate) disk_space: Arc<DiskSpace>,
    /// Pauses reading.
    pub(crate) pause: Arc<PauseGate>,
    /// Pending files that vanished; runs skip them.
    pub(crate) vanished: Arc<Vanished>,
    /// Files read concurrently.
    pub(crate) readers: usize,
    /// Skill results by content hash.
    pub(crate) evidence: Arc<EvidenceCache>,
    /// OCR queue.
    pub(crate) ocr_queue: Arc<OcrQueue>,
    /// Totals of runs without a job.
    pub(crate) unattended: Arc<UnattendedTotals>,
}

/// Returns how many files to keep in progress for this many workers. Under a CPU limit a file is charged for its whole
/// time, so files must not wait for a worker.
pub(crate) fn read_concurrency(workers: usize) -> usize {
    if machine::budget().is_limited() { workers } else { workers * FILES_PER_WORKER }
}

/// Which pending work a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// All pending files, with their vectors.
    Whole,
    /// All pending files; files new to the index get keywords only.
    Words,
    /// Vectors of the files indexed by keywords only.
    Vectors,
}

/// Options and state of one run.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) pass: Pass,
    /// Ignores the vector cache and copies of the same content.
    pub(crate) full: bool,
    /// Takes priority over other runs where possible.
    pub(crate) urgent: bool,
    /// Reads at most this many files.
    pub(crate) max_files: Option<u64>,
    /// Stops the feed; files in progress are finished and kept.
    pub(crate) cancel: CancellationToken,
    /// Which images are queued for OCR.
    pub(crate) ocr: OcrMode,
    /// Receives all progress.
    pub(crate) progress: Arc<Progress>,
    /// Files that were missing at their paths, by root. They stay pending: only a walk can find where they are.
    pub(crate) vanished: Arc<Mutex<BTreeMap<RootId, Places>>>,
    /// Files that this run defers.
    pub(crate) deferral: Arc<Deferral>,
}

impl Run {
    /// Notes that a file was missing at its path.
    pub(crate) fn note_vanished(&self, record: &FileRecord) {
        let mut gone = self.vanished.lock().unwrap_or_else(PoisonError::into_inner);
        gone.entry(record.root_id).or_default().insert(record.id, record.found.path.clone());
    }

    /// Returns whether any file was missing at its path.
    pub(crate) fn has_vanished_files(&self) -> bool {
        !self.vanished.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Sleeps for this long, or until the run is cancelled.
    pub(crate) async fn rest(&self, time: Duration) {
        let _ = tokio::time::timeout(time, self.cancel.cancelled()).await;
    }

    /// A run without a job: all pending files, with the caches.
    pub(crate) fn background(cancel: CancellationToken) -> Run {
        let progress = Arc::new(Progress::new(crate::index::jobs::snapshot_without_job()));
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

impl Pipeline {
    /// Indexes every pending file. Returns when only skipped files are left.
    ///
    /// # Errors
    /// The catalog, the embedder or the store fails. A bad file is never an error.
    pub(crate) async fn run(&self, run: &Run) -> Result<()> {
        let (to_read, queued) = mpsc::channel(READ_QUEUE_CAPACITY);
        let budget = TextBudget::new(TEXT_IN_FLIGHT_KIB);
        let (to_embed, embedding) = mpsc::channel(EMBED_QUEUE_CAPACITY);
        let read = read::read(self, run, budget, queued, to_embed);
        self.run_stages(run, feed::feed(self, run, to_read), read, embedding).await
    }

    /// Embeds the files that are indexed by keywords only. Returns when none is left, or when more than `left` files
    /// are unread.
    ///
    /// # Errors
    /// As [`Pipeline::run`].
    pub(crate) async fn run_vectors(&self, run: &Run, left: usize) -> Result<()> {
        let (to_read, queued) = mpsc::channel(backfill_vectors::BACKFILL_BATCH_FILES);
        let budget = TextBudget::new(TEXT_IN_FLIGHT_KIB);
        let (to_embed, embedding) = mpsc::channel(EMBED_QUEUE_CAPACITY);
        let read = backfill_vectors::read(self, run, budget, queued, to_embed);
        self.run_stages(run, backfill_vectors::feed(self, run, left, to_read), read, embedding).await
    }

    /// Indexes these files. The caller has already counted the attempt.
    ///
    /// # Errors
    /// As [`Pipeline::run`].
    pub(crate) async fn run_files(&self, run: &Run, files: Vec<FileRecord>) -> Result<()> {
        let (to_read, queued) = mpsc::channel(READ_QUEUE_CAPACITY);
        let budget = TextBudget::new(URGENT_TEXT_IN_FLIGHT_KIB);
        let (to_embed, embedding) = mpsc::channel(EMBED_QUEUE_CAPACITY);
        let read = read::read(self, run, budget, queued, to_embed);
        self.run_stages(run, feed::feed_files(files, to_read), read, embedding).await
    }

    async fn run_stages(
        &self,
        run: &Run,
        feed: impl Future<Output = Result<()>>,
        read: impl Future<Output = Result<()>>,
        embedding: mpsc::Receiver<ReadFile>,
    ) -> Result<()> {
        let (to_store, storing) = mpsc::channel(COMMIT_QUEUE_CAPACITY);
        tokio::try_join!(
            feed,
            read,
            embed::embed(self, run, embedding, to_store),
            commit::commit_batches(self, run, storing),
        )?;
        Ok(())
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
