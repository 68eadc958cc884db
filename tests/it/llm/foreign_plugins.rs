//! Tests plugins of other projects, unchanged and without flags: one that follows the document of the protocol, and programs
//! that answer in the shape of another protocol.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::harness::World;

/// Two nodes and an edge, as `vic graph import` reads them.
const GRAPH: &str = r#"{"nodes": [{"id": 1, "type": "Node", "name": "a"}, {"id": 2, "type": "Node", "name": "b"}],
                        "edges": [{"source": 1, "target": 2, "type": "rel_0"}]}"#;

/// A program that ignores the request and prints the answer that its argument selects.
const ECHO: &str = r#"#!/bin/sh
cat > /dev/null
case $1 in
  openai) echo '{"object": "chat.completion", "choices": [{"message": {"role": "assistant", "content": "31 kg"}}]}' ;;
  mcp) echo '{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "31 kg"}]}}' ;;
  second) echo '{"axql": "select ?x where ?x is Node"}' ;;
  text) echo 'The hive weighed 31 kg.' ;;
  several) echo '{"final_answer": {"answer": "31 kg"}}'; echo '{"final_answer": {"answer": "32 kg"}}' ;;
  nothing) ;;
  flood) head -c 104857600 /dev/zero ;;
esac
"#;

/// Starts a daemon with a note and a small graph, and chooses a command as its backend.
fn start_with(command: &[&str]) -> World {
    let world = World::new().with("VIC_WATCH", "0").start();
    world.write("bees.md", "# Bees\n\nThe hive on the roof weighed 31 kg in March. Ask ada@quill.example.\n");
    world.index();
    let graph = world.data().parent().unwrap().join("graph.json");
    std::fs::write(&graph, GRAPH).unwrap();
    world.ok(&["graph", "import", graph.to_str().unwrap(), "--name", "nodes"]);
    world.ok(&[&["llm", "use", "command"][..], command].concat());
    world
}

fn rule_plugin() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/rule_plugin.py").display().to_string()
}

#[test]
fn plugin_of_the_document_works_unchanged() {
    let world = start_with(&["python3", &rule_plugin()]);
    let asked = world.json(&["llm", "ask", "find", "Node", "named", "b"]);
    assert_eq!(asked["results"]["rows"][0]["?n"]["name"], "b", "{asked:#}");
    let answered = world.json(&["llm", "answer", "find", "Node", "named", "b"]);
    assert_eq!(answered["answer"], "1 rows: b is a Node");
    // The plugin first calls a tool, then gives an answer that the result of this call proves. The transcript must contain
    // only this call.
    let report = world.json(&["llm", "agent", "find", "Node", "named", "b", "--trace"]);
    assert_eq!(
        (&report["answer"], &report["ended"]),
        (&json!("1 rows: b is a Node"), &json!("answered")),
        "{report:#}"
    );
    assert_eq!((&report["steps"], &report["refused"], &report["citations"]), (&json!(2), &json!([]), &json!([])));
    let steps = report["transcript"].as_array().unwrap();
    assert_eq!((steps.len(), &steps[0]["tool"]), (1, &json!("axql_run")), "{report:#}");
    assert_eq!(report["queries"], json!([steps[0]["result"]["query"]]));
    assert_eq!(steps[0]["result"]["results"]["rows"], steps[0]["result"]["rows"]);
    // A query result without rows must count as proof of the answer that there are none.
    let report = world.json(&["llm", "agent", "find", "Node", "named", "zeppelin"]);
    assert_eq!((&report["answer"], &report["ended"]), (&json!("0 rows: "), &json!("answered")), "{report:#}");
    let report = world.json(&["llm", "agent", "from", &node_number(&world, "a"), "rel_0"]);
    assert_eq!(report["answer"], "1 rows: b is a Node", "{report:#}");
}

/// Returns the id of the node with this name. Queries may refer to a node by its id instead of its name.
fn node_number(world: &World, name: &str) -> String {
    let found = world.json(&["graph", "query", &format!("select ?x where ?x is Node, attr(?x, \"name\", \"{name}\")")]);
    found["rows"][0]["?x"]["id"].to_string()
}

#[test]
fn search_before_the_first_step_is_a_choice() {
    let world = start_with(&["python3", &rule_plugin()]);
    // With `--prefetch`, the plugin finds a search in the transcript that it did not call, and gives up. The report must
    // contain its words, and the reason why they are refused as an answer.
    let (code, report) =
        world.json_with_code(&["llm", "agent", "find", "Node", "named", "hive", "--trace", "--prefetch"]);
    assert_eq!((code, &report["ended"]), (6, &json!("uncited")), "{report:#}");
    let tools: Vec<&Value> = report["transcript"].as_array().unwrap().iter().map(|it| &it["tool"]).collect();
    assert_eq!(tools, ["db_summary", "semantic_search"]);
    let refused = &report["refused"][0];
    assert_eq!(refused["answer"], "I expected the rows of my query.");
    assert!(refused["reason"].as_str().unwrap().contains("cites no result"), "{refused}");
    let output = world.vic(&["llm", "agent", "find", "Node", "named", "hive", "--prefetch"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("refused, because it cites no result") && told.contains("I expected the rows"), "{told}");
    let hit = &report["transcript"][1]["result"]["hits"][0];
    assert!(hit["id"].is_string() && hit["id"] == hit["chunk_id"], "{hit}");
}

#[test]
fn setting_searches_before_the_first_step() {
    let world = World::new().with("VIC_WATCH", "0").with("VIC_LLM_PREFETCH", "1").start();
    world.write("bees.md", "The hive weighed 31 kg.\n");
    world.index();
    let plugin = rule_plugin();
    let once = ["llm", "agent", "the hive", "--trace", "--command", "python3", "--arg", &plugin];
    let (code, report) = world.json_with_code(&once);
    assert_eq!((code, report["transcript"].as_array().unwrap().len()), (6, 2), "{report:#}");
}

#[test]
fn additions_without_evidence_are_kept_as_unproven() {
    let world = start_with(&["python3", &rule_plugin()]);
    let file = |name: &str| world.data().parent().unwrap().join(name).display().to_string();
    let (proposed, augmented) = (file("proposals.json"), file("augmented.json"));
    world.ok(&["discover", "proposals", "--out", &proposed]);
    let said = world.ok(&["discover", "augment", &proposed, "--out", &augmented]);
    assert!(said.starts_with("proposals added: 1 (1 unproven); schema hints set: 0; model: "), "{said}");
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&augmented).unwrap()).unwrap();
    let guess = written["proposals"].as_array().unwrap().last().unwrap();
    assert_eq!(guess["attributes"], json!({ "guessed": "yes", "unproven": "true" }), "{guess:#}");
    // The graph must keep the attribute `unproven`, whether the file is promoted or imported.
    for (command, name) in [("promote", "promoted"), ("import", "imported")] {
        let group = if command == "promote" { "discover" } else { "graph" };
        world.ok(&[group, command, &augmented, "--name", name]);
        let found = world.json(&["graph", "query", "select ?x where ?x is Topic, attr(?x, \"unproven\", \"true\")"]);
        assert_eq!(found["rows"][0]["?x"]["name"], "Everything", "{command}: {found:#}");
        world.ok(&["graph", "forget", name]);
    }
}

#[test]
fn other_protocols_get_one_sentence() {
    let world = World::new().with("VIC_WATCH", "0").start();
    let program = world.data().parent().unwrap().join("echo");
    std::fs::write(&program, ECHO).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.to_str().unwrap();
    for (kind, code, what) in [
        ("openai", 6, "sent an OpenAI chat completion (`choices`), but"),
        ("mcp", 6, "sent a JSON-RPC message, as MCP has it, but"),
        ("second", 6, "sent the response to another task (`axql`), but"),
        ("text", 6, "printed text that is not JSON: `The hive weighed 31 kg.`, but"),
        ("several", 6, "printed 2 JSON documents: "),
        ("nothing", 6, "printed nothing, but"),
        ("flood", 8, "printed more than 1048576 bytes and was killed; "),
    ] {
        let line = ["llm", "agent", "how heavy was the hive", "--command", program, "--arg", kind];
        let (ended, report) = world.json_with_code(&line);
        let message = report["error"]["message"].as_str().unwrap_or_default();
        assert_eq!((ended, &report["ended"]), (code, &json!("failed")), "{kind}: {report:#}");
        let expected = "the task `tool_loop_step` expects one JSON object with `tool_call` or `final_answer`";
        assert!(message.contains(what) && message.ends_with(expected), "{kind}: {message}");
        assert_eq!(message.lines().count(), 1, "{kind}: {message}");
    }
    // The daemon still answers.
    assert_eq!(world.json(&["llm", "status"])["backend"], "mock");
}
