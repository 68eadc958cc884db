//! Tests that a web page cannot control the daemon, and that no client can without a key. Requests are sent as raw bytes,
//! because HTTP libraries refuse to send them.

use std::collections::BTreeSet;
use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::support::grpc_client;
use crate::support::harness::World;
use crate::support::http_client::Response;
use crate::support::http_client::connect;
use crate::support::http_client::key;
use crate::support::http_client::key_line;
use crate::support::http_client::send;
use crate::support::http_client::send_raw;

/// Host names that resemble the host of the daemon but differ from it. `PORT` stands for the port of the daemon.
const FOREIGN_HOSTS: &[&str] = &[
    "evil.example",
    "evil.example:PORT",
    "127.0.0.1.nip.io:PORT",
    "localhost.evil.com",
    "0.0.0.0:PORT",
    "127.0.0.1:1",
    "localhost:1",
    "LOCALHOST:PORT",
    "localhost.:PORT",
    "127.1:PORT",
    "2130706433",
    "[::ffff:127.0.0.1]:PORT",
    "[::]:PORT",
    "user@localhost:PORT",
    "localhost:PORT@evil.example",
];

/// Headers that browsers send with the request of a foreign web page.
const BROWSER_HEADERS: &[(&str, &str)] = &[
    ("origin", "https://evil.example"),
    ("origin", "null"),
    ("origin", "http://localhost:PORT"),
    ("origin", "http://localhost:1"),
    ("origin", "file://"),
    ("origin", "chrome-extension://abcdefgh"),
    ("sec-fetch-site", "cross-site"),
    ("sec-fetch-site", "same-origin"),
];

/// Returns requests that a web page could send: method, path, content type, body. Each would have an effect or reveal data.
fn page_requests(world: &World) -> Vec<(&'static str, &'static str, &'static str, String)> {
    let start = json!({"root": world.files(), "full": true}).to_string();
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "index", "arguments": {"root": world.files(), "full": true}},
    });
    vec![
        ("GET", "/health", "", String::new()),
        ("GET", "/v1/status", "", String::new()),
        ("POST", "/v1/index/start", "application/json", start.clone()),
        ("POST", "/v1/index/start", "text/plain", start.clone()),
        ("POST", "/v1/index/start", "application/x-www-form-urlencoded", start),
        ("POST", "/mcp", "application/json", call.to_string()),
        ("OPTIONS", "/v1/index/start", "", String::new()),
    ]
}

/// Returns the state that a refused request must not change: number of jobs, roots, and files of the index.
fn daemon_state(world: &World) -> (usize, Value, BTreeSet<String>) {
    let versions = files_below(&world.data().join("index"));
    (world.json(&["jobs"]).as_array().unwrap().len(), world.json(&["roots"]), versions)
}

fn files_below(folder: &std::path::Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.append(&mut files_below(&path)),
            path => {
                found.insert(path.display().to_string());
            }
        }
    }
    found
}

fn port(world: &World) -> String {
    world.listen().rsplit(':').next().unwrap().to_string()
}

/// Sends a request with a valid key, so that only host and origin can cause a refusal.
fn send_as_page(world: &World, (method, path, kind, body): &(&str, &str, &str, String), headers: &str) -> Response {
    let kind = if kind.is_empty() { String::new() } else { format!("content-type: {kind}\r\n") };
    let accept = "accept: application/json, text/event-stream\r\n";
    let headers = headers.replace("PORT", &port(world));
    send_raw(
        world,
        &format!(
            "{method} {path} HTTP/1.1\r\nconnection: close\r\n{headers}{}{accept}{kind}content-length: {}\r\n\r\n{body}",
            key_line(world),
            body.len()
        ),
    )
}

fn check_refused(answered: &Response, what: &str) {
    assert_eq!(answered.status, 403, "{what}: {}", answered.body);
    assert!(!answered.head.contains("access-control"), "{what}: {}", answered.head);
}

// Cases D1, D2, D3, D4, D5
#[test]
fn foreign_origin_and_host_are_refused_on_every_listener() {
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").with("VIC_WATCH", "0").start();
    world.write("a.md", "A private thought about the orchard.");
    world.index();
    let before = daemon_state(&world);
    let mut cases = 0;
    for one in &page_requests(&world) {
        for host in FOREIGN_HOSTS {
            check_refused(&send_as_page(&world, one, &format!("host: {host}\r\n")), &format!("{host} {one:?}"));
            cases += 1;
        }
        for (name, value) in BROWSER_HEADERS.iter().filter(|it| it.1 != "same-origin") {
            let headers = format!("host: localhost:PORT\r\n{name}: {value}\r\n");
            check_refused(&send_as_page(&world, one, &headers), &format!("{value} {one:?}"));
            cases += 1;
        }
        // A page of this host needs a session: its key does not count.
        let status = send_as_page(&world, one, "host: localhost:PORT\r\nsec-fetch-site: same-origin\r\n").status;
        assert!(matches!(status, 401 | 403 | 415), "{status} {one:?}");
        assert_eq!(daemon_state(&world), before, "{one:?}");
    }
    assert!(cases >= 60, "{cases}");
    check_unusual_hosts(&world);
    check_grpc(&world);
    assert_eq!(daemon_state(&world), before);
    // Control: the same request with the right host succeeds.
    let one = &page_requests(&world)[2];
    assert_eq!(send_as_page(&world, one, "host: localhost:PORT\r\n").status, 202);
}

/// Checks foreign, repeated and missing host names, a preflight request and a websocket upgrade.
fn check_unusual_hosts(world: &World) {
    let key = key_line(world);
    for (line, hosts) in [
        ("GET http://evil.example/v1/status HTTP/1.1", "host: localhost\r\n"),
        ("GET http://localhost/v1/status HTTP/1.1", "host: evil.example\r\n"),
        ("GET /v1/status HTTP/1.1", "host: localhost\r\nhost: localhost\r\n"),
        ("GET /v1/status HTTP/1.1", "host: localhost\r\nhost: evil.example\r\n"),
        ("GET /v1/status HTTP/1.1", "host:\r\n"),
        ("GET /v1/status HTTP/1.0", ""),
    ] {
        let answered = send_raw(world, &format!("{line}\r\nconnection: close\r\n{hosts}{key}\r\n"));
        check_refused(&answered, &format!("{line} {hosts}"));
    }
    // The preflight request that a browser sends for a public page that wants to reach a private address.
    let preflight = "origin: https://evil.example\r\naccess-control-request-method: POST\r\n\
                     access-control-request-private-network: true\r\n";
    let answered = send_raw(
        world,
        &format!("OPTIONS /v1/ask HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{preflight}\r\n"),
    );
    check_refused(&answered, "a preflight");
    let upgrade = "origin: https://evil.example\r\nupgrade: websocket\r\nconnection: upgrade\r\n";
    check_refused(
        &send_raw(world, &format!("GET /mcp HTTP/1.1\r\nhost: localhost\r\n{upgrade}{key}\r\n")),
        "a websocket upgrade",
    );
}

fn check_grpc(world: &World) {
    let (port, key) = (port(world), format!("Bearer {}", key(world)));
    let authorization = ("authorization", key.as_str());
    let message = grpc_client::string_field(1, world.files().to_str().unwrap());
    let start = "/vic.v1.Vic/StartIndex";
    // Skips names with `@`, which the HTTP/2 client cannot send in `:authority`.
    for host in FOREIGN_HOSTS.iter().filter(|it| !it.contains('@')) {
        let called = grpc_client::call(world, &host.replace("PORT", &port), start, &[authorization], &message);
        assert_eq!((called.status, called.code), (403, Some(7)), "{host}: {called:?}");
    }
    for &(name, value) in BROWSER_HEADERS {
        let value = value.replace("PORT", &port);
        let called = grpc_client::call(world, "localhost", start, &[authorization, (name, value.as_str())], &message);
        assert_eq!((called.status, called.code), (403, Some(7)), "{value}: {called:?}");
        let called = grpc_client::call_socket(world, start, &[(name, value.as_str())], &message);
        assert_eq!((called.status, called.code), (403, Some(7)), "{value} over the Unix socket: {called:?}");
    }
    let web = ("content-type", "application/grpc-web");
    assert_eq!(grpc_client::call(world, "localhost", start, &[authorization, web], &message).status, 415);
}

// Case D4
#[test]
fn form_content_type_is_refused_with_415() {
    let world = World::new().start();
    let start = json!({"root": world.files()}).to_string();
    for kind in ["text/plain", "text/plain;charset=UTF-8", "multipart/form-data; boundary=x"] {
        assert_eq!(send(&world, "POST", "/v1/index/start", &[("content-type", kind)], &start).status, 415, "{kind}");
    }
    assert_eq!(world.json(&["jobs"]), json!([]));
}

/// Authorization headers that the daemon must refuse; the empty string stands for no header.
const INVALID_CREDENTIALS: &[&str] = &[
    "",
    "Bearer",
    "Bearer ",
    "Bearer wrong",
    "Basic dXNlcjpwYXNz",
    "Bearer AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "Bearer \u{fc}\u{df}",
];

// Case D6
#[test]
fn every_path_except_liveness_requires_the_key() {
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").start();
    let listed = send(&world, "GET", "/", &[], "").json()["paths"].clone();
    // The files of the page hold no data, and a login is how a page shows its key.
    let is_closed = |it: &&String| !["GET /ui/", "POST /ui/session"].contains(&it.as_str());
    for name in listed.as_object().unwrap().keys().filter(is_closed) {
        let (method, path) = name.split_once(' ').unwrap();
        for &shown in INVALID_CREDENTIALS {
            let status = send(&world, method, path, &[("authorization", shown)], "{}").status;
            // Many wrong keys are limited with 429. Requests without a key are not limited, because they cannot guess keys.
            let expected: &[u16] = match (path == "/health", shown.is_empty()) {
                (true, true) => &[200],
                (true, false) => &[200, 429],
                (false, true) => &[401],
                (false, false) => &[401, 429],
            };
            assert!(expected.contains(&status), "{name} with `{shown}`: {status}");
        }
    }
    for method in grpc_client::methods().into_iter().chain(["/grpc.health.v1.Health/Watch".to_string()]) {
        let called = grpc_client::call(&world, "localhost", &method, &[], &[]);
        assert_eq!(called.code, Some(16), "{method}: {called:?}");
        let called = grpc_client::call(&world, "localhost", &method, &[("authorization", "Bearer wrong")], &[]);
        assert!(matches!(called.code, Some(8 | 16)), "{method}: {called:?}");
    }
    assert_eq!(grpc_client::call(&world, "localhost", "/grpc.health.v1.Health/Check", &[], &[]).code, Some(0));
    // A key in the query string does not count; only the key in the header does.
    let query = format!("/v1/status?key={}&access_token={}", key(&world), key(&world));
    assert_eq!(send(&world, "GET", &query, &[("authorization", "")], "").status, 401);
    assert_eq!(send(&world, "GET", "/v1/status", &[], "").status, 200);
}

#[test]
fn response_without_key_reveals_no_file_data() {
    let world = World::new().start();
    world.write("a.md", "A private thought about the orchard.");
    world.index();
    let anonymous = [("authorization", "")];
    for path in ["/", "/health", "/openapi.json", "/v1/status", "/v1/nowhere", "/mcp", "/metrics"] {
        let told = send(&world, "GET", path, &anonymous, "");
        for private in [world.files(), world.data()] {
            assert!(!told.body.contains(private.to_str().unwrap()), "{path}: {}", told.body);
        }
        assert!(!told.body.contains(&key(&world)), "{path}");
    }
    let health = send(&world, "GET", "/health", &anonymous, "").json();
    assert_eq!((&health["status"], &health["index_ready"]), (&json!("ok"), &json!(true)));
    let told =
        ["chunk_rows_indexed", "warehouse_root_indexed", "db_path", "files_indexed", "files_pending", "problems"];
    for field in told {
        assert_eq!(health[field], json!(null), "{field}");
        assert_ne!(send(&world, "GET", "/health", &[], "").json()[field], json!(null), "{field} with the key");
    }
}

// Case D7
#[test]
fn wrong_keys_are_rate_limited_and_right_key_works() {
    let world = World::new().start();
    let guess = |number: u32| {
        let shown = format!("Bearer guess-{number}");
        send(&world, "GET", "/mcp", &[("authorization", shown.as_str())], "")
    };
    let statuses: Vec<u16> = (0..1_000).map(|number| guess(number).status).collect();
    assert!(statuses[..30].iter().all(|it| *it == 401) && statuses[30..].iter().all(|it| *it == 429));
    assert!(guess(0).header("retry-after").is_some());
    assert_eq!(send(&world, "GET", "/v1/status", &[], "").status, 200);
    assert!(!world.log().contains("guess-"), "{}", world.log());
}

// Case D14
#[test]
fn mcp_session_id_grants_nothing_and_huge_call_is_refused() {
    let world = World::new().start();
    let call = |padding: usize| {
        let arguments = json!({"query": "x".repeat(padding)});
        let params = json!({"name": "search", "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
    };
    let common = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    let send =
        |more: &[(&str, &str)], body: &str| send(&world, "POST", "/mcp", &[&common[..], more].concat(), body).status;
    let session = ("mcp-session-id", "7f3c1e0a-0000-4000-8000-000000000001");
    assert_eq!(send(&[("authorization", ""), session], &call(1)), 401);
    assert!(matches!(send(&[session], &call(1)), 200 | 400 | 404), "a guessed session id must not open a session");
    assert_eq!(send(&[("mcp-protocol-version", "1999-01-01")], &call(1)), 400);
    assert!(matches!(send(&[], "{\"jsonrpc\": \"2.0\""), 400 | 415));
    assert_eq!(send(&[], &call(1)), 200);
    let long = call(10 << 20);
    let mut stream = connect(&world);
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let accept = "accept: application/json, text/event-stream\r\n";
    let request = format!("{head}{accept}{}content-length: {}\r\n\r\n{long}", key_line(&world), long.len());
    // Ignores errors: the daemon responds before it has received the whole request, and then closes the connection.
    let _cut = stream.write_all(request.as_bytes());
    let mut told = Vec::new();
    let _reset = stream.read_to_end(&mut told);
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(told.starts_with("HTTP/1.1 413"), "`{told}`");
}

#[test]
fn disabled_auth_is_reported_in_status() {
    let world = World::new().with("VIC_BRIDGE_AUTH", "none").start();
    assert_eq!(send(&world, "GET", "/v1/status", &[("authorization", "")], "").status, 200);
    assert!(!world.data().join("key").exists());
    let degraded = world.json(&["status"])["degraded"].to_string();
    assert!(degraded.contains("VIC_BRIDGE_AUTH"), "{degraded}");
    let health = send(&world, "GET", "/health", &[], "").json();
    assert!(health["degraded"] == true && health["problems"].to_string().contains("VIC_BRIDGE_AUTH"), "{health}");
    assert_eq!(send(&world, "GET", "/v1/status", &[("host", "evil.example")], "").status, 403);
}
