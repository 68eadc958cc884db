//! Index jobs as clients see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request to start an index job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IndexRequest {
    /// Folders, or files of a root; if empty, every known root. A folder outside every root becomes a root; only the owner
    /// may request that.
    pub paths: Vec<String>,
    /// Read and embed every file again, changed or not.
    pub full: bool,
    /// Index metadata only (tier L0), without reading content.
    pub metadata_only: bool,
    /// Read at most this many files; the other files stay pending.
    pub max_files: Option<u64>,
    /// When to run OCR.
    pub ocr: OcrMode,
    /// Remove missing files from the index even if a whole root, over half of it, or an unmounted file system is missing.
    pub accept_losses: bool,
}

/// When an index job runs OCR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OcrMode {
    /// Run OCR on pages of PDFs without a text layer, and on images, if the models are installed.
    #[default]
    Auto,
    /// Do not run OCR in the job; a question may still run OCR on its best hits.
    Never,
    /// Run OCR on every page of a PDF and every image, even with a text layer.
    Always,
}

impl OcrMode {
    /// Every OCR mode.
    pub const ALL: [OcrMode; 3] = [OcrMode::Auto, OcrMode::Never, OcrMode::Always];

    /// Returns the snake_case name of the mode.
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

/// State of an index job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// The job waits for an earlier job.
    Queued,
    /// The job runs.
    Running,
    /// The job finished; single files may have failed.
    Completed,
    /// The job was stopped by an error.
    Failed,
    /// The job was stopped by a request or by the shutdown of the daemon.
    Cancelled,
}

impl JobState {
    /// Returns whether the job has ended.
    pub fn is_final(self) -> bool {
        matches!(self, JobState::Completed | JobState::Failed | JobState::Cancelled)
    }

    /// Returns the snake_case name of the state.
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

/// Current phase of an index job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The job has not started.
    #[default]
    Waiting,
    /// The job scans the root folders for new and changed files.
    Scanning,
    /// The job reads, chunks, embeds and stores files. If many files are new, embedding is left to the next phase.
    Indexing,
    /// The job embeds the chunks that so far are only in the keyword index.
    Vectors,
    /// The job updates the search indexes of the store.
    Finishing,
    /// The job has ended.
    Done,
}

impl Phase {
    /// Returns the snake_case name of the phase.
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

/// Snapshot of an index job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobSnapshot {
    /// Id of the job.
    pub job_id: String,
    /// State of the job.
    pub state: JobState,
    /// Current phase of the job.
    pub phase: Phase,
    /// The request that started the job.
    pub request: IndexRequest,
    /// Time of the request, in milliseconds since the epoch.
    pub created_ms: i64,
    /// Start time, in milliseconds since the epoch; absent while queued.
    pub started_ms: Option<i64>,
    /// End time, in milliseconds since the epoch; absent until the job ends.
    pub finished_ms: Option<i64>,
    /// Number of files that the scan found.
    pub files_found: u64,
    /// Number of files that the job has to read.
    pub files_total: u64,
    /// Files of `files_total` that are done (indexed, skipped or failed).
    pub files_done: u64,
    /// Files of `files_total` that failed.
    pub files_failed: u64,
    /// Files removed from the index because they no longer exist on disk.
    pub files_removed: u64,
    /// Number of chunks written to the store.
    pub chunks_written: u64,
    /// Chunks that had to be embedded; the vectors of the other chunks came from the cache.
    pub chunks_embedded: u64,
    /// Chunks stored without a vector so far, which only the keyword search finds; known once every file is read.
    #[serde(default)]
    pub chunks_awaiting: u64,
    /// Tokens that the embedder processed.
    pub tokens_embedded: u64,
    /// Tokens embedded per second, measured over the last few seconds.
    pub tokens_per_second: f64,
    /// Estimated seconds until the job ends.
    pub eta_seconds: Option<f64>,
    /// The last file that failed, with its reason, or a problem of the scan; absent if there was none.
    pub last_error: Option<String>,
    /// The error that stopped a failed job.
    pub error: Option<String>,
    /// Exit code for `error`; see [`crate::error::ErrorCode::exit_code`]. A completed job also has one if a requested folder
    /// is suddenly empty or has lost most of its files; `last_error` then says so, and nothing was removed from the index.
    #[serde(default)]
    pub error_exit_code: Option<u32>,
}

/// Index coverage of the known files: `indexed + skipped + failed + pending = found`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Number of known files.
    pub found: u64,
    /// Files whose chunks are in the store.
    pub indexed: u64,
    /// Files that are deliberately not read.
    pub skipped: u64,
    /// Files that could not be read.
    pub failed: u64,
    /// Files whose content is still to be read.
    pub pending: u64,
    /// Indexed files that still lack vectors, so that only the keyword search finds them.
    #[serde(default)]
    pub awaiting_vectors: u64,
    /// Number of skipped and failed files by reason.
    pub reasons: std::collections::BTreeMap<String, u64>,
}

/// Status of the daemon and its index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Version of vic.
    pub version: String,
    /// Process id of the daemon.
    pub pid: u32,
    /// Seconds since the daemon started.
    pub uptime_seconds: u64,
    /// Resident memory of the daemon in MiB.
    pub rss_mib: f64,
    /// Maximum resident memory of the daemon so far, in MiB.
    pub peak_rss_mib: f64,
    /// Path of the data directory.
    pub data_dir: String,
    /// The TCP address on which the daemon listens.
    pub listen: String,
    /// Which data may leave the machine.
    pub privacy_mode: crate::model::PrivacyMode,
    /// The embedding model and its backend, e.g. `all-MiniLM-L6-v2 (onnx)`.
    pub embed_model: String,
    /// Dimension of the embedding model's vectors.
    pub dimension: u32,
    /// Whether the index can answer questions.
    pub index_ready: bool,
    /// Number of chunks in the store.
    pub chunks: u64,
    /// Size of the store on disk, in bytes.
    pub store_bytes: u64,
    /// The indexed root folders.
    pub roots: Vec<crate::model::Root>,
    /// File counts by state.
    pub coverage: Coverage,
    /// Index jobs that have not ended.
    pub running_jobs: Vec<JobSnapshot>,
    /// Problems of the daemon or the index, each with cause and fix in one sentence.
    pub degraded: Vec<String>,
    /// Whether the TCP port requires a key.
    #[serde(default)]
    pub auth_enabled: bool,
    /// The current pause of indexing, if any.
    #[serde(default)]
    pub paused: Option<crate::model::Pause>,
    /// State of the file watcher.
    #[serde(default)]
    pub watch: crate::model::WatchReport,
    /// Memory limits by component.
    #[serde(default)]
    pub memory_caps: Vec<crate::model::MemoryCap>,
    /// Number of chunks by language (ISO 639-1) in a sample of the index; chunks of unclear language are not counted.
    #[serde(default)]
    pub languages: std::collections::BTreeMap<String, u64>,
    /// Suggestions that would make answers better, each with the command to type.
    #[serde(default)]
    pub advice: Vec<String>,
    /// State and maintenance of the store's files on disk.
    #[serde(default)]
    pub upkeep: Upkeep,
}

/// Number and size of the store's files, which compaction and pruning keep bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Upkeep {
    /// The store with its version and place, and what it lacks, e.g. `LanceDB`.
    #[serde(default)]
    pub store: String,
    /// Maintenance step in progress, e.g. `compacting`; empty when idle.
    pub now: String,
    /// Versions of the store that are kept on disk.
    pub versions: u64,
    /// Data fragments (files) of the store.
    pub fragments: u64,
    /// Chunks that the keyword index does not contain yet; queries scan them one by one.
    pub unindexed_chunks: u64,
    /// Files with images that wait for OCR.
    pub unread_pictures: u64,
    /// Free bytes on the disk of the index.
    pub disk_free_bytes: u64,
}

impl Status {
    /// Makes the root paths representable in JSON; see [`crate::model::Root::with_printable_path`].
    pub fn with_printable_paths(self) -> Status {
        Status { roots: self.roots.into_iter().map(crate::model::Root::with_printable_path).collect(), ..self }
    }
}
