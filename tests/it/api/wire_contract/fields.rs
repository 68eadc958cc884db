//! Tests every field of the API document in responses of a real daemon. Each test is named after its field.

use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::support::harness::World;
use crate::support::http_client::get;
use crate::support::http_client::post;

/// Responses of one daemon, shared by all tests of this file.
struct Answers {
    health: Value,
    ask: Value,
    legacy: Value,
    accepted: Value,
    job: Value,
}

fn answers() -> &'static Answers {
    static ANSWERS: OnceLock<Answers> = OnceLock::new();
    ANSWERS.get_or_init(|| {
        let world = World::new().with("VIC_WATCH", "0").start();
        world.write("contracts/lease.md", "# Lease\n\nThe lease of the boathouse ends on 3 May 2027.\n");
        world.write("notes/bees.md", "The hive on the roof weighed 31 kg in March.\n");
        let question = json!({"query": "when does the lease of the boathouse end", "plan": plan()});
        world.ok(&["index", world.files().to_str().unwrap(), "--metadata-only"]);
        let legacy = post(&world, "/v1/ask", &json!({"query": "lease of the boathouse"})).json();
        let started = post(&world, "/v1/index/start", &json!({"root": world.files(), "full": true, "max_files": 1000}));
        let accepted = started.json();
        let job = crate::api::wire_contract::ended(&world, accepted["job_id"].as_str().unwrap());
        let ask = post(&world, "/v1/ask", &question).json();
        Answers { health: get(&world, "/health").json(), ask, legacy, accepted, job }
    })
}

/// Returns the query plan of the example in the API document, adapted to the files of these tests.
fn plan() -> Value {
    json!({
        "intent": "read_evidence",
        "l0_filters": {
            "extensions": [".md"], "path_glob": "**/contracts/**", "modified_after": "2001-01-01",
            "modified_before": "2101-01-01", "min_size": 1, "max_size": 1_000_000, "owner": owner(),
        },
        "l1_query_text": "lease of the boathouse ends",
        "l1_threshold": 0.05,
        "date_order": "newest",
        "requires_l2": true,
        "l2_skills": ["pdf_layout"],
        "l2_top_k": 3,
        "privacy_mode": "local_only",
        "raw_user_text": "When does the lease of the boathouse end?",
        "planner_model_id": "stub-v0",
    })
}

/// Returns the user id of the test process. Numeric, because user names depend on the machine.
fn owner() -> String {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid().to_string()
}

fn health(field: &str) -> &'static Value {
    field_of(&answers().health, field)
}

fn asked(pointer: &str) -> &'static Value {
    field_of(&answers().ask, pointer)
}

fn legacy(pointer: &str) -> &'static Value {
    field_of(&answers().legacy, pointer)
}

fn job(pointer: &str) -> &'static Value {
    field_of(&answers().job, pointer)
}

fn accepted(pointer: &str) -> &'static Value {
    field_of(&answers().accepted, pointer)
}

fn field_of(answer: &'static Value, pointer: &str) -> &'static Value {
    answer.pointer(pointer).unwrap_or_else(|| panic!("no `{pointer}` in {answer:#}"))
}

/// Defines one test per field, from the name of the test, the JSON pointer to the field, and a condition on its value.
macro_rules! fields {
    ($($name:ident: $of:ident($pointer:literal), $holds:expr;)*) => {
        $(#[test]
        fn $name() {
            let holds: fn(&Value) -> bool = $holds;
            let value = $of($pointer);
            assert!(holds(value), "{}: {value}", $pointer);
        })*
    };
}

fields! {
    query_plan_intent: asked("/query_plan/intent"), |it| it == "read_evidence";
    query_plan_l0_filters: asked("/query_plan/l0_filters"), |it| *it == plan()["l0_filters"];
    query_plan_l0_filters_extensions: asked("/query_plan/l0_filters/extensions"), |it| *it == json!([".md"]);
    query_plan_l0_filters_path_glob: asked("/query_plan/l0_filters/path_glob"), |it| it == "**/contracts/**";
    query_plan_l0_filters_modified_after: asked("/query_plan/l0_filters/modified_after"), |it| it == "2001-01-01";
    query_plan_l0_filters_modified_before: asked("/query_plan/l0_filters/modified_before"), |it| it == "2101-01-01";
    query_plan_l0_filters_min_size: asked("/query_plan/l0_filters/min_size"), |it| it == 1;
    query_plan_l0_filters_max_size: asked("/query_plan/l0_filters/max_size"), |it| it == 1_000_000;
    query_plan_l0_filters_owner: asked("/query_plan/l0_filters/owner"), |it| *it == owner();
    query_plan_l1_query_text: asked("/query_plan/l1_query_text"), |it| it == "lease of the boathouse ends";
    query_plan_l1_threshold: asked("/query_plan/l1_threshold"), |it| it == 0.05;
    query_plan_date_order: asked("/query_plan/date_order"), |it| it == "newest";
    query_plan_requires_l2: asked("/query_plan/requires_l2"), |it| it == true;
    query_plan_l2_skills: asked("/query_plan/l2_skills"), |it| *it == json!(["pdf_layout"]);
    query_plan_l2_top_k: asked("/query_plan/l2_top_k"), |it| it == 3;
    query_plan_privacy_mode: asked("/query_plan/privacy_mode"), |it| it == "local_only";
    query_plan_raw_user_text: asked("/query_plan/raw_user_text"), |it| *it == plan()["raw_user_text"];
    query_plan_planner_model_id: asked("/query_plan/planner_model_id"), |it| it == "stub-v0";
    search_hit_path: asked("/hits/0/path"), |it| it == "contracts/lease.md";
    search_hit_score: asked("/hits/0/score"), |it| it.as_f64().is_some_and(|it| (0.05..=1.0).contains(&it));
    search_hit_tier: asked("/hits/0/tier"), |it| it == "L1";
    search_hit_layers: asked("/hits/0/layers"), |it| *it == json!(["L0", "L1"]);
    search_hit_excerpt: asked("/hits/0/excerpt"), |it| it.as_str().is_some_and(|it| it.contains("3 May 2027"));
    search_hit_metadata: asked("/hits/0/metadata"), |it| {
        it["name"] == "lease.md" && it["extension"] == "md" && it["size"].is_u64() && it["chunk_ids"].is_array()
    };
    search_hit_reasoning: asked("/hits/0/reasoning"), |it| it.as_str().is_some_and(|it| it.contains("words"));
    ask_response_query_plan: asked("/query_plan"), |it| *it == plan();
    ask_response_hits: asked("/hits"), |it| it.as_array().is_some_and(|it| it.len() == 1);
    ask_response_answer_summary: asked("/answer_summary"), |it| it.as_str().is_some_and(|it| it.contains("[1]"));
    ask_response_warnings: asked("/warnings"), |it| *it == json!([]);
    ask_response_stats: asked("/stats"), Value::is_object;
    response_stats_pipeline_tiered: asked("/stats/pipeline"), |it| it == "tiered";
    response_stats_pipeline_legacy: legacy("/stats/pipeline"), |it| it == "legacy";
    response_stats_warehouse_root: asked("/stats/warehouse_root"), |it| it.as_str().is_some_and(|it| it.ends_with("/files"));
    response_stats_db_path: asked("/stats/db_path"), |it| it.as_str().is_some_and(|it| it.ends_with("/data/index"));
    response_stats_db_path_of_the_legacy_pipeline: legacy("/stats/db_path"), |it| *it == *asked("/stats/db_path");
    response_stats_latency_ms: asked("/stats/latency_ms"), |it| it.as_f64().is_some_and(|it| it > 0.0);
    response_stats_embed_model: asked("/stats/embed_model"), |it| it.as_str().is_some_and(|it| it.contains("MiniLM"));
    response_stats_embed_model_of_the_legacy_pipeline: legacy("/stats/embed_model"), Value::is_null;
    response_stats_chunk_rows_indexed: asked("/stats/chunk_rows_indexed"), |it| it == 2;
    response_stats_unique_paths_in_index: asked("/stats/unique_paths_in_index"), |it| it == 1;
    response_stats_l1_candidates_merged: asked("/stats/l1_candidates_merged"), |it| it == 1;
    response_stats_hits_returned: asked("/stats/hits_returned"), |it| it == 1;
    response_stats_hits_by_tier: asked("/stats/hits_by_tier"), |it| *it == json!({"L1": 1});
    response_stats_filesystem_files_seen: legacy("/stats/filesystem_files_seen"), |it| it == 2;
    response_stats_filesystem_files_seen_of_the_tiered_pipeline: asked("/stats/filesystem_files_seen"), Value::is_null;
    legacy_pipeline_says_so_in_warnings: legacy("/warnings"), |it| it.to_string().contains("nothing is indexed yet");
    health_status: health("/status"), |it| it == "ok";
    health_version: health("/version"), |it| it == env!("CARGO_PKG_VERSION");
    health_auth_enabled: health("/auth_enabled"), Value::is_boolean;
    health_index_ready: health("/index_ready"), |it| it == true;
    health_meta_present: health("/meta_present"), |it| it == true;
    health_chunk_rows_indexed: health("/chunk_rows_indexed"), |it| it == 2;
    health_embed_model: health("/embed_model"), |it| it.as_str().is_some_and(|it| it.contains("MiniLM"));
    health_vector_backend: health("/vector_backend"), |it| it == "lance";
    health_warehouse_root_indexed: health("/warehouse_root_indexed"), |it| *it == *asked("/stats/warehouse_root");
    index_start_status: accepted("/status"), |it| it == "accepted";
    index_start_job_id: accepted("/job_id"), |it| it.as_str().is_some_and(|it| !it.is_empty());
    index_status_job_id: job("/job_id"), |it| *it == *accepted("/job_id");
    index_status_status: job("/status"), |it| it == "completed";
    index_status_rows: job("/rows"), |it| it == 2;
    index_status_created_at: job("/created_at"), is_moment;
    index_status_started_at: job("/started_at"), is_moment;
    index_status_finished_at: job("/finished_at"), is_moment;
}

fn is_moment(value: &Value) -> bool {
    value.as_str().is_some_and(|it| chrono::DateTime::parse_from_rfc3339(it).is_ok())
}

/// Sends a question with a plan in which one field is replaced or removed. Returns the HTTP status and the response.
fn with_plan(world: &World, field: &str, value: Option<Value>) -> (u16, Value) {
    let mut plan = plan();
    match value {
        Some(value) => plan[field] = value,
        None => drop(plan.as_object_mut().unwrap().shift_remove(field)),
    }
    let answered = post(world, "/v1/ask", &json!({"query": "x", "plan": plan}));
    (answered.status, answered.json())
}

#[test]
fn query_plan_fields_are_validated() {
    let world = World::new().start();
    for field in ["intent", "privacy_mode", "raw_user_text"] {
        let (status, told) = with_plan(&world, field, None);
        assert_eq!((status, &told["error"]["field"]), (400, &json!(format!("plan.{field}"))), "{told}");
    }
    for field in [
        "l0_filters",
        "l1_query_text",
        "l1_threshold",
        "date_order",
        "requires_l2",
        "l2_skills",
        "l2_top_k",
        "planner_model_id",
    ] {
        assert_eq!(with_plan(&world, field, None).0, 200, "{field}");
    }
    for mode in ["local_only", "cloud_reasoning_ok", "cloud_embedding_ok"] {
        assert_eq!(with_plan(&world, "privacy_mode", Some(json!(mode))).0, 200, "{mode}");
    }
    for (field, value, named) in [
        ("privacy_mode", json!("open"), "plan.privacy_mode"),
        ("l1_threshold", json!(1.5), "plan.l1_threshold"),
        ("date_order", json!("soon"), "plan.date_order"),
        ("l2_skills", json!(["teleport"]), "plan.l2_skills"),
        ("l2_top_k", json!(0), "plan.l2_top_k"),
        ("l0_filters", json!({"modified_after": "soon"}), "plan.l0_filters.modified_after"),
        ("mood", json!("good"), "plan.mood"),
    ] {
        let (status, told) = with_plan(&world, field, Some(value));
        assert_eq!((status, &told["error"]["field"]), (400, &json!(named)), "{told}");
    }
}

#[test]
fn ask_request_fields() {
    let world = crate::api::wire_contract::bees();
    let root = world.files();
    world.write("other/bees.md", "Another hive.");
    world.index();
    let body = json!({"query": "hive", "privacy_mode": "cloud_reasoning_ok", "warehouse_root": root.join("notes")});
    let answer = post(&world, "/v1/ask", &body).json();
    assert_eq!(answer["stats"]["warehouse_root"], root.join("notes").canonicalize().unwrap().to_str().unwrap());
    assert_eq!(
        (&answer["query_plan"]["privacy_mode"], answer["hits"].as_array().unwrap().len()),
        (&json!("cloud_reasoning_ok"), 1)
    );
    let warned = answer["warnings"].to_string();
    assert!(warned.contains("local_only"), "a request must not relax the privacy mode of the daemon: {warned}");
    let elsewhere = post(&world, "/v1/ask", &json!({"query": "hive", "warehouse_root": "/nowhere"}));
    assert_eq!((elsewhere.status, &elsewhere.json()["error"]["code"]), (404, &json!("not_found")));
}

#[test]
fn index_start_request_fields() {
    let world = World::new().start();
    world.write("a.md", "One.");
    world.write("b.md", "Two.");
    let own = world.data().join("index");
    let started =
        post(&world, "/v1/index/start", &json!({"root": world.files(), "db_path": own, "full": true, "max_files": 1}));
    assert_eq!(started.status, 202, "{}", started.body);
    let job = crate::api::wire_contract::ended(&world, started.json()["job_id"].as_str().unwrap());
    assert_eq!((&job["status"], &job["rows"]), (&json!("completed"), &json!(1)), "{job:#}");
    let other = post(&world, "/v1/index/start", &json!({"root": world.files(), "db_path": "/elsewhere"}));
    assert_eq!((other.status, &other.json()["error"]["field"]), (400, &json!("db_path")));
}

#[test]
fn index_status_of_unknown_job_is_404() {
    let world = World::new().start();
    assert_eq!(get(&world, "/v1/index/status?job_id=unknown").status, 404);
}
