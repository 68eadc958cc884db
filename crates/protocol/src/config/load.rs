//! Loads the settings from the environment and the data directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::config::ollama_host::OLLAMA_HOST;
use crate::config::sections::Config;
use crate::config::sources::{Settings, absolute, read_file};
use crate::config::tuned::read_tuned;
use crate::error::{Error, Result};

impl Config {
    /// Loads the settings from the process environment and `config.toml`.
    ///
    /// # Errors
    /// A variable or key has an invalid value; the message names that variable or key.
    pub fn load() -> Result<Config> {
        #[expect(clippy::disallowed_methods, reason = "this module is the one reader of the environment")]
        Config::from_lookup(&|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    /// Loads the settings with `lookup` in place of the process environment, so that tests need not change variables.
    ///
    /// # Errors
    /// A variable or key has an invalid value; the message names that variable or key.
    pub fn from_lookup(lookup: &dyn Fn(&str) -> Option<OsString>) -> Result<Config> {
        let default_dir = platform_data_dir(lookup);
        let data_dir = match (lookup("VIC_DATA_DIR"), &default_dir) {
            (Some(dir), _) => absolute(Path::new(&dir))?,
            (None, Some(dir)) => dir.clone(),
            // Fail instead of using `/tmp`, which other users can write to, or the current directory, which varies.
            (None, None) => {
                return Err(Error::invalid(
                    "HOME is not set to an absolute path, so vic has no default folder for its data",
                )
                .hint("set HOME, or VIC_DATA_DIR to a folder for vic's data"));
            }
        };
        let settings = Settings { lookup, file: read_file(&data_dir)?, tuned: read_tuned(&data_dir)? };
        settings.resolve_config(data_dir, default_dir.as_deref())
    }
}

/// Returns the platform's default data directory; `None` if the environment does not define an absolute path for it.
fn platform_data_dir(lookup: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| lookup(name).map(PathBuf::from).filter(|it| it.is_absolute());
    if let Some(dir) = folder("XDG_DATA_HOME") {
        return Some(dir.join("vic"));
    }
    let below = if cfg!(target_os = "macos") { "Library/Application Support/vic" } else { ".local/share/vic" };
    Some(folder("HOME")?.join(below))
}

/// The only variables that a plugin inherits: enough to find programs, the home folder and the locale. API keys in vic's
/// environment are not passed on.
const PLUGIN_VARIABLES: [&str; 9] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", OLLAMA_HOST];

/// Returns the environment for a plugin: those of the [`PLUGIN_VARIABLES`] that are set.
pub fn plugin_environment() -> Vec<(&'static str, OsString)> {
    #[expect(clippy::disallowed_methods, reason = "this module is the one reader of the environment")]
    PLUGIN_VARIABLES.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))).collect()
}

/// Variables by which a program finds the desktop of the user.
pub const DESKTOP_VARIABLES: [&str; 8] = [
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "XDG_CURRENT_DESKTOP",
    "XDG_SESSION_TYPE",
    "XDG_DATA_DIRS",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// Returns the variables of the user's desktop that are set.
pub fn desktop_environment() -> Vec<(String, String)> {
    #[expect(clippy::disallowed_methods, reason = "this module is the one reader of the environment")]
    let value = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
    DESKTOP_VARIABLES.into_iter().filter_map(|name| Some((name.to_string(), value(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{EmbedBackend, EmbedDevice, EmbedEngine, VARIABLES, VectorBackend};
    use crate::model::PrivacyMode;

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
            ("VIC_MCP_TOOLS", "files"),
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
            ("VIC_LLM_PREFETCH", "often"),
            ("VIC_WORKERS", "-1"),
            ("VIC_EMBED_BATCH", "many"),
            ("VIC_DISK_RESERVE_BYTES", "much"),
            ("VIC_VECTOR_BACKEND", "abacus"),
            ("VIC_MILVUS_COLLECTION", "vic-chunks"),
        ] {
            let error = check(&[("VIC_DATA_DIR", "/d"), (name, value)]).unwrap_err();
            assert!(error.message.contains(name) && error.message.contains(value), "{error}");
        }
    }

    #[test]
    fn vic_vector_backend_is_lance_by_default() {
        assert_eq!(check(&[]).unwrap().vectors.backend, VectorBackend::Lance);
        let config = check(&[("VIC_VECTOR_BACKEND", "milvus"), ("VIC_MILVUS_TOKEN", "root:Milvus")]).unwrap();
        assert_eq!(
            (config.vectors.backend, config.vectors.milvus_token.as_deref()),
            (VectorBackend::Milvus, Some("root:Milvus"))
        );
    }

    #[test]
    fn vic_milvus_uri_is_in_vic_db_path_by_default() {
        assert_eq!(check(&[("VIC_DB_PATH", "/e/lance")]).unwrap().vectors.milvus_uri, "/e/lance/milvus_lite.db");
        let server = "http://127.0.0.1:19530";
        assert_eq!(check(&[("VIC_MILVUS_URI", server)]).unwrap().vectors.milvus_uri, server);
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
    fn env_example_describes_every_variable() {
        let example = include_str!("../../../../.env.example");
        for (name, description) in VARIABLES {
            assert!(example.contains(&format!("# {description}\n# {name}=\n")), "{name}");
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
        // The error must name line and column but not quote the line, because the line may hold an API key.
        for line in ["bridge_api_key = \"s3cret", "bridge_api_key = s3cret", "bridge_api_key s3cret"] {
            std::fs::write(&file, format!("workers = 7\n{line}\n")).unwrap();
            let error = check(&[("VIC_DATA_DIR", data_dir)]).unwrap_err();
            assert!(error.message.contains("config.toml`, line 2") && !error.message.contains("s3cret"), "{error}");
        }
    }
}
