//! Tests with fake Ollama and OpenAI-compatible servers that answer like real ones, also with errors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::config::{Config, EmbedBackend, EmbedConfig, EmbedEngine};
use crate::embed::remote::batch::BATCH_TEXTS;
use crate::embed::{Embedder, open_server};
use crate::error::{ErrorCode, Result};
use crate::model::{PrivacyMode, Redaction};

/// A request that a fake server received.
pub(in crate::embed) struct Request {
    pub(in crate::embed) path: String,
    pub(in crate::embed) head: String,
    pub(in crate::embed) body: Value,
}

/// The response of a fake server.
pub(in crate::embed) struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
    /// Delay before the response.
    wait: Duration,
}

impl Reply {
    pub(in crate::embed) fn ok(body: &[u8]) -> Reply {
        Reply { status: 200, head: String::new(), body: body.to_vec(), wait: Duration::ZERO }
    }

    pub(in crate::embed) fn error(status: u16, message: &str) -> Reply {
        let body = json!({ "error": message }).to_string().into_bytes();
        Reply { status, head: String::new(), body, wait: Duration::ZERO }
    }

    fn json(value: &Value) -> Reply {
        Reply::ok(value.to_string().as_bytes())
    }
}

/// Starts a fake server on a free local port and returns its address. The server stops with the test.
pub(in crate::embed) async fn serve(answer: impl Fn(Request) -> Reply + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move { serve_one(stream, &*answer).await });
        }
    });
    address
}

async fn serve_one(stream: TcpStream, answer: &(dyn Fn(Request) -> Reply + Send + Sync)) {
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
    let reply = answer(Request { path, head: lower, body: serde_json::from_slice(&body).unwrap_or_default() });
    tokio::time::sleep(reply.wait).await;
    let (status, length, extra) = (reply.status, reply.body.len(), reply.head);
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{extra}\r\n");
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(&reply.body).await;
    let _ = stream.flush().await;
}

fn config(backend: EmbedBackend, url: &str) -> EmbedConfig {
    EmbedConfig {
        backend,
        model: "m".into(),
        threads: 0,
        batch: 0,
        precision: "int8".into(),
        engine: EmbedEngine::Auto,
        device: crate::config::EmbedDevice::Cpu,
        ollama_url: url.into(),
        ollama_key: Some("secret".into()),
        openai_url: url.into(),
        openai_key: Some("secret".into()),
        context_tokens: None,
    }
}

async fn open_ollama(url: &str, mode: PrivacyMode) -> Result<Arc<dyn Embedder>> {
    open_server(&config(EmbedBackend::Ollama, url), mode).await
}

/// Returns the texts of a request.
fn inputs(request: &Request) -> Vec<String> {
    request.body["input"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_string()).collect()
}

/// Returns the vectors that the fake servers answer with: for each text its length and 1, not normalized.
fn vectors(texts: &[String]) -> Value {
    texts.iter().map(|it| json!([it.len(), 1.0])).collect()
}

fn ollama(request: &Request) -> Reply {
    assert!(request.head.contains("authorization: bearer secret"));
    assert!(request.path == "/api/tags" || request.body["model"] == "m");
    match request.path.as_str() {
        "/api/show" => Reply::json(&json!({ "details": {}, "model_info": {}, "capabilities": ["embedding"] })),
        "/api/embed" => {
            let texts = inputs(request);
            if texts.iter().any(|it| it.contains("nan")) {
                return Reply::error(500, "failed to encode response: json: unsupported value: NaN");
            }
            Reply::json(&json!({ "model": "m", "embeddings": vectors(&texts), "prompt_eval_count": 3 }))
        }
        other => Reply::error(404, other),
    }
}

fn first(vector: &[f32]) -> f32 {
    assert!((vector.iter().map(|it| it * it).sum::<f32>() - 1.0).abs() < 1e-5);
    (vector[0] / vector[1]).round()
}

#[tokio::test]
async fn ollama_vectors_are_normalised_and_in_order() {
    let model = open_ollama(&serve(|it| ollama(&it)).await, PrivacyMode::LocalOnly).await.unwrap();
    assert_eq!((model.dimension(), model.name()), (2, "m (ollama)"));
    // Makes texts whose lengths are neither ascending nor descending.
    let lengths: Vec<usize> = (0..BATCH_TEXTS * 2 + 5).map(|it| it * 37 % 133 + 1).collect();
    let texts: Vec<String> = lengths.iter().map(|it| "x".repeat(*it)).collect();
    let vectors = model.embed_documents(&texts).await.unwrap();
    assert_eq!(vectors.iter().map(|it| first(it) as usize).collect::<Vec<_>>(), lengths);
    assert_eq!(first(&model.embed_query("four").await.unwrap()), 4.0);
    assert!(model.embed_documents(&[]).await.unwrap().is_empty());
}

// Case E13
#[tokio::test]
async fn secrets_are_redacted_before_sending_unless_disabled() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let address = serve(move |it| {
        if it.path == "/api/embed" {
            log.lock().unwrap().extend(inputs(&it));
        }
        ollama(&it)
    });
    let dir = tempfile::tempdir().unwrap();
    let of_dir = |name: &str| (name == "VIC_DATA_DIR").then(|| dir.path().as_os_str().to_owned());
    let mut whole = Config::from_lookup(&of_dir).unwrap();
    whole.embed = config(EmbedBackend::Ollama, &address.await);
    let asked = "who made AKIAIOSFODNN7EXAMPLE?".to_string();
    for (redaction, sent) in [(Redaction::Keys, "who made [redacted]?"), (Redaction::None, &*asked)] {
        whole.limits.redaction = redaction;
        let model = crate::embed::open(&whole).await.unwrap();
        seen.lock().unwrap().clear();
        model.embed_query(&asked).await.unwrap();
        model.embed_documents(std::slice::from_ref(&asked)).await.unwrap();
        model.embed_urgent(std::slice::from_ref(&asked)).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), [sent; 3]);
    }
}

/// Embeds texts with these numbers of words. Returns the numbers of words in each request, and the maximum number of
/// concurrent requests.
async fn requests_for(words: impl Iterator<Item = usize>) -> (Vec<Vec<usize>>, usize) {
    let (seen, now, most) = (Arc::new(Mutex::new(Vec::new())), AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let (log, peak) = (seen.clone(), most.clone());
    let address = serve(move |it| {
        if it.path == "/api/embed" {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            log.lock().unwrap().push(inputs(&it).iter().map(|it| it.split(' ').count()).collect());
            std::thread::sleep(Duration::from_millis(20));
            now.fetch_sub(1, Ordering::SeqCst);
        }
        ollama(&it)
    });
    let model = open_ollama(&address.await, PrivacyMode::LocalOnly).await.unwrap();
    seen.lock().unwrap().clear();
    let texts: Vec<String> = words.map(|it| vec!["word"; it].join(" ")).collect();
    let vectors = model.embed_documents(&texts).await.unwrap();
    let lengths: Vec<f32> = vectors.iter().map(|it| first(it)).collect();
    assert_eq!(lengths, texts.iter().map(|it| it.len() as f32).collect::<Vec<_>>());
    (seen.lock().unwrap().clone(), most.load(Ordering::SeqCst))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn requests_group_similar_lengths_within_token_budget() {
    let (requests, at_once) = requests_for((0..200).map(|it| it * 77 % 200 + 1)).await;
    for lengths in &requests {
        assert!(lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
        assert!(lengths.len() <= 64 && lengths[0] * lengths.len() <= 16 * 512, "{lengths:?}");
    }
    let mut spans: Vec<(usize, usize)> = requests.iter().map(|it| (it[0], it[it.len() - 1])).collect();
    spans.sort_by(|a, b| b.cmp(a));
    assert!(spans.windows(2).all(|it| it[0].1 >= it[1].0), "a request mixes lengths: {spans:?}");
    assert!(spans.len() < 10, "more requests than needed: {spans:?}");
    assert_eq!(at_once, 2);
}

#[tokio::test]
async fn request_size_is_bounded_by_texts_and_tokens() {
    let sizes = |requests: (Vec<Vec<usize>>, usize)| {
        let mut sizes: Vec<usize> = requests.0.iter().map(Vec::len).collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(requests_for(std::iter::repeat_n(1, 150)).await), [22, 64, 64]);
    assert_eq!(sizes(requests_for(std::iter::repeat_n(510, 40)).await), [8, 16, 16]);
}

async fn fingerprint(url: &str) -> String {
    open_ollama(url, PrivacyMode::LocalOnly).await.unwrap().fingerprint().to_owned()
}

#[tokio::test]
async fn changed_digest_changes_fingerprint() {
    let digest = Arc::new(Mutex::new("sha256:1"));
    let shown = digest.clone();
    let address = serve(move |it| match it.path.as_str() {
        "/api/tags" => {
            let others = json!({ "name": "m:big", "digest": "sha256:9" });
            Reply::json(&json!({ "models": [others, { "name": "m:latest", "digest": *shown.lock().unwrap() }] }))
        }
        _ => ollama(&it),
    });
    let address = address.await;
    let first = fingerprint(&address).await;
    assert_eq!(fingerprint(&address).await, first);
    *digest.lock().unwrap() = "sha256:2";
    assert_ne!(fingerprint(&address).await, first);
}

#[tokio::test]
async fn fingerprint_uses_digest_or_else_server_address() {
    let with_digest = |it: Request| match it.path.as_str() {
        "/api/tags" => Reply::json(&json!({ "models": [{ "name": "m", "digest": "sha256:1" }] })),
        _ => ollama(&it),
    };
    assert_eq!(fingerprint(&serve(with_digest).await).await, fingerprint(&serve(with_digest).await).await);
    let (one, other) = (serve(|it| ollama(&it)).await, serve(|it| ollama(&it)).await);
    assert_eq!(fingerprint(&one).await, fingerprint(&format!("{one}/")).await);
    assert_ne!(fingerprint(&one).await, fingerprint(&other).await);
}

#[tokio::test]
async fn unavailable_digest_is_error_not_new_model() {
    let broken = |it: Request| match it.path.as_str() {
        "/api/tags" => Reply::error(503, "busy"),
        _ => ollama(&it),
    };
    let error = open_ollama(&serve(broken).await, PrivacyMode::LocalOnly).await.err().unwrap();
    assert_eq!(error.code, ErrorCode::Unavailable);
}

#[tokio::test]
async fn failing_text_in_batch_is_found() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = requests.clone();
    let address = serve(move |it| {
        counter.fetch_add(1, Ordering::Relaxed);
        ollama(&it)
    });
    let model = open_ollama(&address.await, PrivacyMode::LocalOnly).await.unwrap();
    let mut texts = vec!["fine".to_string(); 32];
    texts[20] = "nan".into();
    let before = requests.load(Ordering::Relaxed);
    let error = model.embed_documents(&texts).await.unwrap_err();
    assert!(error.message.contains("text 21 of 32") && error.message.contains("NaN"), "{error}");
    assert!(requests.load(Ordering::Relaxed) - before < 12);
}

#[tokio::test]
async fn server_rejecting_every_text_is_unavailable() {
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_broken = broken.clone();
    let address = serve(move |it| match it.path.as_str() {
        "/api/embed" if is_broken.load(Ordering::Relaxed) => Reply::error(500, "model runner has unexpectedly stopped"),
        _ => ollama(&it),
    });
    let model = open_ollama(&address.await, PrivacyMode::LocalOnly).await.unwrap();
    broken.store(true, Ordering::Relaxed);
    let error = model.embed_documents(&["fine".into(), "good".into()]).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Unavailable, "{error}");
    assert!(error.message.contains("unexpectedly stopped") && error.hint.is_some(), "{error}");
}

#[tokio::test]
async fn busy_server_is_retried() {
    let left = AtomicUsize::new(2);
    let busy = move || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)).is_ok();
    let address = serve(move |it| match it.path.as_str() {
        "/api/embed" if busy() => Reply::error(503, "server busy, please try again. maximum pending requests exceeded"),
        _ => ollama(&it),
    });
    assert_eq!(open_ollama(&address.await, PrivacyMode::LocalOnly).await.unwrap().dimension(), 2);
}

#[tokio::test]
async fn missing_ollama_model_hints_pull_command() {
    let address = serve(|_| Reply::error(404, "model 'm' not found")).await;
    let error = open_ollama(&address, PrivacyMode::LocalOnly).await.err().unwrap();
    assert_eq!((error.code, error.hint.as_deref()), (ErrorCode::NotFound, Some("run `ollama pull m`")));
}

#[tokio::test]
async fn cloud_model_behind_local_ollama_counts_as_remote() {
    let cloud = |it: Request| match it.path.as_str() {
        "/api/show" => Reply::json(&json!({ "remote_model": "m", "remote_host": "https://ollama.com:443" })),
        _ => ollama(&it),
    };
    let address = serve(cloud).await;
    for mode in [PrivacyMode::LocalOnly, PrivacyMode::CloudReasoningOk] {
        assert_eq!(open_ollama(&address, mode).await.err().unwrap().code, ErrorCode::PermissionDenied);
    }
    assert!(open_ollama(&address, PrivacyMode::CloudEmbeddingOk).await.is_ok());
}

#[tokio::test]
async fn remote_server_is_refused_before_sending() {
    let error = open_ollama("http://192.0.2.1:11434", PrivacyMode::LocalOnly).await.err().unwrap();
    assert_eq!(error.code, ErrorCode::PermissionDenied);
}

#[tokio::test]
async fn oversized_answer_is_rejected() {
    let address = serve(|_| Reply::ok(&vec![b' '; (64 << 20) + 1])).await;
    let error = open_ollama(&address, PrivacyMode::LocalOnly).await.err().unwrap();
    assert!(error.message.contains("longer than 65536 KiB"), "{error}");
}

// Case D13
#[tokio::test]
async fn redirect_is_not_followed() {
    let address =
        serve(|_| Reply { status: 307, head: "location: http://192.0.2.1/api/embed\r\n".into(), ..Reply::ok(b"") });
    let error = open_ollama(&address.await, PrivacyMode::LocalOnly).await.err().unwrap();
    assert_eq!(error.code, ErrorCode::PermissionDenied);
}

fn openai(request: &Request, as_base64: bool) -> Reply {
    if request.path != "/v1/embeddings" {
        return Reply::error(404, &request.path);
    }
    let item = |(index, text): (usize, &String)| {
        let numbers = [text.len() as f32, 1.0];
        let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
        let embedding = if as_base64 { json!(STANDARD.encode(&bytes)) } else { json!(numbers) };
        json!({ "object": "embedding", "index": index, "embedding": embedding })
    };
    // Returns the vectors in reverse, because the API does not guarantee their order.
    let data: Vec<Value> = inputs(request).iter().enumerate().rev().map(item).collect();
    Reply::json(&json!({ "object": "list", "data": data, "model": "m", "usage": { "total_tokens": 1 } }))
}

#[tokio::test]
async fn openai_base64_and_number_answers_are_ordered() {
    for as_base64 in [true, false] {
        for path in ["", "/v1", "/v1/"] {
            let url = serve(move |it| openai(&it, as_base64)).await + path;
            let model = open_server(&config(EmbedBackend::OpenAi, &url), PrivacyMode::LocalOnly).await.unwrap();
            let vectors = model.embed_documents(&["x", "xx", "xxx"].map(String::from)).await.unwrap();
            assert_eq!(vectors.iter().map(|it| first(it)).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
        }
    }
}

#[tokio::test]
async fn wrong_api_key_is_permission_denied() {
    let body = json!({ "error": { "message": "Incorrect API key provided", "type": "invalid_request_error" } });
    let address = serve(move |_| Reply { status: 401, ..Reply::ok(body.to_string().as_bytes()) }).await;
    let error = open_server(&config(EmbedBackend::OpenAi, &address), PrivacyMode::LocalOnly).await.err().unwrap();
    assert_eq!(error.code, ErrorCode::PermissionDenied);
    assert!(error.message.contains("Incorrect API key"), "{error}");
}

#[tokio::test]
async fn in_process_backend_is_rejected_without_request() {
    let url = serve(|it| panic!("a request of {}", it.path)).await;
    let error = open_server(&config(EmbedBackend::Onnx, &url), PrivacyMode::LocalOnly).await.err().unwrap();
    assert_eq!(error.code, ErrorCode::InvalidArgument);
    assert!(error.message.contains("VIC_EMBED_BACKEND is `onnx`"), "{error}");
}

#[tokio::test]
async fn query_on_hanging_server_times_out() {
    let url = serve(|request| {
        let hangs = request.body["input"].to_string().contains("hang");
        Reply { wait: Duration::from_secs(if hangs { 60 } else { 0 }), ..ollama(&request) }
    })
    .await;
    let embedder = open_ollama(&url, PrivacyMode::LocalOnly).await.unwrap();
    embedder.embed_query("answers").await.unwrap();
    let error = embedder.embed_query("hang").await.unwrap_err();
    assert!(error.code == ErrorCode::DeadlineExceeded && error.message.contains("did not answer"), "{error}");
}

#[tokio::test]
async fn openai_fingerprint_uses_normalised_address() {
    let open = async |url: &str| {
        let model = open_server(&config(EmbedBackend::OpenAi, url), PrivacyMode::LocalOnly).await.unwrap();
        model.fingerprint().to_owned()
    };
    let (one, other) = (serve(|it| openai(&it, false)).await, serve(|it| openai(&it, false)).await);
    assert_eq!(open(&one).await, open(&format!("{one}/v1/")).await);
    assert_ne!(open(&one).await, open(&other).await);
}
