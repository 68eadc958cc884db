//! Settings. Precedence: environment, `config.toml` in the data directory, tuned values of this machine, defaults. The
//! only reader of the environment and the home directory.
//!
//! Keys of `config.toml` are the names of the variables in lower case without `VIC_`: `VIC_PRIVACY_MODE` is
//! `privacy_mode`. [`VARIABLES`] lists them all; an unknown key is an error that names the key.

mod bridge;
mod foreign_variables;
mod variables;
mod ollama_host;
mod paths;
mod resolve;
mod describe;
mod sources;
mod tuned;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub use crate::config::describe::{Origin, Setting, config_template, settings, unknown_variables};
pub use crate::config::variables::VARIABLES;
pub use bridge::{AuthMode, BridgeConfig, TlsFiles};
pub use tuned::{remove_tuned, tuned_path, write_tuned};

use crate::config::paths::{absolute, platform_data_dir};
use crate::config::sources::{Settings, read_file};
use crate::error::{Error, Result};
use crate::model::{ExtractLimits, OcrMode, PrivacyMode};

/// Ollama's own variable, see [`ollama`].
const OLLAMA_HOST: &str = "OLLAMA_HOST";

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

/// The embedding backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedBackend {
    /// In process, by ONNX Runtime.
    Onnx,
    /// `POST /api/embed` of an Ollama server.
    Ollama,
    /// `POST /v1/embeddings` of an OpenAI-compatible server.
    OpenAi,
}

impl EmbedBackend {
    /// Every backend.
    pub const ALL: [EmbedBackend; 3] = [EmbedBackend::Onnx, EmbedBackend::Ollama, EmbedBackend::OpenAi];

    /// Returns the name, as in `VIC_EMBED_BACKEND`.
    pub fn name(self) -> &'static str {
        match self {
            EmbedBackend::Onnx => "onnx",
            EmbedBackend::Ollama => "ollama",
            EmbedBackend::OpenAi => "openai",
        }
    }

    /// Returns the default model.
    pub fn default_model(self) -> &'static str {
        self.model_variable().1
    }

    /// The variable that names its model, and the default model.
    fn model_variable(self) -> (&'static str, &'static str) {
        match self {
            EmbedBackend::Onnx => ("VIC_EMBED_MODEL", "all-MiniLM-L6-v2"),
            EmbedBackend::Ollama => ("VIC_OLLAMA_EMBED_MODEL", "embeddinggemma"),
            EmbedBackend::OpenAi => ("VIC_OPENAI_EMBED_MODEL", "text-embedding-3-small"),
        }
    }
}

/// The engine of in-process models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedEngine {
    /// vic's own encoder if it is fast and supports the model, else ONNX Runtime.
    Auto,
    /// vic's own encoder, even where it is slow.
    Own,
    /// ONNX Runtime.
    Onnx,
}

impl EmbedEngine {
    /// Every engine.
    pub const ALL: [EmbedEngine; 3] = [EmbedEngine::Auto, EmbedEngine::Own, EmbedEngine::Onnx];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            EmbedEngine::Auto => "auto",
            EmbedEngine::Own => "own",
            EmbedEngine::Onnx => "onnx",
        }
    }
}

/// The device of in-process models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedDevice {
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU with CUDA: ONNX Runtime, in floating point.
    Cuda,
}

impl EmbedDevice {
    /// Every device.
    pub const ALL: [EmbedDevice; 2] = [EmbedDevice::Cpu, EmbedDevice::Cuda];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            EmbedDevice::Cpu => "cpu",
            EmbedDevice::Cuda => "cuda",
        }
    }

    /// The catalog name of the ONNX Runtime for this device.
    pub const fn runtime_library(self) -> &'static str {
        match self {
            EmbedDevice::Cpu => "onnxruntime",
            EmbedDevice::Cuda => "onnxruntime-cuda",
        }
    }

    /// The default precision: integers are fast on CPUs only.
    pub fn default_precision(self) -> &'static str {
        match self {
            EmbedDevice::Cpu => "int8",
            EmbedDevice::Cuda => "fp32",
        }
    }
}

/// Upper limit of embedding threads, more than the cores of the largest machines. Each holds a copy of the model.
pub const MAX_EMBED_THREADS: u32 = 1_024;

/// Settings of the embedder.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbedConfig {
    /// `VIC_EMBED_BACKEND`: `onnx`, `ollama` or `openai`.
    pub backend: EmbedBackend,
    /// `VIC_EMBED_MODEL`, or the backend's own variable: the model's name.
    pub model: String,
    /// `VIC_EMBED_THREADS`: texts embedded at the same time in process, one thread each; 0 is one per core.
    pub threads: usize,
    /// `VIC_EMBED_BATCH`: texts per call; 0 is the backend's default.
    pub batch: usize,
    /// `VIC_EMBED_PRECISION`: `int8` or `fp32`.
    pub precision: String,
    /// `VIC_EMBED_ENGINE`: `auto`, `own` or `onnx`.
    pub engine: EmbedEngine,
    /// `VIC_EMBED_DEVICE`: `cpu` or `cuda`.
    pub device: EmbedDevice,
    /// `VIC_OLLAMA_BASE_URL`.
    pub ollama_url: String,
    /// `VIC_OLLAMA_API_KEY`.
    pub ollama_key: Option<String>,
    /// `VIC_OPENAI_BASE_URL`.
    pub openai_url: String,
    /// `VIC_OPENAI_API_KEY`.
    pub openai_key: Option<String>,
    /// Tokens of context requested from an Ollama server. `None` uses the server's default, which always fits a passage
    /// of the index.
    pub context_tokens: Option<u32>,
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

impl Config {
    /// Reads the process environment and the configuration file.
    ///
    /// # Errors
    /// A variable or key has an invalid value; the message names it.
    pub fn load() -> Result<Config> {
        #[expect(clippy::disallowed_methods, reason = "this module is the one reader of the environment")]
        Config::from_lookup(&|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    /// Builds the configuration from any source of variables, so that tests do not change the process.
    ///
    /// # Errors
    /// A variable or key has an invalid value; the message names it.
    pub fn from_lookup(lookup: &dyn Fn(&str) -> Option<OsString>) -> Result<Config> {
        let default_dir = platform_data_dir(lookup);
        let data_dir = match (lookup("VIC_DATA_DIR"), &default_dir) {
            (Some(dir), _) => absolute(Path::new(&dir))?,
            (None, Some(dir)) => dir.clone(),
            // A world-writable folder is unsafe for data, and the current directory varies.
            (None, None) => {
                return Err(Error::invalid("HOME is not set to an absolute path, so there is no place for vic's data")
                    .hint("set HOME, or VIC_DATA_DIR to a folder for vic's data"));
            }
        };
        let settings = Settings { lookup, file: read_file(&data_dir)?, tuned: tuned::read_tuned(&data_dir)? };
        settings.resolve_config(data_dir, default_dir.as_deref())
    }
}

/// The only variables that a plugin inherits: enough to find programs, its home and the locale. Keys in vic's
/// environment are not passed on.
const PLUGIN_VARIABLES: [&str; 9] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", OLLAMA_HOST];

/// The environment of a plugin: the variables in [`PLUGIN_VARIABLES`] that are set.
pub fn plugin_environment() -> Vec<(&'static str, OsString)> {
    #[expect(clippy::disallowed_methods, reason = "this module is the one reader of the environment")]
    PLUGIN_VARIABLES.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn check(variables: &[(&str, &str)]) -> Result<Config> {
        let variables: BTreeMap<String, String> =
            variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let home = |name: &str| (name == "HOME").then(|| "/home/anna".into());
        Config::from_lookup(&|name| variables.get(name).map(OsString::from).or_else(|| home(name)))
    }

    #[test]
    fn cuda_defaults_to_fp32_unless_precision_is_set() {
        let embed = |variables: &[(&str, &str)]| check(variables).unwrap().embed;
        assert_eq!((embed(&[]).device, embed(&[]).precision.as_str()), (EmbedDevice::Cpu, "int8"));
        let cuda = ("VIC_EMBED_DEVICE", "cuda");
        assert_eq!((embed(&[cuda]).device, embed(&[cuda]).precision.as_str()), (EmbedDevice::Cuda, "fp32"));
        assert_eq!(embed(&[cuda, ("VIC_EMBED_PRECISION", "int8")]).precision, "int8");
        assert!(check(&[("VIC_EMBED_DEVICE", "abacus")]).unwrap_err().hint.unwrap().contains("cuda"));
    }

    #[test]
    fn missing_home_requires_data_dir() {
        for home in ["", "home", "../anna"] {
            let error = check(&[("HOME", home)]).unwrap_err();
            assert!(error.hint.is_some_and(|it| it.contains("VIC_DATA_DIR")), "{home}");
            check(&[("HOME", home), ("VIC_DATA_DIR", "/d")]).unwrap();
        }
        let data_dir = |variables: &[(&str, &str)]| check(variables).unwrap().data_dir;
        assert_eq!(data_dir(&[("XDG_DATA_HOME", "/share")]), Path::new("/share/vic"));
        assert_eq!(data_dir(&[("XDG_DATA_HOME", "share")]), data_dir(&[]));
    }

    #[test]
    fn paths_default_below_data_dir() {
        let config = check(&[("VIC_DATA_DIR", "/d")]).unwrap();
        for path in [&config.db_path, &config.job_db_path, &config.model_dirs[0], &config.socket_path()] {
            assert!(path.starts_with("/d"), "{}", path.display());
        }
    }

    #[test]
    fn single_paths_can_be_overridden() {
        let config = check(&[("VIC_DATA_DIR", "/d"), ("VIC_DB_PATH", "/e/lance")]).unwrap();
        assert_eq!(config.db_path, Path::new("/e/lance"));
        assert_eq!(config.job_db_path, Path::new("/e/vic_jobs.sqlite"));
    }

    #[test]
    fn invalid_value_is_rejected_by_name() {
        for (name, value) in [
            ("VIC_LISTEN", "nonsense"),
            ("VIC_PRIVACY_MODE", "open"),
            ("VIC_EMBED_BACKEND", "abacus"),
            ("VIC_LIBRARIAN_BACKEND", "oracle"),
            ("VIC_L2_MAX_IMAGE_BYTES", "many"),
            ("VIC_WATCH", "maybe"),
            ("VIC_OCR", "often"),
            ("VIC_WORKERS", "9223372036854775807"),
            ("VIC_WORKERS", "2000"),
            ("VIC_EMBED_BATCH", "4294967296"),
            ("VIC_JAIL", "open"),
            ("VIC_REDACT", "some"),
            ("VIC_L2_SECONDS", "0"),
            ("VIC_LLM_CONTEXT_TOKENS", "1000"),
            ("VIC_LLM_MAX_SECONDS", "3601"),
            ("VIC_WORKERS", "-1"),
            ("VIC_EMBED_BATCH", "many"),
            ("VIC_DISK_RESERVE_BYTES", "much"),
            ("VIC_VECTOR_BACKEND", "abacus"),
            ("VIC_VECTOR_BACKEND", "milvus"),
        ] {
            let error = check(&[("VIC_DATA_DIR", "/d"), (name, value)]).unwrap_err();
            assert!(error.message.contains(name) && error.message.contains(value), "{error}");
        }
    }

    #[test]
    fn vic_vector_backend_is_lance_by_default_and_milvus_is_not_built_yet() {
        assert_eq!(check(&[]).unwrap().vectors.backend, "lance");
        let error = check(&[("VIC_VECTOR_BACKEND", "milvus")]).unwrap_err();
        assert!(error.message.contains("VIC_VECTOR_BACKEND") && error.message.contains("not built yet"), "{error}");
    }

    #[test]
    fn vic_milvus_uri_is_a_file_in_vic_db_path_by_default() {
        assert_eq!(check(&[("VIC_DB_PATH", "/e/lance")]).unwrap().vectors.milvus_uri, "/e/lance/milvus_lite.db");
    }

    #[test]
    fn vic_milvus_collection_is_vic_chunks_by_default() {
        assert_eq!(check(&[]).unwrap().vectors.milvus_collection, "vic_chunks");
    }

    #[test]
    fn vic_db_path_is_index_in_the_data_directory_by_default() {
        assert_eq!(check(&[("VIC_DATA_DIR", "/d")]).unwrap().db_path, Path::new("/d/index"));
    }

    #[test]
    fn vic_job_db_path_lies_beside_vic_db_path_by_default() {
        assert_eq!(check(&[("VIC_DB_PATH", "/e/x")]).unwrap().job_db_path, Path::new("/e/vic_jobs.sqlite"));
    }

    #[test]
    fn vic_warehouse_root_is_none_by_default() {
        assert_eq!(check(&[]).unwrap().warehouse_root, None);
    }

    #[test]
    fn vic_privacy_mode_is_local_only_by_default() {
        assert_eq!(check(&[]).unwrap().privacy_mode, PrivacyMode::LocalOnly);
    }

    #[test]
    fn vic_ollama_base_url_is_this_machine_by_default() {
        assert_eq!(check(&[]).unwrap().embed.ollama_url, "http://127.0.0.1:11434");
    }

    #[test]
    fn ollama_host_is_used_below_vic_settings() {
        let url = |variables: &[(&str, &str)]| check(variables).unwrap().embed.ollama_url;
        assert_eq!(url(&[("OLLAMA_HOST", "10.0.0.7")]), "http://10.0.0.7:11434");
        let both = [("OLLAMA_HOST", "10.0.0.7"), ("VIC_OLLAMA_BASE_URL", "http://127.0.0.1:9")];
        assert_eq!(url(&both), "http://127.0.0.1:9");
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.toml"), "ollama_base_url = \"http://127.0.0.1:8\"\n").unwrap();
        let data_dir = ("VIC_DATA_DIR", dir.path().to_str().unwrap());
        assert_eq!(url(&[data_dir, ("OLLAMA_HOST", "10.0.0.7")]), "http://127.0.0.1:8");
    }

    #[test]
    fn vic_ollama_embed_model_is_embeddinggemma_by_default() {
        assert_eq!(check(&[("VIC_EMBED_BACKEND", "ollama")]).unwrap().embed.model, "embeddinggemma");
    }

    #[test]
    fn vic_ollama_api_key_is_none_by_default() {
        assert_eq!(check(&[]).unwrap().embed.ollama_key, None);
    }

    #[test]
    fn vic_embed_backend_is_onnx_by_default() {
        assert_eq!(check(&[]).unwrap().embed.backend, EmbedBackend::Onnx);
    }

    #[test]
    fn vic_embed_engine_is_auto_by_default_and_one_of_three() {
        assert_eq!(check(&[]).unwrap().embed.engine, EmbedEngine::Auto);
        for engine in EmbedEngine::ALL {
            assert_eq!(check(&[("VIC_EMBED_ENGINE", engine.name())]).unwrap().embed.engine, engine);
        }
        assert!(check(&[("VIC_EMBED_ENGINE", "steam")]).unwrap_err().message.contains("steam"));
    }

    #[test]
    fn vic_log_level_accepts_documented_names() {
        for (level, filter) in [("WARNING", "warn"), ("INFO", "info"), ("DEBUG", "debug")] {
            assert_eq!(check(&[("VIC_LOG_LEVEL", level)]).unwrap().log_level, filter);
        }
        assert_eq!(check(&[("VIC_LOG_LEVEL", "info,vic::index=debug")]).unwrap().log_level, "info,vic::index=debug");
        assert!(check(&[("VIC_LOG_LEVEL", "loud")]).unwrap_err().hint.unwrap().contains("DEBUG"));
    }

    #[test]
    fn vic_listen_is_port_8765_of_this_machine_by_default() {
        assert_eq!(check(&[]).unwrap().listen.to_string(), "127.0.0.1:8765");
    }

    #[test]
    fn librarian_backend_without_model_is_rejected_by_name() {
        for (backend, name) in [("ollama", "VIC_OLLAMA_MODEL"), ("openai", "VIC_OPENAI_MODEL")] {
            let error = check(&[("VIC_DATA_DIR", "/d"), ("VIC_LIBRARIAN_BACKEND", backend)]).unwrap_err();
            assert!(error.message.contains(name) && error.hint.is_some(), "{error}");
            let config = check(&[("VIC_DATA_DIR", "/d"), ("VIC_LIBRARIAN_BACKEND", backend), (name, "m")]).unwrap();
            assert_eq!(config.llm.model, "m");
        }
        let config = check(&[("VIC_DATA_DIR", "/d")]).unwrap();
        assert_eq!((config.llm.vision_model.as_str(), config.llm.max_image_bytes), ("glm-ocr:q8_0", 12_582_912));
    }

    #[test]
    fn env_example_lists_every_variable() {
        let example = include_str!("../../../../.env.example");
        for (name, _) in VARIABLES {
            assert!(example.contains(&format!("# {name}=")), "{name}");
        }
    }

    #[test]
    fn environment_overrides_file_and_unknown_key_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        let data_dir = dir.path().to_str().unwrap();
        std::fs::write(&file, "workers = 7\nembed_model = \"file\"\n").unwrap();
        let config = check(&[("VIC_DATA_DIR", data_dir), ("VIC_EMBED_MODEL", "env")]).unwrap();
        assert_eq!((config.workers, config.embed.model.as_str()), (7, "env"));
        std::fs::write(&file, "worker = 7\n").unwrap();
        assert!(check(&[("VIC_DATA_DIR", data_dir)]).unwrap_err().message.contains("worker"));
        // The error names the position, not the line, because the line may hold a key.
        for line in ["bridge_api_key = \"s3cret", "bridge_api_key = s3cret", "bridge_api_key s3cret"] {
            std::fs::write(&file, format!("workers = 7\n{line}\n")).unwrap();
            let error = check(&[("VIC_DATA_DIR", data_dir)]).unwrap_err();
            assert!(error.message.contains("config.toml`, line 2") && !error.message.contains("s3cret"), "{error}");
        }
    }
}
