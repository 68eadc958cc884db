//! The state of the index: its parts, and the order of their locks.
//!
//! A part owns its locks; its methods take them. A task may hold several of the locks below only if it takes them from
//! left to right. It may skip any lock.
//!
//! ```text
//! OCR queue (`lock_reading`) ──> engine ──┬──> walks (`WalkState::lock`)
//!                                         └──> urgent runs ──> commit ──> writer of the table
//! ```
//!
//! - OCR of queued files holds the lock of the OCR queue, not the engine lock. Indexing the OCR text holds both.
//! - A job holds the engine lock while it walks roots, indexes files and maintains the table; so does a run without a
//!   job.
//! - A run over urgent files holds the lock of the urgent runs, not the engine lock. Only the shutdown takes both.
//! - A commit holds its lock from its check of the catalog until it has marked its files there. A commit of skill
//!   results takes no lock before this one.
//! - A task that holds the walk lock or the writer lock takes no further lock of this list.
//!
//! All other locks are held for one step, without waiting. Four parts hold their own lock while they call a part that
//! takes another one: the urgent queue calls the catalog, the deferral and the vanished files; the catalog calls the
//! row counts of the table; the job list calls the progress of its jobs; the heartbeat of the watcher calls the watcher
//! and reads when it was last replaced.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, CorpusStore, EvidenceCache, JobLog, VectorCache};
use crate::chunk::Chunker;
use crate::config::Config;
use crate::embed::Embedder;
use crate::embed::models::ModelStore;
use crate::error::Result;
use crate::extract::WorkerPool;
use crate::index::disk_space::DiskSpace;
use crate::index::jobs::unended::Jobs;
use crate::index::languages::LanguageSample;
use crate::index::maintenance::due::MaintenanceDue;
use crate::index::ocr::queue::OcrQueue;
use crate::index::pause::PauseGate;
use crate::index::pipeline::run_control::RunControl;
use crate::index::problems::Problems;
use crate::index::roots::walk_state::WalkState;
use crate::index::table_cache::TableCache;
use crate::index::tables::Tables;

/// The parts of an index that its caller opens, so that tests can pass substitutes.
pub struct IndexParts {
    /// Settings of the daemon.
    pub config: Config,
    /// Catalog of files and their states.
    pub catalog: Catalog,
    /// Database of current and past jobs.
    pub jobs: JobLog,
    /// Embedding model that computes the vectors of chunks.
    pub embedder: Arc<dyn Embedder>,
    /// Worker processes that extract the text of files. The index uses all but one, so that a query never waits for
    /// indexing.
    pub pool: Arc<WorkerPool>,
    /// Worker processes that run skills such as OCR. The index uses all but one, so that queries need not wait for it.
    pub skills: Arc<WorkerPool>,
    /// Cache of skill results, such as OCR text.
    pub evidence: Arc<EvidenceCache>,
    /// Cache of the corpus API.
    pub book: Arc<CorpusStore>,
    /// Installed models.
    pub models: ModelStore,
}

/// The state that all tasks of the index share.
pub(crate) struct IndexState {
    pub(super) config: Config,
    pub(super) catalog: Catalog,
    pub(super) tables: Tables,
    pub(super) caches: Arc<Caches>,
    pub(super) workers: Arc<Workers>,
    pub(super) jobs: Jobs,
    pub(super) walks: WalkState,
    pub(super) runs: Arc<RunControl>,
    pub(super) ocr_queue: Arc<OcrQueue>,
    pub(super) maintenance_due: MaintenanceDue,
    /// Checks free disk space.
    pub(super) disk_space: Arc<DiskSpace>,
    /// Makes reading and embedding wait during a pause.
    pub(super) pause: Arc<PauseGate>,
    /// Current problems, which the status shows.
    pub(super) problems: Problems,
    /// The languages of the indexed text.
    pub(super) languages: LanguageSample,
    /// Handle of the runtime of all background tasks.
    pub(super) background: Handle,
    pub(super) shutdown: CancellationToken,
}

/// The components that turn files into chunks and vectors.
pub(crate) struct Workers {
    /// Worker processes that extract the text of files.
    pub(super) pool: Arc<WorkerPool>,
    /// Worker processes that run skills such as OCR.
    pub(super) skills: Arc<WorkerPool>,
    pub(super) chunker: Arc<Chunker>,
    pub(super) embedder: Arc<dyn Embedder>,
    pub(super) models: ModelStore,
}

/// Caches by content, so that files with the same content are processed only once.
pub(crate) struct Caches {
    pub(super) vectors: Arc<VectorCache>,
    /// Results of skills such as OCR.
    pub(super) evidence: Arc<EvidenceCache>,
    /// Cache of the corpus API.
    pub(super) corpus: Arc<CorpusStore>,
    /// Parsed tables of files, for queries.
    pub(super) tables: Arc<TableCache>,
}

impl IndexState {
    /// If the error is a full disk, records it, so that the interrupted work resumes when space is free.
    pub(super) fn note_full(&self, outcome: &Result<()>) {
        if let Err(error) = outcome {
            self.disk_space.note_error(error);
        }
    }

    /// Reports a problem as [`Problems::report`] does, and resumes the work later if the disk was full.
    pub(super) fn note_outcome(&self, part: &str, what: &str, outcome: Result<()>) -> bool {
        self.note_full(&outcome);
        self.problems.report(part, what, outcome)
    }
}
