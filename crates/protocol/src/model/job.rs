//! Index jobs as clients see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request to index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IndexRequest {
    /// Folders, or files of a root; every known root when empty. An owner's folder outside every root becomes a root.
    pub paths: Vec<String>,
    /// Read and embed every file again, changed or not.
    pub full: bool,
    /// Stop after L0 (metadata).
    pub metadata_only: bool,
    /// Read at most this many files; the rest stay pending.
    pub max_files: Option<u64>,
    /// When to run OCR.
    pub ocr: OcrMode,
    /// Accept deletions even of a whole root, of more than half of it, or on a file system that is not mounted.
    pub accept_losses: bool,
}

/// When an index job runs OCR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OcrMode {
    /// For pages of PDFs without a text layer, and for images, if the models are installed.
    #[default]
    Auto,
    /// Never; a question may still run it for its best hits.
    Never,
    /// For every page of a PDF and every image, even with a text layer.
    Always,
}

impl OcrMode {
    /// Every mode.
    pub const ALL: [OcrMode; 3] = [OcrMode::Auto, OcrMode::Never, OcrMode::Always];

    /// Returns the snake_case name.
    pub fn name(self) -> &'static str {
        match self {
            OcrMode::Auto => "auto",
            OcrMode::Never => "never",
            OcrMode::Always => "always",
        }
    }

    /// Returns the mode with this [`OcrMode::name`].
    pub fn from_name(name: &str) -> Option<OcrMode> {
        OcrMode::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waiting for an earlier job.
    Queued,
    /// Running.
    Running,
    /// Finished; single files may have failed.
    Completed,
    /// Stopped by an error.
    Failed,
    /// Stopped by a request or by the shutdown of the daemon.
    Cancelled,
}

impl JobState {
    /// Returns whether the job has ended.
    pub fn is_final(self) -> bool {
        matches!(self, JobState::Completed | JobState::Failed | JobState::Cancelled)
    }

    /// Returns the snake_case name.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::Running => "running",
            JobState::Completed => "completed",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }

    /// Returns the state with this [`JobState::name`].
    pub fn from_name(name: &str) -> Option<JobState> {
        [JobState::Queued, JobState::Running, JobState::Completed, JobState::Failed, JobState::Cancelled]
            .into_iter()
            .find(|it| it.name() == name)
    }
}

/// Current phase of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Not started.
    #[default]
    Waiting,
    /// Scanning the roots.
    Scanning,
    /// Reading, chunking, embedding and storing. For many new files, embedding is left to the next phase.
    Indexing,
    /// Embedding the chunks that are only in the keyword index so far.
    Vectors,
    /// Updating the indexes of the store.
    Finishing,
    /// Finished.
    Done,
}

impl Phase {
    /// Returns the snake_case name.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Scanning => "scanning",
            Phase::Indexing => "indexing",
            Phase::Vectors => "vectors",
            Phase::Finishing => "finishing",
            Phase::Done => "done",
        }
    }
}

/// Snapshot of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobSnapshot {
    /// Its id.
    pub job_id: String,
    /// Its state.
    pub state: JobState,
    /// Its current phase.
    pub phase: Phase,
    /// The request that started it.
    pub request: IndexRequest,
    /// Milliseconds since the epoch.
    pub created_ms: i64,
    /// Milliseconds since the epoch.
    pub started_ms: Option<i64>,
    /// Milliseconds since the epoch.
    pub finished_ms: Option<i64>,
    /// Files found by the scan.
    pub files_found: u64,
    /// Files to read in this job.
    pub files_total: u64,
    /// Files done of `files_total` (indexed, skipped or failed).
    pub files_done: u64,
    /// Files failed of `files_total`.
    pub files_failed: u64,
    /// Files removed from the index because they are gone from disk.
    pub files_removed: u64,
    /// Chunks written to the store.
    pub chunks_written: u64,
    /// Chunks that had to be embedded; the rest came from the cache.
    pub chunks_embedded: u64,
    /// Chunks stored without a vector so far, and found by keywords only; known once every file is read.
    #[serde(default)]
    pub chunks_awaiting: u64,
    /// Tokens embedded.
    pub tokens_embedded: u64,
    /// Tokens embedded per second, over the last few seconds.
    pub tokens_per_second: f64,
    /// Estimated seconds until the end.
    pub eta_seconds: Option<f64>,
    /// The last file that failed, with its reason, or a problem of the scan.
    pub last_error: Option<String>,
    /// Why the job failed.
    pub error: Option<String>,
    /// Exit code for `error`; see [`crate::error::ErrorCode::exit_code`]. For a completed job with `last_error`: a
    /// requested folder is suddenly empty or has lost most of its files, and nothing was removed.
    #[serde(default)]
    pub error_exit_code: Option<u32>,
}

/// Index coverage of the known files: `indexed + skipped + failed + pending = found`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Files known.
    pub found: u64,
    /// Files with their chunks in the store.
    pub indexed: u64,
    /// Files that are deliberately not read.
    pub skipped: u64,
    /// Files that could not be read.
    pub failed: u64,
    /// Files still to read.
    pub pending: u64,
    /// Of the indexed files, those still without vectors, found by keywords only.
    #[serde(default)]
    pub awaiting_vectors: u64,
    /// Number of files by reason.
    pub reasons: std::collections::BTreeMap<String, u64>,
}

/// Snapshot of the daemon and its index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Version of vic.
    pub version: String,
    /// Process id of the daemon.
    pub pid: u32,
    /// Seconds since its start.
    pub uptime_seconds: u64,
    /// Resident memory of the daemon in MiB.
    pub rss_mib: f64,
    /// Largest resident memory so far, in MiB.
    pub peak_rss_mib: f64,
    /// The data directory.
    pub data_dir: String,
    /// The bound TCP address.
    pub listen: String,
    /// Data that may leave the machine.
    pub privacy_mode: crate::model::PrivacyMode,
    /// The embedding model and its backend, e.g. `all-MiniLM-L6-v2 (onnx)`.
    pub embed_model: String,
    /// Dimension of its vectors.
    pub dimension: u32,
    /// Whether the index can answer questions.
    pub index_ready: bool,
    /// Chunks in the store.
    pub chunks: u64,
    /// Bytes of the store on disk.
    pub store_bytes: u64,
    /// The roots.
    pub roots: Vec<crate::model::Root>,
    /// File counts by state.
    pub coverage: Coverage,
    /// Jobs that have not ended.
    pub running_jobs: Vec<JobSnapshot>,
    /// Problems, each with cause and fix in one sentence.
    pub degraded: Vec<String>,
    /// Whether the TCP port requires a key.
    #[serde(default)]
    pub auth_enabled: bool,
    /// The pause of indexing in effect, if any.
    #[serde(default)]
    pub paused: Option<crate::model::Pause>,
    /// State of the file watcher.
    #[serde(default)]
    pub watch: crate::model::WatchReport,
    /// Memory limits by component.
    #[serde(default)]
    pub memory_caps: Vec<crate::model::MemoryCap>,
    /// State and maintenance of the store's files.
    #[serde(default)]
    pub upkeep: Upkeep,
}

/// Number and size of the store's files, which compaction and pruning keep bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Upkeep {
    /// Maintenance step in progress, e.g. `compacting`; empty when idle.
    pub now: String,
    /// Versions kept.
    pub versions: u64,
    /// Data fragments.
    pub fragments: u64,
    /// Chunks that the keyword index does not cover yet; queries scan them.
    pub unindexed_chunks: u64,
    /// Files that wait for OCR.
    pub unread_pictures: u64,
    /// Free bytes on the disk of the index.
    pub disk_free_bytes: u64,
}

impl Status {
    /// Makes the status fit for JSON; see [`crate::model::Root::with_printable_paths`].
    pub fn with_printable_paths(self) -> Status {
        Status { roots: self.roots.into_iter().map(crate::model::Root::with_printable_path).collect(), ..self }
    }
}
