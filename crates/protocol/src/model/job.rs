//! Index jobs as their clients see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IndexRequest {
    /// Folders, or files of a root; empty means every known root. A folder of the owner's that lies in no root becomes
    /// one.
    pub paths: Vec<String>,
    /// Read and embed everything again, changed or not.
    pub full: bool,
    /// Stop after L0.
    pub metadata_only: bool,
    /// Read at most this many files; the rest stay pending.
    pub max_files: Option<u64>,
    /// Whether pictures of text are read.
    pub ocr: OcrMode,
    /// Believe that files are gone even when it is all of a root, more than half of it, or those of a file system that is
    /// not mounted.
    pub accept_losses: bool,
}

/// When an index job reads pictures of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OcrMode {
    /// Pages of PDFs without a text layer, and images, when the models are there.
    #[default]
    Auto,
    /// Nothing; a question may still do so for its best hits.
    Never,
    /// Every page of a PDF and every image, whatever text layer it has.
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

    /// Returns the mode of that [`OcrMode::name`].
    pub fn from_name(name: &str) -> Option<OcrMode> {
        OcrMode::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waiting for an earlier job.
    Queued,
    /// At work.
    Running,
    /// Ended, all done; single files may have failed.
    Completed,
    /// Ended by an error.
    Failed,
    /// Ended by a request, or by the end of the daemon.
    Cancelled,
}

impl JobState {
    /// Says whether the job has ended.
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

    /// Returns the state of that [`JobState::name`].
    pub fn from_name(name: &str) -> Option<JobState> {
        [JobState::Queued, JobState::Running, JobState::Completed, JobState::Failed, JobState::Cancelled]
            .into_iter()
            .find(|it| it.name() == name)
    }
}

/// What a running job does now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Not begun.
    #[default]
    Waiting,
    /// Walks the roots.
    Scanning,
    /// Reads, chunks, embeds and stores; of many new files the words alone.
    Indexing,
    /// Embeds what is found by its words so far.
    Vectors,
    /// Brings the indexes of the store up to date.
    Finishing,
    /// Ended.
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

/// A job at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobSnapshot {
    /// Its id.
    pub job_id: String,
    /// Where it stands.
    pub state: JobState,
    /// What it does.
    pub phase: Phase,
    /// What was asked.
    pub request: IndexRequest,
    /// Milliseconds since the epoch.
    pub created_ms: i64,
    /// Milliseconds since the epoch.
    pub started_ms: Option<i64>,
    /// Milliseconds since the epoch.
    pub finished_ms: Option<i64>,
    /// Files seen by the walk.
    pub files_found: u64,
    /// Files that this job has to read.
    pub files_total: u64,
    /// Of these, done (indexed, skipped or failed).
    pub files_done: u64,
    /// Of these, failed.
    pub files_failed: u64,
    /// Files whose entry went away because they are gone from disk.
    pub files_removed: u64,
    /// Chunks written to the store.
    pub chunks_written: u64,
    /// Chunks that had to be embedded; the rest came from the cache.
    pub chunks_embedded: u64,
    /// Chunks that are found by their words so far, and wait for their vectors; known once every file is read.
    #[serde(default)]
    pub chunks_awaiting: u64,
    /// Tokens embedded.
    pub tokens_embedded: u64,
    /// Tokens embedded a second, over the last few seconds.
    pub tokens_per_second: f64,
    /// Estimated seconds to the end.
    pub eta_seconds: Option<f64>,
    /// The last file that failed, with its reason, or what a walk could not see.
    pub last_error: Option<String>,
    /// Why the job failed.
    pub error: Option<String>,
    /// The exit code that goes with the error; see [`crate::error::ErrorCode::exit_code`]. Of a job that completed, with
    /// `last_error`: a folder that it was asked for is empty at once, or has lost most of its files, and nothing was removed.
    #[serde(default)]
    pub error_exit_code: Option<u32>,
}

/// How much of what was found is in the index: `indexed + skipped + failed + pending = found`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Files known.
    pub found: u64,
    /// Files whose chunks are in the store.
    pub indexed: u64,
    /// Files left out on purpose.
    pub skipped: u64,
    /// Files that could not be read.
    pub failed: u64,
    /// Files still to read.
    pub pending: u64,
    /// Of the indexed ones, those that are found by their words so far: the vectors of their chunks are to follow.
    #[serde(default)]
    pub awaiting_vectors: u64,
    /// Number of files by reason.
    pub reasons: std::collections::BTreeMap<String, u64>,
}

/// The daemon and its index at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Version of vic.
    pub version: String,
    /// Process number of the daemon.
    pub pid: u32,
    /// Seconds since its start.
    pub uptime_seconds: u64,
    /// Resident memory of the daemon in MiB.
    pub rss_mib: f64,
    /// Largest resident memory so far, in MiB.
    pub peak_rss_mib: f64,
    /// The data directory.
    pub data_dir: String,
    /// The TCP address, as bound.
    pub listen: String,
    /// What may leave the machine.
    pub privacy_mode: crate::model::PrivacyMode,
    /// The embedding model and its backend, e.g. `all-MiniLM-L6-v2 (onnx)`.
    pub embed_model: String,
    /// Length of its vectors.
    pub dimension: u32,
    /// Whether a question can be answered from the index.
    pub index_ready: bool,
    /// Chunks in the store.
    pub chunks: u64,
    /// Bytes of the store on disk.
    pub store_bytes: u64,
    /// The roots.
    pub roots: Vec<crate::model::Root>,
    /// Files by state.
    pub coverage: Coverage,
    /// Jobs that have not ended.
    pub running_jobs: Vec<JobSnapshot>,
    /// What is not as it should be, with cause and cure, one sentence each.
    pub degraded: Vec<String>,
    /// Whether programs on the TCP port must show a key.
    #[serde(default)]
    pub auth_enabled: bool,
    /// The pause of indexing that holds now, if one does.
    #[serde(default)]
    pub paused: Option<crate::model::Pause>,
    /// How well changes on disk are seen.
    #[serde(default)]
    pub watch: crate::model::WatchReport,
    /// What each part may hold in memory at most.
    #[serde(default)]
    pub memory_caps: Vec<crate::model::MemoryCap>,
    /// The state of the store's files, and what is done about it.
    #[serde(default)]
    pub upkeep: Upkeep,
}

/// How many files the store is made of, and how much room there is: what compaction and pruning keep bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Upkeep {
    /// What is done at this moment, e.g. `compacting`; empty when nothing is.
    pub now: String,
    /// Versions that are kept.
    pub versions: u64,
    /// Data fragments.
    pub fragments: u64,
    /// Chunks that the keyword index does not cover yet; questions scan them.
    pub unindexed_chunks: u64,
    /// Files whose text in pictures and scans is still to be read.
    pub unread_pictures: u64,
    /// Bytes that are free on the disk of the index.
    pub disk_free_bytes: u64,
}

impl Status {
    /// Makes it fit for JSON; see [`crate::model::Root::printable`].
    pub fn printable(self) -> Status {
        Status { roots: self.roots.into_iter().map(crate::model::Root::printable).collect(), ..self }
    }
}
