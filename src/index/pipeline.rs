//! The order of the stages. The only file that knows it.
//!
//! ```text
//! catalog ── feed ──> read ─────────> embed ────────> store ──> catalog
//!            pending  open, hash,     cache, then     one       marks the
//!            files    extract, chunk  the embedder    commit    files
//! ```
//!
//! Many new files go through it twice, so that all of them can be found by their words long before the last is embedded:
//! first past the embedder, then out of the store instead of from their places (`words`).
//!
//! Each stage owns the receiving end of a bounded queue and the sending end of the next, so a slow stage slows the ones
//! before it and nothing piles up. When a stage fails, its queue closes and the others end; whatever was not marked stays
//! pending in the catalog.

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
use crate::index::gate::Gate;
use crate::index::lane::Pictures;
use crate::index::missing::{Missing, Places};
use crate::index::progress::{Progress, Unasked};
use crate::index::reading::{ReadFile, TextBudget};
use crate::index::space::Space;
use crate::index::tables::Table;
use crate::index::urgent::{LANES, Urgent};
use crate::index::waiting::Waiting;
use crate::index::{embedding, feeding, reading, storing, words};
use crate::machine;
use crate::model::{FileRecord, MemoryCap, OcrMode, RootId};

/// Files under way for each worker: while it reads one, others are opened, looked up and chunked.
const FILES_A_WORKER: usize = 3;

/// Files handed to the readers ahead of time: enough that a reader never waits for the catalog.
const FILES_AHEAD: usize = 64;
/// Documents waiting for the embedder. Their memory is bounded by [`TEXT_IN_FLIGHT_KIB`], not by their number.
const DOCUMENTS_AHEAD: usize = 256;
/// Embedded batches waiting for the store: one being written, one ready.
const BATCHES_AHEAD: usize = 2;
/// Chunk text in flight between the readers and the store. With vectors and copies a chunk costs about four times its
/// text, so this keeps the pipeline below some 150 MiB.
const TEXT_IN_FLIGHT_KIB: usize = 32 << 10;
/// The same for a run over a few urgent files.
const URGENT_TEXT_IN_FLIGHT_KIB: usize = 4 << 10;
/// Memory that a chunk takes, as a multiple of its text.
const CHUNK_TIMES: usize = 4;

/// What indexing may hold in memory at most.
pub(crate) fn memory_caps() -> Vec<MemoryCap> {
    let cap = |part: &str, kib: usize| MemoryCap { part: part.into(), mib: (CHUNK_TIMES * kib / 1024) as u64 };
    vec![
        cap("text on its way into the index", TEXT_IN_FLIGHT_KIB),
        cap("text of saved files on its way", LANES * URGENT_TEXT_IN_FLIGHT_KIB),
    ]
}

/// What the stages work with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Pipeline {
    pub(crate) catalog: Catalog,
    pub(crate) vectors: Arc<VectorCache>,
    pub(crate) pool: Arc<WorkerPool>,
    pub(crate) chunker: Arc<Chunker>,
    pub(crate) embedder: Arc<dyn Embedder>,
    pub(crate) table: Table,
    /// Files that another run is to take.
    pub(crate) urgent: Arc<Urgent>,
    /// Whoever holds it commits: what it checks in the catalog stays true until it has marked its files.
    pub(crate) committing: Arc<tokio::sync::Mutex<()>>,
    /// Room on the disk.
    pub(crate) space: Arc<Space>,
    /// Whether files may be read.
    pub(crate) gate: Arc<Gate>,
    /// Files that are left alone.
    pub(crate) missing: Arc<Missing>,
    /// Files read at the same time.
    pub(crate) readers: usize,
    /// What skills found before, by content.
    pub(crate) evidence: Arc<EvidenceCache>,
    /// Files whose pictures are to be read when there is time.
    pub(crate) pictures: Arc<Pictures>,
    /// What the runs of the watcher have done.
    pub(crate) unasked: Arc<Unasked>,
}

/// Files that so many workers have under way. On a share of the processors a file pays for all its time, so that none may
/// spend it waiting for a worker.
pub(crate) fn files_at_once(workers: usize) -> usize {
    if machine::budget().is_limited() { workers } else { workers * FILES_A_WORKER }
}

/// What a run makes of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// All that is pending, with its vectors.
    Whole,
    /// All that is pending; what the index knows nothing of yet, by its words alone.
    Words,
    /// The vectors of what is found by its words so far.
    Vectors,
}

/// How far one run goes.
#[derive(Clone)]
pub(crate) struct Run {
    /// What it makes of its files.
    pub(crate) pass: Pass,
    /// Embeds again what the cache knows.
    pub(crate) full: bool,
    /// Goes before other runs where it can.
    pub(crate) urgent: bool,
    /// Reads at most this many files.
    pub(crate) max_files: Option<u64>,
    /// Stops the feed; what is under way is finished and kept.
    pub(crate) cancel: CancellationToken,
    /// Whether pictures of text are to be read.
    pub(crate) ocr: OcrMode,
    /// Told of everything.
    pub(crate) progress: Arc<Progress>,
    /// Files that were not at their places any more, by root. They stay pending: only a walk can tell where they are.
    pub(crate) gone: Arc<Mutex<BTreeMap<RootId, Places>>>,
    /// Files that wait until the others are read.
    pub(crate) waiting: Arc<Waiting>,
}

impl Run {
    /// Notes that a file was not at its place any more.
    pub(crate) fn lose(&self, record: &FileRecord) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.entry(record.root_id).or_default().insert(record.id, record.found.path.clone());
    }

    /// Says whether files were not at their places any more.
    pub(crate) fn has_lost_files(&self) -> bool {
        !self.gone.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Rests for so long, unless it is cancelled meanwhile.
    pub(crate) async fn rest(&self, time: Duration) {
        let _ = tokio::time::timeout(time, self.cancel.cancelled()).await;
    }

    /// A run that nobody watches: all that is pending, with what the caches know.
    pub(crate) fn quiet(cancel: CancellationToken) -> Run {
        let progress = Arc::new(Progress::new(crate::index::jobs::unnamed()));
        Run {
            pass: Pass::Whole,
            full: false,
            urgent: false,
            max_files: None,
            cancel,
            ocr: OcrMode::Never,
            progress,
            gone: Arc::default(),
            waiting: Arc::default(),
        }
    }
}

impl Pipeline {
    /// Brings every pending file into the store, and returns when there is none left but those that are left alone.
    ///
    /// # Errors
    /// The catalog, the embedder or the store cannot go on. A bad file is never one.
    pub(crate) async fn run(&self, run: &Run) -> Result<()> {
        let (to_read, queued) = mpsc::channel(FILES_AHEAD);
        let budget = TextBudget::new(TEXT_IN_FLIGHT_KIB);
        let (to_embed, embedding) = mpsc::channel(DOCUMENTS_AHEAD);
        let read = reading::read(self, run, budget, queued, to_embed);
        self.stages(run, feeding::feed(self, run, to_read), read, embedding).await
    }

    /// Brings in the vectors of the files that are found by their words so far, and returns when there is none left, or when
    /// more than `left` files are to be read.
    ///
    /// # Errors
    /// As [`Pipeline::run`].
    pub(crate) async fn run_vectors(&self, run: &Run, left: usize) -> Result<()> {
        let (to_read, queued) = mpsc::channel(words::FILES_TOGETHER);
        let budget = TextBudget::new(TEXT_IN_FLIGHT_KIB);
        let (to_embed, embedding) = mpsc::channel(DOCUMENTS_AHEAD);
        let read = words::read(self, run, budget, queued, to_embed);
        self.stages(run, words::feed(self, run, left, to_read), read, embedding).await
    }

    /// Brings these files into the store, whose tries are noted already.
    ///
    /// # Errors
    /// As [`Pipeline::run`].
    pub(crate) async fn run_these(&self, run: &Run, files: Vec<FileRecord>) -> Result<()> {
        let (to_read, queued) = mpsc::channel(FILES_AHEAD);
        let budget = TextBudget::new(URGENT_TEXT_IN_FLIGHT_KIB);
        let (to_embed, embedding) = mpsc::channel(DOCUMENTS_AHEAD);
        let read = reading::read(self, run, budget, queued, to_embed);
        self.stages(run, feeding::feed_these(files, to_read), read, embedding).await
    }

    async fn stages(
        &self,
        run: &Run,
        feed: impl Future<Output = Result<()>>,
        read: impl Future<Output = Result<()>>,
        embedding: mpsc::Receiver<ReadFile>,
    ) -> Result<()> {
        let (to_store, storing) = mpsc::channel(BATCHES_AHEAD);
        tokio::try_join!(
            feed,
            read,
            embedding::embed(self, run, embedding, to_store),
            storing::store(self, run, storing),
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_that_is_cancelled_does_not_rest() {
        let run = Run::quiet(CancellationToken::new());
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
        tokio::time::timeout(Duration::from_secs(30), both).await.expect("it rests");
    }
}
