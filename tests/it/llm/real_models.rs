//! Tests vic with a real language model server. The model is a small base model, which follows a schema but understands
//! questions poorly and seldom stops by itself, so most error paths of vic are exercised. `make test-models` installs the
//! server and runs these tests; `cargo test` skips them.

use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::{Value, json};
use vic::client::Client;
use vic::config::Config;
use vic::llm::{FinishReason, LlmClient, LlmRequest, LlmStreamEvent, Task};
use vic::model::{AskEvent, AskRequest, PrivacyMode, QueryPlan};
use vic::planner;

use crate::support::harness::World;
use crate::support::harness::sample_dir;
use crate::support::llama_server::Llama;

const MODEL: &str = "gemma-3-270m";

/// Returns a configuration that uses this server for all models, plus the settings in `more`.
fn config(llama: &Llama, more: &[(&str, &str)]) -> Config {
    let url = llama.url();
    let given = [("VIC_LIBRARIAN_BACKEND", "openai"), ("VIC_OPENAI_BASE_URL", &url), ("VIC_OPENAI_MODEL", MODEL)];
    let lookup = |wanted: &str| {
        let found = more.iter().chain(&given).find(|(name, _)| *name == wanted).map(|(_, value)| (*value).into());
        found.or_else(|| (wanted == "VIC_DATA_DIR").then(|| "/nowhere".into()))
    };
    Config::from_lookup(&lookup).unwrap()
}

/// Starts a daemon that plans with this server, and indexes the sample notes.
fn world_with_llama(llama: &Llama, model: &str) -> World {
    let world = World::new()
        .with("VIC_LIBRARIAN_BACKEND", "openai")
        .with("VIC_OPENAI_BASE_URL", &llama.url())
        .with("VIC_OPENAI_MODEL", model)
        .with("VIC_OCR", "never")
        .with("VIC_WATCH", "0")
        .start();
    world.ok(&["index", sample_dir().join("Notes").to_str().unwrap(), "--ocr", "never"]);
    world
}

fn reasoning_client(llama: &Llama) -> LlmClient {
    vic::llm::open(&config(llama, &[]), Task::Reasoning).unwrap().unwrap()
}

fn request(message: &str) -> LlmRequest {
    LlmRequest { max_tokens: 64, ..LlmRequest::new(PrivacyMode::LocalOnly, "Be short.", message) }
}

/// Returns the summary and the warnings of an answer.
fn summary_and_warnings(answer: &Value) -> (String, String) {
    (answer["answer_summary"].as_str().unwrap_or_default().to_string(), answer["warnings"].to_string())
}

#[tokio::test]
#[ignore = "needs a real model server: run `make test-models`"]
async fn answer_is_streamed_and_truncated_at_max_tokens() {
    let llama = Llama::start();
    let mut stream = reasoning_client(&llama).enqueue_and_stream(request("Count from one to five hundred.")).unwrap();
    let (mut pieces, mut used, mut end) = (0, None, None);
    while let Some(event) = stream.next().await {
        match event.unwrap() {
            LlmStreamEvent::Token { .. } => pieces += 1,
            LlmStreamEvent::Metrics { usage, .. } => used = usage.or(used),
            LlmStreamEvent::Completed { finish_reason } => end = Some(finish_reason),
            _ => (),
        }
    }
    let usage = used.expect("the server counts tokens");
    assert_eq!((end, usage.answer_tokens), (Some(FinishReason::Length), 64));
    assert!(pieces > 16 && usage.prompt_tokens > 4, "{pieces} pieces, {usage:?}");
}

#[tokio::test]
#[ignore = "needs a real model server: run `make test-models`"]
async fn schema_constrains_model_output() {
    let llama = Llama::start();
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["colour", "count"],
        "properties": {
            "colour": { "type": "string", "enum": ["red", "green"] },
            "count": { "type": ["integer", "null"], "minimum": 0, "maximum": 9 },
        },
    });
    let asked = LlmRequest { schema: Some(schema), ..request("How many apples are there, and of which colour?") };
    let answer = reasoning_client(&llama).complete(asked).await.unwrap();
    let value: Value = serde_json::from_str(&answer.text).unwrap_or_else(|error| panic!("{error}: {}", answer.text));
    assert!(["red", "green"].contains(&value["colour"].as_str().unwrap()), "{value}");
    assert_eq!(value.as_object().unwrap().len(), 2, "{value}");
}

#[test]
#[ignore = "needs a real model server: run `make test-models`"]
fn question_is_planned_by_model_or_by_rules_with_warning() {
    let llama = Llama::start();
    let world = world_with_llama(&llama, MODEL);
    let mut planned = 0;
    for question in [
        "PDFs about mooring fees",
        "files modified since March 2024",
        "Who signed the IDR contract?",
        "how many spreadsheets are larger than 2 MB?",
        "rye bread",
        "what is the password of the backup",
    ] {
        let answer = world.json(&["ask", question]);
        let plan: QueryPlan = serde_json::from_value(answer["query_plan"].clone()).unwrap();
        planner::validate(&plan).unwrap();
        assert_eq!(plan.raw_user_text, question);
        let (_, warnings) = summary_and_warnings(&answer);
        let stood_in = warnings.contains("planned by rules");
        let by = plan.planner_model_id.as_deref();
        assert_eq!(by, Some(if stood_in { "stub-v1" } else { MODEL }), "{question}: {warnings}");
        assert!(!stood_in || warnings.contains(MODEL), "{warnings}");
        planned += u32::from(!stood_in);
    }
    println!("the model made {planned} of 6 plans");
}

#[test]
#[ignore = "needs a real model server: run `make test-models`"]
fn summary_has_citations_or_is_dropped_with_warning() {
    let llama = Llama::start();
    let world = world_with_llama(&llama, MODEL);
    for question in ["When are the rye bread loaves baked?", "how often is the boiler serviced", "who feeds the cat"] {
        let answer = world.json(&["ask", question]);
        let (summary, warnings) = summary_and_warnings(&answer);
        let hits = answer["hits"].as_array().unwrap().len();
        assert!(!summary.is_empty(), "{answer:#}");
        // Whether the model or the rules wrote the summary: every citation number must refer to a hit.
        for cited in summary.split('[').skip(1).filter_map(|it| it.split(']').next()?.parse::<usize>().ok()) {
            assert!((1..=hits).contains(&cited), "{summary}");
        }
        let nothing = summary.starts_with("Nothing in the indexed files answers this");
        let quoted = warnings.contains("the summary is quoted, not written by");
        assert!(nothing || quoted || summary.contains("\n[1] ") || summary.contains("\n["), "{summary}\n{warnings}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real model server: run `make test-models`"]
async fn streamed_answer_ends_with_checked_answer() {
    let llama = Llama::start();
    let world = tokio::task::block_in_place(|| world_with_llama(&llama, MODEL));
    let data = world.data();
    let client = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone().into_os_string())).unwrap();
    let client = Client::connect(&client).await.unwrap();
    let request = AskRequest { query: "how long does the rye bread bake".into(), ..AskRequest::default() };
    let mut events = std::pin::pin!(client.ask_stream(request).await.unwrap());
    let (mut pieces, mut last) = (Vec::new(), None);
    while let Some(event) = events.next().await {
        match event.unwrap() {
            AskEvent::Text(text) => pieces.push(text),
            event => last = Some(event),
        }
    }
    let Some(AskEvent::Done(answer)) = last else { panic!("{last:?}") };
    assert!(pieces.len() > 5, "{pieces:?}");
    assert!(answer.answer_summary.is_some_and(|it| !it.is_empty()));
    tokio::task::block_in_place(|| drop(world));
}

#[test]
#[ignore = "needs a real model server: run `make test-models`"]
fn killed_server_yields_warning_and_answer() {
    let mut llama = Llama::start();
    let world = world_with_llama(&llama, MODEL);
    let begun = Instant::now();
    let answer = std::thread::scope(|scope| {
        let asking = scope.spawn(|| world.json(&["ask", "how long does the rye bread bake"]));
        // Kills the server while it plans the question, which takes longer than this pause.
        std::thread::sleep(Duration::from_millis(400));
        llama.kill();
        asking.join().unwrap()
    });
    let (summary, warnings) = summary_and_warnings(&answer);
    assert_eq!(answer["query_plan"]["planner_model_id"], "stub-v1", "{warnings}");
    assert!(warnings.contains("planned by rules") && warnings.contains("quoted, not written"), "{warnings}");
    assert!(!summary.is_empty() && begun.elapsed() < Duration::from_secs(20), "{:?}: {summary}", begun.elapsed());
    let again = summary_and_warnings(&world.json(&["ask", "how long does the rye bread bake"])).1;
    assert!(again.contains("start the server, or set VIC_OPENAI_BASE_URL"), "{again}");
}

#[test]
#[ignore = "needs a real model server: run `make test-models`"]
fn wrong_model_name_is_reported_or_served_by_only_model() {
    let llama = Llama::start();
    let world = world_with_llama(&llama, "no-such-model");
    let answer = world.json(&["ask", "rye bread"]);
    let (summary, warnings) = summary_and_warnings(&answer);
    assert!(!summary.is_empty() && answer["hits"][0]["path"] == "rye-bread.md", "{answer:#}");
    let by = answer["query_plan"]["planner_model_id"].as_str().unwrap();
    assert!(by == "no-such-model" || (by == "stub-v1" && warnings.contains("no-such-model")), "{by}: {warnings}");
}

#[tokio::test]
#[ignore = "needs a real model server: run `make test-models`"]
async fn embeddings_come_from_server() {
    let llama = Llama::with(&["--embeddings", "--pooling", "mean"]);
    let config = config(&llama, &[("VIC_EMBED_BACKEND", "openai"), ("VIC_OPENAI_EMBED_MODEL", MODEL)]);
    let embedder = vic::embed::open(&config).await.unwrap();
    assert_eq!((embedder.dimension(), embedder.name()), (640, "gemma-3-270m (openai)"));
    let long = "The ferry leaves the island at nine in the morning. ".repeat(200);
    let texts: Vec<String> = ["rye bread", "the ferry leaves", "rye bread", &long].map(String::from).to_vec();
    let vectors = embedder.embed_documents(&texts).await.unwrap();
    let cosine = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    assert!(vectors.iter().all(|it| (cosine(it, it) - 1.0).abs() < 1e-3), "vectors must be normalized");
    assert!(cosine(&vectors[0], &vectors[2]) > 0.999, "equal texts must have equal vectors");
    assert!(cosine(&vectors[1], &vectors[3]) > cosine(&vectors[0], &vectors[3]), "topics must differ");
}

#[tokio::test]
#[ignore = "needs a real model server: run `make test-models`"]
async fn server_without_embeddings_is_reported() {
    let llama = Llama::start();
    let config = config(&llama, &[("VIC_EMBED_BACKEND", "openai"), ("VIC_OPENAI_EMBED_MODEL", MODEL)]);
    let error = vic::embed::open(&config).await.err().expect("a server without --embeddings must be refused");
    assert!(error.message.contains("/v1/embeddings") && error.hint.is_some(), "{error:?}");
}

#[test]
#[ignore = "needs a real model server: run `make test-models`"]
fn daemon_indexes_and_searches_with_server_vectors() {
    let llama = Llama::with(&["--embeddings", "--pooling", "mean"]);
    let world = World::new()
        .with("VIC_EMBED_BACKEND", "openai")
        .with("VIC_OPENAI_BASE_URL", &llama.url())
        .with("VIC_OPENAI_EMBED_MODEL", MODEL)
        .start();
    world.write("bread.md", "Rye bread: bake for fifty minutes.");
    world.write("ferry.md", "The ferry leaves the island at nine.");
    world.index();
    let answer = world.json(&["ask", "when does the boat leave the island"]);
    assert_eq!(answer["hits"][0]["path"], "ferry.md", "{answer:#}");
    assert_eq!(answer["stats"]["embed_model"], "gemma-3-270m (openai)");
}

#[test]
#[ignore = "needs a real model server: run `make test-models`"]
fn local_only_allows_local_server_without_audit() {
    let llama = Llama::start();
    let world = world_with_llama(&llama, MODEL);
    let answer = world.json(&["ask", "rye bread", "--privacy-mode", "local_only"]);
    assert_eq!(answer["query_plan"]["privacy_mode"], "local_only");
    assert!(!summary_and_warnings(&answer).1.contains("forbids"), "{answer:#}");
    // Asserts that the question was sent to the server, which answered.
    assert!(llama.log().contains("prompt eval time"), "{}", llama.log());
    assert_eq!(world.json(&["audit"]), json!([]));
}
