//! Settings: environment over `config.toml` in the data directory over what was tuned for this machine over defaults. The
//! only reader of the environment and of the home directory.
//!
//! The keys of `config.toml` are the names of the variables in lower case without `VIC_`: `VIC_PRIVACY_MODE` is
//! `privacy_mode`. [`NAMES`] lists them all; an unknown key is refused by name.

mod bridge;
mod foreign;
mod names;
mod ollama;
mod show;
mod source;
mod tuned;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

pub use bridge::{AuthMode, BridgeConfig, TlsFiles};
pub use names::NAMES;
pub use show::{Origin, Setting, settings, template};
pub use tuned::{remove_tuned, tuned_path, write_tuned};

use crate::config::source::{Settings, read_file};
use crate::error::{Error, IoContext, Result};
use crate::model::{ExtractLimits, JailMode, OcrMode, PrivacyMode, Redaction};

/// Longest time for looking into files: whoever waits longer has forgotten the question.
const MAX_L2_SECONDS: u32 = 3_600;

/// Context that a model can be given: less holds no question with its tools, more no model has.
const CONTEXT_TOKENS: RangeInclusive<u32> = 1_024..=2_097_152;

/// Ollama's own variable, see [`ollama`].
const OLLAMA_HOST: &str = "OLLAMA_HOST";

/// Longest time for one piece of work of a model.
const MAX_LLM_SECONDS: u32 = 3_600;

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
    /// `VIC_OLLAMA_BASE_URL`.
    pub ollama_url: String,
    /// `VIC_OLLAMA_API_KEY`.
    pub ollama_key: Option<String>,
    /// `VIC_OPENAI_BASE_URL`.
    pub openai_url: String,
    /// `VIC_OPENAI_API_KEY`.
    pub openai_key: Option<String>,
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

    /// The daemon's Unix socket.
    pub fn socket_path(&self) -> PathBuf {
        self.data_dir.join("vicd.sock")
    }

    /// The lock whose holder owns the data directory; its text names the owner.
    pub fn lock_path(&self) -> PathBuf {
        self.data_dir.join("vicd.lock")
    }

    /// The file that holds the TCP address as bound.
    pub fn address_path(&self) -> PathBuf {
        self.data_dir.join("listen")
    }

    /// The file that says which format the data directory has.
    pub fn format_path(&self) -> PathBuf {
        self.data_dir.join("format")
    }

    /// The file with the key that programs on the TCP port must show.
    pub fn key_path(&self) -> PathBuf {
        self.data_dir.join("key")
    }

    /// The table of further keys, each for some folders only.
    pub fn keys_path(&self) -> PathBuf {
        self.data_dir.join("keys.json")
    }

    /// The SQLite file of the catalog.
    pub fn catalog_path(&self) -> PathBuf {
        self.data_dir.join("catalog.sqlite")
    }

    /// The SQLite file of vectors by text.
    pub fn vector_cache_path(&self) -> PathBuf {
        self.data_dir.join("vectors.sqlite")
    }

    /// The SQLite file of what skills found.
    pub fn evidence_path(&self) -> PathBuf {
        self.data_dir.join("evidence.sqlite")
    }

    /// Views, sessions and results of the contract.
    pub fn corpus_path(&self) -> PathBuf {
        self.data_dir.join("corpus.sqlite")
    }

    /// The SQLite file of the graph.
    pub fn graph_path(&self) -> PathBuf {
        self.data_dir.join("graph.sqlite")
    }

    /// The folder of pages that were fetched: the only one of the data directory that may be indexed.
    pub fn pages_path(&self) -> PathBuf {
        self.data_dir.join("pages")
    }

    /// The SQLite file of outbound requests.
    pub fn audit_path(&self) -> PathBuf {
        self.data_dir.join("audit.sqlite")
    }

    /// The choice of a backend for the `llm` commands.
    pub fn llm_choice_path(&self) -> PathBuf {
        self.data_dir.join("llm.json")
    }

    /// The SQLite file of what agents did.
    pub fn transcripts_path(&self) -> PathBuf {
        self.data_dir.join("transcripts.sqlite")
    }

    /// The daemon's log.
    pub fn log_path(&self) -> PathBuf {
        self.data_dir.join("vicd.log")
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

impl Settings<'_> {
    fn config(&self, data_dir: PathBuf, default_dir: Option<&Path>) -> Result<Config> {
        let db_path = self.path("VIC_DB_PATH")?.unwrap_or_else(|| data_dir.join("index"));
        let job_db_path = match self.path("VIC_JOB_DB_PATH")? {
            Some(path) => path,
            None => db_path.parent().unwrap_or(&data_dir).join("vic_jobs.sqlite"),
        };
        let defaults = ExtractLimits::default();
        Ok(Config {
            bridge: self.bridge()?,
            vectors: self.vectors(&db_path)?,
            listen: self.parse("VIC_LISTEN", SocketAddr::from(([127, 0, 0, 1], 8765)))?,
            warehouse_root: self.path("VIC_WAREHOUSE_ROOT")?,
            privacy_mode: self.one_of(
                "VIC_PRIVACY_MODE",
                PrivacyMode::from_name,
                "`local_only`, `cloud_reasoning_ok` or `cloud_embedding_ok`",
            )?,
            log_level: self.log_level(),
            model_dirs: self.model_dirs(&data_dir, default_dir)?,
            embed: self.embed()?,
            llm: self.llm()?,
            walk: self.walk()?,
            background: self.background()?,
            workers: self.parse("VIC_WORKERS", cores())?.max(1),
            limits: ExtractLimits {
                seconds: self.parse("VIC_EXTRACT_SECONDS", defaults.seconds)?,
                memory_mib: self.parse("VIC_EXTRACT_MEMORY_MIB", defaults.memory_mib)?,
                jail: self.one_of("VIC_JAIL", JailMode::from_name, "`required` or `optional`")?,
                redaction: self.one_of("VIC_REDACT", Redaction::from_name, "`none`, `keys` or `all`")?,
                ..defaults
            },
            synthetic_jsonl: self.path("VIC_SYNTHETIC_JSONL")?,
            ocr: self.one_of("VIC_OCR", OcrMode::from_name, "`auto`, `never` or `always`")?,
            l2_seconds: self.bounded("VIC_L2_SECONDS", 20, 1..=MAX_L2_SECONDS)?,
            disk_reserve_bytes: match self.text("VIC_DISK_RESERVE_BYTES") {
                None => None,
                Some(_) => Some(self.parse("VIC_DISK_RESERVE_BYTES", 0)?),
            },
            servers_ca: self.path("VIC_SERVERS_CA")?,
            foreign: foreign::set(self.lookup),
            data_dir,
            db_path,
            job_db_path,
        })
    }

    fn vectors(&self, db_path: &Path) -> Result<VectorConfig> {
        let backend = self.text("VIC_VECTOR_BACKEND").unwrap_or_else(|| "lance".into());
        match backend.as_str() {
            "lance" => (),
            "milvus" => {
                return Err(Error::invalid("VIC_VECTOR_BACKEND `milvus` is not built yet").hint("use `lance`"));
            }
            other => {
                return Err(Error::invalid(format!("unknown VIC_VECTOR_BACKEND `{other}`")).hint("use `lance`"));
            }
        }
        let file = || db_path.join("milvus_lite.db").to_string_lossy().into_owned();
        Ok(VectorConfig {
            backend,
            milvus_uri: self.text("VIC_MILVUS_URI").unwrap_or_else(file),
            milvus_collection: self.text("VIC_MILVUS_COLLECTION").unwrap_or_else(|| "vic_chunks".into()),
        })
    }

    fn embed(&self) -> Result<EmbedConfig> {
        let typed = self.text("VIC_EMBED_BACKEND").unwrap_or_else(|| EmbedBackend::Onnx.name().into());
        let backend = EmbedBackend::ALL.into_iter().find(|it| it.name() == typed).ok_or_else(|| {
            Error::invalid(format!("unknown VIC_EMBED_BACKEND `{typed}`")).hint("use `onnx`, `ollama` or `openai`")
        })?;
        let (variable, default) = backend.model_variable();
        let model = self.text(variable).or_else(|| self.text("VIC_EMBED_MODEL"));
        let precision = self.text("VIC_EMBED_PRECISION").unwrap_or_else(|| "int8".into());
        if !matches!(precision.as_str(), "int8" | "fp32") {
            return Err(
                Error::invalid(format!("unknown VIC_EMBED_PRECISION `{precision}`")).hint("use `int8` or `fp32`")
            );
        }
        let typed = self.text("VIC_EMBED_ENGINE").unwrap_or_else(|| EmbedEngine::Auto.name().into());
        let engine = EmbedEngine::ALL.into_iter().find(|it| it.name() == typed).ok_or_else(|| {
            Error::invalid(format!("unknown VIC_EMBED_ENGINE `{typed}`")).hint("use `auto`, `own` or `onnx`")
        })?;
        Ok(EmbedConfig {
            backend,
            model: model.unwrap_or_else(|| default.into()),
            threads: self.parse("VIC_EMBED_THREADS", 0)?,
            batch: self.parse("VIC_EMBED_BATCH", 0)?,
            precision,
            engine,
            ollama_url: self.text("VIC_OLLAMA_BASE_URL").unwrap_or_else(|| self.ollama_address()),
            ollama_key: self.text("VIC_OLLAMA_API_KEY"),
            openai_url: self.text("VIC_OPENAI_BASE_URL").unwrap_or_else(|| "http://127.0.0.1:8080".into()),
            openai_key: self.text("VIC_OPENAI_API_KEY"),
        })
    }

    /// Where Ollama's own variable says that it is, and where it is without one.
    fn ollama_address(&self) -> String {
        ollama::address(&(self.lookup)(OLLAMA_HOST).unwrap_or_default().to_string_lossy())
    }

    fn llm(&self) -> Result<LlmConfig> {
        let backend = match self.text("VIC_LIBRARIAN_BACKEND").as_deref() {
            None | Some("stub") => LlmBackend::Stub,
            Some("ollama") => LlmBackend::Ollama,
            Some("openai") => LlmBackend::OpenAi,
            Some(other) => {
                return Err(Error::invalid(format!("unknown VIC_LIBRARIAN_BACKEND `{other}`"))
                    .hint("use `stub`, `ollama` or `openai`"));
            }
        };
        let required = |name: &str, value: &str, hint: &str| {
            self.text(name).ok_or_else(|| {
                Error::invalid(format!("{name} is not set, and VIC_LIBRARIAN_BACKEND is `{value}`")).hint(hint)
            })
        };
        let model = match backend {
            LlmBackend::Stub => String::new(),
            LlmBackend::Ollama => {
                required("VIC_OLLAMA_MODEL", "ollama", "`ollama list` shows the models of the server")?
            }
            LlmBackend::OpenAi => required("VIC_OPENAI_MODEL", "openai", "name a model that the server has")?,
        };
        let vision_model = match backend {
            LlmBackend::OpenAi => self.text("VIC_OPENAI_VISION_MODEL").unwrap_or_else(|| model.clone()),
            LlmBackend::Stub | LlmBackend::Ollama => {
                self.text("VIC_OLLAMA_VISION_MODEL").unwrap_or_else(|| "glm-ocr:q8_0".into())
            }
        };
        let max_image_bytes = self.parse("VIC_L2_MAX_IMAGE_BYTES", 12 << 20)?;
        let context_tokens = self.bounded("VIC_LLM_CONTEXT_TOKENS", 16_384, CONTEXT_TOKENS)?;
        let max_seconds = self.bounded("VIC_LLM_MAX_SECONDS", MAX_LLM_SECONDS, 1..=MAX_LLM_SECONDS)?;
        Ok(LlmConfig { backend, model, vision_model, max_image_bytes, context_tokens, max_seconds })
    }

    fn walk(&self) -> Result<WalkConfig> {
        let ignore = self.text("VIC_IGNORE").unwrap_or_default();
        Ok(WalkConfig {
            ignore: ignore.split(',').map(str::trim).filter(|it| !it.is_empty()).map(String::from).collect(),
            hidden: self.flag("VIC_INCLUDE_HIDDEN", false)?,
            max_file_bytes: self.parse("VIC_MAX_FILE_BYTES", 256 << 20)?,
            watch: self.flag("VIC_WATCH", true)?,
            rescan_seconds: self.parse("VIC_RESCAN_SECONDS", 3600)?,
        })
    }

    fn background(&self) -> Result<BackgroundConfig> {
        let cpu_percent = self.parse("VIC_CPU_PERCENT", 100)?;
        if !(1..=100).contains(&cpu_percent) {
            return Err(Error::invalid(format!("VIC_CPU_PERCENT `{cpu_percent}` is not between 1 and 100"))
                .hint("use `vic pause` to stop indexing for a while"));
        }
        Ok(BackgroundConfig {
            poll_seconds: self.parse("VIC_POLL_SECONDS", 30)?.max(1),
            verify_seconds: self.parse("VIC_VERIFY_SECONDS", 24 * 3600)?,
            cpu_percent,
            pause_on_battery: self.flag("VIC_PAUSE_ON_BATTERY", false)?,
        })
    }

    /// The data directory's models first; then the default directory's, so that daemons side by side share one download;
    /// then the checkout that this program was built in, so that a fresh build runs without a download.
    fn model_dirs(&self, data_dir: &Path, default_dir: Option<&Path>) -> Result<Vec<PathBuf>> {
        let mut dirs = vec![self.path("VIC_MODELS_DIR")?.unwrap_or_else(|| data_dir.join("models"))];
        dirs.extend(default_dir.map(|it| it.join("models")));
        dirs.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("models/cache"));
        dirs.dedup();
        Ok(dirs)
    }

    fn log_level(&self) -> String {
        match self.text("VIC_LOG_LEVEL") {
            None => "info".into(),
            Some(level) if level.eq_ignore_ascii_case("warning") => "warn".into(),
            Some(level) => level.to_ascii_lowercase(),
        }
    }
}

/// None when the environment does not say where a user keeps data. Relative paths say nothing.
fn platform_data_dir(lookup: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| lookup(name).map(PathBuf::from).filter(|it| it.is_absolute());
    if let Some(dir) = folder("XDG_DATA_HOME") {
        return Some(dir.join("vic"));
    }
    let below = if cfg!(target_os = "macos") { "Library/Application Support/vic" } else { ".local/share/vic" };
    Some(folder("HOME")?.join(below))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).at("resolve", path)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
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
        let example = include_str!("../../.env.example");
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
    }
}
