//! The value and origin of each setting, for `vic config`, and a template for `config.toml`. Never shows API keys.

use std::ffi::OsString;
use std::path::Path;

use serde::Serialize;

use crate::config::embed::EmbedBackend;
use crate::config::ollama_host::OLLAMA_HOST;
use crate::config::sections::{Config, LlmBackend};
use crate::config::sources::{Settings, file_key, read_file};
use crate::config::tuned::read_tuned;
use crate::config::variables::VARIABLES;
use crate::error::Result;

/// Where the value of a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The value comes from an environment variable.
    Environment,
    /// The value comes from `config.toml` in the data directory.
    File,
    /// The value comes from `tuned.toml` in the data directory, written by `vic bench embed --autotune`.
    Tuned,
    /// The value is the built-in default.
    Default,
}

/// One setting with its resolved value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Name of the environment variable, e.g. `VIC_LISTEN`.
    pub name: &'static str,
    /// Key of the setting in `config.toml`.
    pub key: String,
    /// The effective value; `None` if unset without a default. For API keys, `set` instead of the value, or `None`.
    pub value: Option<String>,
    /// Where the value comes from.
    pub origin: Origin,
    /// Description of the setting in one line.
    pub description: &'static str,
}

/// Returns all settings of this process, in the order of [`VARIABLES`].
///
/// # Errors
/// As [`Config::load`].
pub fn settings() -> Result<Vec<Setting>> {
    #[expect(clippy::disallowed_methods, reason = "this module belongs to the one reader of the environment")]
    resolve_settings(&|name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

/// Returns the set `VIC_*` variables that are not settings of vic, sorted: most are misspelt names.
pub fn unknown_variables() -> Vec<String> {
    unknown_names(std::env::vars_os().map(|(name, _)| name))
}

fn unknown_names(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let names = names.map(|it| it.to_string_lossy().into_owned());
    let mut strange: Vec<String> =
        names.filter(|it| it.starts_with("VIC_") && VARIABLES.iter().all(|(name, _)| name != it)).collect();
    strange.sort();
    strange
}

/// Returns a template of `config.toml` with every key commented out, each below a line that describes it.
pub fn config_template() -> String {
    let mut text = String::from(
        "# Settings of vic: remove the `#` before a key to set it. This file is `config.toml` in the data directory.\n\
         # A variable of the environment, VIC_ and the key in capitals, wins over this file.\n",
    );
    for (name, description) in VARIABLES.iter().filter(|(name, _)| *name != "VIC_DATA_DIR") {
        text.push_str(&format!("\n# {description}\n# {} = \"\"\n", file_key(name)));
    }
    text
}

/// Checks that a setting can have a value, beside the other settings of this process.
///
/// # Errors
/// As [`Config::load`] with this value.
pub fn check_value(name: &str, value: &str) -> Result<()> {
    #[expect(clippy::disallowed_methods, reason = "this module belongs to the one reader of the environment")]
    let environment = |it: &str| std::env::var_os(it).filter(|value| !value.is_empty());
    Config::from_lookup(&|it| if it == name { Some(value.into()) } else { environment(it) }).map(drop)
}

fn resolve_settings(lookup: &dyn Fn(&str) -> Option<OsString>) -> Result<Vec<Setting>> {
    let config = Config::from_lookup(lookup)?;
    let given = Settings { lookup, file: read_file(&config.data_dir)?, tuned: read_tuned(&config.data_dir)? };
    let setting = |(name, description): &(&'static str, &'static str)| {
        let origin = match (lookup(name), given.file.contains_key(&file_key(name))) {
            (Some(_), _) => Origin::Environment,
            (None, true) => Origin::File,
            (None, false) if given.tuned.contains_key(&file_key(name)) => Origin::Tuned,
            (None, false) if *name == "VIC_OLLAMA_BASE_URL" && lookup(OLLAMA_HOST).is_some() => Origin::Environment,
            (None, false) => Origin::Default,
        };
        let typed = given.text(name);
        let value = match name.ends_with("_API_KEY") || name.ends_with("_TOKEN") {
            true => typed.map(|_| "set".to_string()),
            // Show the resolved value: it is more informative than the typed one, e.g. an absolute path for a relative one.
            false => effective_value(&config, name).or(typed).or_else(|| other_default(name).map(String::from)),
        };
        Setting { name, key: file_key(name), value, origin, description }
    };
    Ok(VARIABLES.iter().map(setting).collect())
}

/// Returns the effective value of a variable as a user would type it; `None` for variables without a value of their own.
fn effective_value(config: &Config, name: &str) -> Option<String> {
    path_value(config, name).or_else(|| model_value(config, name)).or_else(|| work_value(config, name))
}

fn path(path: &Path) -> Option<String> {
    Some(path.to_string_lossy().into_owned())
}

fn flag(on: bool) -> Option<String> {
    Some(if on { "1" } else { "0" }.to_string())
}

/// Returns the effective value of a variable for a path or a network address; `None` for other variables.
fn path_value(config: &Config, name: &str) -> Option<String> {
    let bridge = &config.bridge;
    match name {
        "VIC_DATA_DIR" => path(&config.data_dir),
        "VIC_DB_PATH" => path(&config.db_path),
        "VIC_JOB_DB_PATH" => path(&config.job_db_path),
        "VIC_LISTEN" => Some(config.listen.to_string()),
        "VIC_BRIDGE_AUTH" => Some(bridge.auth.name().into()),
        "VIC_BRIDGE_HOSTS" => (!bridge.hosts.is_empty()).then(|| bridge.hosts.join(",")),
        "VIC_BRIDGE_TLS_CERT" => bridge.tls.as_ref().and_then(|it| path(&it.certificate)),
        "VIC_BRIDGE_TLS_KEY" => bridge.tls.as_ref().and_then(|it| path(&it.key)),
        "VIC_BRIDGE_PLAIN" => flag(bridge.plain),
        "VIC_BRIDGE_RATE_LIMIT_PER_MIN" => Some(bridge.rate_limit_per_min.to_string()),
        "VIC_BRIDGE_MAX_BODY_BYTES" => Some(bridge.max_body_bytes.to_string()),
        "VIC_MCP_TOOLS" => Some(config.mcp_tools.to_string()).filter(|it| !it.is_empty()),
        "VIC_WAREHOUSE_ROOT" => config.warehouse_root.as_deref().and_then(path),
        "VIC_PRIVACY_MODE" => Some(config.privacy_mode.name().into()),
        "VIC_LOG_LEVEL" => Some(config.log_level.clone()),
        "VIC_MODELS_DIR" => config.model_dirs.first().and_then(|dir| path(dir)),
        _ => None,
    }
}

/// Returns the effective value of a variable for vectors, embedding or language models; `None` for other variables.
fn model_value(config: &Config, name: &str) -> Option<String> {
    let (embed, vectors) = (&config.embed, &config.vectors);
    let model_of = |backend: EmbedBackend| (embed.backend == backend).then(|| embed.model.clone());
    match name {
        "VIC_VECTOR_BACKEND" => Some(vectors.backend.name().into()),
        "VIC_MILVUS_URI" => Some(vectors.milvus_uri.clone()),
        "VIC_MILVUS_COLLECTION" => Some(vectors.milvus_collection.clone()),
        "VIC_EMBED_BACKEND" => Some(embed.backend.name().into()),
        "VIC_EMBED_MODEL" => model_of(EmbedBackend::Onnx),
        "VIC_EMBED_THREADS" => Some(embed.threads.to_string()),
        "VIC_EMBED_BATCH" => Some(embed.batch.to_string()),
        "VIC_EMBED_PRECISION" => Some(embed.precision.clone()),
        "VIC_EMBED_ENGINE" => Some(embed.engine.name().into()),
        "VIC_EMBED_DEVICE" => Some(embed.device.name().into()),
        "VIC_OLLAMA_BASE_URL" => Some(embed.ollama_url.clone()),
        "VIC_OLLAMA_EMBED_MODEL" => model_of(EmbedBackend::Ollama),
        "VIC_OPENAI_BASE_URL" => Some(embed.openai_url.clone()),
        "VIC_OPENAI_EMBED_MODEL" => model_of(EmbedBackend::OpenAi),
        "VIC_RERANK_MODEL" => config.rerank.model.clone(),
        "VIC_RERANK_URL" => config.rerank.url.clone(),
        "VIC_RERANK_MS" => Some(config.rerank.milliseconds.to_string()),
        "VIC_SERVERS_CA" => config.servers_ca.as_deref().and_then(path),
        "VIC_LIBRARIAN_BACKEND" => Some(
            match config.llm.backend {
                LlmBackend::Stub => "stub",
                LlmBackend::Ollama => "ollama",
                LlmBackend::OpenAi => "openai",
            }
            .into(),
        ),
        "VIC_L2_MAX_IMAGE_BYTES" => Some(config.llm.max_image_bytes.to_string()),
        "VIC_LLM_CONTEXT_TOKENS" => Some(config.llm.context_tokens.to_string()),
        "VIC_LLM_MAX_SECONDS" => Some(config.llm.max_seconds.to_string()),
        "VIC_LLM_PREFETCH" => flag(config.llm.prefetch),
        _ => None,
    }
}

/// Returns the effective value of a variable for walking, extraction or background work; `None` for other variables.
fn work_value(config: &Config, name: &str) -> Option<String> {
    let (walk, background) = (&config.walk, &config.background);
    match name {
        "VIC_SYNTHETIC_JSONL" => config.synthetic_jsonl.as_deref().and_then(path),
        "VIC_JAIL" => Some(config.limits.jail.name().into()),
        "VIC_REDACT" => Some(config.limits.redaction.name().into()),
        "VIC_OCR" => Some(config.ocr.name().into()),
        "VIC_L2_SECONDS" => Some(config.l2_seconds.to_string()),
        "VIC_WORKERS" => Some(config.workers.to_string()),
        "VIC_EXTRACT_SECONDS" => Some(config.limits.seconds.to_string()),
        "VIC_EXTRACT_MEMORY_MIB" => Some(config.limits.memory_mib.to_string()),
        "VIC_IGNORE" => (!walk.ignore.is_empty()).then(|| walk.ignore.join(",")),
        "VIC_INCLUDE_HIDDEN" => flag(walk.include_hidden),
        "VIC_MAX_FILE_BYTES" => Some(walk.max_file_bytes.to_string()),
        "VIC_WATCH" => flag(walk.watch),
        "VIC_RESCAN_SECONDS" => Some(walk.rescan_seconds.to_string()),
        "VIC_DISK_RESERVE_BYTES" => config.disk_reserve_bytes.map(|it| it.to_string()),
        "VIC_POLL_SECONDS" => Some(background.poll_seconds.to_string()),
        "VIC_VERIFY_SECONDS" => Some(background.verify_seconds.to_string()),
        "VIC_CPU_PERCENT" => Some(background.cpu_percent.to_string()),
        "VIC_PAUSE_ON_BATTERY" => flag(background.pause_on_battery),
        _ => None,
    }
}

/// Returns defaults that [`Config`] does not hold: those of backends not in use, and those that depend on the current
/// directory or the disk.
fn other_default(name: &str) -> Option<&'static str> {
    match name {
        "VIC_OLLAMA_VISION_MODEL" => return Some("glm-ocr:q8_0"),
        "VIC_DISK_RESERVE_BYTES" => return Some("the larger of 1 GiB and 2 % of the disk"),
        "VIC_SYNTHETIC_JSONL" => return Some("training/synthetic_plans.jsonl"),
        _ => (),
    }
    EmbedBackend::ALL.into_iter().map(EmbedBackend::model_variable).find(|(it, _)| *it == name).map(|(_, model)| model)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], name: &str) -> (Option<String>, Origin) {
        let lookup = |wanted: &str| {
            let found = variables.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| OsString::from(value))
        };
        let setting = resolve_settings(&lookup).unwrap().into_iter().find(|it| it.name == name).unwrap();
        (setting.value, setting.origin)
    }

    #[test]
    fn misspelt_variable_is_reported_as_unknown() {
        let names = ["VIC_REDCT", "PATH", "VIC_REDACT", "VIC_", "VIC_DATA_DIRS", "vic_workers"].map(OsString::from);
        assert_eq!(unknown_names(names.into_iter()), ["VIC_", "VIC_DATA_DIRS", "VIC_REDCT"]);
    }

    #[test]
    fn value_has_its_origin() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.toml"), "workers = 7\nwatch = \"no\"\n").unwrap();
        let data_dir = ("VIC_DATA_DIR", dir.path().to_str().unwrap());
        assert_eq!(check(&[data_dir], "VIC_WORKERS"), (Some("7".into()), Origin::File));
        assert_eq!(check(&[data_dir], "VIC_WATCH"), (Some("0".into()), Origin::File));
        crate::config::write_tuned(dir.path(), &[("VIC_EMBED_THREADS", 2)], "").unwrap();
        assert_eq!(check(&[data_dir], "VIC_EMBED_THREADS"), (Some("2".into()), Origin::Tuned));
        let environment = [data_dir, ("VIC_WORKERS", "3")];
        assert_eq!(check(&environment, "VIC_WORKERS"), (Some("3".into()), Origin::Environment));
        assert_eq!(check(&[data_dir], "VIC_EXTRACT_SECONDS"), (Some("30".into()), Origin::Default));
        assert_eq!(check(&[data_dir], "VIC_WAREHOUSE_ROOT"), (None, Origin::Default));
    }

    #[test]
    fn keys_are_shown_only_as_set_or_unset() {
        let names = [
            "VIC_BRIDGE_API_KEY",
            "VIC_OLLAMA_API_KEY",
            "VIC_OPENAI_API_KEY",
            "VIC_RERANK_API_KEY",
            "VIC_MILVUS_TOKEN",
        ];
        for name in names {
            let variables = [("VIC_DATA_DIR", "/d"), (name, "s3cret")];
            assert_eq!(check(&variables, name), (Some("set".into()), Origin::Environment));
            assert_eq!(check(&variables[..1], name), (None, Origin::Default));
        }
    }

    #[test]
    fn variable_with_default_has_value() {
        let lookup = |name: &str| (name == "VIC_DATA_DIR").then(|| OsString::from("/d"));
        for setting in resolve_settings(&lookup).unwrap() {
            let told = setting.description;
            let promises_one =
                told.contains("default") && !told.contains("default: none") && !told.contains("default VIC_");
            assert_eq!(setting.value.is_some(), promises_one, "{}", setting.name);
        }
    }

    #[test]
    fn template_names_every_key_and_sets_nothing() {
        assert!(config_template().parse::<toml::Table>().unwrap().is_empty());
        for (name, _) in VARIABLES.iter().filter(|(name, _)| *name != "VIC_DATA_DIR") {
            assert!(config_template().contains(&format!("\n# {} = ", file_key(name))), "{name}");
        }
    }

    #[test]
    fn template_key_can_be_set() {
        let dir = tempfile::tempdir().unwrap();
        let keys = config_template().replace("# workers = \"\"", "workers = \"5\"");
        std::fs::write(dir.path().join("config.toml"), keys).unwrap();
        let data_dir = ("VIC_DATA_DIR", dir.path().to_str().unwrap());
        assert_eq!(check(&[data_dir], "VIC_WORKERS"), (Some("5".into()), Origin::File));
    }
}
