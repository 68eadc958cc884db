use std::sync::Arc;
use std::sync::atomic::Ordering;

use rmcp::ServiceExt;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use crate::config::Toolsets;
use crate::serve::fake::{FakeService, long_text};
use crate::serve::mcp::backend::{Backend, InProcess};
use crate::serve::mcp::server::McpServer;

/// An MCP client that sends and reads one message per line, as over standard input and output.
struct Session {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    next: u64,
}

async fn session() -> (Arc<FakeService>, Session) {
    session_with(Toolsets::default()).await
}

async fn session_with(sets: Toolsets) -> (Arc<FakeService>, Session) {
    let service = Arc::new(FakeService::new());
    let backend: Arc<dyn Backend> = Arc::new(InProcess(service.clone()));
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    tokio::spawn(async move {
        let running = McpServer::session(backend, sets).serve(tokio::io::split(theirs)).await.unwrap();
        running.waiting().await.unwrap();
    });
    let (reader, writer) = tokio::io::split(ours);
    let mut session = Session { lines: BufReader::new(reader).lines(), writer, next: 0 };
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    });
    let answer = session.request("initialize", hello).await;
    assert_eq!(answer["result"]["serverInfo"]["name"], "vic");
    let capabilities = &answer["result"]["capabilities"];
    assert!(capabilities["resources"].is_object(), "{answer}");
    assert_eq!(capabilities["tools"]["listChanged"] == true, sets != Toolsets::ALL, "{answer}");
    session.write(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    (service, session)
}

impl Session {
    async fn write(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn read(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        self.write(json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})).await;
        self.next
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        let answer = self.read().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments})).await;
        answer.get("result").unwrap_or_else(|| panic!("{answer}")).clone()
    }

    /// Calls a tool that succeeds, and returns the text of its answer.
    async fn text(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], false, "{tool}: {result}");
        result["content"][0]["text"].as_str().unwrap().to_string()
    }

    /// Calls a tool that succeeds, and returns the data of its answer.
    async fn data(&mut self, tool: &str, mut arguments: Value) -> Value {
        arguments["structured"] = json!(true);
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], false, "{tool}: {result}");
        let data = result["structuredContent"].clone();
        assert_eq!(result["content"][0]["text"], data.to_string(), "the data is text too");
        data
    }

    async fn tools(&mut self) -> Vec<Value> {
        self.request("tools/list", json!({})).await["result"]["tools"].as_array().unwrap().clone()
    }
}

/// Maximum size of the default list of tools: what a client loads before the first question.
const MAX_LIST_BYTES: usize = 6_144;
/// Maximum number of tools in the default list.
const MAX_LISTED: usize = 8;

#[tokio::test]
async fn default_list_has_few_and_small_tools() {
    let (_, mut session) = session().await;
    let tools = session.tools().await;
    let names: Vec<&str> = tools.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ask", "search", "files", "read", "table", "index", "status", "toolset"]);
    let bytes = serde_json::to_string(&tools).unwrap().len();
    assert!(tools.len() <= MAX_LISTED && bytes <= MAX_LIST_BYTES, "{} tools, {bytes} bytes", tools.len());
    for tool in tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(tool["outputSchema"].is_null(), "{tool}");
        assert_eq!(tool["annotations"]["readOnlyHint"], tool["name"] != "index", "{tool}");
        let required = tool["inputSchema"]["required"].as_array().cloned().unwrap_or_default();
        assert!(
            required.iter().all(|it| tool["inputSchema"]["properties"][it.as_str().unwrap()].is_object()),
            "{tool}"
        );
    }
}

#[tokio::test]
async fn toolsets_add_tools_to_the_list() {
    let graph: Vec<String> = crate::graph::tools::specs().into_iter().map(|it| it.name).collect();
    for (names, more, has_toolset) in
        [("graph", graph.len(), true), ("corpus", 16, true), ("all", graph.len() + 16, false)]
    {
        let (_, mut session) = session_with(names.parse().unwrap()).await;
        let tools = session.tools().await;
        assert_eq!(tools.len(), 7 + more + usize::from(has_toolset), "{names}");
        assert_eq!(tools.iter().any(|it| it["name"] == "toolset"), has_toolset, "{names}");
        let listed = |name: &str| tools.iter().any(|it| it["name"] == name);
        assert_eq!(graph.iter().all(|it| listed(it)), names != "corpus", "{names}");
        assert_eq!(listed("corpus_extract"), names != "graph", "{names}");
        let changes = |name: &str| ["index", "corpus_ingest", "corpus_view", "corpus_job"].contains(&name);
        for tool in &tools {
            assert_eq!(tool["annotations"]["readOnlyHint"], !changes(tool["name"].as_str().unwrap()), "{tool}");
            assert!(tool["description"].as_str().unwrap().len() > 20, "{tool}");
        }
    }
}

#[tokio::test]
async fn added_toolset_is_announced_and_callable() {
    let (_, mut session) = session().await;
    let refused = session.call("db_summary", json!({})).await;
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(refused["isError"] == true && text.contains("call `toolset` with add `graph`"), "{text}");
    let id = session.send("tools/call", json!({"name": "toolset", "arguments": {"add": "graph"}})).await;
    let answers = [session.read().await, session.read().await];
    assert!(answers.iter().any(|it| it["method"] == "notifications/tools/list_changed"), "{answers:?}");
    let added = answers.iter().find(|it| it["id"] == id).unwrap();
    assert!(added["result"]["content"][0]["text"].as_str().unwrap().contains("axql_run"), "{added}");
    assert!(session.tools().await.iter().any(|it| it["name"] == "db_summary"));
    assert!(session.text("db_summary", json!({})).await.contains("db_summary"));
    // Nothing changes the second time, so nothing is announced.
    assert!(session.text("toolset", json!({"add": "graph"})).await.starts_with("added: "));
    let wrong = session.call("toolset", json!({"add": "files"})).await;
    assert!(wrong["isError"] == true && wrong.to_string().contains("`corpus`"), "{wrong}");
}

#[tokio::test]
async fn client_of_new_revision_is_told_by_its_subscription() {
    let service = Arc::new(FakeService::new());
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    tokio::spawn(async move {
        let server = McpServer::session(Arc::new(InProcess(service)), Toolsets::default());
        server.serve(tokio::io::split(theirs)).await.unwrap().waiting().await.unwrap();
    });
    let (reader, writer) = tokio::io::split(ours);
    let mut session = Session { lines: BufReader::new(reader).lines(), writer, next: 0 };
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let found = session.request("server/discover", json!({"_meta": meta})).await;
    assert_eq!(found["result"]["capabilities"]["tools"]["listChanged"], true, "{found}");
    assert!(found["result"]["supportedVersions"].to_string().contains("2026-07-28"), "{found}");
    let wanted = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
    session.send("subscriptions/listen", wanted).await;
    let acknowledged = session.read().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
    let call = json!({"_meta": meta, "name": "toolset", "arguments": {"add": "corpus"}});
    let id = session.send("tools/call", call).await;
    let answers = [session.read().await, session.read().await];
    assert!(answers.iter().any(|it| it["method"] == "notifications/tools/list_changed"), "{answers:?}");
    assert!(answers.iter().any(|it| it["id"] == id && it["result"].is_object()), "{answers:?}");
}

#[tokio::test]
async fn answers_are_short_text_with_places() {
    let (service, mut session) = session().await;
    let quote = "The budget of the harbour project was signed by Ada on Monday. (notes/plan.md, lines 3-5)";
    assert_eq!(
        session.text("ask", json!({"query": "x"})).await,
        format!("{quote}\nwarning: 2 files are still to be read")
    );
    let found = session.text("search", json!({"query": "x"})).await;
    assert!(found.starts_with("notes/plan.md, lines 3-5\nThe budget"), "{found}");
    assert_eq!(service.ask_calls.load(Ordering::Relaxed), 1, "search asks no model for an answer");
    let files = session.text("files", json!({"query": "plan ext:pdf"})).await;
    assert_eq!(files, "1 file\n/w/a\\u{1b}[31m.pdf 2048 bytes, 2023-11-14, failed: damaged");
    let (filter, limit, _) = service.last_file_list.lock().unwrap().clone().unwrap();
    assert_eq!((filter.name_words, limit), (vec!["plan".to_string()], 200));
    let mistyped = session.text("files", json!({"query": "mistyped"})).await;
    assert!(mistyped.ends_with("\nwarning: searched for `plan`"), "{mistyped}");
    let read = session.text("read", json!({"path": "/w/plan.md"})).await;
    assert!(read.starts_with("[page 1]\nPlan\n\nAda signs."), "{read}");
    let table = session.text("table", json!({"path": "/w/plan.csv"})).await;
    assert!(
        table.contains("sum(amount) = 0.3 EUR; 2 rows: line 2, line 3; left out 1 cell (no number, e.g. line 4)"),
        "{table}"
    );
    let started = session.text("index", json!({"root": "/w"})).await;
    assert!(started.contains("job-1"), "{started}");
    let job = session.text("status", json!({"job_id": "job-1"})).await;
    assert!(job.starts_with("job job-1: queued, 0 of 10 files"), "{job}");
    let status = session.text("status", json!({})).await;
    assert!(status.starts_with("ready: 8 of 12 files indexed") && status.contains("folder: /w"), "{status}");
    for text in [found, files, read, table, job, status] {
        assert!(text.chars().count() <= 1_500, "{text}");
    }
}

#[tokio::test]
async fn structured_answers_have_the_data() {
    let (_, mut session) = session().await;
    let ask = session.data("ask", json!({"query": "x"})).await;
    assert_eq!((&ask["answer_summary"], &ask["answer"]["outcome"]), (&json!("Ada signed it."), &json!("answered")));
    assert_eq!((&ask["hits"][0]["place"], &ask["cursor"]), (&json!("lines 3-5"), &Value::Null), "{ask}");
    assert_eq!(session.data("search", json!({"query": "x"})).await["answer"], Value::Null);
    let files = session.data("files", json!({})).await;
    assert_eq!((&files["total"], &files["files"][0]["state"]), (&json!(1), &json!("failed")));
    let mistyped = session.data("files", json!({"query": "mistyped"})).await;
    assert_eq!(mistyped["warnings"], json!(["searched for `plan`"]));
    let read = session.data("read", json!({"path": "/w/plan.md"})).await;
    assert_eq!(read["blocks"][0], json!({"place": "page 1", "text": "Plan"}));
    let table = session.data("table", json!({"path": "/w/plan.csv", "max_chars": 5_000})).await;
    assert_eq!(
        (&table["groups"][0]["key"], &table["rows"][0]["place"]),
        (&json!("paper"), &json!("line 2")),
        "{table}"
    );
    assert_eq!(session.data("status", json!({})).await["roots"], json!(["/w"]));
    assert_eq!(session.data("status", json!({"job_id": "job-1"})).await["state"], "queued");
}

#[tokio::test]
async fn long_text_continues_with_its_cursor() {
    let (_, mut session) = session().await;
    let (mut seen, mut cursor) = (String::new(), String::new());
    loop {
        let part = session.text("read", json!({"path": "/w/long.md", "max_chars": 400, "cursor": cursor})).await;
        assert!(part.chars().count() <= 400, "{part}");
        let (text, next) = part.split_once("\nmore: repeat the call with cursor ").unwrap_or((&part, ""));
        seen.push_str(text.strip_prefix("[page 1]\n").unwrap_or(text));
        cursor = next.to_string();
        if cursor.is_empty() {
            break;
        }
    }
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    assert_eq!(bare(&seen), bare(&long_text()));
}

#[tokio::test]
async fn invalid_calls_return_named_errors_without_effect() {
    let (service, mut session) = session().await;
    for (tool, arguments, named) in [
        ("ask", json!({}), "`query` is missing"),
        ("ask", json!({"query": "x", "limit": 51}), "limit"),
        ("ask", json!({"query": "x", "colour": 1}), "colour"),
        ("ask", json!({"q": "x"}), "use `query`"),
        ("search", json!({"query": "x", "top_k": 3}), "use `limit`"),
        ("search", json!({"query": "x", "path": "/w"}), "use `root`"),
        ("search", json!({"query": "x", "filters": {"extensions": [".pdf"]}}), "ext:pdf"),
        ("search", json!({"query": "x", "cursor": "eyJwYWdlIjoyfQ"}), "without `cursor`"),
        ("read", json!({"path": "/w/plan.md", "offset": 7}), "use `cursor`"),
        ("read", json!({"file": "/w/plan.md"}), "use `path`"),
        ("files", json!({"query": "-draft"}), "query"),
        ("files", json!({"state": "lost"}), "`indexed`"),
        ("status", json!({"id": "job-1"}), "use `job_id`"),
        ("ask", json!({"query": "a\u{1b}b"}), "query"),
        ("read", json!({"path": "/etc/passwd"}), "permission_denied"),
        ("index", json!({"root": "docs"}), "root"),
        ("status", json!({"job_id": "job-9"}), "not_found"),
    ] {
        let result = session.call(tool, arguments.clone()).await;
        assert_eq!(result["isError"], true, "{tool} {arguments}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(named) && text.chars().count() < 400, "{tool} {arguments}: {text}");
    }
    assert!(service.last_question.lock().unwrap().is_none());
    let unknown = session.request("tools/call", json!({"name": "delete", "arguments": {}})).await;
    assert_eq!(unknown["error"]["code"], -32602);
}

#[tokio::test]
async fn extras_of_clients_change_nothing() {
    let (service, mut session) = session().await;
    let extras =
        json!({"query": "x", "_meta": {"progressToken": 1}, "explanation": "why", "filters": {}, "root": null});
    assert!(session.text("search", extras).await.contains("notes/plan.md"));
    assert_eq!(service.last_question.lock().unwrap().clone().unwrap().query, "x");
}

#[tokio::test]
async fn documents_are_listed_and_read_as_resources() {
    let (_, mut session) = session().await;
    let list = session.request("resources/list", json!({})).await;
    let resource = &list["result"]["resources"][0];
    assert_eq!((&resource["uri"], &resource["size"]), (&json!("vic://file/w/a%1B%5B31m.pdf"), &json!(2_048)));
    let templates = session.request("resources/templates/list", json!({})).await;
    assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "vic://file/{+path}");
    let read = session.request("resources/read", json!({"uri": "vic://file/w/plan.md"})).await;
    assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains("Ada signs."), "{read}");
    for uri in ["vic://file/etc/passwd", "http://x"] {
        assert!(session.request("resources/read", json!({"uri": uri})).await["error"].is_object(), "{uri}");
    }
}

#[tokio::test]
async fn corpus_verbs_are_tools_with_help_resources() {
    let (service, mut session) = session_with(Toolsets::ALL).await;
    let result = session.call("corpus_extract", json!({"schema": "Code", "_meta": {}})).await;
    assert!(!service.corpus_calls.lock().unwrap()[0].request.contains_key("_meta"));
    let told: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&told["verb"], &told["data"]["schema"]), (&json!("EXTRACT"), &json!("Code")));
    let list = session.request("resources/list", json!({})).await;
    assert!(list["result"]["resources"].as_array().unwrap().iter().any(|it| it["uri"] == "vic://corpus/help/extract"));
    let read = session.request("resources/read", json!({"uri": "vic://corpus/help/extract"})).await;
    assert!(read["result"]["contents"][0]["text"].as_str().unwrap().starts_with("EXTRACT: use it"), "{read}");
    assert!(session.request("resources/read", json!({"uri": "vic://corpus/help/search"})).await["error"].is_object());
    for (uri, holds) in [
        ("vic://corpus/help/compare/versions", "every difference between two documents"),
        ("vic://corpus/help/fields", "word_count"),
        ("vic://corpus/schema/extract/response", "vic://corpus/schema/extract/response"),
    ] {
        assert!(list["result"]["resources"].as_array().unwrap().iter().any(|it| it["uri"] == uri), "{uri}");
        let read = session.request("resources/read", json!({"uri": uri})).await;
        let text = read["result"]["contents"][0]["text"].as_str().unwrap();
        assert!(text.contains(holds), "{uri}: {text}");
    }
}
