//! Tests of the life cycle of a model request: enqueued, streamed, cancelled; tools, retry policies and the event log.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};

use super::tools::registry;
use super::*;
use crate::error::{Error, ErrorCode};
use crate::model::{PrivacyMode, Redaction, ToolSpec};

fn request() -> LlmRequest {
    LlmRequest::builder().prompt(Prompt::user("who?")).build().unwrap()
}

fn done(finish: FinishReason) -> AnswerPiece {
    AnswerPiece::Done { finish, usage: Usage { prompt_tokens: 3, answer_tokens: 2 } }
}

fn text(text: &str) -> AnswerPiece {
    AnswerPiece::Text(text.into())
}

fn call(name: &str, arguments: &str) -> AnswerPiece {
    AnswerPiece::Call(ToolCall { id: "c1".into(), name: name.into(), arguments_json: arguments.into() })
}

fn away() -> Error {
    Error::new(ErrorCode::Unavailable, "server unreachable").hint("run it")
}

fn find() -> ToolSpec {
    let parameters = json!({ "type": "object", "additionalProperties": false, "required": ["query"],
                             "properties": { "query": { "type": "string" } } });
    ToolSpec { name: "find".into(), description: "finds".into(), parameters }
}

/// Returns a registry with one tool, which returns the weight of a hive.
fn tools() -> RegisteredTools {
    let handler = |arguments: Value| async move { Ok(json!({ "of": arguments["query"], "weight": "31 kg" })) };
    registry().register(find(), handler).unwrap().freeze()
}

async fn events(client: &LlmClient, request: LlmRequest) -> Vec<LlmStreamEvent> {
    client.enqueue_and_stream(request).unwrap().map(Result::unwrap).collect().await
}

/// Returns the kind of each event, in order.
fn kinds(events: &[LlmStreamEvent]) -> Vec<String> {
    let kind = |it: &LlmStreamEvent| serde_json::to_value(it).unwrap()["event"].as_str().unwrap().to_string();
    events.iter().map(kind).collect()
}

#[tokio::test]
async fn documented_example_runs() {
    let tools = tools::registry().register(find(), |_| async { Ok(json!({})) }).unwrap().freeze();
    let client = client(LlmClientConfig {
        transport: TransportConfig::Mock,
        proof_sink: None,
        tool_registry: Some(tools),
        ..Default::default()
    })
    .unwrap();
    let snapshot = client.capabilities(PrivacyMode::LocalOnly).await.unwrap();
    let prompt = Prompt::user("one two three");
    let request =
        LlmRequest::builder().model(snapshot.default_model.clone()).prompt(prompt).max_tokens(512).build().unwrap();
    let handle = client.enqueue(request).unwrap();
    let mut stream = client.stream(&handle).unwrap();
    let mut said = String::new();
    while let Some(event) = stream.next().await {
        match event.unwrap() {
            LlmStreamEvent::Token { text, .. } => said.push_str(&text),
            LlmStreamEvent::ToolCall { .. } => { /* handled by the registry */ }
            LlmStreamEvent::Completed { finish_reason } => assert_eq!(finish_reason, FinishReason::Stop),
            LlmStreamEvent::Error { code, message, .. } => panic!("{code:?}: {message}"),
            _ => (),
        }
    }
    assert_eq!(said, "one two three");
    assert!(stream.next().await.is_none(), "nothing comes after the end");
    assert_eq!(client.stream(&handle).err().unwrap().code, ErrorCode::FailedPrecondition);
}

#[tokio::test]
async fn events_are_ordered_and_end_once() {
    let mock = Mock::in_pieces(vec![Ok(vec![text("Ada "), text("Quill"), done(FinishReason::Length)])]);
    let events = events(&mock.client(), request()).await;
    assert_eq!(kinds(&events), ["started", "metrics", "token", "token", "metrics", "completed"]);
    assert!(matches!(&events[3], LlmStreamEvent::Token { text, index: 1 } if text == "Quill"));
    assert_eq!(events[5], LlmStreamEvent::Completed { finish_reason: FinishReason::Length });
    assert_eq!(events.iter().filter(|it| it.is_last()).count(), 1);
}

#[tokio::test]
async fn failure_is_last_event_with_code_and_hint() {
    for (pieces, code) in [
        (Err(away()), ErrorCode::Unavailable),
        // A stream that ends without `Done` counts as unavailable.
        (Ok(vec![text("Ada")]), ErrorCode::Unavailable),
        (Err(Error::not_found("no model `m`")), ErrorCode::NotFound),
    ] {
        let mock = Mock::in_pieces(vec![pieces]);
        let events = events(&mock.client(), request()).await;
        let last = events.last().unwrap().clone();
        assert_eq!(last.into_result().unwrap_err().code, code);
        assert_eq!(mock.asked().len(), 1, "no retries without a policy");
    }
}

#[tokio::test]
async fn retry_policy_retries_and_emits_events() {
    let answers = || vec![Err(away()), Err(away()), Ok(vec![text("Ada"), done(FinishReason::Stop)])];
    let clock = Arc::new(ManualClock::default());
    let config = LlmClientConfig {
        retry_policy: Some(RetryPolicy::with_attempts(3)),
        clock: clock.clone(),
        ..Default::default()
    };
    let events = events(&Mock::in_pieces(answers()).client_with(config), request()).await;
    assert_eq!(kinds(&events), ["started", "metrics", "retrying", "retrying", "token", "metrics", "completed"]);
    assert_eq!(*clock.slept.lock().unwrap(), [Duration::from_millis(250), Duration::from_millis(500)]);
    assert!(matches!(&events[0], LlmStreamEvent::Started { accepted_at: 1_700_000_000_000, .. }));
    assert!(matches!(&events[5], LlmStreamEvent::Metrics { latency_ms: Some(750), .. }), "{:?}", events[5]);
    // The request's policy takes precedence over the client's.
    let once = Guardrails { retry: Some(RetryPolicy::with_attempts(1)), ..Guardrails::default() };
    let config = LlmClientConfig { retry_policy: Some(RetryPolicy::with_attempts(3)), ..Default::default() };
    let client = Mock::in_pieces(answers()).client_with(config);
    let request = LlmRequest { guardrails: Some(once), ..request() };
    assert_eq!(client.complete(request).await.unwrap_err().code, ErrorCode::Unavailable);
}

#[tokio::test]
async fn retries_stop_after_first_token() {
    let clock = Arc::new(ManualClock::default());
    let config = LlmClientConfig { retry_policy: Some(RetryPolicy::with_attempts(3)), clock, ..Default::default() };
    let mock = Mock::in_pieces(vec![Ok(vec![text("Ada")]), Ok(vec![text("Ada"), done(FinishReason::Stop)])]);
    assert_eq!(mock.client_with(config).complete(request()).await.unwrap_err().code, ErrorCode::Unavailable);
    assert_eq!(mock.asked().len(), 1);
}

#[tokio::test]
async fn registered_tools_run_and_model_continues() {
    let mock = Mock::in_pieces(vec![
        Ok(vec![call("find", r#"{"query":"hive"}"#), done(FinishReason::ToolCalls)]),
        Ok(vec![text("31 kg."), done(FinishReason::Stop)]),
    ]);
    let client = mock.client_with(LlmClientConfig { tool_registry: Some(tools()), ..Default::default() });
    let events = events(&client, LlmRequest { tools: tools().bindings(), ..request() }).await;
    let expected = ["started", "metrics", "tool_call", "tool_result", "token", "metrics", "completed"];
    assert_eq!(kinds(&events), expected);
    let asked = &mock.asked()[1].messages;
    assert_eq!(asked[1].tool_calls[0].name, "find");
    assert_eq!(asked[2], Message::result(&asked[1].tool_calls[0], r#"{"of":"hive","weight":"31 kg"}"#.into()));
    assert!(matches!(&events[5], LlmStreamEvent::Metrics { usage: Some(it), .. } if it.prompt_tokens == 6));
}

#[tokio::test]
async fn unknown_or_invalid_tool_call_is_reported_not_run() {
    for (name, arguments, kind) in
        [("rm", "{}", ToolFault::Unknown), ("find", r#"{"path":"/etc"}"#, ToolFault::InvalidArguments)]
    {
        let mock = Mock::in_pieces(vec![
            Ok(vec![call(name, arguments), done(FinishReason::ToolCalls)]),
            Ok(vec![text("I cannot."), done(FinishReason::Stop)]),
        ]);
        let client = mock.client_with(LlmClientConfig { tool_registry: Some(tools()), ..Default::default() });
        let events = events(&client, LlmRequest { tools: tools().bindings(), ..request() }).await;
        assert!(matches!(&events[3], LlmStreamEvent::ToolError { error, .. } if error.kind == kind), "{:?}", events[3]);
        assert!(mock.asked()[1].messages[2].content.contains("\"error\""));
        assert_eq!(events.last(), Some(&LlmStreamEvent::Completed { finish_reason: FinishReason::Stop }));
    }
}

#[tokio::test]
async fn caller_tool_calls_end_the_round() {
    let mock = Mock::in_pieces(vec![Ok(vec![text("Let me see. "), call("find", "{}"), done(FinishReason::ToolCalls)])]);
    let answer = mock.client().complete(LlmRequest { tools: vec![find()], ..request() }).await.unwrap();
    assert_eq!((answer.finish, answer.tool_calls[0].name.as_str()), (FinishReason::ToolCalls, "find"));
}

#[tokio::test]
async fn endless_tool_calls_hit_round_limit() {
    let round = || Ok(vec![call("find", r#"{"query":"x"}"#), done(FinishReason::ToolCalls)]);
    let mock = Mock::in_pieces((0..20).map(|_| round()).collect());
    let rules = Guardrails { max_tool_rounds: 3, ..Guardrails::default() };
    let config = LlmClientConfig { tool_registry: Some(tools()), default_guardrails: rules, ..Default::default() };
    let request = LlmRequest { tools: tools().bindings(), ..request() };
    let error = mock.client_with(config).complete(request).await.unwrap_err();
    assert_eq!((error.code, mock.asked().len()), (ErrorCode::ResourceExhausted, 4));
}

/// A transport that never answers; the string is its address.
struct Silent(&'static str);

#[async_trait::async_trait]
impl Transport for Silent {
    fn backend(&self) -> &'static str {
        "mock"
    }

    fn place(&self) -> String {
        self.0.into()
    }

    fn model(&self) -> &str {
        "silent"
    }

    async fn capabilities(&self, _mode: PrivacyMode) -> crate::error::Result<Vec<ModelCapability>> {
        Ok(Vec::new())
    }

    async fn stream(&self, _request: LlmRequest) -> crate::error::Result<PieceStream> {
        Ok(futures::stream::pending().boxed())
    }
}

#[tokio::test]
async fn cancelled_request_frees_the_queue() {
    let queue = QueueLimits { running: 1, waiting: 1 };
    let transport = TransportConfig::Custom(Arc::new(Silent("one")));
    let client = client(LlmClientConfig { transport, queue, ..Default::default() }).unwrap();
    let first = client.enqueue(request()).unwrap();
    let mut stream = client.stream(&first).unwrap();
    assert!(matches!(stream.next().await, Some(Ok(LlmStreamEvent::Started { task_id, .. })) if task_id == *first.id()));
    // Enqueues with a clone, which shares the queue: this request must stay queued.
    let waiting = client.clone().enqueue(request()).unwrap();
    assert_eq!(client.enqueue(request()).unwrap_err().code, ErrorCode::ResourceExhausted);
    assert_eq!(client.clone().cancel(&waiting), CancelOutcome::Ended);
    assert_eq!(client.cancel_by_id(first.id()), CancelOutcome::Ended);
    let rest: Vec<_> = stream.map(Result::unwrap).collect().await;
    assert_eq!(rest.last(), Some(&LlmStreamEvent::Completed { finish_reason: FinishReason::Cancelled }));
    assert_eq!(client.cancel(&first), CancelOutcome::NotRunning);
    // Dropping the stream frees the permit too.
    drop(client.enqueue_and_stream(request()).unwrap());
    let begun = std::time::Instant::now();
    while client.enqueue(request()).is_err() && begun.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn waiting_requests_are_limited_by_memory() {
    let queue = QueueLimits { running: 1, waiting: 9 };
    let transport = TransportConfig::Custom(Arc::new(Silent("full")));
    let client = client(LlmClientConfig { transport, queue, ..Default::default() }).unwrap();
    let _running = client.enqueue(request()).unwrap();
    let seeing = || LlmRequest { images: vec![vec![0; 50 << 20]], ..request() };
    let waiting = [client.enqueue(seeing()).unwrap(), client.enqueue(seeing()).unwrap()];
    let error = client.enqueue(seeing()).unwrap_err();
    assert!(error.code == ErrorCode::ResourceExhausted && error.message.contains("MiB"), "{error}");
    // A small request does not count against the memory limit, and waits only for a permit.
    let _waiting = client.enqueue(request()).unwrap();
    client.cancel(&waiting[0]);
    let begun = std::time::Instant::now();
    while client.enqueue(seeing()).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn embed_calls_share_the_queue() {
    let queue = QueueLimits { running: 1, waiting: 1 };
    let transport = TransportConfig::Custom(Arc::new(Silent("another")));
    let client = client(LlmClientConfig { transport, queue, ..Default::default() }).unwrap();
    let mut running = client.enqueue_and_stream(request()).unwrap();
    running.next().await.unwrap().unwrap();
    let waiting = client.enqueue(request()).unwrap();
    let embedded = || client.embed(&[], PrivacyMode::LocalOnly);
    assert_eq!(embedded().await.unwrap_err().code, ErrorCode::ResourceExhausted);
    client.cancel(&waiting);
    drop(running);
    // Waits for the error of the backend, which cannot embed: it proves that a permit was granted, because the backend
    // is called only then.
    let begun = std::time::Instant::now();
    while embedded().await.unwrap_err().code != ErrorCode::FailedPrecondition {
        assert!(begun.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A transport that sends a long answer the first time, and short ones afterwards.
#[derive(Default)]
struct Talkative(std::sync::atomic::AtomicBool);

#[async_trait::async_trait]
impl Transport for Talkative {
    fn backend(&self) -> &'static str {
        "mock"
    }

    fn model(&self) -> &str {
        "talkative"
    }

    fn place(&self) -> String {
        "mock".into()
    }

    async fn capabilities(&self, _mode: PrivacyMode) -> crate::error::Result<Vec<ModelCapability>> {
        Ok(Vec::new())
    }

    async fn stream(&self, _request: LlmRequest) -> crate::error::Result<PieceStream> {
        let words = if self.0.swap(true, std::sync::atomic::Ordering::Relaxed) { 3 } else { 1_000 };
        let pieces = std::iter::repeat_n(text("so "), words).chain([done(FinishReason::Stop)]);
        Ok(futures::stream::iter(pieces.map(Ok)).boxed())
    }
}

// Case D11
#[tokio::test]
async fn unread_answer_releases_its_permit() {
    let queue = QueueLimits { running: 1, waiting: 1 };
    let transport = TransportConfig::Custom(Arc::new(Talkative::default()));
    let clock = Arc::new(ManualClock::default());
    let client = client(LlmClientConfig { transport, queue, clock, ..Default::default() }).unwrap();
    let unread = client.enqueue_and_stream(request()).unwrap();
    let all = tokio::time::timeout(Duration::from_secs(20), events(&client, request())).await.unwrap();
    assert_eq!(all.last(), Some(&LlmStreamEvent::Completed { finish_reason: FinishReason::Stop }));
    let read: Vec<_> = unread.collect().await;
    assert!(read.len() < 1_000, "{}", read.len());
}

#[tokio::test]
async fn requests_are_validated_against_reported_limits() {
    let mock = Mock::new(vec![Ok("fine".into())]);
    let client = mock.client();
    client.capabilities(PrivacyMode::LocalOnly).await.unwrap();
    let error = client.enqueue(LlmRequest { max_tokens: 5_000, ..request() }).unwrap_err();
    assert_eq!((error.code, error.field.as_deref()), (ErrorCode::InvalidArgument, Some("max_tokens")));
    assert!(mock.asked().is_empty(), "nothing was sent");
}

#[tokio::test]
async fn limits_are_backend_limits_up_to_configured() {
    /// A transport that reports one model with this context size.
    struct Knowing(Option<u32>);
    #[async_trait::async_trait]
    impl Transport for Knowing {
        fn backend(&self) -> &'static str {
            "mock"
        }

        fn place(&self) -> String {
            "knowing".into()
        }

        fn model(&self) -> &str {
            "small"
        }

        async fn capabilities(&self, _mode: PrivacyMode) -> crate::error::Result<Vec<ModelCapability>> {
            let max_context_tokens = Some(self.0.ok_or_else(away)?);
            Ok(vec![ModelCapability { max_context_tokens, ..ModelCapability::with_defaults("small:latest".into()) }])
        }

        async fn stream(&self, _request: LlmRequest) -> crate::error::Result<PieceStream> {
            Err(away())
        }
    }
    for (has, named, configured, expected) in [
        (Some(2_048), None, 16_384, 2_048),
        (Some(131_072), None, 16_384, 16_384),
        (Some(2_048), Some("other".into()), 8_192, 8_192),
        // If the server is unreachable, only the configuration counts.
        (None, None, 8_192, 8_192),
    ] {
        let transport = TransportConfig::Custom(Arc::new(Knowing(has)));
        let client = client(LlmClientConfig { transport, context_tokens: configured, ..Default::default() }).unwrap();
        let limits = client.limits(named.as_ref(), PrivacyMode::LocalOnly).await;
        assert_eq!(limits.context_tokens, expected, "{has:?} {named:?} {configured}");
        assert!(limits.answer_tokens <= limits.context_tokens);
    }
}

#[tokio::test]
async fn event_log_is_complete_and_redacted() {
    let mock = Mock::in_pieces(vec![
        Ok(vec![call("find", r#"{"query":"x"}"#), done(FinishReason::ToolCalls)]),
        Ok(vec![text("fine"), done(FinishReason::Stop)]),
    ]);
    let proof = Arc::new(ProofLog::default());
    let config = LlmClientConfig {
        proof_sink: Some(proof.clone()),
        tool_registry: Some(tools()),
        redaction: Redaction::Keys,
        ..Default::default()
    };
    let mut request = LlmRequest { tools: tools().bindings(), ..request() };
    request.messages[0].content = "who made AKIAIOSFODNN7EXAMPLE?".into();
    request.metadata.insert("ticket".into(), "7".into());
    let events = events(&mock.client_with(config), request).await;
    let recorded = proof.events();
    let proven: Vec<&LlmStreamEvent> = recorded
        .iter()
        .filter_map(|it| match it {
            ProofEvent::Event { event, .. } => Some(event),
            ProofEvent::Request { .. } => None,
        })
        .collect();
    assert_eq!(proven, events.iter().collect::<Vec<_>>());
    assert_eq!(recorded.len() - proven.len(), 2, "one request for each round");
    let all = serde_json::to_string(&recorded).unwrap();
    assert!(!all.contains("AKIA") && all.contains("[redacted]") && all.contains("\"ticket\":\"7\""), "{all}");
    assert_eq!(mock.asked()[0].messages[0].content, "who made [redacted]?");
}

#[tokio::test]
async fn stream_summary_has_lines_and_hash_chain() {
    let mock = Mock::in_pieces(vec![
        Ok(vec![call("find", r#"{"query":"x"}"#), done(FinishReason::ToolCalls)]),
        Ok(vec![text("31 "), text("kg"), done(FinishReason::Stop)]),
    ]);
    let client = mock.client_with(LlmClientConfig { tool_registry: Some(tools()), ..Default::default() });
    let mut heard = Vec::new();
    let asked = client.enqueue_and_stream(LlmRequest { tools: tools().bindings(), ..request() }).unwrap();
    let (story, proof) = stream::adapter(asked, |line| heard.push(line.to_string())).await.unwrap();
    assert_eq!((story.text.as_str(), &story.lines), ("31 kg", &heard));
    assert_eq!(heard[1..], [r#"calls find {"query":"x"}"#, "the tool returned 27 bytes", "ended: stop"]);
    assert_eq!((proof.events, proof.finish_reason), (8, Some(FinishReason::Stop)));
    assert_eq!((proof.usage.prompt_tokens, proof.seal.len()), (6, 64));
    let one = LlmStreamEvent::Token { text: "a".into(), index: 0 };
    assert_ne!(
        crate::model::llm::event::extend_hash_chain("", &one),
        crate::model::llm::event::extend_hash_chain("x", &one)
    );
}

#[tokio::test]
async fn stop_sequence_ends_answer() {
    let mock = Mock::in_pieces(vec![Ok(vec![text("one EN"), text("D two"), done(FinishReason::Length)])]);
    let rules = Guardrails { stop: vec!["END".into()], ..Guardrails::default() };
    let answer = mock.client().complete(LlmRequest { guardrails: Some(rules), ..request() }).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.finish), ("one ", FinishReason::Stop));
}
