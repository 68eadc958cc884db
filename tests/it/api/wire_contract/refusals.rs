//! Tests bad input: each kind gives a typed error with field name, HTTP status, gRPC code and exit code, and has no effect.

use std::time::Duration;

use serde_json::{Value, json};
use vic::client::Client;
use vic::config::Config;
use vic::error::{Error, ErrorCode};
use vic::model::{AskRequest, PrivacyMode, QueryPlan};

use crate::support::harness::World;
use crate::support::http_client::key_line;
use crate::support::http_client::post;
use crate::support::http_client::send;
use crate::support::http_client::send_raw;
use crate::support::ollama_server::Reply;
use crate::support::ollama_server::{self, Model};

/// Returns the state that an invalid request must not change: file counts, chunks, roots and jobs.
fn state(world: &World) -> Value {
    let status = world.json(&["status"]);
    json!([status["coverage"], status["chunks"], status["roots"], world.json(&["jobs"])])
}

/// Sends an invalid request over HTTP and asserts that it has no effect. Returns HTTP status, error code and field.
fn over_http(world: &World, path: &str, body: &str) -> (u16, Value, Value) {
    let before = state(world);
    let told = send(world, "POST", path, &[], body);
    assert_eq!(state(world), before, "{body:.60} had an effect");
    let error = told.json()["error"].clone();
    assert!(error["message"].as_str().is_some_and(|it| !it.is_empty()), "{error}");
    (told.status, error["code"].clone(), error["field"].clone())
}

/// Sends an invalid question over gRPC. Returns the error.
fn over_grpc(world: &World, request: AskRequest) -> Error {
    let data = world.data();
    let lookup = move |name: &str| (name == "VIC_DATA_DIR").then(|| data.clone().into_os_string());
    let config = Config::from_lookup(&lookup).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { Client::connect(&config).await.unwrap().ask(request).await.unwrap_err() })
}

fn question(query: &str) -> AskRequest {
    AskRequest { query: query.into(), ..AskRequest::default() }
}

/// Asserts that all protocols reject the question: HTTP with status 400 and the name of the field, gRPC with
/// INVALID_ARGUMENT, the command with exit code 2.
fn assert_rejected_everywhere(world: &World, query: &str) {
    let told = over_http(world, "/v1/ask", &json!({ "query": query }).to_string());
    assert_eq!(told, (400, json!("invalid_argument"), json!("query")));
    let error = over_grpc(world, question(query));
    assert_eq!((error.code.grpc_code(), error.field.as_deref()), (tonic::Code::InvalidArgument, Some("query")));
    // Skips the command for questions that the kernel rejects as an argument: with a NUL, or longer than 128 KiB.
    if !query.contains('\0') && query.len() < 128 << 10 {
        assert_eq!(world.fails(&["ask", query]).0, i32::from(ErrorCode::InvalidArgument.exit_code()));
    }
}

#[test]
fn malformed_json_is_rejected() {
    let world = crate::api::wire_contract::bees();
    for body in ["{\"query\": \"x\"} trailing", "{\"query\": \"x\""] {
        assert_eq!(over_http(&world, "/v1/ask", body), (400, json!("invalid_argument"), json!(null)), "{body}");
    }
    for body in ["", "{", "[]", "nonsense", "\u{feff}{}"] {
        for path in ["/v1/ask", "/v1/search", "/v1/grep", "/v1/files", "/v1/read", "/v1/similar", "/v1/index/start"] {
            let told = over_http(&world, path, body);
            assert_eq!(told, (400, json!("invalid_argument"), json!(null)), "{path}: {body}");
        }
    }
}

// Case D12
#[test]
fn wrong_types_are_rejected() {
    let world = crate::api::wire_contract::bees();
    for (path, body, field) in [
        ("/v1/ask", json!({"query": 7}), "query"),
        ("/v1/ask", json!({"query": "x", "limit": "ten"}), "limit"),
        ("/v1/ask", json!({"query": "x", "plan": []}), "plan"),
        ("/v1/ask", json!({"query": "x", "filters": {"min_size": -1}}), "filters.min_size"),
        ("/v1/ask", json!({"query": "x", "colour": "red"}), "colour"),
        ("/v1/index/start", json!({"full": "yes"}), "full"),
        ("/v1/index/start", json!({"max_files": 1.5}), "max_files"),
        ("/v1/read", json!({"path": ["a"]}), "path"),
    ] {
        assert_eq!(
            over_http(&world, path, &body.to_string()),
            (400, json!("invalid_argument"), json!(field)),
            "{body}"
        );
    }
    assert_eq!(world.fails(&["ask", "x", "--limit", "ten"]).0, 2);
}

// Case D12
#[test]
fn out_of_range_deep_and_duplicate_fields_are_rejected() {
    let world = crate::api::wire_contract::bees();
    let deep = format!("{{\"query\": \"x\", \"filters\": {}1{}}}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    for (body, field) in [
        (r#"{"query": "x", "limit": 1000000000}"#, json!("limit")),
        (r#"{"query": "x", "limit": 0}"#, json!("limit")),
        (r#"{"query": "x", "limit": -1}"#, json!("limit")),
        (r#"{"query": "x", "limit": 1e400}"#, json!("limit")),
        (r#"{"query": "x", "limit": NaN}"#, json!("limit")),
        (r#"{"query": "x", "query": "y"}"#, json!("query")),
        (&deep, json!("filters.a")),
    ] {
        assert_eq!(over_http(&world, "/v1/ask", body), (400, json!("invalid_argument"), field), "{body:.60}");
    }
    let long = json!({"query": "x".repeat(1 << 20)}).to_string();
    assert_eq!(over_http(&world, "/v1/ask", &long), (400, json!("invalid_argument"), json!("query")));
}

#[test]
fn body_over_2_mib_is_rejected() {
    let world = crate::api::wire_contract::bees();
    let body = format!("{{\"query\": \"x\"}}{}", " ".repeat((2 << 20) + 1 - 14));
    assert_eq!(over_http(&world, "/v1/ask", &body), (413, json!("payload_too_large"), json!(null)));
}

// Case D10
#[test]
fn unfinished_body_times_out() {
    let world = crate::api::wire_contract::bees();
    let begun = std::time::Instant::now();
    let head = format!("POST /v1/ask HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n{}", key_line(&world));
    let told = send_raw(&world, &format!("{head}\r\n{{\"query\":"));
    assert_eq!((told.status, &told.json()["error"]["code"]), (408, &json!("request_timeout")));
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(14) && took < Duration::from_secs(25), "{took:?}");
}

#[test]
fn wrong_key_is_rejected() {
    let world = World::new().with("VIC_BRIDGE_API_KEY", "s3cret").start();
    let key = [("authorization", "Bearer wrong")];
    let told = send(&world, "POST", "/v1/index/start", &key, "{}");
    assert_eq!((told.status, &told.json()["error"]["code"]), (401, &json!("unauthenticated")));
    let grpc = [key[0], ("content-type", "application/grpc")];
    let told = send(&world, "POST", "/vic.v1.Vic/StartIndex", &grpc, "");
    assert_eq!(told.header("grpc-status"), Some("16"), "{}", told.head);
    assert_eq!(world.json(&["jobs"]), json!([]));
}

#[test]
fn wrong_host_is_rejected() {
    let world = World::new().start();
    let host = [("host", "evil.example")];
    let told = send(&world, "POST", "/v1/index/start", &host, "{}");
    assert_eq!((told.status, &told.json()["error"]["code"]), (403, &json!("permission_denied")));
    let told = send(&world, "POST", "/vic.v1.Vic/StartIndex", &[host[0], ("content-type", "application/grpc")], "");
    assert_eq!((told.status, told.header("grpc-status")), (403, Some("7")), "{}", told.head);
    assert_eq!(world.json(&["jobs"]), json!([]));
}

// Case D12
#[test]
fn empty_and_huge_questions_are_rejected() {
    let world = crate::api::wire_contract::bees();
    for query in ["", "  \n", &"x".repeat(100_000), &"ä".repeat(100_000)] {
        assert_rejected_everywhere(&world, query);
    }
}

#[test]
fn control_characters_are_rejected() {
    let world = crate::api::wire_contract::bees();
    for query in ["a\0b", "\u{1b}[2J", "a\u{7}", "\u{9b}2J"] {
        assert_rejected_everywhere(&world, query);
    }
}

#[test]
fn plan_with_unknown_skill_is_rejected() {
    let world = crate::api::wire_contract::bees();
    let plan = QueryPlan {
        intent: "search".into(),
        l0_filters: None,
        l1_query_text: Some("hive".into()),
        l1_threshold: None,
        date_order: None,
        requires_l2: true,
        l2_skills: vec!["teleport".into()],
        l2_top_k: None,
        privacy_mode: PrivacyMode::LocalOnly,
        raw_user_text: "hive".into(),
        planner_model_id: None,
    };
    let body = json!({"query": "hive", "plan": plan});
    let told = over_http(&world, "/v1/ask", &body.to_string());
    assert_eq!(told, (400, json!("invalid_argument"), json!("plan.l2_skills")));
    let error = over_grpc(&world, AskRequest { plan: Some(plan), ..question("hive") });
    assert_eq!(
        (error.code.grpc_code(), error.field.as_deref()),
        (tonic::Code::InvalidArgument, Some("plan.l2_skills"))
    );
}

/// Returns a daemon with one indexed note and a planner model that replies with `says`.
fn planned_by(says: Reply) -> (World, crate::support::scripted_server::Server) {
    let server = ollama_server::start(vec![Model::new("m", &["completion"])], move |_| says.clone());
    let world = World::new()
        .with("VIC_LIBRARIAN_BACKEND", "ollama")
        .with("VIC_OLLAMA_MODEL", "m")
        .with("VIC_OLLAMA_BASE_URL", &server.address)
        .start();
    world.write("notes/bees.md", "# Bees\n\nThe hive on the roof weighed 31 kg in March.\n");
    world.index();
    (world, server)
}

/// Asserts that a failing model causes no error: rules make the plan, the answer quotes sentences, and warnings say why.
fn assert_falls_back(says: Reply, expected: &str) {
    let (world, _server) = planned_by(says.clone());
    let before = state(&world);
    let told = post(&world, "/v1/ask", &json!({"query": "how heavy was the hive"}));
    let answer = told.json();
    assert_eq!((told.status, &answer["query_plan"]["planner_model_id"]), (200, &json!("stub-v1")), "{says:?}");
    assert!(answer["answer_summary"].as_str().unwrap().contains("31 kg"), "{says:?}: {answer:#}");
    let warnings = answer["warnings"].as_array().unwrap();
    let [planned, quoted] = &warnings[..] else { panic!("{says:?}: {warnings:#?}") };
    assert!(planned.as_str().unwrap().contains("planned by rules, because model `m`"), "{says:?}: {planned}");
    assert!(planned.as_str().unwrap().contains(expected), "{says:?}: {planned}");
    assert!(quoted.as_str().unwrap().contains("quoted, not written by `m`"), "{says:?}: {quoted}");
    assert_eq!(state(&world), before);
    assert_eq!(world.vic(&["ask", "how heavy was the hive"]).status.code(), Some(0));
}

#[test]
fn nonsense_model_falls_back_to_rules() {
    assert_falls_back(Reply::Nonsense, "no usable answer");
    assert_falls_back(Reply::Text("I would rather not say.".into()), "not a plan");
}

#[test]
fn hanging_model_falls_back_to_rules() {
    let (world, _server) = planned_by(Reply::Hangs(Duration::from_secs(100)));
    let begun = std::time::Instant::now();
    let answer = post(&world, "/v1/ask", &json!({"query": "how heavy was the hive"})).json();
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains("planned by rules") && warnings.contains("stopped answering"), "{warnings}");
    assert!(answer["answer_summary"].as_str().unwrap().contains("31 kg"), "{answer:#}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn truncated_model_stream_falls_back_to_rules() {
    assert_falls_back(Reply::HalfALine, "broke off");
}

#[test]
fn closing_model_falls_back_to_rules() {
    assert_falls_back(Reply::Closes, "cannot reach");
    assert_falls_back(Reply::Broken("out of memory"), "out of memory");
    assert_falls_back(Reply::Busy, "server busy");
}

#[test]
fn missing_model_falls_back_to_rules() {
    let (world, server) = planned_by(Reply::Closes);
    drop(world);
    let world = World::new()
        .with("VIC_LIBRARIAN_BACKEND", "ollama")
        .with("VIC_OLLAMA_MODEL", "other")
        .with("VIC_OLLAMA_BASE_URL", &server.address)
        .start();
    let warnings = world.json(&["ask", "how heavy was the hive"])["warnings"].to_string();
    assert!(warnings.contains("run `ollama pull other`"), "{warnings}");
}
