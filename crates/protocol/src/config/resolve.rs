//! Resolves all settings from their variables, with limits and defaults.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::config::embed::{EmbedBackend, EmbedConfig, EmbedDevice, EmbedEngine, MAX_EMBED_THREADS};
use crate::config::sections::{
    BackgroundConfig, Config, LlmBackend, LlmConfig, RerankConfig, VectorBackend, VectorConfig, WalkConfig, split_globs,
};
use crate::config::sources::Settings;
use crate::config::{Toolsets, foreign_variables, ollama_host};
use crate::error::{Error, Result};
use crate::model::{ExtractLimits, JailMode, OcrMode, PrivacyMode, Redaction};

/// Maximum length of the name of a Milvus collection; vic appends 22 characters, and Milvus takes 255.
const MAX_COLLECTION_CHARS: usize = 200;
/// Maximum of `VIC_L2_SECONDS`, the time per question for OCR and other skills: users do not wait longer than an hour.
const MAX_L2_SECONDS: u32 = 3_600;

/// Default and maximum of `VIC_RERANK_MS`: an answer should not take noticeably longer, and users do not wait for a minute.
const RERANK_MS: (u32, u32) = (100, 60_000);

/// Maximum of `VIC_WORKERS`, the number of extraction processes: more than the cores of any machine.
const MAX_WORKERS: u32 = 1_024;

/// Maximum of `VIC_EMBED_BATCH`, the texts per embedding call: more than any server accepts.
const MAX_EMBED_BATCH: u32 = 16_384;

/// Maximum time limit in seconds (one day) for the extraction of one file.
const MAX_EXTRACT_SECONDS: u32 = 86_400;

/// Minimum memory limit of an extraction process in MiB: what the process needs before it reads a file.
const MIN_EXTRACT_MIB: u32 = 64;

/// Accepted context sizes: a smaller one cannot hold a question with its tool descriptions; no model has a larger one.
const CONTEXT_TOKENS: RangeInclusive<u32> = 1_024..=2_097_152;

/// Maximum time limit in seconds for one task of a language model.
const MAX_LLM_SECONDS: u32 = 3_600;

impl Settings<'_> {
    /// Resolves all settings. `data_dir` is the data directory in use, `default_dir` the platform's default one.
    pub(super) fn resolve_config(&self, data_dir: PathBuf, default_dir: Option<&Path>) -> Result<Config> {
        let db_path = self.path("VIC_DB_PATH")?.unwrap_or_else(|| data_dir.join("index"));
        let job_db_path = match self.path("VIC_JOB_DB_PATH")? {
            Some(path) => path,
            None => db_path.parent().unwrap_or(&data_dir).join("vic_jobs.sqlite"),
        };
        let defaults = ExtractLimits::default();
        Ok(Config {
            bridge: self.bridge()?,
            mcp_tools: self.one_of("VIC_MCP_TOOLS", Toolsets::from_names, Toolsets::KNOWN)?,
            vectors: self.vectors(&db_path)?,
            listen: self.parse("VIC_LISTEN", SocketAddr::from(([127, 0, 0, 1], 8765)))?,
            warehouse_root: self.path("VIC_WAREHOUSE_ROOT")?,
            privacy_mode: self.one_of(
                "VIC_PRIVACY_MODE",
                PrivacyMode::from_name,
                "`local_only`, `cloud_reasoning_ok` or `cloud_embedding_ok`",
            )?,
            log_level: self.log_level()?,
            model_dirs: self.model_dirs(&data_dir, default_dir)?,
            embed: self.embed()?,
            rerank: self.rerank()?,
            llm: self.llm()?,
            walk: self.walk()?,
            background: self.background()?,
            // 0 is accepted and means 1, because indexing needs at least one extraction process.
            workers: self.bounded("VIC_WORKERS", cores(), 0..=MAX_WORKERS)?.max(1) as usize,
            limits: ExtractLimits {
                seconds: self.bounded("VIC_EXTRACT_SECONDS", defaults.seconds, 1..=MAX_EXTRACT_SECONDS)?,
                memory_mib: self.bounded("VIC_EXTRACT_MEMORY_MIB", defaults.memory_mib, MIN_EXTRACT_MIB..=u32::MAX)?,
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
            foreign: foreign_variables::set_variables(self.lookup),
            data_dir,
            db_path,
            job_db_path,
        })
    }

    fn vectors(&self, db_path: &Path) -> Result<VectorConfig> {
        let typed = self.text("VIC_VECTOR_BACKEND").unwrap_or_else(|| VectorBackend::Lance.name().into());
        let backend = VectorBackend::ALL.into_iter().find(|it| it.name() == typed).ok_or_else(|| {
            Error::invalid(format!("unknown VIC_VECTOR_BACKEND `{typed}`")).hint("use `lance` or `milvus`")
        })?;
        let milvus_uri = match self.text("VIC_MILVUS_URI") {
            Some(address) if address.contains('@') && address.contains("://") => {
                // The address is shown in errors and in the status.
                return Err(Error::invalid("VIC_MILVUS_URI holds a user or a password")
                    .hint("put `user:password` into VIC_MILVUS_TOKEN"));
            }
            Some(address) if address.contains("://") => address,
            typed => {
                let given = if typed.is_some() { self.path("VIC_MILVUS_URI")? } else { None };
                let dir = given.unwrap_or_else(|| db_path.join("milvus_lite.db"));
                let text = dir.to_str().map(String::from).ok_or_else(|| {
                    Error::invalid(format!("the directory of Milvus Lite `{}` is not UTF-8", dir.display()))
                        .hint("set VIC_MILVUS_URI to another path")
                });
                // Only Milvus needs the path.
                if backend == VectorBackend::Milvus { text? } else { text.unwrap_or_default() }
            }
        };
        let milvus_collection = self.text("VIC_MILVUS_COLLECTION").unwrap_or_else(|| "vic_chunks".into());
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        if !milvus_collection.chars().all(is_name) || !(1..=MAX_COLLECTION_CHARS).contains(&milvus_collection.len()) {
            let text = format!("VIC_MILVUS_COLLECTION `{milvus_collection}` is not a name of Milvus");
            return Err(Error::invalid(text).hint("use up to 200 letters, digits and underscores"));
        }
        Ok(VectorConfig { backend, milvus_uri, milvus_collection, milvus_token: self.text("VIC_MILVUS_TOKEN") })
    }

    fn embed(&self) -> Result<EmbedConfig> {
        let typed = self.text("VIC_EMBED_BACKEND").unwrap_or_else(|| EmbedBackend::Onnx.name().into());
        let backend = EmbedBackend::ALL.into_iter().find(|it| it.name() == typed).ok_or_else(|| {
            Error::invalid(format!("unknown VIC_EMBED_BACKEND `{typed}`")).hint("use `onnx`, `ollama` or `openai`")
        })?;
        let (variable, default) = backend.model_variable();
        let model = self.text(variable).or_else(|| self.text("VIC_EMBED_MODEL"));
        let typed = self.text("VIC_EMBED_DEVICE").unwrap_or_else(|| EmbedDevice::Cpu.name().into());
        let device = EmbedDevice::ALL
            .into_iter()
            .find(|it| it.name() == typed)
            .ok_or_else(|| Error::invalid(format!("unknown VIC_EMBED_DEVICE `{typed}`")).hint("use `cpu` or `cuda`"))?;
        let precision = self.text("VIC_EMBED_PRECISION").unwrap_or_else(|| device.default_precision().into());
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
            threads: self.bounded("VIC_EMBED_THREADS", 0, 0..=MAX_EMBED_THREADS)? as usize,
            batch: self.bounded("VIC_EMBED_BATCH", 0, 0..=MAX_EMBED_BATCH)? as usize,
            precision,
            engine,
            device,
            ollama_url: self.text("VIC_OLLAMA_BASE_URL").unwrap_or_else(|| self.ollama_address()),
            ollama_key: self.text("VIC_OLLAMA_API_KEY"),
            openai_url: self.text("VIC_OPENAI_BASE_URL").unwrap_or_else(|| "http://127.0.0.1:8080".into()),
            openai_key: self.text("VIC_OPENAI_API_KEY"),
            context_tokens: None,
        })
    }

    fn rerank(&self) -> Result<RerankConfig> {
        let url = self.text("VIC_RERANK_URL");
        if url.as_deref().is_some_and(|it| it.contains('@')) {
            // The address is shown in errors and in the audit log.
            return Err(Error::invalid("VIC_RERANK_URL holds a user or a password")
                .hint("put the key of the server into VIC_RERANK_API_KEY"));
        }
        Ok(RerankConfig {
            model: self.text("VIC_RERANK_MODEL"),
            url,
            key: self.text("VIC_RERANK_API_KEY"),
            milliseconds: self.bounded("VIC_RERANK_MS", RERANK_MS.0, 1..=RERANK_MS.1)?,
        })
    }

    /// Returns the Ollama server's URL from `OLLAMA_HOST`, or Ollama's default URL.
    fn ollama_address(&self) -> String {
        ollama_host::client_address(&(self.lookup)(ollama_host::OLLAMA_HOST).unwrap_or_default().to_string_lossy())
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
                Error::invalid(format!("{name} is not set, but VIC_LIBRARIAN_BACKEND is `{value}`")).hint(hint)
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
        let prefetch = self.flag("VIC_LLM_PREFETCH", false)?;
        Ok(LlmConfig { backend, model, vision_model, max_image_bytes, context_tokens, max_seconds, prefetch })
    }

    fn walk(&self) -> Result<WalkConfig> {
        let ignore = self.text("VIC_IGNORE").unwrap_or_default();
        Ok(WalkConfig {
            ignore: split_globs(&ignore),
            include_hidden: self.flag("VIC_INCLUDE_HIDDEN", false)?,
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

    /// Returns the folders searched for models: that of the data directory, then that of the default directory, so that
    /// several daemons share one download, then that of the source checkout, so that a fresh build needs no download.
    fn model_dirs(&self, data_dir: &Path, default_dir: Option<&Path>) -> Result<Vec<PathBuf>> {
        let mut dirs = vec![self.path("VIC_MODELS_DIR")?.unwrap_or_else(|| data_dir.join("models"))];
        dirs.extend(default_dir.map(|it| it.join("models")));
        dirs.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/cache"));
        dirs.dedup();
        Ok(dirs)
    }

    fn log_level(&self) -> Result<String> {
        let level = self.text("VIC_LOG_LEVEL").unwrap_or_else(|| "info".into()).to_ascii_lowercase();
        match level.as_str() {
            "warning" => Ok("warn".into()),
            "off" | "error" | "warn" | "info" | "debug" | "trace" => Ok(level),
            // Accept a `tracing` filter with per-module levels, e.g. `vic=debug`, unchanged.
            _ if level.contains('=') => Ok(level),
            _ => Err(Error::invalid(format!("unknown VIC_LOG_LEVEL `{level}`"))
                .hint("use ERROR, WARNING, INFO or DEBUG, or a filter such as `info,vic::index=debug`")),
        }
    }
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |it| it.get().try_into().unwrap_or(MAX_WORKERS)).min(MAX_WORKERS)
}
