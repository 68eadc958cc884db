//! Tests the published contract in every API: the same bytes for the same request, responses and errors that match their
//! schemas, and help examples that match real responses.

#[path = "../../../src/corpus/tests/schema_check.rs"]
mod schema_check;

use serde_json::{Map, Value, json};
use vic::client::Client;
use vic::corpus::api::schema;
use vic::model::CorpusRequest;
use vic::verbs::{EXAMPLES, VERBS, full_request};

use crate::support::harness::World;
use crate::support::http_client::key;
use crate::support::http_client::post;
use crate::support::http_client::send;

/// The result id that the help examples use as a placeholder.
const SOME_ID: &str = "r-41c0ffee0badcafe";

/// Returns a daemon with the documents of the help examples, and the response of the ingest. `storing.md` changes after the
/// ingest.
fn example_world() -> (World, Value) {
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").with("VIC_MCP_TOOLS", "corpus").start();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/examples");
    let content = |name: &str| std::fs::read(folder.join(name)).unwrap();
    for name in ["gauges-2023.md", "gauges-2024.md"] {
        world.write(name, content(name));
        world.index();
    }
    world.write("storing.md", "# Storing\n\n## Drawer\n\nThe drawer is damp.\n");
    let paths = json!([world.files()]).to_string();
    let ingested = world.ok(&["corpus", "ingest", &format!("--paths={paths}")]);
    world.write("storing.md", content("storing.md"));
    world.ok(&["sync"]);
    (world, serde_json::from_str(&ingested).unwrap())
}

fn schema_at(address: &str) -> Value {
    let path = address.strip_prefix(schema::ADDRESS).unwrap_or_else(|| panic!("{address} is not a vic schema"));
    let (name, which) = path.trim_start_matches('/').split_once('/').unwrap();
    schema::schemas_by_name(name).unwrap()[which].clone()
}

fn check_schema(value: &Value, verb: &str, which: &str) {
    let schema = schema_at(&format!("{}/{}/{which}", schema::ADDRESS, verb.to_lowercase()));
    if let Some(why) = schema_check::schema_violation(value, &schema, &schema_at) {
        panic!("{verb} {which}{why}\n{value:#}");
    }
}

/// Returns the command line arguments of a corpus request.
fn command_words(verb: &str, request: &Map<String, Value>) -> Vec<String> {
    let mut words = vec!["corpus".to_string(), verb.to_lowercase().replace('_', "-")];
    words.extend(request.get("form").and_then(Value::as_str).map(String::from));
    for (name, value) in request.iter().filter(|it| it.0 != "form") {
        let value = value.as_str().map_or_else(|| value.to_string(), String::from);
        words.push(format!("--{}={value}", name.replace('_', "-")));
    }
    words
}

fn over_grpc(world: &World, verb: &str, request: &Map<String, Value>) -> String {
    let config = world.config();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let call = CorpusRequest { verb: verb.into(), request: request.clone() };
    runtime.block_on(async { Client::connect(&config).await.unwrap().corpus(call).await.unwrap().text })
}

fn over_mcp(world: &World, verb: &str, request: &Map<String, Value>) -> String {
    let name = format!("corpus_{}", verb.to_lowercase());
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": request}});
    let bearer = format!("Bearer {}", key(world));
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2025-06-18"),
    ];
    let body = send(world, "POST", "/mcp", &headers, &call.to_string()).body;
    let line = body.lines().map(|it| it.trim_start_matches("data: ")).find(|it| it.starts_with('{'));
    let answer: Value = serde_json::from_str(line.unwrap_or_else(|| panic!("{name}: {body}"))).unwrap();
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer:#}")).to_string()
}

/// Sends the request over every API and asserts that all responses have the same bytes. The command adds only a line break.
fn call_all_apis(world: &World, verb: &str, request: &Value) -> Value {
    let request = request.as_object().unwrap();
    let grpc = over_grpc(world, verb, request);
    let body = Value::Object(request.clone());
    assert_eq!(post(world, &format!("/v1/corpus/{}", verb.to_lowercase()), &body).body, grpc, "{verb} {body}");
    assert_eq!(over_mcp(world, verb, request), grpc, "{verb} {body}");
    if VERBS.iter().any(|it| it.name == verb) {
        let words = command_words(verb, request);
        let output = world.vic(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{grpc}\n"), "{words:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{words:?}");
    }
    serde_json::from_str(&grpc).unwrap()
}

#[test]
fn examples_match_responses_in_every_api() {
    let (world, ingested) = example_world();
    check_schema(&ingested, "INGEST", "response");
    let mut id = String::new();
    for example in EXAMPLES {
        let request = full_request(example).replace(SOME_ID, &id);
        let answered = match example.verb {
            "INGEST" => ingested.clone(),
            verb => call_all_apis(&world, verb, &serde_json::from_str(&request).unwrap()),
        };
        check_schema(&answered, example.verb, "response");
        let expected: Value = serde_json::from_str(example.response).unwrap();
        let why = schema_check::missing_part(&expected, &answered["data"]);
        assert_eq!(why, None, "{} {}: {:#}", example.verb, example.form, answered["data"]);
        if example.verb == "EXTRACT" {
            id = answered["id"].as_str().unwrap().to_string();
        }
    }
    let again = call_all_apis(&world, "RESULT", &json!({"id": id}));
    check_schema(&again, "RESULT", "response");
    assert_eq!(again["id"], id.as_str());
}

#[test]
fn views_jobs_help_and_schemas_match_their_schemas() {
    let (world, _) = example_world();
    let create = |request: Value| {
        check_schema(&request, "VIEW", "request");
        let made = over_grpc(&world, "VIEW", request.as_object().unwrap());
        check_schema(&serde_json::from_str(&made).unwrap(), "VIEW", "response");
    };
    create(json!({"action": "create", "name": "saved", "filter": "extension=md", "since": "2020-01-01"}));
    create(json!({"action": "create", "name": "living", "filter": "year>2020", "auto_update": true}));
    create(json!({"action": "create", "name": "pair", "files": [1, "storing.md"]}));
    create(json!({"action": "create", "name": "first", "session": 1}));
    let job = over_grpc(&world, "QUERY", json!({"filter": "size>0", "async": true}).as_object().unwrap());
    let job: Value = serde_json::from_str(&job).unwrap();
    check_schema(&job, "QUERY", "response");
    let id = job["data"]["job_id"].as_str().unwrap().to_string();
    world.wait_until("the job has ended", std::time::Duration::from_secs(60), |world| {
        let told = over_grpc(world, "JOB", json!({"id": id}).as_object().unwrap());
        serde_json::from_str::<Value>(&told).unwrap()["data"]["state"] != "running"
    });
    for (verb, request) in [
        ("VIEW", json!({"action": "list"})),
        ("VIEW", json!({"action": "show", "name": "saved"})),
        ("VIEW", json!({"action": "show", "name": "pair"})),
        ("VIEW", json!({"action": "show", "name": "first"})),
        ("VIEW", json!({"action": "show", "name": "no-such-view"})),
        ("JOB", json!({"id": id})),
        ("JOB", json!({"id": "j-0"})),
        ("RESULT", json!({"id": "r-0"})),
        ("HELP", json!({})),
        ("HELP", json!({"verb": "compare", "form": "versions"})),
        ("HELP", json!({"verb": "fields"})),
        ("HELP", json!({"verb": "search"})),
        ("SCHEMA", json!({})),
        ("SCHEMA", json!({"verb": "extract"})),
        ("SCHEMA", json!({"verb": "search"})),
    ] {
        check_schema(&request, verb, "request");
        check_schema(&call_all_apis(&world, verb, &request), verb, "response");
    }
}

#[test]
fn refusal_is_exactly_its_envelope() {
    let (world, _) = example_world();
    let long = "folder of a name that goes on and on/".repeat(110);
    for (verb, request, exit, action) in [
        ("EXTRACT", json!({"schema": "Tabel"}), 2, "did you mean `Table`?"),
        ("EXTRACT", json!({"schema": "Code", "filters": {"file": "storin.md"}}), 3, "did you mean `storing.md`?"),
        ("EXTRACT", json!({"schema": "Code", "view": "no-such-view"}), 3, "`view create` makes one"),
        ("SUMMARIZE", json!({"form": "coverag", "topic": "wool"}), 2, "did you mean `coverage`?"),
        ("QUERY", json!({"filter": "sise>3"}), 2, "did you mean `size`?"),
        ("TRACE", json!({"form": "influence", "source": long.clone()}), 3, ""),
        ("INGEST", json!({"paths": [format!("/{long}")]}), 3, ""),
    ] {
        let answered = call_all_apis(&world, verb, &request);
        check_schema(&answered, verb, "response");
        let error = &answered["error"];
        assert!(error["suggested_actions"][0].as_str().unwrap().contains(action), "{error}");
        assert!(error.to_string().len() < 800, "{error}");
        let words = command_words(verb, request.as_object().unwrap());
        let output = world.vic(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(exit), "{words:?}");
    }
    let told = over_grpc(&world, &"extract".repeat(600), &Map::new());
    assert!(told.contains("unknown_verb") && told.len() < 1_000, "{told}");
    for words in [["corpus", "help", "extrct"], ["corpus", "extrct", "--help"], ["corpus", "schema", "extrct"]] {
        let output = world.vic(&words);
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["error"]["suggested_actions"][0], "did you mean `EXTRACT`?", "{words:?}");
        assert!(output.stderr.is_empty() && output.status.code() == Some(2), "{output:?}");
    }
    let help = world.ok(&["corpus", "compare", "versions", "--help"]);
    assert_eq!(help, world.ok(&["corpus", "help", "compare", "versions"]));
    assert!(world.ok(&["corpus", "help", "fields"]).contains("has_abstract"));
}
