//! The state of the index: its parts, and the order of their locks.
//!
//! A part owns its locks; its methods take them. A task may hold several of the locks below only if it takes them from
//! left to right. It may skip any.
//!
//! ```text
//! OCR queue (`lock_reading`) ──> engine ──┬──> walks (`WalkState::lock`)
//!                                         └──> urgent runs ──> commit ──> writer of the table
//! ```
//!
//! - The OCR queue is read outside the engine lock. Its lock is held while read text is indexed, under the engine lock.
//! - A job, or a run without one, holds the engine lock while it walks roots, indexes files and maintains the table.
//! - A run over urgent files holds the lock of the urgent runs, not the engine lock. Only the shutdown takes both.
//! - A commit holds its lock from the look into the catalog until the marks are there. Skill results commit alone.
//! - The walk lock and the writer lock are the last of their rows.
//!
//! All other locks are held for one step, without waiting. Four of them reach into another part meanwhile: the urgent
//! queue into the catalog, the deferral and the vanished files; the catalog into the row counts of the table; the job
//! list into the progress of its jobs; the heartbeat of the watcher into the watcher and its last replacement.

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
use crate::index::maintenance::due::MaintenanceDue;
use crate::index::ocr::queue::OcrQueue;
use crate::index::pause::PauseGate;
use crate::index::pipeline::run_control::RunControl;
use crate::index::problems::Problems;
use crate::index::roots::walk_state::WalkState;
use crate::index::table_cache::TableCache;
use crate::index::tables::Tables;

/// The parts of an index. The caller opens them, so that tests can pass others.
pub struct IndexParts {
    /// Settings.
    pub config: Config,
    /// Catalog of files.
    pub catalog: Catalog,
    /// Job list.
    pub jobs: JobLog,
    /// Embedder of the configured model.
    pub embedder: Arc<dyn Embedder>,
    /// Extraction workers.
    pub pool: Arc<WorkerPool>,
    /// Skill workers: one more than the index uses, so that a query never waits for it.
    pub skills: Arc<WorkerPool>,
    /// Cached skill results.
    pub evidence: Arc<EvidenceCache>,
    /// Cache of the corpus API.
    pub book: Arc<CorpusStore>,
    /// Installed models.
    pub models: ModelStore,
}

/// The parts of the index.
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
    /// Pauses reading and embedding.
    pub(super) pause: Arc<PauseGate>,
    /// Problems for the status.
    pub(super) problems: Problems,
    /// Runtime of all background work.
    pub(super) background: Handle,
    pub(super) shutdown: CancellationToken,
}

/// What turns files into chunks and vectors.
pub(crate) struct Workers {
    /// Extraction workers.
    pub(super) pool: Arc<WorkerPool>,
    /// Skill workers.
    pub(super) skills: Arc<WorkerPool>,
    pub(super) chunker: Arc<Chunker>,
    pub(super) embedder: Arc<dyn Embedder>,
    pub(super) models: ModelStore,
}

/// Results kept by content, so that no content is processed twice.
pub(crate) struct Caches {
    pub(super) vectors: Arc<VectorCache>,
    /// Skill results.
    pub(super) evidence: Arc<EvidenceCache>,
    /// Cache of the corpus API.
    pub(super) corpus: Arc<CorpusStore>,
    /// Parsed tables of files, for queries.
    pub(super) tables: Arc<TableCache>,
}

impl IndexState {
    /// Records a full disk, so that the interrupted work resumes later.
    pub(super) fn note_full(&self, outcome: &Result<()>) {
        if let Err(error) = outcome {
            self.disk_space.note_error(error);
        }
    }

    /// As [`Problems::report`], for work that free disk space resumes.
    pub(super) fn note_outcome(&self, part: &str, what: &str, outcome: Result<()>) -> bool {
        self.note_full(&outcome);
        self.problems.report(part, what, outcome)
    }
}
