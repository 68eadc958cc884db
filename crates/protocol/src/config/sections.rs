//! The structs that hold all settings, grouped into sections.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::config::bridge::BridgeConfig;
use crate::config::embed::EmbedConfig;
use crate::config::toolsets::Toolsets;
use crate::model::{ExtractLimits, OcrMode, PrivacyMode};

/// All settings, resolved. Cheap to clone; constant while the daemon runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `VIC_DATA_DIR`: the directory of everything that vic writes.
    pub data_dir: PathBuf,
    /// `VIC_DB_PATH`: directory of the index for vectors and keywords.
    pub db_path: PathBuf,
    /// `VIC_JOB_DB_PATH`: SQLite file of the index jobs.
    pub job_db_path: PathBuf,
    /// `VIC_LISTEN`: the TCP address to listen on; port 0 selects a free port.
    pub listen: SocketAddr,
    /// `VIC_WAREHOUSE_ROOT`: root folder of commands that name none.
    pub warehouse_root: Option<PathBuf>,
    /// `VIC_PRIVACY_MODE`: which data may leave the machine.
    pub privacy_mode: PrivacyMode,
    /// `VIC_LOG_LEVEL`: a `tracing` filter; `WARNING` means `warn`.
    pub log_level: String,
    /// Folders searched for models, in this order; downloads go to the first.
    pub model_dirs: Vec<PathBuf>,
    /// Settings of the embedder.
    pub embed: EmbedConfig,
    /// Settings of the reranker.
    pub rerank: RerankConfig,
    /// Settings of language models.
    pub llm: LlmConfig,
    /// Settings of walking and watching folders.
    pub walk: WalkConfig,
    /// Settings of background work, such as the CPU share of indexing.
    pub background: BackgroundConfig,
    /// `VIC_WORKERS`: number of extraction processes.
    pub workers: usize,
    /// Limits of the extraction of one file.
    pub limits: ExtractLimits,
    /// Settings of the TCP port: API keys, TLS and limits.
    pub bridge: BridgeConfig,
    /// `VIC_MCP_TOOLS`: the toolsets that MCP lists besides the tools for files.
    pub mcp_tools: Toolsets,
    /// Settings of the vector store.
    pub vectors: VectorConfig,
    /// `VIC_SYNTHETIC_JSONL`: the output file of `vic synthetic-plans`.
    pub synthetic_jsonl: Option<PathBuf>,
    /// `VIC_OCR`: whether the watcher and periodic scans OCR images.
    pub ocr: OcrMode,
    /// `VIC_L2_SECONDS`: time limit per question, in seconds, for OCR and other skills.
    pub l2_seconds: u32,
    /// `VIC_DISK_RESERVE_BYTES`: indexing stops when the data directory's disk has less free space than this. `None` means
    /// the larger of 1 GiB and 2 % of the disk.
    pub disk_reserve_bytes: Option<u64>,
    /// `VIC_SERVERS_CA`: PEM file of certificates to trust for TLS connections to servers, besides those of the system.
    pub servers_ca: Option<PathBuf>,
    /// Set variables of other programs (proxies, collectors) that could send text elsewhere. vic ignores and reports them.
    pub foreign: Vec<&'static str>,
}

/// Where chunks and vectors are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorBackend {
    /// LanceDB, in files of this machine.
    Lance,
    /// A Milvus server, or Milvus Lite on this machine.
    Milvus,
}

impl VectorBackend {
    /// Both backends.
    pub const ALL: [VectorBackend; 2] = [VectorBackend::Lance, VectorBackend::Milvus];

    /// Returns the name in `VIC_VECTOR_BACKEND`.
    pub fn name(self) -> &'static str {
        match self {
            VectorBackend::Lance => "lance",
            VectorBackend::Milvus => "milvus",
        }
    }
}

/// Settings of the vector store.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorConfig {
    /// `VIC_VECTOR_BACKEND`: where chunks and vectors are stored.
    pub backend: VectorBackend,
    /// `VIC_MILVUS_URI`: address of a Milvus server, or the directory of Milvus Lite; not used by `lance`.
    pub milvus_uri: String,
    /// `VIC_MILVUS_COLLECTION`: alias of the Milvus collection that answers queries; not used by `lance`.
    pub milvus_collection: String,
    /// `VIC_MILVUS_TOKEN`: token or `user:password` for the Milvus server.
    pub milvus_token: Option<String>,
}

/// Settings of the model that reranks the best hits of a question. Without a model and a server, nothing is reranked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RerankConfig {
    /// `VIC_RERANK_MODEL`: name or folder of a model in process, or name of a model on the server.
    pub model: Option<String>,
    /// `VIC_RERANK_URL`: address of a server with a `/rerank` endpoint.
    pub url: Option<String>,
    /// `VIC_RERANK_API_KEY`: API key for the server.
    pub key: Option<String>,
    /// `VIC_RERANK_MS`: time limit of one question in milliseconds.
    pub milliseconds: u32,
}

/// What plans questions and writes answers: fixed rules or a language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlmBackend {
    /// Fixed rules instead of a model.
    Stub,
    /// A model of an Ollama server, by `POST /api/chat`.
    Ollama,
    /// A model of an OpenAI-compatible server, by `POST /v1/chat/completions`.
    OpenAi,
}

/// Settings of language models; the servers' addresses and keys are those of [`EmbedConfig`].
#[derive(Clone, Debug, PartialEq)]
pub struct LlmConfig {
    /// `VIC_LIBRARIAN_BACKEND`: what plans questions and writes answers: `stub`, `ollama` or `openai`.
    pub backend: LlmBackend,
    /// `VIC_OLLAMA_MODEL` or `VIC_OPENAI_MODEL`: name of the model; empty for the backend `stub`.
    pub model: String,
    /// `VIC_OLLAMA_VISION_MODEL` (backend `openai`: `VIC_OPENAI_VISION_MODEL`): name of the model that describes images.
    pub vision_model: String,
    /// `VIC_L2_MAX_IMAGE_BYTES`: maximum size in bytes of an image sent to a model; larger images are not sent.
    pub max_image_bytes: u64,
    /// `VIC_LLM_CONTEXT_TOKENS`: maximum context of a model in tokens, prompt and answer together.
    pub context_tokens: u32,
    /// `VIC_LLM_MAX_SECONDS`: time limit in seconds of one task of a model.
    pub max_seconds: u32,
    /// `VIC_LLM_PREFETCH`: whether a plugin gets the results of a search for the question before its first step.
    pub prefetch: bool,
}

/// Settings of walking and watching folders.
#[derive(Clone, Debug, PartialEq)]
pub struct WalkConfig {
    /// `VIC_IGNORE`: globs of files to exclude from the index, separated by commas.
    pub ignore: Vec<String>,
    /// `VIC_INCLUDE_HIDDEN`: whether hidden files are indexed. Known secret files stay excluded.
    pub include_hidden: bool,
    /// `VIC_MAX_FILE_BYTES`: maximum size of a file whose content is read; larger files are indexed by name only.
    pub max_file_bytes: u64,
    /// `VIC_WATCH`: whether the daemon watches root folders for changes.
    pub watch: bool,
    /// `VIC_RESCAN_SECONDS`: seconds between full scans, which find changes that the watcher missed.
    pub rescan_seconds: u64,
}

/// Settings of background work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundConfig {
    /// `VIC_POLL_SECONDS`: seconds between scans of folders that the file watcher cannot watch.
    pub poll_seconds: u64,
    /// `VIC_VERIFY_SECONDS`: seconds between full reads of all files, which find content that changed under the same size
    /// and times; 0 disables these reads.
    pub verify_seconds: u64,
    /// `VIC_CPU_PERCENT`: percentage of all processors that indexing may use.
    pub cpu_percent: u32,
    /// `VIC_PAUSE_ON_BATTERY`: whether indexing waits for mains power.
    pub pause_on_battery: bool,
}

/// Splits globs that commas separate. A comma in braces belongs to its glob, as in `*.{bak,tmp}`.
pub fn split_globs(text: &str) -> Vec<String> {
    let mut depth = 0_i32;
    let separates = |letter: char| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        letter == ',' && depth <= 0
    };
    text.split(separates).map(str::trim).filter(|it| !it.is_empty()).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_split_at_commas_outside_of_braces() {
        assert_eq!(split_globs(" *.log,, *.{bak,tmp} ,a}b,c"), ["*.log", "*.{bak,tmp}", "a}b", "c"]);
    }
}
