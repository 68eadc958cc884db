//! Tests of the ways in which a corpus request reaches vic, of names that are checked before a job starts, and of calls that
//! wait for their job.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::llm::agents::vic_with_stdin;
use crate::support::harness::{World, vic_program};
use crate::support::http_client::{key, send};

/// Starts a daemon with three documents that are ingested as session 1.
fn started() -> World {
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").start();
    world.write("bees.md", "# Bees\n\n```python\nx = 1\n```\n\nYou should feed them in winter. See [wool](wool.md).\n");
    world.write("wool.md", "# Wool\n\n| yarn | price |\n|---|---|\n| merino | 3 |\n");
    world.write("empty.txt", "Nothing.\n");
    corpus(&world, &["ingest", world.files().to_str().unwrap()]);
    world
}

fn corpus(world: &World, words: &[&str]) -> Value {
    serde_json::from_str(&world.ok(&[&["corpus"], words].concat())).unwrap()
}

fn post(world: &World, verb: &str, body: &Value) -> (u16, Value) {
    let bearer = format!("Bearer {}", key(world));
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let answered = send(world, "POST", &format!("/v1/corpus/{verb}"), &headers, &body.to_string());
    (answered.status, serde_json::from_str(&answered.body).unwrap())
}

#[test]
fn json_reaches_a_verb_as_word_file_and_standard_input() {
    let world = started();
    let request = r#"{"schema":"Code","filters":{"language":"python"}}"#;
    let file = world.files().with_file_name("request.json");
    std::fs::write(&file, request).unwrap();
    let expected = world.ok(&["corpus", "extract", "--schema=Code", "--filters={\"language\":\"python\"}"]);
    assert_eq!(world.ok(&["corpus", "extract", request]), expected);
    assert_eq!(world.ok(&["corpus", "extract", &format!("@{}", file.display())]), expected);
    assert_eq!(world.ok(&["corpus", "extract", "Code", "--language=python"]), expected);
    for words in [&["corpus", "extract", "-"][..], &["corpus", "extract"]] {
        let output = vic_with_stdin(&world, words, request);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{words:?}");
    }
    let output = vic_with_stdin(&world, &["corpus", "compare", "consensus"], r#"{"field":"recommendation"}"#);
    assert!(output.status.success(), "{output:?}");
    let output = vic_with_stdin(&world, &["corpus", "normalize", "dates", "-"], r#"{"limit":1,"format":"yaml"}"#);
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("contract_version"));
}

#[test]
fn broken_json_is_refused_in_one_sentence() {
    let world = started();
    for (words, input, wanted) in [
        (&["corpus", "extract", "{'schema':'Code'}"][..], "", "not a JSON object"),
        (&["corpus", "extract", "-"], "[1]", "it is a list"),
        (&["corpus", "extract", "@/no/such.json"], "", "/no/such.json"),
        (&["corpus", "{\"schema\":\"Code\"}"], "", "begins with a verb"),
        (&["corpus", "extract", "--schema=Code", "{\"schema\":\"Table\"}"], "", "given twice"),
    ] {
        let output = vic_with_stdin(&world, words, input);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty() && told.contains(wanted), "{words:?}: {told}");
    }
    assert_eq!(corpus(&world, &["extract", "Code"])["data"]["count"], 1, "the daemon goes on");
}

#[test]
fn open_standard_input_does_not_hold_a_call() {
    let world = started();
    let mut command = world.command(vic_program());
    command.args(["corpus", "extract"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let open = child.stdin.take();
    assert_eq!(child.wait().unwrap().code(), Some(2), "the request has no schema");
    drop(open);
}

#[test]
fn views_are_made_with_corpus_view() {
    let world = started();
    let made = corpus(&world, &["view", "create", "--name=notes", "--filter=extension=md", "--since=7 days"]);
    assert_eq!(made["data"]["type"], "query", "{made}");
    corpus(&world, &["view", "create", r#"{"name":"pair","documents":["bees.md","wool.md"]}"#]);
    corpus(&world, &["view", "create", "--name=run", "--session-id=1"]);
    let count = |name: &str| corpus(&world, &["view", "show", name])["data"]["documents"].clone();
    assert_eq!((count("notes"), count("pair"), count("run")), (json!(2), json!(2), json!(3)));
    let listed: Value = serde_json::from_str(&world.ok(&["view", "list"])).unwrap();
    assert_eq!(listed["data"]["count"], 3, "both commands manage the same views");
    assert_eq!(corpus(&world, &["extract", "Code", "--view=pair"])["data"]["count"], 1);
    assert_eq!(corpus(&world, &["view", "delete", "notes"])["data"]["deleted"], "notes");
    assert_eq!(post(&world, "view", &json!({"form": "show", "view": "pair"})).1["data"]["documents"], 2);
}

#[test]
fn times_ago_select_recent_files() {
    let world = started();
    let delta = corpus(&world, &["delta", "--since", "7 days"]);
    let since = delta["method"]["since"].as_str().unwrap();
    assert!(since.ends_with('Z') && delta["data"]["counts"].is_object(), "{delta}");
    let query = |filter: &str| corpus(&world, &["query", filter])["data"]["count"].clone();
    assert_eq!((query("modified>=yesterday"), query("modified < \"2 weeks\"")), (json!(3), json!(0)));
}

#[test]
fn wrong_names_are_refused_before_a_job_starts() {
    let world = started();
    for (verb, request, kind) in [
        ("extract", json!({"schema": "Code", "session": 99}), "unknown_session"),
        ("extract", json!({"schema": "Code", "view": "none"}), "unknown_view"),
        ("extract", json!({"schema": "Code", "file": "none.md"}), "unknown_file"),
        ("compare", json!({"form": "versions", "doc_a": "none.md", "doc_b": "bees.md"}), "unknown_file"),
        ("trace", json!({"form": "influence", "source": "none.md"}), "unknown_file"),
        ("query", json!({"filter": "size>0", "session": 99}), "unknown_session"),
        ("delta", json!({"baseline": 99}), "unknown_session"),
        ("delta", json!({"baseline": "r-none"}), "unknown_result"),
        ("delta", json!({"watch": "none.md"}), "unknown_file"),
        ("summarize", json!({"form": "comparison-matrix", "items": [77], "schema": ["year"]}), "unknown_file"),
        ("explain-failure", json!({"file": "none.md"}), "unknown_file"),
        ("explain-failure", json!({"id": "j-none"}), "unknown_result"),
        ("score", json!({"form": "confidence", "id": "r-none"}), "unknown_result"),
        ("ingest", json!({"paths": ["/no/such/folder"]}), "unknown_file"),
        ("ingest", json!({"session": 99, "refetch_failed": true}), "unknown_session"),
    ] {
        let mut request = request;
        request["async"] = json!(true);
        let (status, told) = post(&world, verb, &request);
        assert!(status >= 400 && told["error"]["type"] == kind, "{verb} {request}: {status} {told}");
    }
    let (_, told) = post(&world, "job", &json!({"job_id": "r-1"}));
    assert!(told["error"]["suggested_actions"][0].as_str().unwrap().contains("RESULT"), "{told}");
    let (_, told) = post(&world, "result", &json!({"id": "j-1"}));
    assert!(told["error"]["suggested_actions"][0].as_str().unwrap().contains("JOB"), "{told}");
}

#[test]
fn waiting_call_has_the_result_of_its_job() {
    let world = started();
    let plain = corpus(&world, &["extract", "Code"]);
    let waited = json!({"schema": "Code", "async": true, "wait_ms": 30_000});
    let (status, told) = post(&world, "extract", &waited);
    assert_eq!((status, &told["data"]["state"]), (200, &json!("completed")), "{told}");
    assert_eq!((&told["data"]["answer"], &told["data"]["result"]), (&plain, &plain["id"]), "{told}");
    assert_eq!((&told["confidence"], &told["coverage"]), (&plain["confidence"], &plain["coverage"]));
    let (status, told) = post(&world, "extract", &json!({"schema": "Code", "async": true}));
    assert_eq!((status, &told["data"]["answer"]), (202, &Value::Null), "{told}");
    let job = told["data"]["job_id"].as_str().unwrap();
    let ended = corpus(&world, &["job", job, "--wait-ms=30000"]);
    assert_eq!((&ended["data"]["state"], &ended["data"]["answer"]), (&json!("completed"), &plain), "{ended}");
    let plain_job = post(&world, "job", &json!({"job_id": job})).1;
    assert_eq!((&plain_job["data"]["result"], &plain_job["data"]["answer"]), (&plain["id"], &Value::Null));
    for wait in [json!(-1), json!(30_001)] {
        let (status, told) = post(&world, "job", &json!({"id": job, "wait_ms": wait}));
        assert_eq!((status, &told["error"]["field"]), (400, &json!("wait_ms")), "{told}");
    }
    let empty = json!({"form": "consensus", "field": "recommendation", "view": "gone", "wait_ms": 10});
    assert_eq!(post(&world, "compare", &empty).1["error"]["type"], "unknown_view");
}

#[test]
fn failed_job_is_told_to_the_waiting_call() {
    let world = started();
    world.ok(&["view", "create", "--name=none", "--filter=extension=xyz"]);
    let (status, told) =
        post(&world, "extract", &json!({"schema": "Code", "view": "none", "async": true, "wait_ms": 30_000}));
    assert_eq!((status, &told["data"]["state"]), (200, &json!("failed")), "{told}");
    assert_eq!(told["data"]["error"]["type"], "empty_view", "{told}");
}

#[test]
fn csv_has_the_unknowns_of_the_answer() {
    let world = started();
    let answer = corpus(&world, &["extract", "Code"]);
    let csv = world.ok(&["corpus", "extract", "Code", "--format=csv"]);
    let comment = csv.lines().next().unwrap();
    let unknowns: Value = serde_json::from_str(comment.split_once("unknowns=").unwrap().1).unwrap();
    assert_eq!(unknowns, answer["unknowns"], "{comment}");
    assert!(!unknowns.as_array().unwrap().is_empty(), "two documents have no code: {comment}");
}
