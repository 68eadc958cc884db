use std::sync::Arc;
use std::sync::atomic::Ordering;

use rmcp::ServiceExt;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use crate::serve::fake::FakeService;
use crate::serve::mcp::backend::{Backend, InProcess};
use crate::serve::mcp::server::{BackendSource, McpServer};
use crate::serve::mcp::tools;

/// An MCP client that sends and reads one message per line, as over standard input and output.
struct Session {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    next: u64,
}

async fn session() -> (Arc<FakeService>, Session) {
    let service = Arc::new(FakeService::new());
    let backend: Arc<dyn Backend> = Arc::new(InProcess(service.clone()));
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    tokio::spawn(async move {
        let running =
            McpServer { source: BackendSource::Fixed(backend) }.serve(tokio::io::split(theirs)).await.unwrap();
        running.waiting().await.unwrap();
    });
    let (reader, writer) = tokio::io::split(ours);
    let mut session = Session { lines: BufReader::new(reader).lines(), writer, next: 0 };
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    });
    let answer = session.request("initialize", hello).await;
    assert_eq!(answer["result"]["serverInfo"]["name"], "vic");
    assert!(
        answer["result"]["capabilities"]["tools"].is_object()
            && answer["result"]["capabilities"]["resources"].is_object()
    );
    session.write(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    (service, session)
}

impl Session {
    async fn write(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        self.write(json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})).await;
        let line = self.lines.next_line().await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], self.next, "{answer}");
        answer
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments})).await;
        answer.get("result").unwrap_or_else(|| panic!("{answer}")).clone()
    }
}

#[tokio::test]
async fn tools_have_schemas_and_read_only_hints() {
    let (_, mut session) = session().await;
    let answer = session.request("tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|it| it["name"].as_str().unwrap()).collect();
    let (own, more) = names.split_at(7);
    assert_eq!(own, ["ask", "search", "files", "read", "table", "index", "status"]);
    let (corpus, graph): (Vec<&str>, Vec<&str>) = more.iter().partition(|it| it.starts_with("corpus_"));
    assert_eq!(corpus.len(), 16, "eleven verbs, views, jobs, results, help and schemas: {corpus:?}");
    assert_eq!(graph, crate::graph::tools::specs().iter().map(|it| it.name.as_str()).collect::<Vec<_>>());
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        // A corpus tool returns an envelope in one of several formats, so it has no output schema. A graph tool returns
        // the format of its own protocol.
        assert_eq!(tool["outputSchema"].is_object(), own.contains(&name), "{tool}");
        let changes = ["index", "corpus_ingest", "corpus_view", "corpus_job"].contains(&name);
        assert_eq!(tool["annotations"]["readOnlyHint"], !changes, "{name}");
        assert!(tool["description"].as_str().unwrap().len() > 20);
    }
    for (tool, field, max) in [(0, "limit", 50), (2, "limit", 200), (3, "max_chars", 20_000), (4, "limit", 200)] {
        let property = &tools[tool]["inputSchema"]["properties"][field];
        assert_eq!(property["maximum"].as_f64(), Some(f64::from(max)), "{property}");
        assert!(property["description"].as_str().unwrap().contains(&format!("1 to {max};")), "{property}");
    }
}

#[tokio::test]
async fn tool_results_match_output_schemas() {
    let (_, mut session) = session().await;
    for (tool, arguments) in [
        ("ask", json!({"query": "who signed?", "limit": 3})),
        ("search", json!({"query": "who signed?"})),
        ("files", json!({"words": ["plan"]})),
        ("read", json!({"path": "/w/plan.md", "max_chars": 6})),
        ("table", json!({"path": "/w/plan.csv", "aggregates": [{"function": "sum", "column": "amount"}]})),
        ("index", json!({"root": "/w"})),
        ("status", json!({"job_id": "job-1"})),
    ] {
        let result = session.call(tool, arguments).await;
        assert_eq!(result["isError"], false, "{tool}: {result}");
        assert!(!result["content"][0]["text"].as_str().unwrap().is_empty());
        let tool = tools::all_tools().into_iter().find(|it| it.name == tool).unwrap();
        let schema = Value::Object((*tool.output_schema.unwrap()).clone());
        let mut found = Vec::new();
        crate::serve::schema::tests::collect_violations(
            &schema,
            &schema,
            &result["structuredContent"],
            "result",
            &mut found,
        );
        assert!(found.is_empty(), "{found:?}");
    }
}

#[tokio::test]
async fn ask_returns_answer_and_search_does_not() {
    let (service, mut session) = session().await;
    let ask = session.call("ask", json!({"query": "x"})).await;
    assert_eq!(ask["structuredContent"]["answer_summary"], "Ada signed it.");
    assert_eq!(ask["structuredContent"]["answer"]["outcome"], "answered");
    let text = ask["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Ada signed it.\n\n[1] notes/plan.md (lines 3-5)\nThe budget"), "{text}");
    let search = session.call("search", json!({"query": "x"})).await;
    assert_eq!(search["structuredContent"]["answer"], Value::Null);
    assert_eq!(service.ask_calls.load(Ordering::Relaxed), 1, "search asks no model for an answer");
}

#[tokio::test]
async fn read_is_bounded_and_returns_next_offset() {
    let (_, mut session) = session().await;
    let result = session.call("read", json!({"path": "/w/plan.md", "offset": 2, "max_chars": 5})).await;
    assert_eq!(result["structuredContent"]["next_offset"], 7);
    assert!(result["content"][0]["text"].as_str().unwrap().ends_with("continue at offset 7)"), "{result}");
    let too_long = session.call("read", json!({"path": "/w/plan.md", "max_chars": 20_001})).await;
    assert_eq!(too_long["isError"], true);
}

#[tokio::test]
async fn invalid_calls_return_named_errors_without_effect() {
    let (service, mut session) = session().await;
    for (tool, arguments, named) in [
        ("ask", json!({}), "query"),
        ("ask", json!({"query": "x", "limit": 51}), "limit"),
        ("ask", json!({"query": "x", "colour": 1}), "colour"),
        ("ask", json!({"query": "a\u{1b}b"}), "query"),
        ("read", json!({"path": "/etc/passwd"}), "permission_denied"),
        ("index", json!({"root": "docs"}), "root"),
        ("status", json!({"job_id": "job-9"}), "not_found"),
    ] {
        let result = session.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{tool}");
        assert!(result["content"][0]["text"].as_str().unwrap().contains(named), "{result}");
    }
    assert!(service.last_question.lock().unwrap().is_none());
    let unknown = session.request("tools/call", json!({"name": "delete", "arguments": {}})).await;
    assert_eq!(unknown["error"]["code"], -32602);
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
    let (_, mut session) = session().await;
    let result = session.call("corpus_extract", json!({"schema": "Code"})).await;
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
