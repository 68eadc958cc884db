//! Tests language models and agents with a real daemon: the mock model, a plugin, an unreachable server, the REPL,
//! proposals, and clients in other languages. `prompt_injection` tests models that obey instructions in documents.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use futures::StreamExt;
use serde_json::{Value, json};
use vic::agent::{BackendKind, Override};
use vic::client::Client;
use vic::error::ErrorCode;
use vic::llm::stream::adapter;
use vic::llm::{FinishReason, LlmRequest};
use vic::model::{PrivacyMode, ToolSpec};

use crate::support::capabilities;
use crate::support::harness::World;
use crate::support::openai_server;

const QUESTION: &str = "how heavy was the hive";

/// Starts a daemon that has indexed a note with the weight of the hive.
fn start_with_bees() -> World {
    add_bees(World::new().with("VIC_WATCH", "0").start())
}

fn add_bees(world: World) -> World {
    world.write("bees.md", "# Bees\n\nThe hive on the roof weighed 31 kg in March. Ask ada@quill.example.\n");
    world.index();
    world
}

fn clients_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

fn plugin_path() -> String {
    clients_dir().join("plugin.py").display().to_string()
}

/// Runs `vic` with `input` on its standard input.
pub(crate) fn vic_with_stdin(world: &World, arguments: &[&str], input: &str) -> Output {
    let mut child = world
        .command(crate::support::harness::vic_program())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn agent_without_model_quotes_cites_and_is_logged() {
    let world = start_with_bees();
    let report = world.json(&["llm", "agent", QUESTION, "--trace"]);
    assert!(report["answer"].as_str().unwrap().contains("weighed 31 kg in March"), "{report:#}");
    assert_eq!((&report["ended"], &report["model"]), (&json!("answered"), &json!("mock")));
    let cited = &report["citations"][0];
    assert!(cited["path"].as_str().unwrap().ends_with("bees.md") && cited["checked"] == "file", "{report:#}");
    assert_eq!(report["transcript"].as_array().unwrap().iter().filter(|it| it["tool"] == "semantic_search").count(), 1);
    let runs = world.json(&["audit", "--agents"]);
    assert_eq!((&runs[0]["question"], &runs[0]["ended"]), (&json!(QUESTION), &json!("answered")), "{runs:#}");
    assert!(runs[0]["steps"].as_u64() >= Some(1) && runs[0].get("report").is_none());
    assert!(world.ok(&["audit", "--agents"]).contains(QUESTION));
    let kept = world.json(&["llm", "transcripts"]);
    assert_eq!((&kept[0]["question"], &kept[0]["report"]["answer"]), (&json!(QUESTION), &report["answer"]));
    // After the file has changed, its citation must be dropped.
    world.write("bees.md", "The hive is gone.\n");
    let (_, report) = world.json_with_code(&["llm", "agent", QUESTION]);
    assert!(report["ended"] != "answered" && report["citations"] == json!([]), "{report:#}");
    assert!(report.get("transcript").is_none());
}

#[test]
fn plugin_choice_persists_and_can_be_overridden() {
    let world = start_with_bees();
    assert_eq!(world.ok(&["llm", "use", "command", "python3", &plugin_path()]).split(':').next(), Some("command"));
    world.ok(&["llm", "model", "some-model"]);
    let status = world.json(&["llm", "status"]);
    assert_eq!(
        (&status["backend"], &status["ready"], &status["model"]),
        (&json!("command"), &json!(true), &json!("some-model"))
    );
    let report = world.json(&["llm", "agent", QUESTION, "--trace"]);
    assert_eq!((&report["ended"], &report["steps"]), (&json!("answered"), &json!(2)), "{report:#}");
    let tools: Vec<_> =
        report["transcript"].as_array().unwrap().iter().map(|it| it["tool"].as_str().unwrap()).collect();
    assert_eq!(tools.last(), Some(&"fts_chunks"), "{report:#}");
    assert_eq!(world.json(&["llm", "agent", QUESTION, "--backend", "mock"])["model"], "mock");
    // The audit log must list the run of the plugin.
    let sent = world.json(&["audit"]);
    let destination = sent[0]["destination"].as_str().unwrap();
    assert!(destination.starts_with("command:/") && sent[0]["allowed"] == true, "{sent:#}");
    world.ok(&["llm", "use", "mock"]);
    let once = ["llm", "agent", QUESTION, "--command", "python3", "--arg", &plugin_path()];
    assert!(world.json(&once)["model"].as_str().unwrap().contains("plugin.py"));
    let (code, said) = world.fails(&["llm", "use", "command", "no-such-program"]);
    assert!(code == 3 && said.contains("no-such-program"), "{said}");
}

#[test]
fn plugin_may_search_files_before_answering() {
    let world = start_with_bees();
    let once = ["llm", "answer", QUESTION, "--command", "python3", "--arg", &plugin_path()];
    assert!(world.json(&once)["answer"].as_str().unwrap().contains("rows of select"));
    let told = world.json(&[&once[..], &["--arg", "--search"]].concat());
    assert!(told["answer"].as_str().unwrap().contains("weighed 31 kg in March"), "{told:#}");
    assert!(told["notes"].to_string().contains("fts_chunks"), "{told:#}");
    let status = world.ok(&["llm", "status", "--command", "python3", "--arg", &plugin_path()]);
    assert!(status.contains("local_only") && status.contains("note: the command has no network"), "{status}");
}

#[test]
fn vic_as_plugin_answers_one_request() {
    let world = start_with_bees();
    let request = json!({ "protocol": "axiograph_llm_plugin_v3", "task": {
        "kind": "tool_loop_step", "question": QUESTION, "schema": {}, "transcript": [],
        "tools": [{ "name": "semantic_search", "description": "", "args_schema": { "type": "object" } }] } });
    let answer = |input: &str| -> Value {
        let output = vic_with_stdin(&world, &["llm", "plugin"], input);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let called = answer(&request.to_string());
    assert_eq!(called, json!({ "tool_call": { "name": "semantic_search", "args": { "query": QUESTION } } }));
    assert!(answer("{}")["error"].as_str().unwrap().contains("protocol"));
}

#[test]
fn repl_runs_lines_from_stdin() {
    let world = start_with_bees();
    let lines = format!(
        "# a remark\nllm use mock\nllm agent {QUESTION}\nask \"the hive\" --limit 1 --format json\nquit\nnonsense\n"
    );
    let output = vic_with_stdin(&world, &["repl"], &lines);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.starts_with("mock: mock\n") && said.contains("31 kg") && said.contains("\"hits\""), "{said}");
}

#[test]
fn repl_continues_after_error_and_exits_with_first_code() {
    let world = start_with_bees();
    // The exit code is that of the first error: 2 for the unknown command in line 2, although line 4 alone gives 3.
    let lines = "# a remark\nllm dance\n\ngraph show no-such-thing\nllm use mock\nask \"open\nllm status\n";
    let output = vic_with_stdin(&world, &["repl"], lines);
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{said}\n{wrong}");
    assert!(said.starts_with("mock: mock\nmock: mock, ready"), "lines after a failed line must run: {said}");
    let told: Vec<&str> = wrong.lines().filter(|it| it.starts_with("line ")).collect();
    assert_eq!(told.len(), 3, "{wrong}");
    for (told, begin) in told.iter().zip(["line 2: ", "line 4: ", "line 6: a quote is open"]) {
        assert!(told.starts_with(begin), "{wrong}");
    }
    assert!(told[0].contains("dance") && told[1].contains("no-such-thing") && wrong.contains("hint: "), "{wrong}");
    let output = vic_with_stdin(&world, &["repl"], "graph show no-such-thing\nllm dance\n");
    assert_eq!(output.status.code(), Some(3), "the exit code must be that of the first error");
}

#[test]
fn repl_accepts_every_protocol_command() {
    let world = start_with_bees();
    let lines = format!(
        "llm status\nllm use mock\nllm ask find Document named bees.md\nllm answer find Document named bees.md\n\
         llm agent {QUESTION}\nllm use ollama nemotron-3-nano\nllm model another\nllm use command python3 {}\n\
         llm model my-model\nllm ask find bees\n",
        plugin_path()
    );
    let output = vic_with_stdin(&world, &["repl"], &lines);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    for part in ["mock", "ollama: nemotron-3-nano", "ollama: another", "my-model", "select ?x where", "31 kg"] {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
}

#[test]
fn unreachable_server_is_reported_and_hits_are_quoted() {
    let world = add_bees(World::new().with("VIC_WATCH", "0").with("VIC_OPENAI_BASE_URL", "http://127.0.0.1:9").start());
    let (code, report) = world.json_with_code(&["llm", "agent", QUESTION, "--backend", "openai", "--model", "m"]);
    assert_eq!((code, &report["ended"], &report["error"]["code"]), (4, &json!("failed"), &json!("unavailable")));
    assert!(report["answer"].as_str().unwrap().contains("31 kg"), "{report:#}");
    assert!(report["notes"].to_string().contains("VIC_OPENAI_BASE_URL"), "{report:#}");
    let status = world.json(&["llm", "status", "--backend", "openai", "--model", "m"]);
    assert!(status["ready"] == false && status["problem"].as_str().unwrap().contains("cannot reach"), "{status:#}");
}

#[test]
fn agent_without_findings_ends_with_nothing_found() {
    let world = start_with_bees();
    let report = world.json(&["llm", "agent", "zeppelin quagmire"]);
    assert_eq!((&report["ended"], &report["citations"]), (&json!("nothing_found"), &json!([])), "{report:#}");
}

#[test]
fn slow_plugin_exits_with_timeout_code() {
    let world = start_with_bees();
    for command in [["llm", "ask"], ["llm", "answer"], ["llm", "agent"]] {
        let line = [command[0], command[1], QUESTION, "--seconds", "1", "--command", "sleep", "--arg", "60"];
        let (code, said) = world.fails(&line);
        assert_eq!(code, 9, "{command:?}: {said}");
    }
}

#[test]
fn proposals_are_augmented_and_promoted_to_graph() {
    let world = start_with_bees();
    let file = |name: &str| world.data().parent().unwrap().join(name).display().to_string();
    let (proposed, augmented, graph) = (file("proposals.json"), file("augmented.json"), file("graph.json"));
    let read = |path: &str| -> Value { serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap() };
    world.ok(&["discover", "proposals", "--out", &proposed]);
    let imported = world.ok(&["graph", "import", &proposed, "--name", "proposed"]);
    assert!(imported.starts_with("proposed: "), "{imported}");
    world.ok(&["graph", "forget", "proposed"]);
    let proposals = read(&proposed);
    assert_eq!((&proposals["version"], &proposals["source"]["source_type"]), (&json!(1), &json!("vic_warehouse")));
    let names: Vec<_> =
        proposals["proposals"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert!(names.contains(&"ada@quill.example") && names.contains(&"Bees"), "{names:?}");
    // Uses the options as the plugin protocol documents them.
    let said = world.ok(&[
        "discover",
        "augment-proposals",
        &proposed,
        "--out",
        &augmented,
        "--llm-plugin",
        "python3",
        "--llm-plugin-arg",
        &plugin_path(),
    ]);
    assert!(said.starts_with("proposals added: 0; schema hints set: 1; model: "), "{said}");
    assert_eq!(read(&augmented)["proposals"][0]["schema_hint"], "warehouse");
    world.ok(&["discover", "promote", &augmented, "--out", &graph, "--min-confidence", "0.9"]);
    let nodes = read(&graph)["nodes"].as_array().unwrap().clone();
    assert!(nodes.iter().any(|it| it["name"] == "Bees") && nodes.iter().all(|it| it["type"] != "Person"), "{nodes:?}");
    let (code, _) = world.fails(&["discover", "promote", &plugin_path(), "--out", &graph]);
    assert_eq!(code, 2);
    let said = world.ok(&["discover", "promote", &augmented, "--name", "believed", "--min-confidence", "0.9"]);
    assert!(said.starts_with("believed: "), "{said}");
    let rows = world.json(&["graph", "query", "select ?x where name(\"Bees\") is Document, ?x is Document"]);
    assert!(!rows["rows"].as_array().unwrap().is_empty(), "{rows:#}");
}

/// Returns the folder in which `models/clients.sh` installs the libraries of the example clients.
fn client_libraries() -> PathBuf {
    let cache = std::env::var_os("VIC_MODELS_DIR").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("models/cache"));
    std::env::var_os("VIC_TEST_CLIENTS").map_or(cache.join("clients"), PathBuf::from)
}

/// Runs an example client and asserts that it prints the lines that every client must print.
fn check_client(world: &World, program: &str, script: &str, variable: &str, libraries: &Path) {
    if !capabilities::can_run_clients(libraries.exists()) {
        return;
    }
    let read = |name: &str| std::fs::read_to_string(world.data().join(name)).unwrap().trim().to_string();
    let output = Command::new(program)
        .arg(clients_dir().join(script))
        .args([read("listen"), read("key")])
        .args(QUESTION.split(' '))
        .env(variable, libraries)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let expected = [
        "backend openai m",
        "valid m",
        "refused 3",
        "tool weigh {\"hive\":\"roof\"}",
        "completed tool_calls 64",
        "token \"It weigh\"",
        "token \"s 31 kg.\"",
        "completed stop 64",
        "vectors 2 3",
        "cancelled False",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

/// A fake model that calls the tool `weigh` before it answers how heavy something is.
fn weighing_model(chat: &Value) -> String {
    let last = chat["messages"].as_array().unwrap().last().unwrap();
    match last["role"] == "tool" {
        true => {
            let told: Value = serde_json::from_str(last["content"].as_str().unwrap()).unwrap();
            format!("It weighs {} kg.", told["kg"])
        }
        false => openai_server::tool_call("weigh", &json!({ "hive": "roof" })),
    }
}

/// Starts a daemon that uses the model `m` of this server.
fn with_server(server: &crate::support::scripted_server::Server) -> World {
    let world = World::new().with("VIC_WATCH", "0").with("VIC_OPENAI_BASE_URL", &server.address).start();
    world.ok(&["llm", "use", "openai"]);
    world.ok(&["llm", "model", "m"]);
    world
}

#[test]
fn python_and_javascript_clients_use_models() {
    let server = openai_server::start(&["m"], weighing_model);
    let world = with_server(&server);
    check_client(&world, "python3", "llm.py", "PYTHONPATH", &client_libraries().join("python"));
    check_client(&world, "node", "llm.js", "NODE_PATH", &client_libraries().join("javascript/node_modules"));
}

#[test]
fn typed_rust_client_uses_models() {
    let server = openai_server::start(&["m"], weighing_model);
    let world = with_server(&server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&world.config()).await.unwrap();
        let parameters = json!({ "type": "object", "properties": { "hive": { "type": "string" } } });
        let weigh = ToolSpec { name: "weigh".into(), description: "weighs".into(), parameters };
        let request = LlmRequest { tools: vec![weigh], ..LlmRequest::new(PrivacyMode::LocalOnly, "", QUESTION) };
        let limits = client.llm_validate(request.clone(), Override::default(), false).await.unwrap();
        assert_eq!((limits.id.0.as_str(), limits.max_tokens), ("m", 32_768));
        let long = LlmRequest { max_tokens: 32_769, ..request.clone() };
        let error = client.llm_validate(long, Override::default(), false).await.unwrap_err();
        assert_eq!((error.code, error.field.as_deref()), (ErrorCode::InvalidArgument, Some("max_tokens")), "{error}");
        assert!(server.requests_at("/v1/chat/completions").is_empty(), "validating a request must not call the model");
        let stream = client.llm_stream(request, Override::default(), false).await.unwrap();
        let (narration, proof) = adapter(stream.boxed(), |_| ()).await.unwrap();
        assert_eq!(proof.finish_reason, Some(FinishReason::ToolCalls));
        assert!(narration.lines.contains(&"calls weigh {\"hive\":\"roof\"}".to_string()), "{narration:?}");
        let texts = vec!["one".to_string(), "three".to_string()];
        let vectors = client.llm_embed(texts, PrivacyMode::LocalOnly, Override::default()).await.unwrap();
        assert_eq!(vectors.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
        let none = client.llm_embed(vec![], PrivacyMode::LocalOnly, Override::default()).await.unwrap_err();
        assert_eq!(none.field.as_deref(), Some("texts"));
        let mock = Override { backend: Some(BackendKind::Mock), ..Override::default() };
        let error = client.llm_embed(vec!["x".into()], PrivacyMode::LocalOnly, mock).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::FailedPrecondition, "{error}");
    });
}
