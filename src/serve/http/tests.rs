//! Tests of the documented HTTP API: fields, defaults and status codes.

mod limits;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use futures::StreamExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::config::Config;
use crate::model::{JobState, samples};
use crate::serve::admission::Admission;
use crate::serve::auth::authenticator::Authenticator;
use crate::serve::fake::{FakeService, NO_PAGE};
use crate::serve::server::grpc_routes;

/// The router of the TCP port over a fake service.
struct Bed {
    service: Arc<FakeService>,
    router: Router,
}

/// Creates a router with these settings. It requires no key unless VIC_BRIDGE_API_KEY is set.
async fn bed(variables: &[(&str, &str)]) -> Bed {
    bed_with(variables, |_| {}).await
}

async fn bed_with(variables: &[(&str, &str)], change: impl FnOnce(&mut HttpState)) -> Bed {
    let lookup = |wanted: &str| {
        let given = variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| OsString::from(value));
        given.or_else(|| (wanted == "VIC_DATA_DIR").then(|| "/d".into()))
    };
    let config = Config::from_lookup(&lookup).unwrap();
    let service = Arc::new(FakeService::new());
    let shutdown = service.shutdown.clone();
    let grpc = grpc_routes(shutdown.clone()).await.unwrap();
    let keys = config.bridge.api_key.as_deref().map(|key| Arc::new(Authenticator::new(key, config.keys_path())));
    let desk = Arc::new(Admission { keys, ..Admission::new(2) });
    let mut bridge = HttpState::new(service.clone(), desk, 8765, &config, &NO_PAGE, shutdown);
    change(&mut bridge);
    let router = router(Arc::new(bridge), grpc);
    Bed { service, router }
}

struct Answered {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Answered {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Returns the name of the invalid field in an error response.
    fn field(&self) -> Value {
        self.json()["error"]["field"].clone()
    }
}

impl Bed {
    async fn send(&self, request: Request) -> Answered {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        Answered { status, headers, text: String::from_utf8(body.to_vec()).unwrap() }
    }

    async fn get(&self, path: &str) -> Answered {
        self.send(request("GET", path, &[], Body::empty())).await
    }

    async fn post(&self, path: &str, body: impl Into<Body>) -> Answered {
        self.send(request("POST", path, &[], body.into())).await
    }
}

fn request(method: &str, path: &str, headers: &[(&str, &str)], body: Body) -> Request {
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", "127.0.0.1:8765");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body).unwrap()
}

async fn health(field: &str) -> Value {
    let answered = bed(&[]).await.get("/health").await;
    assert_eq!(answered.status, 200);
    answered.json().get(field).unwrap_or_else(|| panic!("no `{field}`")).clone()
}

async fn ask(pointer: &str) -> Value {
    let answered = bed(&[]).await.post("/v1/ask", r#"{"query": "who signed?"}"#).await;
    assert_eq!(answered.status, 200);
    answered.json().pointer(pointer).unwrap_or_else(|| panic!("no `{pointer}`")).clone()
}

/// Generates, for each documented response field, a test that compares the field with the value of the fake service.
macro_rules! fields {
    ($($name:ident: $get:ident($field:literal) => $value:expr,)*) => {
        $(#[tokio::test]
        async fn $name() {
            assert_eq!($get($field).await, json!($value));
        })*
    };
}

fields! {
    health_has_status: health("status") => "ok",
    health_has_degraded: health("degraded") => true,
    health_has_problems: health("problems") => ["watching is off: raise fs.inotify.max_user_watches"],
    health_has_version: health("version") => env!("CARGO_PKG_VERSION"),
    health_has_auth_enabled: health("auth_enabled") => false,
    health_has_index_ready: health("index_ready") => true,
    health_has_meta_present: health("meta_present") => true,
    health_has_chunk_rows_indexed: health("chunk_rows_indexed") => 1_234,
    health_has_embed_model: health("embed_model") => "all-MiniLM-L6-v2 (onnx)",
    health_has_vector_backend: health("vector_backend") => "lance",
    health_has_warehouse_root_indexed: health("warehouse_root_indexed") => "/w",
    query_plan_has_intent: ask("/query_plan/intent") => "search",
    query_plan_has_l1_query_text: ask("/query_plan/l1_query_text") => "who signed?",
    query_plan_has_l1_threshold: ask("/query_plan/l1_threshold") => 0.25,
    query_plan_has_date_order: ask("/query_plan/date_order") => "newest",
    query_plan_has_requires_l2: ask("/query_plan/requires_l2") => false,
    query_plan_has_l2_skills: ask("/query_plan/l2_skills") => ["ocr_image"],
    query_plan_has_l2_top_k: ask("/query_plan/l2_top_k") => 3,
    query_plan_has_privacy_mode: ask("/query_plan/privacy_mode") => "local_only",
    query_plan_has_raw_user_text: ask("/query_plan/raw_user_text") => "who signed?",
    query_plan_has_planner_model_id: ask("/query_plan/planner_model_id") => "rules-v1",
    search_hit_has_path: ask("/hits/0/path") => "notes/plan.md",
    search_hit_has_score: ask("/hits/0/score") => 0.8125,
    search_hit_has_tier: ask("/hits/0/tier") => "L1",
    search_hit_has_layers: ask("/hits/0/layers") => ["L0", "L1"],
    search_hit_has_excerpt: ask("/hits/0/excerpt") => "The budget of the harbour project was signed by Ada on Monday.",
    search_hit_has_metadata: ask("/hits/0/metadata/size") => u64::MAX,
    search_hit_has_reasoning: ask("/hits/0/reasoning") => "keyword rank 1, vector rank 2",
    ask_response_has_answer_summary: ask("/answer_summary") => "Ada signed it.",
    ask_response_has_warnings: ask("/warnings") => ["2 files are still to be read"],
    response_stats_has_pipeline: ask("/stats/pipeline") => "tiered",
    response_stats_has_warehouse_root: ask("/stats/warehouse_root") => "/w",
    response_stats_has_db_path: ask("/stats/db_path") => "/d/index",
    response_stats_has_latency_ms: ask("/stats/latency_ms") => 12.5,
    response_stats_has_embed_model: ask("/stats/embed_model") => "all-MiniLM-L6-v2",
    response_stats_has_chunk_rows_indexed: ask("/stats/chunk_rows_indexed") => 1_234,
    response_stats_has_unique_paths_in_index: ask("/stats/unique_paths_in_index") => 1,
    response_stats_has_l1_candidates_merged: ask("/stats/l1_candidates_merged") => 7,
    response_stats_has_hits_returned: ask("/stats/hits_returned") => 1,
    response_stats_has_hits_by_tier: ask("/stats/hits_by_tier") => json!({"L1": 1}),
    response_stats_has_filesystem_files_seen: ask("/stats/filesystem_files_seen") => json!(null),
}

#[tokio::test]
async fn ask_takes_query_privacy_mode_and_warehouse_root() {
    let bed = bed(&[]).await;
    let body = json!({"query": "x", "privacy_mode": "cloud_reasoning_ok", "warehouse_root": "/w", "limit": 3});
    assert_eq!(bed.post("/v1/ask", body.to_string()).await.status, 200);
    let asked = bed.service.last_question.lock().unwrap().take().unwrap();
    assert_eq!(serde_json::to_value(asked.privacy_mode).unwrap(), "cloud_reasoning_ok");
    assert_eq!((asked.query.as_str(), asked.warehouse_root.as_deref(), asked.limit), ("x", Some("/w"), Some(3)));
}

#[tokio::test]
async fn ask_without_mode_and_root_uses_configuration() {
    let bed = bed(&[]).await;
    bed.post("/v1/ask", r#"{"query": "x"}"#).await;
    let asked = bed.service.last_question.lock().unwrap().take().unwrap();
    assert_eq!((asked.privacy_mode, asked.warehouse_root, asked.limit), (None, None, None));
}

#[tokio::test]
async fn ask_takes_a_plan_and_filters() {
    let bed = bed(&[]).await;
    let plan = serde_json::to_value(samples::answer("x").query_plan).unwrap();
    let body = json!({"query": "x", "plan": plan, "filters": {"extensions": [".pdf"]}, "explain": true});
    assert_eq!(bed.post("/v1/ask", body.to_string()).await.status, 200);
    let asked = bed.service.last_question.lock().unwrap().take().unwrap();
    assert_eq!((asked.filters.extensions, asked.explain), (vec![".pdf".to_string()], true));
    assert_eq!(asked.plan, Some(samples::answer("x").query_plan));
}

#[tokio::test]
async fn invalid_question_is_400_with_field_without_effect() {
    let bed = bed(&[]).await;
    let long = json!({"query": "ä".repeat(100_000)}).to_string();
    for (body, field) in [
        ("{", json!(null)),
        ("[]", json!(null)),
        ("{}", json!("query")),
        (r#"{"query": ""}"#, json!("query")),
        (r#"{"query": 7}"#, json!("query")),
        (r#"{"query": "a\u0000b"}"#, json!("query")),
        (r#"{"query": "a\u001b[2Jb"}"#, json!("query")),
        (long.as_str(), json!("query")),
        (r#"{"query": "x", "colour": 1}"#, json!("colour")),
        (r#"{"query": "x", "query": "y"}"#, json!("query")),
        (r#"{"query": "x", "limit": 1000000000}"#, json!("limit")),
        (r#"{"query": "x", "limit": 0}"#, json!("limit")),
        (r#"{"query": "x", "limit": 1001}"#, json!("limit")),
        (r#"{"query": "x", "limit": "ten"}"#, json!("limit")),
        (r#"{"query": "x", "privacy_mode": "open"}"#, json!("privacy_mode")),
        (r#"{"query": "x", "filters": {"min_size": -1}}"#, json!("filters.min_size")),
        (r#"{"query": "x", "filters": {"colour": 1}}"#, json!("filters.colour")),
    ] {
        let answered = bed.post("/v1/ask", body.to_string()).await;
        assert_eq!((answered.status, answered.field()), (400, field), "{body:.60}: {}", answered.text);
        assert_eq!(answered.json()["error"]["code"], "invalid_argument");
    }
    for limit in ["1e300", "-1", "NaN", "1e999", "null7", &"[".repeat(100_000), &"{\"a\":".repeat(100_000)] {
        let answered = bed.post("/v1/ask", format!("{{\"query\": \"x\", \"limit\": {limit}}}")).await;
        assert_eq!(answered.status, 400, "{limit:.60}: {}", answered.text);
    }
    assert!(bed.service.last_question.lock().unwrap().is_none());
}

#[tokio::test]
async fn service_error_keeps_status_code_message_and_hint() {
    let answered = bed(&[]).await.post("/v1/ask", r#"{"query": "locked"}"#).await;
    let expected = json!({"error": {
        "code": "locked", "message": "`/dätä` is in use", "field": null, "hint": "stop the other `vicd`",
    }});
    assert_eq!((answered.status, answered.json()), (409, expected));
    assert_eq!(answered.headers["content-type"], "application/json");
}

#[tokio::test]
async fn ask_streams_events() {
    let bed = bed(&[]).await;
    let body = Body::from(r#"{"query": "x"}"#);
    let answered = bed.send(request("POST", "/v1/ask", &[("accept", "text/event-stream")], body)).await;
    assert_eq!(answered.headers["content-type"], "text/event-stream");
    let events: Vec<&str> = answered.text.lines().filter_map(|it| it.strip_prefix("event: ")).collect();
    assert_eq!(events, ["plan", "hits", "text", "done"]);
    let last = answered.text.lines().filter_map(|it| it.strip_prefix("data: ")).next_back().unwrap();
    assert_eq!(serde_json::from_str::<Value>(last).unwrap(), serde_json::to_value(samples::answer("x")).unwrap());
}

#[tokio::test]
async fn invalid_streamed_question_is_400_without_events() {
    let bed = bed(&[]).await;
    let answered = bed.send(request("POST", "/v1/ask", &[("accept", "text/event-stream")], "{}".into())).await;
    assert_eq!((answered.status, answered.field()), (400, json!("query")));
}

#[tokio::test]
async fn search_has_no_summary_and_calls_no_model() {
    let bed = bed(&[]).await;
    let answered = bed.post("/v1/search", r#"{"query": "x"}"#).await;
    assert_eq!(bed.service.ask_calls.load(Ordering::Relaxed), 0);
    assert_eq!((answered.status, answered.json()["answer_summary"].clone()), (200, json!(null)));
    assert_eq!(answered.json()["hits"][0]["path"], "notes/plan.md");
}

#[tokio::test]
async fn index_start_is_202_with_accepted_and_a_job_id() {
    let answered = bed(&[]).await.post("/v1/index/start", r#"{"root": "/w"}"#).await;
    assert_eq!((answered.status, answered.json()), (202, json!({"status": "accepted", "job_id": "job-1"})));
}

#[tokio::test]
async fn index_start_takes_root_db_path_full_and_max_files() {
    let bed = bed(&[]).await;
    let body = json!({
        "root": "/w", "db_path": "/d/index", "full": true, "max_files": 1000, "metadata_only": true, "ocr": "never",
    });
    assert_eq!(bed.post("/v1/index/start", body.to_string()).await.status, 202);
    let asked = bed.service.job.borrow().request.clone();
    assert_eq!(
        (asked.paths, asked.full, asked.max_files, asked.metadata_only),
        (vec!["/w".into()], true, Some(1000), true)
    );
    assert_eq!(asked.ocr.name(), "never");
}

#[tokio::test]
async fn index_start_without_root_uses_default_or_every_root() {
    for (variables, expected) in [(vec![], vec![]), (vec![("VIC_WAREHOUSE_ROOT", "/v")], vec!["/v".to_string()])] {
        let bed = bed(&variables).await;
        assert_eq!(bed.post("/v1/index/start", "{}").await.status, 202);
        let asked = bed.service.job.borrow().request.clone();
        assert_eq!((asked.paths, asked.full, asked.max_files), (expected, false, None));
    }
}

#[tokio::test]
async fn index_start_with_foreign_db_path_is_400() {
    let answered = bed(&[]).await.post("/v1/index/start", r#"{"db_path": "/elsewhere"}"#).await;
    assert_eq!((answered.status, answered.field()), (400, json!("db_path")));
    assert!(answered.text.contains("/elsewhere") && answered.text.contains("/d/index"), "{}", answered.text);
}

#[tokio::test]
async fn index_start_errors_name_their_field() {
    for (body, field) in [
        (r#"{"root": "docs"}"#, "root"),
        (r#"{"root": ""}"#, "root"),
        (r#"{"max_files": "all"}"#, "max_files"),
        (r#"{"ocr": "maybe"}"#, "ocr"),
        (r#"{"fast": true}"#, "fast"),
    ] {
        let answered = bed(&[]).await.post("/v1/index/start", body).await;
        assert_eq!((answered.status, answered.field()), (400, json!(field)), "{body}");
    }
}

#[tokio::test]
async fn index_status_has_status_timestamps_and_rows() {
    let bed = bed(&[]).await;
    for (state, status) in [
        (JobState::Queued, "running"),
        (JobState::Running, "running"),
        (JobState::Completed, "completed"),
        (JobState::Failed, "failed"),
        (JobState::Cancelled, "failed"),
    ] {
        bed.service.job.send_replace(samples::job(state, 4));
        let job = bed.get("/v1/index/status?job_id=job-1").await.json();
        assert_eq!((&job["status"], &job["state"]), (&json!(status), &json!(state.name())));
        assert_eq!((&job["job_id"], &job["rows"]), (&json!("job-1"), &json!(40)));
        assert_eq!(job["created_at"], "2023-11-14T22:13:20.000Z");
        assert_eq!(job["started_at"], "2023-11-14T22:13:21.000Z");
        assert_eq!(job["finished_at"].is_string(), state.is_final());
    }
}

#[tokio::test]
async fn index_status_of_an_unknown_job_is_404() {
    let answered = bed(&[]).await.get("/v1/index/status?job_id=job-9").await;
    assert_eq!((answered.status, answered.json()["error"]["code"].clone()), (404, json!("not_found")));
}

#[tokio::test]
async fn index_status_without_job_id_is_400_with_field() {
    for path in ["/v1/index/status", "/v1/index/status?", "/v1/index/events"] {
        let answered = bed(&[]).await.get(path).await;
        assert_eq!((answered.status, answered.field()), (400, json!("job_id")), "{}", answered.text);
    }
}

#[tokio::test]
async fn index_events_end_with_job() {
    let bed = bed(&[]).await;
    bed.service.job.send_replace(samples::job(JobState::Completed, 10));
    let answered = bed.get("/v1/index/events?job_id=job-1").await;
    assert!(answered.text.starts_with("event: done\ndata: {\"status\":\"completed\""), "{}", answered.text);
    assert_eq!(bed.get("/v1/index/events?job_id=job-9").await.status, 404);
}

#[tokio::test]
async fn similar_grep_files_and_status_respond() {
    let bed = bed(&[]).await;
    assert_eq!(bed.post("/v1/similar", r#"{"path": "/w/a"}"#).await.json()["hits"][0]["tier"], "L1");
    assert_eq!(bed.post("/v1/grep", r#"{"pattern": "signs"}"#).await.json()["matches"][0]["line"], "Ada signs it.");
    assert_eq!(bed.post("/v1/files", r#"{"state": "failed"}"#).await.json()["files"][0]["reason"], "damaged");
    let mistyped = bed.post("/v1/files", r#"{"words": ["mistyped"]}"#).await.json();
    assert_eq!((&mistyped["total"], &mistyped["warnings"][0]), (&1.into(), &"searched for `plan`".into()));
    assert_eq!(bed.get("/v1/status").await.json()["coverage"]["found"], 12);
    assert_eq!(bed.post("/v1/grep", r#"{"pattern": ""}"#).await.field(), "pattern");
    let table = bed.post("/v1/table", r#"{"path": "/w/a.csv"}"#).await.json();
    assert_eq!(table["result"][0]["value"], "0.3");
    assert_eq!(bed.post("/v1/table", r#"{"path": ""}"#).await.field(), "path");
    assert_eq!(bed.post("/v1/table", r#"{"path": "/w/a.csv", "limit": 0}"#).await.field(), "limit");
    assert_eq!(bed.post("/v1/similar", "{}").await.field(), "path");
    assert_eq!(bed.post("/v1/files", r#"{"limit": 10001}"#).await.field(), "limit");
}

#[tokio::test]
async fn read_is_bounded_and_anchored() {
    let bed = bed(&[]).await;
    let reading = bed.post("/v1/read", r#"{"path": "/w/plan.md", "offset": 2, "max_chars": 5}"#).await.json();
    assert_eq!((&reading["next_offset"], &reading["total_chars"]), (&json!(7), &json!(18)));
    assert_eq!((&reading["blocks"][0]["text"], &reading["blocks"][1]["text"]), (&json!("an"), &json!("Ada")));
    assert_eq!(reading["blocks"][1]["anchor"]["page"], 1);
    assert_eq!(bed.post("/v1/read", r#"{"path": "/etc/passwd"}"#).await.status, 403);
    assert_eq!(bed.post("/v1/read", r#"{"path": "/w/plan.md", "max_chars": 1000001}"#).await.field(), "max_chars");
}

// Case D4
#[tokio::test]
async fn unknown_paths_are_404_and_wrong_methods_405_in_json() {
    let bed = bed(&[]).await;
    for path in ["/nowhere", "/v1", "/v1/nowhere", "/health/x"] {
        let answered = bed.get(path).await;
        assert_eq!((answered.status, answered.json()["error"]["code"].clone()), (404, json!("not_found")), "{path}");
    }
    for (method, path) in [("GET", "/v1/ask"), ("POST", "/health"), ("DELETE", "/v1/index/status")] {
        let answered = bed.send(request(method, path, &[], Body::empty())).await;
        assert_eq!((answered.status, answered.json()["error"]["code"].clone()), (405, json!("method_not_allowed")));
        assert!(answered.headers.contains_key("allow"), "{method} {path}");
    }
}

#[tokio::test]
async fn root_lists_paths_and_openapi_has_all() {
    let bed = bed(&[]).await;
    let named = bed.get("/").await.json()["paths"].clone();
    let document = bed.get("/openapi.json").await.json();
    for name in named.as_object().unwrap().keys() {
        let (method, path) = name.split_once(' ').unwrap();
        assert!(document["paths"][path][method.to_lowercase()].is_object(), "{name}");
        // The stream of the status has no end, and the test has no files of the page.
        if !["/mcp", "/v1/status/events", "/ui/"].contains(&path) {
            let answered = bed.send(request(method, path, &[], Body::empty())).await;
            assert!(!matches!(answered.status, 404 | 405), "{name}: {}", answered.status);
        }
    }
}
