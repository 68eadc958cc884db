//! Settings: environment over `config.toml` in the data directory over what was tuned for this machine over defaults. The
//! only reader of the environment and of the home directory.
//!
//! The keys of `config.toml` are the names of the variables in lower case without `VIC_`: `VIC_PRIVACY_MODE` is
//! `privacy_mode`. [`NAMES`] lists them all; an unknown key is refused by name.

mod bridge;
mod foreign;
mod names;
mod ollama;
mod places;
mod resolve;
mod show;
mod source;
mod tuned;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub use bridge::{AuthMode, BridgeConfig, TlsFiles};
pub use names::NAMES;
pub use show::{Origin, Setting, settings, strangers, template};
pub use tuned::{remove_tuned, tuned_path, write_tuned};

use crate::config::places::{absolute, platform_data_dir};
use crate::config::source::{Settings, read_file};
use crate::error::{Error, Result};
use crate::model::{ExtractLimits, OcrMode, PrivacyMode};

/// Ollama's own variable, see [`ollama`].
const OLLAMA_HOST: &str = "OLLAMA_HOST";

/// Every setting, resolved. Cheap to clone, never changes while the daemon runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `VIC_DATA_DIR`: everything vic writes lies below it.
    pub data_dir: PathBuf,
    /// `VIC_DB_PATH`: directory of the vector and keyword index.
    pub db_path: PathBuf,
    /// `VIC_JOB_DB_PATH`: SQLite file of the jobs.
    pub job_db_path: PathBuf,
    /// `VIC_LISTEN`: the TCP address; port 0 takes a free one.
    pub listen: SocketAddr,
    /// `VIC_WAREHOUSE_ROOT`: root when a command names none.
    pub warehouse_root: Option<PathBuf>,
    /// `VIC_PRIVACY_MODE`.
    pub privacy_mode: PrivacyMode,
    /// `VIC_LOG_LEVEL`: a `tracing` filter; `WARNING` is understood as `warn`.
    pub log_level: String,
    /// Folders that are searched for models, first to last; the first is written to.
    pub model_dirs: Vec<PathBuf>,
    /// Embedding.
    pub embed: EmbedConfig,
    /// Language models.
    pub llm: LlmConfig,
    /// Walking and watching.
    pub walk: WalkConfig,
    /// What goes on unasked, and how much of the machine it may take.
    pub background: BackgroundConfig,
    /// `VIC_WORKERS`: extraction processes.
    pub workers: usize,
    /// Limits of one extraction.
    pub limits: ExtractLimits,
    /// HTTP and keys.
    pub bridge: BridgeConfig,
    /// Where the vectors are kept.
    pub vectors: VectorConfig,
    /// `VIC_SYNTHETIC_JSONL`: file that `vic synthetic-plans` writes.
    pub synthetic_jsonl: Option<PathBuf>,
    /// `VIC_OCR`: whether the watcher and the regular scans have pictures of text read.
    pub ocr: OcrMode,
    /// `VIC_L2_SECONDS`: time for looking into files, for one question.
    pub l2_seconds: u32,
    /// `VIC_DISK_RESERVE_BYTES`: free space of the data directory's disk below which nothing is indexed; None is the larger
    /// of 1 GiB and 2 % of the disk.
    pub disk_reserve_bytes: Option<u64>,
    /// `VIC_SERVERS_CA`: PEM file of certificates that are trusted for servers, beside those of the system.
    pub servers_ca: Option<PathBuf>,
    /// Variables of other programs that would have text sent elsewhere, or watched, if vic heeded them. It does not.
    pub foreign: Vec<&'static str>,
}

/// Settings of the vector store. `lance` is the only one that is built.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorConfig {
    /// `VIC_VECTOR_BACKEND`.
    pub backend: String,
    /// `VIC_MILVUS_URI`: a file or a server.
    pub milvus_uri: String,
    /// `VIC_MILVUS_COLLECTION`.
    pub milvus_collection: String,
}

/// Which embedder.
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

    /// Returns the model when nothing is set.
    pub fn default_model(self) -> &'static str {
        self.model_variable().1
    }

    /// The variable that names its model, and the model when nothing is set.
    fn model_variable(self) -> (&'static str, &'static str) {
        match self {
            EmbedBackend::Onnx => ("VIC_EMBED_MODEL", "all-MiniLM-L6-v2"),
            EmbedBackend::Ollama => ("VIC_OLLAMA_EMBED_MODEL", "embeddinggemma"),
            EmbedBackend::OpenAi => ("VIC_OPENAI_EMBED_MODEL", "text-embedding-3-small"),
        }
    }
}

/// What computes in process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedEngine {
    /// vic's own encoder where it is fast and knows the model, else ONNX Runtime.
    Auto,
    /// vic's own encoder, slow or not.
    Own,
    /// ONNX Runtime.
    Onnx,
}

impl EmbedEngine {
    /// Every one of them.
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

/// What in-process models run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedDevice {
    /// The processor.
    Cpu,
    /// A graphics card by CUDA: in ONNX Runtime, in floating point.
    Cuda,
}

impl EmbedDevice {
    /// Every one of them.
    pub const ALL: [EmbedDevice; 2] = [EmbedDevice::Cpu, EmbedDevice::Cuda];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            EmbedDevice::Cpu => "cpu",
            EmbedDevice::Cuda => "cuda",
        }
    }

    /// The catalog's name of the ONNX Runtime that computes there.
    pub const fn library(self) -> &'static str {
        match self {
            EmbedDevice::Cpu => "onnxruntime",
            EmbedDevice::Cuda => "onnxruntime-cuda",
        }
    }

    /// The precision when nothing is set: whole numbers are fast on processors only.
    pub fn usual_precision(self) -> &'static str {
        match self {
            EmbedDevice::Cpu => "int8",
            EmbedDevice::Cuda => "fp32",
        }
    }
}

/// Most threads that embed: more than the largest machines have cores. Each holds a copy of the model.
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
    /// `VIC_EMBED_BATCH`: texts handed over in one call; 0 is what suits the backend.
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
    /// Tokens of context that an Ollama server must give the model. None leaves it to the server, of which every default
    /// holds a passage of the index.
    pub context_tokens: Option<u32>,
}

/// Who plans questions and writes answers.
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
    /// `VIC_L2_MAX_IMAGE_BYTES`: larger images are not shown to a model.
    pub max_image_bytes: u64,
    /// `VIC_LLM_CONTEXT_TOKENS`: most tokens of context, prompt and answer together, that a model is asked with.
    pub context_tokens: u32,
    /// `VIC_LLM_MAX_SECONDS`: most seconds that one piece of work of a model may take.
    pub max_seconds: u32,
}

/// Settings of walk and watch.
#[derive(Clone, Debug, PartialEq)]
pub struct WalkConfig {
    /// `VIC_IGNORE`: extra globs to leave out, separated by commas.
    pub ignore: Vec<String>,
    /// `VIC_INCLUDE_HIDDEN`: whether hidden files are walked. Known secrets stay out.
    pub hidden: bool,
    /// `VIC_MAX_FILE_BYTES`: larger files are known by name only.
    pub max_file_bytes: u64,
    /// `VIC_WATCH`: whether roots are watched.
    pub watch: bool,
    /// `VIC_RESCAN_SECONDS`: seconds between reconcile scans.
    pub rescan_seconds: u64,
}

/// Settings of the work that nobody waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundConfig {
    /// `VIC_POLL_SECONDS`: seconds between walks of what cannot be watched.
    pub poll_seconds: u64,
    /// `VIC_VERIFY_SECONDS`: seconds between readings of every file for content that changed under the same size and times;
    /// 0 never reads them.
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
    /// Names the variable or key whose value is wrong.
    pub fn load() -> Result<Config> {
        #[expect(clippy::disallowed_methods, reason = "this module is the one reader of the environment")]
        Config::from_lookup(&|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    /// Builds the configuration from any source of variables, so that tests need not touch the process.
    ///
    /// # Errors
    /// Names the variable or key whose value is wrong.
    pub fn from_lookup(lookup: &dyn Fn(&str) -> Option<OsString>) -> Result<Config> {
        let default_dir = platform_data_dir(lookup);
        let data_dir = match (lookup("VIC_DATA_DIR"), &default_dir) {
            (Some(dir), _) => absolute(Path::new(&dir))?,
            (None, Some(dir)) => dir.clone(),
            // A folder that every user may write to is no place for it, nor one that depends on where a command is run.
            (None, None) => {
                return Err(Error::invalid("HOME is not set to an absolute path, so there is no place for vic's data")
                    .hint("set HOME, or VIC_DATA_DIR to a folder for vic's data"));
            }
        };
        let settings = Settings { lookup, file: read_file(&data_dir)?, tuned: tuned::read_tuned(&data_dir)? };
        settings.config(data_dir, default_dir.as_deref())
    }
}

/// The variables that a plugin inherits, and no others: enough to find programs, its home and the language. Keys that stand
/// in the environment of vic stay there.
const PLUGIN_VARIABLES: [&str; 9] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", OLLAMA_HOST];

/// The environment of a plugin: what of [`PLUGIN_VARIABLES`] this process has.
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
    fn a_graphics_card_computes_in_floating_point_unless_something_else_is_asked_for() {
        let embed = |variables: &[(&str, &str)]| check(variables).unwrap().embed;
        assert_eq!((embed(&[]).device, embed(&[]).precision.as_str()), (EmbedDevice::Cpu, "int8"));
        let cuda = ("VIC_EMBED_DEVICE", "cuda");
        assert_eq!((embed(&[cuda]).device, embed(&[cuda]).precision.as_str()), (EmbedDevice::Cuda, "fp32"));
        assert_eq!(embed(&[cuda, ("VIC_EMBED_PRECISION", "int8")]).precision, "int8");
        assert!(check(&[("VIC_EMBED_DEVICE", "abacus")]).unwrap_err().hint.unwrap().contains("cuda"));
    }

    #[test]
    fn without_a_home_the_data_directory_has_to_be_named() {
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
    fn everything_lies_below_the_data_directory() {
        let config = check(&[("VIC_DATA_DIR", "/d")]).unwrap();
        for path in [&config.db_path, &config.job_db_path, &config.model_dirs[0], &config.socket_path()] {
            assert!(path.starts_with("/d"), "{}", path.display());
        }
    }

    #[test]
    fn single_places_can_be_moved() {
        let config = check(&[("VIC_DATA_DIR", "/d"), ("VIC_DB_PATH", "/e/lance")]).unwrap();
        assert_eq!(config.db_path, Path::new("/e/lance"));
        assert_eq!(config.job_db_path, Path::new("/e/vic_jobs.sqlite"));
    }

    #[test]
    fn a_wrong_value_is_refused_by_name() {
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
    fn ollama_host_is_heeded_below_every_setting_of_vic() {
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
    fn vic_log_level_understands_the_names_of_the_document() {
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
    fn a_librarian_without_its_model_is_refused_by_name() {
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
    fn the_example_lists_every_variable() {
        let example = include_str!("../../../../.env.example");
        for (name, _) in NAMES {
            assert!(example.contains(&format!("# {name}=")), "{name}");
        }
    }

    #[test]
    fn the_environment_wins_over_the_file_and_unknown_keys_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        let data_dir = dir.path().to_str().unwrap();
        std::fs::write(&file, "workers = 7\nembed_model = \"file\"\n").unwrap();
        let config = check(&[("VIC_DATA_DIR", data_dir), ("VIC_EMBED_MODEL", "env")]).unwrap();
        assert_eq!((config.workers, config.embed.model.as_str()), (7, "env"));
        std::fs::write(&file, "worker = 7\n").unwrap();
        assert!(check(&[("VIC_DATA_DIR", data_dir)]).unwrap_err().message.contains("worker"));
        // What is wrong is told by its place: the line may hold a key.
        for line in ["bridge_api_key = \"s3cret", "bridge_api_key = s3cret", "bridge_api_key s3cret"] {
            std::fs::write(&file, format!("workers = 7\n{line}\n")).unwrap();
            let error = check(&[("VIC_DATA_DIR", data_dir)]).unwrap_err();
            assert!(error.message.contains("config.toml`, line 2") && !error.message.contains("s3cret"), "{error}");
        }
    }
}
