//! Tests that logs and errors contain no key, question or document text at any log level.

use serde_json::json;

use crate::daemon::bad_input::workers;
use crate::support::grpc_client;
use crate::support::harness::World;
use crate::support::http_client::get;
use crate::support::http_client::key;
use crate::support::http_client::post;
use crate::support::http_client::send;
use crate::support::http_client::send_raw;

#[test]
fn trace_log_contains_no_key_question_or_text() {
    let mut world = World::new().with("VIC_LOG_LEVEL", "trace").start();
    world.write("a.md", "The canarydocument sings of the orchard.\n\n# canaryheading\n");
    world.write("broken.docx", "canarybroken is no archive");
    world.index();
    let shown = key(&world);
    let question = json!({"query": "canaryquestion in the orchard"});
    assert_eq!(post(&world, "/v1/ask", &question).status, 200);
    let stream = [("accept", "text/event-stream")];
    assert_eq!(send(&world, "POST", "/v1/ask", &stream, &question.to_string()).status, 200);
    assert_eq!(post(&world, "/v1/grep", &json!({"pattern": "canarypattern("})).status, 400);
    assert_eq!(post(&world, "/v1/search", &json!({"query": "canaryfield", "colour": 1})).status, 400);
    let bearer = format!("Bearer {shown}");
    let asked = grpc_client::string_field(1, "canarycall in the orchard");
    let called =
        grpc_client::call(&world, "localhost", "/vic.v1.Vic/Ask", &[("authorization", bearer.as_str())], &asked);
    assert_eq!(called.code, Some(0), "{called:?}");
    let tool = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "search", "arguments": {"query": "canarytool"}},
    });
    let accept = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    assert_eq!(send(&world, "POST", "/mcp", &accept, &tool.to_string()).status, 200);
    for wrong in ["Bearer canarykey", "Basic canarybasic"] {
        let refused = send(&world, "GET", "/v1/status", &[("authorization", wrong)], "");
        assert!(refused.status == 401 && !refused.body.contains("canary"), "{}", refused.body);
    }
    let refused = send_raw(
        &world,
        "GET /v1/status?key=canaryquery HTTP/1.1\r\nhost: canaryhost.example\r\nconnection: close\r\n\r\n",
    );
    assert!(refused.status == 403 && !refused.body.contains("canary"), "{}", refused.body);
    world.ok(&["ask", "canarycommand in the orchard"]);
    assert_eq!(get(&world, "/health").status, 200);
    assert!(world.terminate());
    let log = world.log();
    assert!(log.contains("vicd is ready"), "{log}");
    for secret in ["canary", shown.as_str()] {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(secret)).collect();
        assert!(lines.is_empty(), "{}", lines.join("\n"));
    }
}

/// Parses `/proc/PID/limits` and returns the soft and the hard limit of the core file size.
fn core_limits(limits: &str) -> (String, String) {
    let line = limits.lines().find_map(|it| it.strip_prefix("Max core file size")).unwrap();
    let mut sizes = line.split_whitespace().map(String::from);
    (sizes.next().unwrap(), sizes.next().unwrap())
}

#[test]
fn daemon_and_workers_disable_core_dumps() {
    let script = "ulimit -S -c \"$(ulimit -H -c)\" && exec \"$@\"";
    let world = World::new().under(["sh", "-c", script, "sh"].map(String::from).to_vec()).start();
    world.write("a.md", "The canarydocument sings of the orchard.");
    world.index();
    let others = world.run("cat", &["/proc/self/limits"]);
    let (others, most) = core_limits(&String::from_utf8_lossy(&others.stdout));
    assert_eq!(others, most, "without vic, the soft limit must equal the hard limit");
    let workers = workers(world.pid());
    assert!(!workers.is_empty());
    for process in workers.into_iter().chain([world.pid()]) {
        let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
        assert_eq!(core_limits(&limits).0, "0", "{process}; others: {others}");
    }
}
