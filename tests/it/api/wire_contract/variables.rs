//! Tests the default and the effect of every variable of the API document. Each test is named after its variable.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vic::config::{Config, LlmBackend};
use vic::error::{Error, Result};
use vic::model::PrivacyMode;

use crate::support::harness::World;
use crate::support::http_client::post;

fn config(variables: &[(&str, &str)]) -> Result<Config> {
    Config::from_lookup(&|wanted| {
        let given = variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| OsString::from(value));
        given.or_else(|| (wanted == "VIC_DATA_DIR").then(|| "/d".into()))
    })
}

fn default() -> Config {
    config(&[]).unwrap()
}

fn with(name: &str, value: &str) -> Config {
    config(&[(name, value)]).unwrap()
}

/// Returns the error that an invalid value causes, after a check that its message names the variable.
fn refused(name: &str, value: &str) -> Error {
    let error = config(&[(name, value)]).unwrap_err();
    assert!(error.message.contains(name), "{error}");
    error
}

#[test]
fn vic_db_path() {
    assert_eq!(default().db_path, Path::new("/d/index"));
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = dir.path().join("lance");
    let world = World::new().with("VIC_DB_PATH", elsewhere.to_str().unwrap()).start();
    world.write("a.md", "A lighthouse.");
    world.index();
    let answer = post(&world, "/v1/ask", &json!({"query": "lighthouse"})).json();
    assert_eq!(answer["stats"]["db_path"], elsewhere.to_str().unwrap());
    assert!(elsewhere.read_dir().unwrap().next().is_some());
}

#[test]
fn vic_warehouse_root() {
    assert_eq!(default().warehouse_root, None);
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("a")).unwrap();
    std::fs::write(root.join("a/in.md"), "A lighthouse.").unwrap();
    std::fs::write(root.join("out.md"), "A lighthouse too.").unwrap();
    let world = World::new().with("VIC_WAREHOUSE_ROOT", root.join("a").to_str().unwrap()).start();
    world.ok(&["index", root.to_str().unwrap()]);
    assert_eq!(world.paths(&["lighthouse"]), ["a/in.md"]);
    let stats = post(&world, "/v1/ask", &json!({"query": "lighthouse"})).json()["stats"].clone();
    assert_eq!(stats["warehouse_root"], root.join("a").to_str().unwrap());
    assert_eq!(world.paths(&["lighthouse", "--root", root.to_str().unwrap()]).len(), 2, "--root must win");
}

#[test]
fn vic_privacy_mode() {
    assert_eq!(default().privacy_mode, PrivacyMode::LocalOnly);
    refused("VIC_PRIVACY_MODE", "open");
    let world = World::new().with("VIC_PRIVACY_MODE", "cloud_reasoning_ok").start();
    let over_http = post(&world, "/v1/ask", &json!({"query": "x"})).json();
    for answer in [over_http, world.json(&["ask", "x"])] {
        assert_eq!(answer["query_plan"]["privacy_mode"], "cloud_reasoning_ok");
    }
}

#[test]
fn vic_librarian_backend() {
    assert_eq!(default().llm.backend, LlmBackend::Stub);
    refused("VIC_LIBRARIAN_BACKEND", "oracle");
    let ollama = config(&[("VIC_LIBRARIAN_BACKEND", "ollama"), ("VIC_OLLAMA_MODEL", "m")]).unwrap();
    assert_eq!(ollama.llm.backend, LlmBackend::Ollama);
    let world = World::new().start();
    assert_eq!(world.json(&["ask", "x"])["query_plan"]["planner_model_id"], "stub-v1");
}

#[test]
fn vic_ollama_base_url() {
    assert_eq!(default().embed.ollama_url, "http://127.0.0.1:11434");
    assert_eq!(with("VIC_OLLAMA_BASE_URL", "http://127.0.0.1:9").embed.ollama_url, "http://127.0.0.1:9");
}

#[test]
fn vic_ollama_model() {
    let missing = config(&[("VIC_LIBRARIAN_BACKEND", "ollama")]).unwrap_err();
    assert!(missing.message.contains("VIC_OLLAMA_MODEL is not set"), "{missing}");
    let given = config(&[("VIC_LIBRARIAN_BACKEND", "ollama"), ("VIC_OLLAMA_MODEL", "qwen2.5:4b")]).unwrap();
    assert_eq!(given.llm.model, "qwen2.5:4b");
}

#[test]
fn vic_ollama_embed_model() {
    let ollama = [("VIC_EMBED_BACKEND", "ollama")];
    assert_eq!(config(&ollama).unwrap().embed.model, "embeddinggemma");
    let other = config(&[ollama[0], ("VIC_OLLAMA_EMBED_MODEL", "nomic-embed-text")]).unwrap();
    assert_eq!(other.embed.model, "nomic-embed-text");
}

#[test]
fn vic_ollama_vision_model() {
    assert_eq!(default().llm.vision_model, "glm-ocr:q8_0");
    assert_eq!(with("VIC_OLLAMA_VISION_MODEL", "llava").llm.vision_model, "llava");
}

#[test]
fn vic_ollama_api_key() {
    assert_eq!(default().embed.ollama_key, None);
    assert_eq!(with("VIC_OLLAMA_API_KEY", "s3cret").embed.ollama_key.as_deref(), Some("s3cret"));
    let world = World::new().with("VIC_OLLAMA_API_KEY", "s3cret");
    assert!(!world.ok(&["config", "show"]).contains("s3cret"));
}

#[test]
fn vic_log_level() {
    let lines = |level: &str| {
        let mut world = World::new().with("VIC_LOG_LEVEL", level).start();
        world.terminate();
        world.log()
    };
    let (quiet, usual, all) = (lines("WARNING"), lines("INFO"), lines("DEBUG"));
    assert!(!quiet.contains("vicd is ready") && usual.contains("vicd is ready"), "{quiet}\n{usual}");
    assert!(all.contains("DEBUG") && !usual.contains("DEBUG"), "{all}");
}

#[test]
fn vic_l2_max_image_bytes() {
    assert_eq!(default().llm.max_image_bytes, 12 << 20);
    assert_eq!(with("VIC_L2_MAX_IMAGE_BYTES", "1000").llm.max_image_bytes, 1_000);
    refused("VIC_L2_MAX_IMAGE_BYTES", "many");
}

#[test]
fn vic_l2_seconds() {
    assert_eq!(default().l2_seconds, 20);
    assert_eq!(with("VIC_L2_SECONDS", "300").l2_seconds, 300);
    refused("VIC_L2_SECONDS", "0");
}

#[test]
fn vic_bridge_max_body_bytes() {
    assert_eq!(default().bridge.max_body_bytes, 2 << 20);
    let world = World::new().with("VIC_BRIDGE_MAX_BODY_BYTES", "100").start();
    assert_eq!(post(&world, "/v1/ask", &json!({"query": "x"})).status, 200);
    assert_eq!(post(&world, "/v1/ask", &json!({"query": "x".repeat(100)})).status, 413);
    refused("VIC_BRIDGE_MAX_BODY_BYTES", "0");
}

#[test]
fn vic_bridge_api_key() {
    assert_eq!(with("VIC_BRIDGE_API_KEY", "s3cret").bridge.api_key.as_deref(), Some("s3cret"));
    assert!(!refused("VIC_BRIDGE_API_KEY", "two words").message.contains("two words"));
}

#[test]
fn vic_bridge_rate_limit_per_min() {
    assert_eq!(default().bridge.rate_limit_per_min, 120);
    let asked = |limit: &str, times: usize| -> Vec<u16> {
        let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", limit).start();
        (0..times).map(|_| post(&world, "/v1/files", &json!({})).status).collect()
    };
    assert_eq!(asked("2", 3), [200, 200, 429]);
    assert!(asked("0", 130).iter().all(|it| *it == 200), "0 must mean no limit");
}

#[test]
fn vic_job_db_path() {
    assert_eq!(default().job_db_path, Path::new("/d/vic_jobs.sqlite"));
    assert_eq!(with("VIC_DB_PATH", "/e/lance").job_db_path, Path::new("/e/vic_jobs.sqlite"), "next to the index");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("jobs.sqlite");
    let mut world = World::new().with("VIC_JOB_DB_PATH", file.to_str().unwrap()).start();
    world.index();
    assert!(world.terminate() && file.exists());
}

#[test]
fn vic_vector_backend() {
    assert_eq!(default().vectors.backend.name(), "lance");
    assert_eq!(with("VIC_VECTOR_BACKEND", "milvus").vectors.backend.name(), "milvus");
    refused("VIC_VECTOR_BACKEND", "abacus");
}

#[test]
fn vic_milvus_uri() {
    assert_eq!(default().vectors.milvus_uri, "/d/index/milvus_lite.db");
    assert_eq!(with("VIC_DB_PATH", "/e").vectors.milvus_uri, "/e/milvus_lite.db");
    assert_eq!(with("VIC_MILVUS_URI", "http://127.0.0.1:19530").vectors.milvus_uri, "http://127.0.0.1:19530");
}

#[test]
fn vic_milvus_collection() {
    assert_eq!(default().vectors.milvus_collection, "vic_chunks");
    assert_eq!(with("VIC_MILVUS_COLLECTION", "c").vectors.milvus_collection, "c");
}

#[test]
fn vic_milvus_token() {
    assert_eq!(default().vectors.milvus_token, None);
    assert_eq!(with("VIC_MILVUS_TOKEN", "root:Milvus").vectors.milvus_token.as_deref(), Some("root:Milvus"));
}

#[test]
fn vic_synthetic_jsonl() {
    assert_eq!(with("VIC_SYNTHETIC_JSONL", "/s.jsonl").synthetic_jsonl, Some(PathBuf::from("/s.jsonl")));
    // Without --output, the command needs ./training and writes `training/synthetic_plans.jsonl`.
    let world = World::new();
    let written = world.data().parent().unwrap().join("training/synthetic_plans.jsonl");
    assert_eq!(world.fails(&["synthetic-plans", "--count", "2"]).0, 2);
    std::fs::create_dir(written.parent().unwrap()).unwrap();
    world.ok(&["synthetic-plans", "--count", "2"]);
    let lines = std::fs::read_to_string(written).unwrap();
    let examples: Vec<Value> = lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(examples.len(), 2);
}

#[test]
fn env_example_lists_every_variable_of_the_document_and_no_secret() {
    let example = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(".env.example")).unwrap();
    let template = World::new().ok(&["config", "template"]);
    for name in [
        "VIC_DB_PATH",
        "VIC_WAREHOUSE_ROOT",
        "VIC_PRIVACY_MODE",
        "VIC_LIBRARIAN_BACKEND",
        "VIC_OLLAMA_BASE_URL",
        "VIC_OLLAMA_MODEL",
        "VIC_OLLAMA_EMBED_MODEL",
        "VIC_OLLAMA_VISION_MODEL",
        "VIC_OLLAMA_API_KEY",
        "VIC_LOG_LEVEL",
        "VIC_L2_MAX_IMAGE_BYTES",
        "VIC_BRIDGE_MAX_BODY_BYTES",
        "VIC_BRIDGE_API_KEY",
        "VIC_BRIDGE_RATE_LIMIT_PER_MIN",
        "VIC_JOB_DB_PATH",
        "VIC_VECTOR_BACKEND",
        "VIC_MILVUS_URI",
        "VIC_MILVUS_COLLECTION",
        "VIC_MILVUS_TOKEN",
        "VIC_SYNTHETIC_JSONL",
        "VIC_EMBED_BACKEND",
    ] {
        assert!(example.contains(&format!("# {name}=\n")), "{name} is not in .env.example, or has a value");
        let key = name.trim_start_matches("VIC_").to_lowercase();
        assert!(template.contains(&format!("# {key} = ")), "{key} is not in the output of `vic config template`");
    }
}

#[test]
fn vic_embed_backend() {
    use vic::config::EmbedBackend;
    assert_eq!(default().embed.backend, EmbedBackend::Onnx);
    assert_eq!(with("VIC_EMBED_BACKEND", "openai").embed.backend, EmbedBackend::OpenAi);
    refused("VIC_EMBED_BACKEND", "abacus");
}
