//! Tests of the transports with fake servers that answer and fail like real ones.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::ollama::Ollama;
use super::openai::OpenAi;
use super::*;
use crate::error::{Error, ErrorCode};
use crate::llm::{
    FinishReason, LlmClient, LlmClientConfig, LlmRequest, Message, Timeouts, ToolCall, Usage, WorkloadKind, client,
};
use crate::model::{PrivacyMode, ToolSpec};

/// A step of a fake server's answer.
#[derive(Clone)]
enum Act {
    /// Sends the head of a response with this status and content type.
    Head(u16, &'static str),
    Send(String),
    Wait(u64),
    /// Keeps the connection open without sending more.
    Hang,
}

type Script = dyn Fn(&str, &Value) -> Vec<Act> + Send + Sync;

struct Server {
    address: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Server {
    async fn start(script: impl Fn(&str, &Value) -> Vec<Act> + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (script, log): (Arc<Script>, _) = (Arc::new(script), asked.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, log) = (script.clone(), log.clone());
                tokio::spawn(async move { serve(stream, &*script, &log).await });
            }
        });
        Server { address, asked }
    }

    fn ollama(&self) -> LlmClient {
        over(Ollama::new(&self.address, None, "m"))
    }

    fn openai(&self) -> LlmClient {
        over(OpenAi::new(&self.address, Some("secret".into()), "m"))
    }

    fn body(&self, path: &str) -> Value {
        self.asked.lock().unwrap().iter().find(|it| it.0 == path).unwrap().1.clone()
    }
}

/// Creates a client that uses a transport.
fn over(transport: impl Transport + 'static) -> LlmClient {
    let transport = TransportConfig::Custom(Arc::new(transport));
    client(LlmClientConfig { transport, ..LlmClientConfig::default() }).unwrap()
}

async fn serve(stream: TcpStream, script: &Script, log: &Mutex<Vec<(String, Value)>>) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let lower = head.to_ascii_lowercase();
    let length =
        lower.lines().find_map(|it| it.strip_prefix("content-length:")).map_or(0, |it| it.trim().parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let path = head.split(' ').nth(1).unwrap().to_string();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    log.lock().unwrap().push((path.clone(), body.clone()));
    for act in script(&path, &body) {
        match act {
            Act::Head(status, kind) => {
                let head = format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
                let _gone = stream.write_all(head.as_bytes()).await;
            }
            Act::Send(text) => {
                let _gone = stream.write_all(text.as_bytes()).await;
            }
            Act::Wait(milliseconds) => tokio::time::sleep(Duration::from_millis(milliseconds)).await,
            Act::Hang => std::future::pending().await,
        }
        let _gone = stream.flush().await;
    }
}

/// Makes a script that answers `/api/show` as for a local model, and other requests with the given steps.
fn local(chat: Vec<Act>) -> impl Fn(&str, &Value) -> Vec<Act> + Send + Sync {
    move |path, _| match path {
        "/api/show" => answer(200, "application/json", r#"{"details":{},"capabilities":["completion"]}"#),
        _ => chat.clone(),
    }
}

fn answer(status: u16, kind: &'static str, body: &str) -> Vec<Act> {
    vec![Act::Head(status, kind), Act::Send(body.to_string())]
}

fn ndjson(lines: &[Value]) -> Vec<Act> {
    let mut acts = vec![Act::Head(200, "application/x-ndjson")];
    acts.extend(lines.iter().map(|it| Act::Send(format!("{it}\n"))));
    acts
}

fn sse(events: &[&str]) -> Vec<Act> {
    let mut acts = vec![Act::Head(200, "text/event-stream")];
    acts.extend(events.iter().map(|it| Act::Send(format!("{it}\n\n"))));
    acts
}

fn text(content: &str) -> Value {
    json!({ "model": "m", "message": { "role": "assistant", "content": content }, "done": false })
}

fn done(reason: &str) -> Value {
    json!({ "model": "m", "message": { "role": "assistant", "content": "" }, "done": true, "done_reason": reason,
            "prompt_eval_count": 7, "eval_count": 2 })
}

fn request() -> LlmRequest {
    let patience =
        Timeouts { first: Duration::from_secs(5), idle: Duration::from_millis(300), overall: Duration::from_secs(10) };
    LlmRequest { timeouts: patience, ..LlmRequest::new(PrivacyMode::LocalOnly, "be short", "who?") }
}

async fn fails(model: &LlmClient, request: LlmRequest) -> Error {
    model.complete(request).await.unwrap_err()
}

#[tokio::test]
async fn ollama_streams_text_and_finish_reason() {
    let server = Server::start(local(ndjson(&[text("Ada "), text("Quill"), done("length")]))).await;
    let mut request = request();
    request.schema = Some(json!({ "type": "object" }));
    request.images = vec![b"\x89PNG".to_vec()];
    request.context_tokens = Some(8192);
    let answer = server.ollama().complete(request).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.finish), ("Ada Quill", FinishReason::Length));
    assert_eq!(answer.usage, Usage { prompt_tokens: 7, answer_tokens: 2 });
    let body = server.body("/api/chat");
    assert_eq!(body["format"], json!({ "type": "object" }));
    assert_eq!(body["messages"][0], json!({ "role": "system", "content": "be short" }));
    assert_eq!(body["messages"][1]["images"], json!(["iVBORw=="]));
    assert_eq!((&body["options"]["num_ctx"], &body["options"]["num_predict"]), (&json!(8192), &json!(1024)));
}

#[tokio::test]
async fn ollama_requests_use_same_context_size() {
    let server = Server::start(|path, _| match path {
        "/api/tags" => answer(200, "application/json", r#"{"models":[{"name":"m:latest","digest":"d"}]}"#),
        "/api/show" => answer(200, "application/json", r#"{"model_info":{"x.context_length":8192}}"#),
        "/api/embed" => answer(200, "application/json", r#"{"embeddings":[[1.0,0.0]]}"#),
        _ => ndjson(&[text("Ada"), done("stop")]),
    })
    .await;
    let ollama = server.ollama();
    for workload in [WorkloadKind::Chat, WorkloadKind::Completion, WorkloadKind::Vision] {
        ollama.complete(LlmRequest { workload, ..request() }).await.unwrap();
    }
    ollama.complete(with_tool()).await.unwrap();
    ollama.embed(&["a hive".into()], PrivacyMode::LocalOnly).await.unwrap();
    let asked = server.asked.lock().unwrap();
    let bodies: Vec<&Value> =
        asked.iter().filter(|it| matches!(it.0.as_str(), "/api/chat" | "/api/embed")).map(|it| &it.1).collect();
    assert!(bodies.len() >= 5, "{bodies:?}");
    assert!(bodies.iter().all(|it| it["options"]["num_ctx"] == 8192), "{bodies:?}");
}

#[tokio::test]
async fn openai_streams_text_and_finish_reason() {
    let server = Server::start(|_, _| {
        sse(&[
            ": keep-alive",
            r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]}"#,
            r#"data: {"choices":[{"index":0,"delta":{"content":"Ada "}}]}"#,
            r#"data: {"choices":[{"index":0,"delta":{"content":"Quill"},"finish_reason":"stop"}]}"#,
            r#"data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#,
            "data: [DONE]",
        ])
    })
    .await;
    let mut request = request();
    request.schema = Some(json!({ "type": "object" }));
    request.images = vec![vec![0xff, 0xd8, 0xff]];
    let answer = server.openai().complete(request).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.finish), ("Ada Quill", FinishReason::Stop));
    assert_eq!(answer.usage, Usage { prompt_tokens: 7, answer_tokens: 2 });
    let body = server.body("/v1/chat/completions");
    assert_eq!(body["response_format"]["json_schema"]["schema"], json!({ "type": "object" }));
    assert_eq!(body["messages"][1]["content"][1]["image_url"]["url"], "data:image/jpeg;base64,/9j/");
}

#[tokio::test]
async fn non_streaming_openai_answer_is_parsed() {
    let whole = r#"{"choices":[{"message":{"content":"Ada"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}"#;
    let server = Server::start(move |_, _| answer(200, "application/json; charset=utf-8", whole)).await;
    assert_eq!(server.openai().complete(request()).await.unwrap().text, "Ada");
}

#[tokio::test]
async fn missing_model_has_hint() {
    let script = |_: &str, _: &Value| answer(404, "application/json", r#"{"error":"model 'm' not found"}"#);
    let server = Server::start(script).await;
    let error = fails(&server.ollama(), request()).await;
    assert_eq!((error.code, error.hint.as_deref()), (ErrorCode::NotFound, Some("run `ollama pull m`")));
    assert_eq!(fails(&server.openai(), request()).await.code, ErrorCode::NotFound);
}

#[tokio::test]
async fn unreachable_server_fails_fast_with_hint() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let quick =
        LlmRequest { timeouts: Timeouts { first: Duration::from_secs(20), ..Timeouts::default() }, ..request() };
    let begun = Instant::now();
    for (model, cure) in [
        (over(Ollama::new(&address, None, "m")), "run `ollama serve`, or set VIC_OLLAMA_BASE_URL"),
        (over(OpenAi::new(&address, None, "m")), "start the server, or set VIC_OPENAI_BASE_URL"),
    ] {
        let error = fails(&model, quick.clone()).await;
        assert_eq!((error.code, error.hint.as_deref()), (ErrorCode::Unavailable, Some(cure)));
    }
    assert!(begun.elapsed() < Duration::from_secs(3), "an unreachable server fails at once");
}

#[tokio::test]
async fn ollama_failures_are_typed_errors() {
    let head = || Act::Head(200, "application/x-ndjson");
    let line = || Act::Send(format!("{}\n", text("Ada")));
    let endless = (0..50).map(|_| text(&"x".repeat(10_000))).collect::<Vec<_>>();
    for (name, acts, code) in [
        ("hangs before the first byte", vec![Act::Hang], ErrorCode::DeadlineExceeded),
        ("hangs between tokens", vec![head(), line(), Act::Hang], ErrorCode::DeadlineExceeded),
        ("closes at once", vec![], ErrorCode::Unavailable),
        ("closes before the end", vec![head(), line()], ErrorCode::Unavailable),
        ("half a line", vec![head(), line(), Act::Send("{\"message\":{\"con".into())], ErrorCode::Unavailable),
        (
            "error line under status 200",
            vec![head(), line(), Act::Send("{\"error\":\"out of memory\"}\n".into())],
            ErrorCode::FailedPrecondition,
        ),
        ("nonsense", vec![head(), Act::Send("<html>hello</html>\n".into())], ErrorCode::FailedPrecondition),
        ("JSON that is no answer", vec![head(), Act::Send("[1,2]\n".into())], ErrorCode::FailedPrecondition),
        ("no end", ndjson(&endless), ErrorCode::ResourceExhausted),
        ("a line without end", vec![head(), Act::Send("x".repeat(3 << 20))], ErrorCode::FailedPrecondition),
        ("bad request", answer(400, "application/json", r#"{"error":"no vision"}"#), ErrorCode::FailedPrecondition),
        ("busy", answer(503, "application/json", r#"{"error":"server busy"}"#), ErrorCode::Unavailable),
        ("wrong key", answer(401, "application/json", r#"{"error":"unauthorized"}"#), ErrorCode::PermissionDenied),
        ("redirect", answer(302, "text/html", ""), ErrorCode::PermissionDenied),
    ] {
        let server = Server::start(local(acts)).await;
        let mut request = request();
        request.timeouts.first = Duration::from_secs(1);
        let error = fails(&server.ollama(), request).await;
        assert_eq!(error.code, code, "{name}: {error}");
    }
}

#[tokio::test]
async fn openai_failures_are_typed_errors() {
    let piece = r#"data: {"choices":[{"index":0,"delta":{"content":"Ada "}}]}"#;
    let head = || Act::Head(200, "text/event-stream");
    for (name, acts, code) in [
        (
            "hangs between tokens",
            vec![head(), Act::Send(format!("{piece}\n\n")), Act::Hang],
            ErrorCode::DeadlineExceeded,
        ),
        ("closes before the end", sse(&[piece]), ErrorCode::Unavailable),
        ("says that it is done without a reason", sse(&[piece, "data: [DONE]"]), ErrorCode::Unavailable),
        ("half a line", vec![head(), Act::Send("data: {\"choices\":[{\"del".into())], ErrorCode::Unavailable),
        (
            "error event",
            sse(&[piece, r#"data: {"error":{"message":"context is full"}}"#]),
            ErrorCode::FailedPrecondition,
        ),
        ("error line", sse(&[r#"error: {"code":500,"message":"slot lost"}"#]), ErrorCode::FailedPrecondition),
        ("nonsense", sse(&["hello"]), ErrorCode::FailedPrecondition),
        ("JSON that is no answer", sse(&["data: {}"]), ErrorCode::FailedPrecondition),
    ] {
        let server = Server::start(move |_, _| acts.clone()).await;
        let error = fails(&server.openai(), request()).await;
        assert_eq!(error.code, code, "{name}: {error}");
    }
}

#[tokio::test]
async fn slow_tokens_are_allowed_until_overall_timeout() {
    let slowly = |tokens: usize| {
        let mut acts = vec![Act::Head(200, "application/x-ndjson")];
        for _ in 0..tokens {
            acts.extend([Act::Wait(150), Act::Send(format!("{}\n", text("x")))]);
        }
        acts.push(Act::Send(format!("{}\n", done("stop"))));
        local(acts)
    };
    let server = Server::start(slowly(8)).await;
    assert_eq!(server.ollama().complete(request()).await.unwrap().text, "xxxxxxxx");
    // The timeout is long enough to start on a loaded machine, and far too short for the complete answer.
    let server = Server::start(slowly(400)).await;
    let mut short = request();
    short.timeouts.overall = Duration::from_secs(3);
    assert_eq!(fails(&server.ollama(), short).await.code, ErrorCode::DeadlineExceeded);
}

#[tokio::test]
async fn remote_requests_require_cloud_mode() {
    let script = |path: &str, _: &Value| match path {
        "/api/show" => {
            answer(200, "application/json", r#"{"remote_model":"m","remote_host":"https://ollama.com:443"}"#)
        }
        _ => ndjson(&[text("Ada"), done("stop")]),
    };
    let server = Server::start(script).await;
    assert_eq!(fails(&server.ollama(), request()).await.code, ErrorCode::PermissionDenied);
    assert!(server.asked.lock().unwrap().iter().all(|it| it.0 != "/api/chat"));
    let allowed = LlmRequest { privacy_mode: PrivacyMode::CloudReasoningOk, ..request() };
    assert_eq!(server.ollama().complete(allowed).await.unwrap().text, "Ada");
    for model in
        [over(Ollama::new("http://192.0.2.1:11434", None, "m")), over(OpenAi::new("https://192.0.2.1", None, "m"))]
    {
        assert_eq!(fails(&model, request()).await.code, ErrorCode::PermissionDenied);
    }
}

fn find() -> ToolSpec {
    let parameters = json!({ "type": "object", "properties": { "query": { "type": "string" } } });
    ToolSpec { name: "find".into(), description: "finds".into(), parameters }
}

/// Makes a request that contains a tool call and its result.
fn with_tool() -> LlmRequest {
    let mut request = request();
    let call = ToolCall { id: "c7".into(), name: "find".into(), arguments_json: r#"{"query":"bees"}"#.into() };
    request.messages.push(Message::with_calls(String::new(), vec![call.clone()]));
    request.messages.push(Message::result(&call, "31 kg".into()));
    LlmRequest { tools: vec![find()], ..request }
}

#[tokio::test]
async fn ollama_tools_and_calls_round_trip() {
    let call = json!({ "model": "m", "done": false, "message": { "role": "assistant", "content": "",
        "tool_calls": [{ "function": { "name": "find", "arguments": { "query": "hive" } } }] } });
    let server = Server::start(local(ndjson(&[call, done("stop")]))).await;
    let answer = server.ollama().complete(with_tool()).await.unwrap();
    assert_eq!(answer.finish, FinishReason::ToolCalls);
    let expected = ToolCall { id: "call-1".into(), name: "find".into(), arguments_json: r#"{"query":"hive"}"#.into() };
    assert_eq!(answer.tool_calls, [expected]);
    let body = server.body("/api/chat");
    assert_eq!(body["tools"][0]["function"]["name"], "find");
    let called = json!([{ "function": { "name": "find", "arguments": { "query": "bees" } } }]);
    assert_eq!(body["messages"][2]["tool_calls"], called);
    assert_eq!(body["messages"][3], json!({ "role": "tool", "content": "31 kg", "tool_name": "find" }));
}

#[tokio::test]
async fn openai_call_pieces_are_assembled() {
    let server = Server::start(|_, _| {
        sse(&[
            r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a1","type":"function","function":{"name":"find","arguments":""}}]}}]}"#,
            r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"query\":"}}]}}]}"#,
            r#"data: {"choices":[{"delta":{"tool_calls":[{"index":1,"id":"a2","function":{"name":"find","arguments":"{}"}}]}}]}"#,
            r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"hive\"}"}}]}}]}"#,
            r#"data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            "data: [DONE]",
        ])
    })
    .await;
    let answer = server.openai().complete(with_tool()).await.unwrap();
    assert_eq!(answer.finish, FinishReason::ToolCalls);
    let told: Vec<_> = answer.tool_calls.iter().map(|it| (it.id.as_str(), it.arguments_json.as_str())).collect();
    assert_eq!(told, [("a1", r#"{"query":"hive"}"#), ("a2", "{}")]);
    let body = server.body("/v1/chat/completions");
    assert_eq!(
        body["tools"][0],
        json!({ "type": "function", "function": { "name": "find", "description": "finds",
        "parameters": { "type": "object", "properties": { "query": { "type": "string" } } } } })
    );
    assert_eq!(body["messages"][2]["tool_calls"][0]["function"]["arguments"], r#"{"query":"bees"}"#);
    assert_eq!(body["messages"][3], json!({ "role": "tool", "content": "31 kg", "tool_call_id": "c7" }));
}

#[tokio::test]
async fn call_without_name_or_with_bad_index_is_rejected() {
    let end = r#"data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#;
    for piece in [
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":4000000000,"function":{"name":"find"}}]}}]}"#,
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}"#,
    ] {
        let server = Server::start(move |_, _| sse(&[piece, end])).await;
        assert_eq!(fails(&server.openai(), with_tool()).await.code, ErrorCode::FailedPrecondition, "{piece}");
    }
}

#[tokio::test]
async fn model_capabilities_are_queried_and_enforced() {
    let server = Server::start(|path, _| match path {
        "/api/tags" => answer(200, "application/json", r#"{"models":[{"name":"m:latest"}]}"#),
        "/api/show" => {
            let shown = r#"{"capabilities":["completion"],"model_info":{"x.context_length":2048}}"#;
            answer(200, "application/json", shown)
        }
        "/v1/models" => answer(200, "application/json", r#"{"data":[{"id":"m","max_model_len":512}]}"#),
        _ => answer(500, "text/plain", "not asked for"),
    })
    .await;
    let ollama = server.ollama();
    let snapshot = ollama.capabilities(PrivacyMode::LocalOnly).await.unwrap();
    assert_eq!(snapshot.models[0].max_context_tokens, Some(2_048));
    assert_eq!(snapshot.models[0].workloads, [WorkloadKind::Chat, WorkloadKind::Completion]);
    // Checks that a request beyond the model's capabilities is rejected before anything is sent.
    assert_eq!(fails(&ollama, with_tool()).await.field.as_deref(), Some("tools"));
    let openai = server.openai();
    assert_eq!(openai.capabilities(PrivacyMode::LocalOnly).await.unwrap().models[0].max_tokens, 512);
    assert_eq!(fails(&openai, request()).await.field.as_deref(), Some("max_tokens"));
    assert!(server.asked.lock().unwrap().iter().all(|it| !it.0.contains("chat")));
}

#[tokio::test]
async fn llama_server_context_size_is_used() {
    let server = Server::start(|path, _| match path {
        "/v1/models" => answer(200, "application/json", r#"{"data":[{"id":"m","meta":{"n_ctx_train":131072}}]}"#),
        "/props" => answer(200, "application/json", r#"{"default_generation_settings":{"n_ctx":4096}}"#),
        _ => answer(500, "text/plain", "not asked for"),
    })
    .await;
    let limits = server.openai().limits(None, PrivacyMode::LocalOnly).await;
    assert_eq!(limits.context_tokens, 4_096);
    let ollama = Server::start(|path, _| match path {
        "/api/show" => answer(200, "application/json", r#"{"model_info":{"x.context_length":2048}}"#),
        _ => answer(500, "text/plain", "not asked for"),
    })
    .await;
    assert_eq!(ollama.ollama().limits(None, PrivacyMode::LocalOnly).await.context_tokens, 2_048);
}

#[tokio::test]
async fn oversized_valid_answer_is_rejected() {
    // Makes answers with a valid JSON text that exceed the size limit by spaces.
    let json = |json: &str| answer(200, "application/json", &(json.to_string() + &" ".repeat(64 << 20)));
    let server = Server::start(move |_, _| json(r#"{"models":[],"data":[]}"#)).await;
    let servers: [(Box<dyn Transport>, &str); 2] = [
        (Box::new(Ollama::new(&server.address, None, "m")), "check that an Ollama server runs there"),
        (Box::new(OpenAi::new(&server.address, None, "m")), "check that an OpenAI-compatible server runs there"),
    ];
    for (model, doubt) in servers {
        let error = model.capabilities(PrivacyMode::LocalOnly).await.unwrap_err();
        assert_eq!((error.code, error.hint.as_deref()), (ErrorCode::FailedPrecondition, Some(doubt)));
    }
    let server = Server::start(move |path, _| match path {
        "/v1/models" => answer(200, "application/json", r#"{"data":[{"id":"m","meta":{"n_ctx_train":131072}}]}"#),
        _ => json(r#"{"default_generation_settings":{"n_ctx":4096}}"#),
    })
    .await;
    let models = OpenAi::new(&server.address, None, "m").capabilities(PrivacyMode::LocalOnly).await.unwrap();
    assert_eq!(models[0].max_context_tokens, Some(131_072));
}

#[tokio::test]
async fn busy_server_sets_retry_after() {
    let busy = r#"{"error":"busy"}"#;
    for (kind, body, wait) in [
        ("application/json", busy, None),
        ("application/json\r\nretry-after: 7", busy, Some(7_000)),
        ("application/json\r\nretry-after: 0.25", busy, Some(250)),
        ("application/json\r\nretry-after-ms: 1500\r\nretry-after: 9", busy, Some(1_500)),
        ("application/json\r\nretry-after: Wed, 21 Oct 2015 07:28:00 GMT", busy, Some(0)),
        ("application/json\r\nretry-after: soon", busy, None),
        ("application/json\r\nretry-after: -3", busy, None),
        ("application/json", r#"{"error":{"message":"busy","retry_after_ms":40}}"#, Some(40)),
        ("application/json", r#"{"error":"busy","retry_after_ms":41}"#, Some(41)),
        ("application/json\r\nretry-after: 99999999", busy, Some(86_400_000)),
    ] {
        let server = Server::start(local(answer(503, kind, body))).await;
        for model in [server.ollama(), server.openai()] {
            let error = fails(&model, request()).await;
            let told = error.retry_after.map(|it| it.as_millis());
            assert_eq!((error.code, told), (ErrorCode::Unavailable, wait), "{} {kind} {body}", model.backend());
        }
    }
    let broken = sse(&[r#"data: {"error":{"message":"slow down","retry_after_ms":300}}"#]);
    let server = Server::start(move |_, _| broken.clone()).await;
    assert_eq!(fails(&server.openai(), request()).await.retry_after, Some(Duration::from_millis(300)));
}
