//! Tests the Model Context Protocol over standard input and output and over HTTP, and its entry in the files of clients.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::harness::World;
use crate::support::http_client::{key, mcp, send};
use crate::support::mcp_session::McpSession;

/// Maximum number of characters of an answer if the call sets none.
const MAX_CHARS: usize = 1_500;

fn bees() -> World {
    let world = World::new().start();
    world.write("notes/bees.md", "# Bees\n\n## Winter\n\nThe hive on the roof weighed 31 kg in March.\n");
    world.index();
    world
}

#[test]
fn vic_mcp_over_stdio_ends_with_client() {
    let world = bees();
    let mut session = McpSession::start(&world, &[]);
    assert_eq!(session.tools(), ["ask", "search", "files", "read", "table", "index", "status", "toolset"]);
    let list = session.request("resources/list", json!({}));
    let uri = list["result"]["resources"][0]["uri"].as_str().unwrap().to_string();
    let read = session.request("resources/read", json!({"uri": uri}));
    assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains("31 kg"), "{read:#}");
    let status = session.call("status", &json!({"structured": true}));
    assert_eq!(status["structuredContent"]["index_ready"], true);
    assert!(session.text("status", &json!({})).starts_with("ready: 1 of 1 files indexed"));
    drop(session.child.stdin.take());
    assert!(session.child.wait().unwrap().success());
}

// Case D3
#[test]
fn mcp_works_over_http() {
    let world = bees();
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "search", "arguments": {"query": "how heavy was the hive"}},
    });
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2025-06-18"),
    ];
    let answered = send(&world, "POST", "/mcp", &headers, &call.to_string());
    assert_eq!(answered.status, 200, "{}", answered.body);
    let text = answered.json()["result"]["content"][0]["text"].as_str().unwrap().to_string();
    assert!(text.starts_with("notes/bees.md") && text.contains("31 kg"), "{text}");
}

/// Returns the result of an MCP request over HTTP.
fn over_http(world: &World, method: &str, params: &Value) -> Value {
    let answer: Value = serde_json::from_str(&mcp(world, &key(world), method, params)).unwrap();
    answer["result"].clone()
}

#[test]
fn toolsets_are_set_by_argument_and_variable() {
    let world = World::new().with("VIC_MCP_TOOLS", "corpus").start();
    let has = |tools: &[String], name: &str| tools.iter().any(|it| it == name);
    let tools = McpSession::start(&world, &[]).tools();
    assert!(has(&tools, "corpus_extract") && !has(&tools, "db_summary") && has(&tools, "toolset"), "{tools:?}");
    let tools = McpSession::start(&world, &["--tools", "graph"]).tools();
    assert!(has(&tools, "db_summary") && !has(&tools, "corpus_extract"), "{tools:?}");
    let tools = McpSession::start(&world, &["--tools", "graph,corpus"]).tools();
    assert!(has(&tools, "db_summary") && has(&tools, "corpus_extract") && !has(&tools, "toolset"), "{tools:?}");
    let list = over_http(&world, "tools/list", &json!({}));
    let list: Vec<String> =
        list["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_string()).collect();
    // Over HTTP, the tool `toolset` must not be listed: no state is kept between two requests, so that a request cannot
    // add a toolset for later ones.
    assert!(has(&list, "corpus_extract") && !has(&list, "db_summary") && !has(&list, "toolset"), "{list:?}");
    let refused = over_http(&world, "tools/call", &json!({"name": "db_summary", "arguments": {}}));
    assert!(refused["isError"] == true && refused.to_string().contains("VIC_MCP_TOOLS=graph"), "{refused}");
    assert_eq!(world.fails(&["mcp", "--tools", "files"]).0, 2);
}

#[test]
fn client_is_told_of_added_tools() {
    let world = bees();
    let mut session = McpSession::start(&world, &[]);
    let call = json!({"name": "toolset", "arguments": {"add": "graph"}});
    session.write(&json!({"jsonrpc": "2.0", "id": "add", "method": "tools/call", "params": call}));
    let told = [session.read(), session.read()];
    assert!(told.iter().any(|it| it["method"] == "notifications/tools/list_changed"), "{told:?}");
    assert!(session.tools().iter().any(|it| it == "axql_run"));
    let rows = session.text("axql_run", &json!({"axql": "select ?x where ?x is File limit 3"}));
    assert!(rows.contains("bees.md") && rows.chars().count() <= MAX_CHARS, "{rows}");
}

#[test]
fn typical_answers_are_short_and_continue() {
    let world = World::new().start();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/corpus");
    world.ok(&["index", corpus.to_str().unwrap()]);
    let mut session = McpSession::start(&world, &[]);
    let questions = [
        "how are the hives kept warm in winter?",
        "how long does the bread bake?",
        "what is the backup plan for the archive?",
        "ext:docx name:bread",
    ];
    for (tool, query) in questions.iter().flat_map(|it| [("ask", it), ("search", it), ("files", it)]) {
        let query = if tool == "files" { "ext:md,docx,tex" } else { query };
        let text = session.text(tool, &json!({"query": query}));
        assert!(text.chars().count() <= MAX_CHARS, "{tool} {query}: {text}");
        assert!(text.contains('.'), "{tool} {query} names no file: {text}");
    }
    assert!(session.text("status", &json!({})).chars().count() <= MAX_CHARS);
    let (mut seen, mut arguments) = (Vec::new(), json!({"query": "bread and bees", "limit": 20, "max_chars": 600}));
    loop {
        let text = session.text("search", &arguments);
        assert!(text.chars().count() <= 600, "{text}");
        let (hits, cursor) = text.split_once("\nmore: repeat the call with cursor ").unwrap_or((&text, ""));
        assert!(!seen.contains(&hits.to_string()), "the same part twice: {hits}");
        seen.push(hits.to_string());
        if cursor.is_empty() {
            break;
        }
        arguments["cursor"] = json!(cursor);
    }
    assert!(seen.len() > 1, "{seen:?}");
    // The cursor of one question must be refused for another question.
    arguments["query"] = json!("archive");
    let refused = session.call("search", &arguments);
    assert!(refused["isError"] == true && refused.to_string().contains("another call"), "{refused}");
}

/// Writes a file with this content below the home directory of the test, and returns its path.
fn home_file(world: &World, name: &str, text: &str) -> PathBuf {
    let path = world.files().parent().unwrap().join("home").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn clients_are_configured_and_restored() {
    let world = World::new();
    let json_text = "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }\n  },\n  \"theme\": \"dark\"\n}\n";
    let zed_text = "// my settings\n{\n  \"theme\": \"One\", // dark\n}\n";
    let toml_text = "model = \"m\" # mine\n\n[mcp_servers.other]\ncommand = \"x\"\n";
    for (client, name, before) in [
        ("cursor", ".cursor/mcp.json", json_text),
        ("claude-code", ".claude.json", json_text),
        ("gemini", ".gemini/settings.json", json_text),
        ("zed", ".config/zed/settings.json", zed_text),
        ("codex", ".codex/config.toml", toml_text),
    ] {
        let path = home_file(&world, name, before);
        let files = || path.parent().unwrap().read_dir().unwrap().count();
        let (content, start) = (|| std::fs::read_to_string(&path).unwrap(), files());
        let tried = world.ok(&["mcp", "install", "--for", client, "--dry-run"]);
        assert!(tried.contains(name) && tried.contains('+') && tried.contains("vic"), "{tried}");
        assert_eq!((content(), files()), (before.to_string(), start), "{client}");
        let told = world.ok(&["mcp", "install", "--for", client, "--tools", "graph"]);
        let after = content();
        assert!(
            after.contains("--tools")
                && after.contains("VIC_DATA_DIR")
                && after.contains("theme") == before.contains("theme"),
            "{after}"
        );
        let backup = told.lines().find_map(|it| it.strip_prefix("backup: ")).unwrap();
        assert_eq!(std::fs::read_to_string(backup).unwrap(), before, "{client}");
        assert!(world.ok(&["mcp", "install", "--for", client, "--tools", "graph"]).starts_with("nothing to change"));
        world.ok(&["mcp", "uninstall", "--for", client]);
        assert!(
            !content().contains("--tools") && content().contains("// my settings") == before.contains("// my settings")
        );
        if client != "zed" {
            assert_eq!(content(), before, "{client}");
        }
    }
}

#[test]
fn file_that_is_no_configuration_is_left_alone() {
    let world = World::new();
    for (client, name, text) in [
        ("cursor", ".cursor/mcp.json", "mcpServers:\n  other: {}\n"),
        ("cursor", ".cursor/mcp.json", "{\"mcpServers\": {"),
        ("codex", ".codex/config.toml", "{\"mcp_servers\": {}}"),
        ("windsurf", ".codeium/windsurf/mcp_config.json", "[]"),
    ] {
        let path = home_file(&world, name, text);
        for verb in ["install", "uninstall"] {
            let (code, told) = world.fails(&["mcp", verb, "--for", client]);
            assert!(code == 2 && told.contains(path.to_str().unwrap()), "{told}");
            assert_eq!(told.lines().count(), 2, "one sentence and a hint: {told}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        assert_eq!(path.parent().unwrap().read_dir().unwrap().count(), 1, "no backup, no temporary file");
    }
    let created = world.ok(&["mcp", "install", "--for", "lm-studio"]);
    assert!(created.contains(".lmstudio/mcp.json") && !created.contains("backup"), "{created}");
    let (code, told) = world.fails(&["mcp", "install", "--for", "notepad"]);
    assert!(code == 2 && told.contains("claude-desktop"), "{told}");
}
