//! Tests a real daemon against the API document. This file tests the behaviour of the whole process; the modules below have
//! one test for each field ([`fields`]), variable ([`variables`]), command ([`commands`]) and kind of bad input
//! ([`refusals`]).

mod commands;
mod fields;
mod refusals;
mod variables;

use std::io::{Read, Write};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::harness::World;
use crate::support::http_client::connect;
use crate::support::http_client::get;
use crate::support::http_client::key_line;
use crate::support::http_client::post;
use crate::support::http_client::send;
use crate::support::http_client::send_raw;
use crate::support::mcp_session::McpSession;

fn bees() -> World {
    let world = World::new().start();
    world.write("notes/bees.md", "# Bees\n\n## Winter\n\nThe hive on the roof weighed 31 kg in March.\n");
    world.index();
    world
}

/// Waits until a job that was started over HTTP has ended. Returns its status.
fn ended(world: &World, job_id: &str) -> Value {
    let path = format!("/v1/index/status?job_id={job_id}");
    world.wait_until("the job has ended", Duration::from_secs(60), |it| get(it, &path).json()["status"] != "running");
    get(world, &path).json()
}

#[test]
fn health_reports_whether_index_exists() {
    let world = World::new().start();
    let before = get(&world, "/health").json();
    assert_eq!(
        (&before["status"], &before["index_ready"], &before["meta_present"]),
        (&json!("ok"), &json!(false), &json!(false))
    );
    assert_eq!((&before["chunk_rows_indexed"], &before["warehouse_root_indexed"]), (&json!(null), &json!(null)));
    world.write("a.md", "A sentence about lighthouses.");
    world.index();
    let after = get(&world, "/health").json();
    assert_eq!(
        (&after["index_ready"], &after["meta_present"], &after["chunk_rows_indexed"]),
        (&json!(true), &json!(true), &json!(1))
    );
    assert_eq!(after["warehouse_root_indexed"], world.files().canonicalize().unwrap().to_str().unwrap());
    assert!(after["embed_model"].as_str().unwrap().contains("MiniLM"), "{after}");
}

#[test]
fn index_job_over_http_makes_files_searchable() {
    let world = World::new().start();
    world.write("notes/bees.md", "The hive on the roof weighed 31 kg in March.\n");
    let started = post(&world, "/v1/index/start", &json!({"root": world.files(), "full": true, "max_files": 1000}));
    assert_eq!((started.status, &started.json()["status"]), (202, &json!("accepted")));
    let job = ended(&world, started.json()["job_id"].as_str().unwrap());
    assert_eq!((&job["status"], &job["rows"]), (&json!("completed"), &json!(1)), "{job:#}");
    let answered = post(&world, "/v1/ask", &json!({"query": "how heavy was the hive"}));
    let response: vic::model::AskResponse = serde_json::from_value(answered.json()).unwrap();
    assert_eq!(response.hits[0].path, "notes/bees.md");
    assert_eq!(response.stats.unwrap().pipeline, "tiered");
}

#[test]
fn jobs_survive_restart() {
    let mut world = bees();
    let started = post(&world, "/v1/index/start", &json!({}));
    let id = started.json()["job_id"].as_str().unwrap().to_string();
    ended(&world, &id);
    assert!(world.terminate());
    world.spawn_and_wait();
    assert_eq!(get(&world, &format!("/v1/index/status?job_id={id}")).json()["status"], "completed");
    assert_eq!(get(&world, "/v1/index/status?job_id=unknown").status, 404);
}

#[test]
fn http_grpc_and_mcp_give_same_hits() {
    let world = bees();
    let http = post(&world, "/v1/ask", &json!({"query": "how heavy was the hive"})).json();
    let grpc = world.json(&["ask", "how heavy was the hive"]);
    assert_eq!(http["hits"], grpc["hits"]);
    let mut session = McpSession::start(&world, &[]);
    let arguments = json!({"query": "how heavy was the hive", "structured": true});
    let mcp = session.request("tools/call", json!({"name": "ask", "arguments": arguments}));
    let hit = &mcp["result"]["structuredContent"]["hits"][0];
    assert!(hit["path"].as_str().unwrap().ends_with("notes/bees.md"), "{mcp:#}");
    assert!(hit["excerpt"].as_str().unwrap().contains("31 kg"), "{mcp:#}");
}

#[test]
fn search_grep_similar_files_and_read_work_over_http() {
    let world = bees();
    let path = world.write("notes/honey.md", "The hive gave honey; it weighed less in winter.\n");
    world.index();
    assert!(post(&world, "/v1/search", &json!({"query": "hive"})).json()["answer_summary"].is_null());
    let grep = post(&world, "/v1/grep", &json!({"pattern": "\\d+ kg"})).json();
    assert_eq!(
        (&grep["matches"][0]["path"], &grep["matches"][0]["anchor"]["line_start"]),
        (&json!("notes/bees.md"), &json!(5))
    );
    let similar = post(&world, "/v1/similar", &json!({"path": path})).json();
    assert_eq!(similar["hits"][0]["path"], "notes/bees.md", "{similar:#}");
    let files = post(&world, "/v1/files", &json!({"words": ["honey"], "warehouse_root": world.files()})).json();
    assert_eq!((&files["total"], &files["files"][0]["state"]), (&json!(1), &json!("indexed")));
    let read = post(&world, "/v1/read", &json!({"path": path, "max_chars": 8})).json();
    assert_eq!((&read["blocks"][0]["text"], &read["next_offset"]), (&json!("The hive"), &json!(8)));
    assert_eq!(post(&world, "/v1/read", &json!({"path": "/etc/passwd"})).status, 404);
}

#[test]
fn answer_and_job_stream_as_events() {
    let world = bees();
    let accept = [("accept", "text/event-stream")];
    let asked = send(&world, "POST", "/v1/ask", &accept, r#"{"query": "how heavy was the hive"}"#);
    let events: Vec<&str> = asked.body.lines().filter_map(|it| it.strip_prefix("event: ")).collect();
    assert_eq!((events.first(), events.last()), (Some(&"plan"), Some(&"done")), "{}", asked.body);
    let job = post(&world, "/v1/index/start", &json!({"full": true})).json();
    let followed = get(&world, &format!("/v1/index/events?job_id={}", job["job_id"].as_str().unwrap()));
    assert!(followed.body.contains("event: done\ndata: {\"status\":\"completed\""), "{}", followed.body);
}

#[test]
fn body_over_2_mib_is_413_with_or_without_length() {
    let world = World::new().start();
    let body = format!("{{\"query\": \"x\"}}{}", " ".repeat(2_097_153 - 14));
    assert_eq!(send(&world, "POST", "/v1/ask", &[], &body).status, 413);
    let head = "POST /v1/ask HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n";
    let chunked = format!("{head}{}\r\n{:x}\r\n{body}\r\n0\r\n\r\n", key_line(&world), body.len());
    assert_eq!(send_raw(&world, &chunked).status, 413);
    assert_eq!(send(&world, "POST", "/v1/ask", &[], &body[..2_097_152]).status, 200);
}

#[test]
fn tcp_needs_key_and_command_line_does_not() {
    let world = World::new().with("VIC_BRIDGE_API_KEY", "s3cret").start();
    assert_eq!(get(&world, "/health").json()["auth_enabled"], true);
    for path in ["/v1/status", "/mcp"] {
        let refused = get(&world, path);
        assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("bearer")), "{path}");
    }
    assert_eq!(send(&world, "GET", "/v1/status", &[("authorization", "Bearer s3cret")], "").status, 200);
    let bridge = world.json(&["bridge"]);
    assert_eq!(bridge["auth_enabled"], true);
    assert!(!bridge.to_string().contains("s3cret"));
    assert!(!world.ok(&["config", "show"]).contains("s3cret"));
}

#[test]
fn excess_requests_are_429_with_retry_after() {
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "2").start();
    let statuses: Vec<u16> = (0..3).map(|_| get(&world, "/v1/status").status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    let wait: u32 = get(&world, "/v1/status").header("retry-after").unwrap().parse().unwrap();
    assert!((50..=60).contains(&wait), "{wait}");
    assert_eq!(get(&world, "/health").status, 200);
    assert_eq!(world.vic(&["status"]).status.code(), Some(0), "the rate limit must not apply to the command line");
}

// Case D2
#[test]
fn foreign_origin_and_host_are_403() {
    let world = World::new().start();
    for headers in [[("host", "evil.example")], [("origin", "http://localhost")]] {
        for (method, path) in [("GET", "/health"), ("POST", "/v1/ask"), ("POST", "/mcp"), ("GET", "/")] {
            assert_eq!(send(&world, method, path, &headers, "{}").status, 403, "{path}");
        }
    }
}

// Case D8
#[test]
fn public_listen_needs_key_and_tls() {
    let world = World::new();
    let run = |name: &str, value: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vicd"));
        command.env("VIC_DATA_DIR", world.data()).env("VIC_LISTEN", "0.0.0.0:0").env(name, value);
        command.env("VIC_EMBED_BACKEND", "ollama").env("VIC_OLLAMA_BASE_URL", "http://192.0.2.1:1").output().unwrap()
    };
    for (name, value, cure) in
        [("VIC_BRIDGE_API_KEY", "s3cret", "VIC_BRIDGE_TLS_CERT"), ("VIC_BRIDGE_AUTH", "none", "VIC_BRIDGE_AUTH")]
    {
        let said = run(name, value);
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.status.code() == Some(2) && text.contains(cure) && !text.contains("s3cret"), "{text}");
    }
    // With VIC_BRIDGE_PLAIN, the check of the TCP address passes and the next one fails: the remote embedder is not
    // permitted.
    assert_eq!(run("VIC_BRIDGE_PLAIN", "1").status.code(), Some(7));
}

#[test]
fn disconnected_client_does_not_affect_next() {
    let world = bees();
    for _ in 0..20 {
        let mut stream = connect(&world);
        let head = "POST /v1/ask HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\ncontent-length: 14\r\n";
        stream.write_all(format!("{head}{}\r\n", key_line(&world)).as_bytes()).unwrap();
        stream.write_all(b"{\"query\": \"x\"}").unwrap();
        let mut first = [0; 16];
        stream.read_exact(&mut first).unwrap();
    }
    assert_eq!(post(&world, "/v1/ask", &json!({"query": "hive"})).status, 200);
}

#[test]
fn daemon_stops_with_open_stream() {
    let mut world = bees();
    let mut idle = connect(&world);
    idle.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    idle.read_exact(&mut [0; 16]).unwrap();
    assert!(world.terminate());
}

#[test]
fn new_commands_print_expected_output() {
    let world = bees();
    assert!(world.ok(&["grep", "weighed [0-9]+"]).starts_with("notes/bees.md:5: The hive on the roof weighed 31 kg"));
    assert!(world.ok(&["grep", "-i", "-F", "HIVE ON"]).contains("hive on the roof"));
    assert_eq!(world.fails(&["grep", "("]).0, 2);
    let path = world.files().join("notes/bees.md");
    assert!(world.ok(&["similar", path.to_str().unwrap()]).contains("nothing found"));
    assert_eq!(world.json(&["audit"]), json!([]));
    assert!(world.ok(&["bridge"]).contains("curl -s -H \"Authorization: Bearer $(cat '"));
    let schema: Value = serde_json::from_str(&world.ok(&["schema", "ask_response"])).unwrap();
    assert_eq!(schema["type"], "object");
    let settings = world.json(&["config", "show"]);
    let listen = settings.as_array().unwrap().iter().find(|it| it["name"] == "VIC_LISTEN").unwrap();
    assert_eq!((&listen["value"], &listen["origin"]), (&json!("127.0.0.1:0"), &json!("environment")));
    assert!(world.ok(&["config", "template"]).contains("# privacy_mode = \"\""));
}
