//! All settings, and their sections.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::config::bridge::BridgeConfig;
use crate::config::embed::EmbedConfig;
use crate::model::{ExtractLimits, OcrMode, PrivacyMode};

/// All settings, resolved. Cheap to clone; constant while the daemon runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `VIC_DATA_DIR`: the directory of everything that vic writes.
    pub data_dir: PathBuf,
    /// `VIC_DB_PATH`: directory of the vector and keyword index.
    pub db_path: PathBuf,
    /// `VIC_JOB_DB_PATH`: SQLite file of the jobs.
    pub job_db_path: PathBuf,
    /// `VIC_LISTEN`: the TCP address; port 0 selects a free port.
    pub listen: SocketAddr,
    /// `VIC_WAREHOUSE_ROOT`: default root of commands.
    pub warehouse_root: Option<PathBuf>,
    /// `VIC_PRIVACY_MODE`.
    pub privacy_mode: PrivacyMode,
    /// `VIC_LOG_LEVEL`: a `tracing` filter; `WARNING` means `warn`.
    pub log_level: String,
    /// Folders searched for models, in order; downloads go to the first.
    pub model_dirs: Vec<PathBuf>,
    /// Embedding.
    pub embed: EmbedConfig,
    /// Language models.
    pub llm: LlmConfig,
    /// Walking and watching.
    pub walk: WalkConfig,
    /// Background work and its share of the machine.
    pub background: BackgroundConfig,
    /// `VIC_WORKERS`: number of extraction processes.
    pub workers: usize,
    /// Limits of one extraction.
    pub limits: ExtractLimits,
    /// HTTP and keys.
    pub bridge: BridgeConfig,
    /// Vector store.
    pub vectors: VectorConfig,
    /// `VIC_SYNTHETIC_JSONL`: file that `vic synthetic-plans` writes.
    pub synthetic_jsonl: Option<PathBuf>,
    /// `VIC_OCR`: whether the watcher and periodic scans OCR images.
    pub ocr: OcrMode,
    /// `VIC_L2_SECONDS`: time limit per question for reading files in depth.
    pub l2_seconds: u32,
    /// `VIC_DISK_RESERVE_BYTES`: minimum free space on the data directory's disk; below it indexing stops. `None` is
    /// the larger of 1 GiB and 2 % of the disk.
    pub disk_reserve_bytes: Option<u64>,
    /// `VIC_SERVERS_CA`: PEM file of certificates trusted for servers, besides those of the system.
    pub servers_ca: Option<PathBuf>,
    /// Set variables of other programs that would have text sent elsewhere or observed if vic used them. It does not.
    pub foreign: Vec<&'static str>,
}

/// Settings of the vector store. Only `lance` is implemented.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorConfig {
    /// `VIC_VECTOR_BACKEND`.
    pub backend: String,
    /// `VIC_MILVUS_URI`: a file or a server.
    pub milvus_uri: String,
    /// `VIC_MILVUS_COLLECTION`.
    pub milvus_collection: String,
}

/// The backend that plans questions and writes answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlmBackend {
    /// Rules; no model.
    Stub,
    /// `POST /api/chat` of an Ollama server.
    Ollama,
    /// `POST /v1/chat/completions` of an OpenAI-compatible server.
    OpenAi,
}

/// Settings of language models; the servers' addresses and keys are those of [`EmbedConfig`].
#[derive(Clone, Debug, PartialEq)]
pub struct LlmConfig {
    /// `VIC_LIBRARIAN_BACKEND`: `stub`, `ollama` or `openai`.
    pub backend: LlmBackend,
    /// `VIC_OLLAMA_MODEL` or `VIC_OPENAI_MODEL`; empty for the stub.
    pub model: String,
    /// `VIC_OLLAMA_VISION_MODEL`, or with backend `openai` `VIC_OPENAI_VISION_MODEL`.
    pub vision_model: String,
    /// `VIC_L2_MAX_IMAGE_BYTES`: larger images are not sent to a model.
    pub max_image_bytes: u64,
    /// `VIC_LLM_CONTEXT_TOKENS`: upper limit of a model's context in tokens, prompt and answer together.
    pub context_tokens: u32,
    /// `VIC_LLM_MAX_SECONDS`: time limit of one task of a model in seconds.
    pub max_seconds: u32,
}

/// Settings of walk and watch.
#[derive(Clone, Debug, PartialEq)]
pub struct WalkConfig {
    /// `VIC_IGNORE`: extra globs to exclude, separated by commas.
    pub ignore: Vec<String>,
    /// `VIC_INCLUDE_HIDDEN`: whether hidden files are walked. Known secrets stay excluded.
    pub include_hidden: bool,
    /// `VIC_MAX_FILE_BYTES`: larger files are indexed by name only.
    pub max_file_bytes: u64,
    /// `VIC_WATCH`: whether roots are watched.
    pub watch: bool,
    /// `VIC_RESCAN_SECONDS`: seconds between reconcile scans.
    pub rescan_seconds: u64,
}

/// Settings of background work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundConfig {
    /// `VIC_POLL_SECONDS`: seconds between walks of folders that cannot be watched.
    pub poll_seconds: u64,
    /// `VIC_VERIFY_SECONDS`: seconds between full reads of all files, to find changes of content under the same size
    /// and times; 0 disables them.
    pub verify_seconds: u64,
    /// `VIC_CPU_PERCENT`: share of all processors that indexing may use.
    pub cpu_percent: u32,
    /// `VIC_PAUSE_ON_BATTERY`: whether indexing waits for mains power.
    pub pause_on_battery: bool,
}
