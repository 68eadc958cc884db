//! Tests of keys, host names, and limits of requests.

use std::time::Duration;

use super::*;
use crate::data_dir::keys::{self, Right};
use crate::serve::transport::listener::Peer;

#[tokio::test]
async fn open_access_ignores_keys() {
    let key = [("authorization", "Bearer old")];
    assert_eq!(bed(&[]).await.send(request("GET", "/v1/status", &key, Body::empty())).await.status, 200);
    assert_eq!(bed(&[]).await.get("/v1/status").await.status, 200);
}

#[tokio::test]
async fn api_key_is_required_except_for_health() {
    let bed = bed(&[("VIC_BRIDGE_API_KEY", "s3cret")]).await;
    for path in ["/v1/status", "/v1/nowhere", "/mcp", "/", "/openapi.json", "/metrics"] {
        let answered = bed.get(path).await;
        assert_eq!(
            (answered.status, answered.json()["error"]["code"].clone()),
            (401, json!("unauthenticated")),
            "{path}"
        );
        assert_eq!(answered.headers["www-authenticate"], "Bearer");
    }
    assert_eq!(bed.get("/health").await.status, 200);
    assert_eq!(bed.get("/health").await.json()["auth_enabled"], true);
    for (key, status) in [("Bearer s3cret", 200), ("Bearer wrong", 401), ("s3cret", 401), ("Basic s3cret", 401)] {
        let answered = bed.send(request("GET", "/v1/status", &[("authorization", key)], Body::empty())).await;
        assert_eq!(answered.status, status, "{key}");
    }
}

// Case D7
#[tokio::test]
async fn invalid_keys_are_limited_without_blocking_valid_key() {
    let bed = bed(&[("VIC_BRIDGE_API_KEY", "s3cret")]).await;
    for address in ["192.0.2.7", "127.0.0.1"] {
        let peer = Peer { address: address.parse().unwrap(), ..Peer::default() };
        let show = async |key: &str| {
            let mut asked = request("GET", "/v1/status", &[("authorization", key)], Body::empty());
            asked.extensions_mut().insert(peer);
            bed.send(asked).await
        };
        for number in 0..100 {
            let told = show(&format!("Bearer guess-{number}")).await;
            assert_eq!(told.status, if number < 30 { 401 } else { 429 }, "{number}");
        }
        assert!(show("Bearer wrong").await.headers.contains_key("retry-after"));
        assert_eq!(show("Bearer s3cret").await.status, 200, "{address}");
    }
}

#[tokio::test]
async fn api_key_is_required_for_grpc() {
    let bed = bed(&[("VIC_BRIDGE_API_KEY", "s3cret")]).await;
    for (key, code) in [(None, Some("16")), (Some("Bearer wrong"), Some("16")), (Some("Bearer s3cret"), None)] {
        let mut headers = vec![("content-type", "application/grpc"), ("te", "trailers")];
        headers.extend(key.map(|it| ("authorization", it)));
        // An empty gRPC message: no compression, length 0.
        let message = Body::from(vec![0u8; 5]);
        let response =
            bed.router.clone().oneshot(request("POST", "/vic.v1.Vic/GetStatus", &headers, message)).await.unwrap();
        let found = response.headers().get("grpc-status").and_then(|it| it.to_str().ok());
        assert_eq!((response.status().as_u16(), found), (200, code), "{key:?}");
    }
}

/// Returns the gRPC status code in the response headers of a call with an empty message; `None` if it is in the trailers.
async fn initial_grpc_status(bed: &Bed, method: &str) -> Option<String> {
    let headers = [("content-type", "application/grpc"), ("te", "trailers")];
    let call = request("POST", method, &headers, Body::from(vec![0u8; 5]));
    let response = bed.router.clone().oneshot(call).await.unwrap();
    response.headers().get("grpc-status").map(|it| it.to_str().unwrap().to_string())
}

#[tokio::test]
async fn only_grpc_health_check_works_without_key() {
    let bed = bed(&[("VIC_BRIDGE_API_KEY", "s3cret")]).await;
    assert_eq!(initial_grpc_status(&bed, "/grpc.health.v1.Health/Check").await, None, "the code is in the trailers");
    for method in ["Watch", "List", ""] {
        let told = initial_grpc_status(&bed, &format!("/grpc.health.v1.Health/{method}")).await;
        assert_eq!(told.as_deref(), Some("16"), "{method}");
    }
}

// Case D1
#[tokio::test]
async fn foreign_host_or_origin_is_403_before_key_check() {
    let bed = bed(&[("VIC_BRIDGE_API_KEY", "s3cret"), ("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "1")]).await;
    let origin = [("origin", "http://localhost:8765")];
    for headers in [&[("host", "evil.example")][..], &origin[..]] {
        for path in ["/", "/health", "/v1/status", "/mcp", "/nowhere"] {
            let answered = bed.send(request("GET", path, headers, Body::empty())).await;
            assert_eq!((answered.status, answered.json()["error"]["code"].clone()), (403, json!("permission_denied")));
        }
    }
    // Checks that rejected requests do not count towards the rate limit.
    let key = [("authorization", "Bearer s3cret")];
    assert_eq!(bed.get("/v1/status").await.status, 401);
    assert_eq!(bed.send(request("GET", "/v1/status", &key, Body::empty())).await.status, 200);
    assert_eq!(bed.send(request("GET", "/v1/status", &key, Body::empty())).await.status, 429);
}

#[tokio::test]
async fn rate_limit_is_429_and_health_is_exempt() {
    let bed = bed(&[("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "3")]).await;
    for _ in 0..3 {
        assert_eq!(bed.get("/v1/status").await.status, 200);
    }
    let answered = bed.get("/v1/status").await;
    assert_eq!((answered.status, answered.json()["error"]["code"].clone()), (429, json!("resource_exhausted")));
    let wait: u64 = answered.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    for path in ["/health", "/", "/openapi.json"] {
        assert_eq!(bed.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn rate_limit_counts_each_key_separately() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.into())).unwrap();
    let [ada, bo] = ["ada", "bo"].map(|it| keys::add(&config, it, &[dir.path().into()], Right::Read).unwrap());
    let limits = [("VIC_DATA_DIR", data), ("VIC_BRIDGE_API_KEY", "s3cret"), ("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "2")];
    let bed = bed(&limits).await;
    let status = async |key: &str| {
        let bearer = format!("Bearer {key}");
        bed.send(request("GET", "/v1/status", &[("authorization", &bearer)], Body::empty())).await.status
    };
    assert_eq!([status(&ada).await, status(&ada).await, status(&ada).await], [200, 200, 429]);
    assert_eq!([status(&bo).await, status("s3cret").await], [200, 200]);
}

#[tokio::test]
async fn public_health_is_429_beyond_burst_without_key() {
    let bed = bed(&[("VIC_BRIDGE_API_KEY", "s3cret")]).await;
    let mut refused = None;
    for _ in 0..1_000 {
        let answered = bed.get("/health").await;
        if answered.status != 200 {
            refused = Some(answered);
            break;
        }
    }
    let refused = refused.expect("a thousand requests exceed the burst");
    assert_eq!((refused.status, refused.json()["error"]["code"].clone()), (429, json!("resource_exhausted")));
    assert_eq!(refused.headers["retry-after"], "1");
    let key = [("authorization", "Bearer s3cret")];
    for _ in 0..200 {
        assert_eq!(bed.send(request("GET", "/health", &key, Body::empty())).await.status, 200);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bed.get("/health").await.status, 200, "after the reported wait");
}

#[tokio::test]
async fn public_health_is_cached_for_a_second() {
    let bed = bed(&[("VIC_BRIDGE_API_KEY", "s3cret")]).await;
    let looks = || bed.service.status_calls.load(std::sync::atomic::Ordering::Relaxed);
    let answers = futures::future::join_all((0..50).map(|_| bed.get("/health"))).await;
    assert!(answers.iter().all(|it| it.status == 200 && it.json()["degraded"] == true));
    assert_eq!(looks(), 1);
    // A request with a key gets the current status instead of the cached one.
    let key = [("authorization", "Bearer s3cret")];
    bed.send(request("GET", "/health", &key, Body::empty())).await;
    assert_eq!(looks(), 2);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!((bed.get("/health").await.status, looks()), (200, 3));
}

#[tokio::test]
async fn health_at_ten_per_second_is_never_rejected() {
    let bed = bed(&[("VIC_BRIDGE_API_KEY", "s3cret")]).await;
    for _ in 0..30 {
        assert_eq!(bed.get("/health").await.status, 200);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn rate_limit_defaults_to_120_and_0_is_unlimited() {
    for (variables, expected) in [(vec![], 120), (vec![("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0")], 150)] {
        let bed = bed(&variables).await;
        let mut admitted = 0;
        for _ in 0..150 {
            admitted += u32::from(bed.get("/v1/index/status?job_id=job-1").await.status == 200);
        }
        assert_eq!(admitted, expected);
    }
}

/// Returns the JSON of a question with this size in bytes.
fn question_of(bytes: usize) -> String {
    let question = r#"{"query": "x"}"#;
    format!("{question}{}", " ".repeat(bytes - question.len()))
}

#[tokio::test]
async fn body_of_exactly_the_limit_passes() {
    assert_eq!(bed(&[]).await.post("/v1/ask", question_of(2_097_152)).await.status, 200);
}

#[tokio::test]
async fn body_one_byte_over_limit_is_413_and_counted() {
    let bed = bed(&[]).await;
    let answered = bed.post("/v1/ask", question_of(2_097_153)).await;
    let counts = bed.get("/metrics").await.text;
    assert!(counts.contains("vic_refusals_total{reason=\"size\"} 1\n"), "{counts}");
    assert_eq!((answered.status, answered.json()["error"]["code"].clone()), (413, json!("payload_too_large")));
}

// Case D10
#[tokio::test]
async fn chunked_body_has_same_limit() {
    let bed = bed(&[("VIC_BRIDGE_MAX_BODY_BYTES", "100")]).await;
    for (bytes, status) in [(100, 200), (101, 413), (5_000, 413)] {
        let text = question_of(bytes);
        let pieces: Vec<Result<Vec<u8>, std::io::Error>> =
            text.as_bytes().chunks(30).map(|it| Ok(it.to_vec())).collect();
        let body = Body::from_stream(futures::stream::iter(pieces));
        assert_eq!(bed.post("/v1/ask", body).await.status, status, "{bytes}");
    }
}

#[tokio::test]
async fn late_body_is_408_and_slow_body_passes() {
    let bed = bed_with(&[], |bridge| {
        assert_eq!(bridge.body_time, Duration::from_secs(15));
        bridge.body_time = Duration::from_secs(1);
    })
    .await;
    let piece = |text: &'static str, milliseconds: u64| {
        futures::stream::once(async move {
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            Ok::<_, std::io::Error>(text)
        })
    };
    for (last, status, code) in [(100, 200, json!(null)), (5_000, 408, json!("request_timeout"))] {
        let body = piece("{\"query\":", 100).chain(piece(" \"x\"", 100)).chain(piece("}", last));
        let answered = bed.post("/v1/ask", Body::from_stream(body)).await;
        assert_eq!((answered.status, &answered.json()["error"]["code"]), (status, &code), "{}", answered.text);
    }
    for path in ["/mcp", "/v1/search", "/v1/sync", "/v1/pause", "/v1/corpus/query", "/v1/index/start"] {
        assert_eq!(bed.post(path, Body::from_stream(piece("{", 5_000))).await.status, 408, "{path}");
    }
}

// Case D10
#[tokio::test]
async fn bodies_over_memory_limit_are_429_with_retry_after() {
    let bed = bed_with(&[], |bridge| {
        bridge.message_budget = crate::serve::http::memory_limit::MessageBudget::with_budgets(2 << 20, 5 << 19);
    })
    .await;
    let large = || question_of(2 << 20);
    assert_eq!(bed.post("/v1/ask", large()).await.status, 200);
    // Keeps a body incomplete, so that its memory stays reserved.
    let (mut sender, receiver) = futures::channel::mpsc::unbounded();
    let router = bed.router.clone();
    let waiting = Body::from_stream(receiver.map(Ok::<_, std::io::Error>));
    let waits = tokio::spawn(router.oneshot(request("POST", "/v1/ask", &[], waiting)));
    for piece in large().as_bytes().chunks(64 << 10) {
        futures::SinkExt::send(&mut sender, piece.to_vec()).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    for path in ["/v1/ask", "/mcp"] {
        let refused = bed.post(path, large()).await;
        assert_eq!((refused.status, refused.json()["error"]["code"].clone()), (429, json!("resource_exhausted")));
        assert_eq!(refused.headers["retry-after"], "1", "{path}");
    }
    assert_eq!(bed.post("/v1/ask", question_of(1_000)).await.status, 200, "small bodies have their own budget");
    drop(sender);
    assert_eq!(waits.await.unwrap().unwrap().status(), 200);
    assert_eq!(bed.post("/v1/ask", large()).await.status, 200);
}

#[tokio::test]
async fn login_takes_no_memory_of_other_bodies() {
    let bed = bed_with(&[], |bridge| {
        bridge.message_budget = crate::serve::http::memory_limit::MessageBudget::with_budgets(0, 0);
    })
    .await;
    let login = |key: &str| bed.post("/ui/session", json!({"key": key}).to_string());
    // The daemon of this test has no keys: it has read the login, and refuses it.
    assert_eq!(login("wrong").await.status, 400);
    assert_eq!(login(&"x".repeat(5_000)).await.status, 413);
    assert_eq!(bed.post("/v1/ask", question_of(30)).await.status, 429);
}

// Case D10
#[tokio::test]
async fn max_body_bytes_applies_to_every_path() {
    let bed = bed(&[("VIC_BRIDGE_MAX_BODY_BYTES", "20")]).await;
    let paths = ["/v1/ask", "/v1/search", "/v1/similar", "/v1/grep", "/v1/files", "/v1/read", "/v1/index/start"];
    for path in paths.into_iter().chain(["/v1/sync", "/v1/pause", "/v1/corpus/query"]) {
        assert_eq!(bed.post(path, question_of(21)).await.status, 413, "{path}");
    }
}
