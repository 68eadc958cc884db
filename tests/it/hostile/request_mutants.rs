//! Tests HTTP and MCP requests that no client sends: the daemon must answer or refuse each, with a reason, and keep running.
//!
//! `VIC_MUTANTS` sets the number of each kind of request, `VIC_SEED` the first seed; see `mutants.rs`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vic::verbs::{EXAMPLES, full_request};

use crate::hostile::mutants::DEFAULT_MUTANTS;
use crate::hostile::mutants::Xorshift;
use crate::hostile::mutants::mutate;
use crate::hostile::mutants::rng_of_mutant;
use crate::hostile::mutants::variable_or;
use crate::hostile::query_mutants::mutate_json;
use crate::hostile::query_mutants::mutated_text;
use crate::support::harness::World;
use crate::support::http_client::connect;
use crate::support::http_client::get;
use crate::support::http_client::key_line;

/// Maximum time of a request.
const SOON: Duration = Duration::from_secs(20);

/// Returns valid request bodies. No body has the path of a folder or an address, because a mutation could turn it into that
/// of a real folder or server.
fn request_bodies() -> Vec<(String, Value)> {
    let of = |path: &str, body: Value| (path.to_string(), body);
    let mut bodies = vec![
        of(
            "/v1/ask",
            json!({"query": "who keeps the \"spare key\"? ext:md after:2024-01", "limit": 3, "filters": {"extensions": ["md"], "min_size": 3}}),
        ),
        of("/v1/ask", json!({"query": "PDFs larger than 2 MB since March 2024", "privacy_mode": "local_only"})),
        of("/v1/search", json!({"query": "heron -otter +reeds path:a", "limit": 9})),
        of("/v1/similar", json!({"path": "a.md", "limit": 3})),
        of("/v1/grep", json!({"pattern": "her(on|alds)+ [a-z]{2,9}", "limit": 9})),
        of("/v1/files", json!({"name": "a", "state": "indexed", "limit": 2, "offset": 0})),
        of("/v1/read", json!({"path": "a.md", "offset": 1, "max_chars": 9})),
        of("/v1/marks", json!({"query": "herons", "texts": ["The heron", "a reed"], "prefix": true})),
        of("/v1/complete", json!({"text": "heron ext:m", "position": 11})),
        of("/v1/counts", json!({"query": "heron", "filters": {"extensions": ["md"]}})),
        of("/v1/page", json!({"path": "a.md", "page": 1, "query": "heron", "quote": "the grey heron", "width": 600})),
        of("/v1/searches", json!({"query": "q=heron", "name": "mine"})),
        of("/v1/searches/remove", json!({"name": "mine"})),
        of("/v1/graph", json!({"query": {"axql": "select ?x where ?x is File limit 2"}})),
        of("/v1/pause", json!({"seconds": 1})),
        of("/v1/resume", json!({})),
        of("/v1/index/start", json!({"full": true, "max_files": 2})),
    ];
    // Skips `INGEST`, because the daemon would fetch the mutated addresses.
    let verbs = EXAMPLES.iter().filter(|it| it.verb != "INGEST");
    bodies.extend(verbs.map(|it| {
        let path = format!("/v1/corpus/{}", it.verb.to_lowercase().replace('_', "-"));
        (path, serde_json::from_str(&full_request(it)).unwrap())
    }));
    bodies
}

const PIECES: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "null",
    "-1",
    "1e999",
    "\\ud800",
    "\\u0000",
    " AND ",
    " OR ",
    " NOT ",
    "(((",
    ")))",
    "extension=md",
    "word_count>",
    "ext:",
    "\"query\"",
    "9999999999999999999",
    "..",
    "\u{202e}",
];

/// Starts a daemon with ten indexed files and without a rate limit.
pub(super) fn unlimited_world() -> World {
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").with("VIC_WATCH", "0");
    let world = world.with("VIC_MCP_TOOLS", "all").start();
    for number in 0..10 {
        world.write(
            &format!("{number}.md"),
            format!("# Note {number}\n\nThe heron stands in the reeds on 2 March 2024.\n"),
        );
    }
    world.index();
    world
}

/// Sends these bytes. Returns HTTP status and body, or None if the server closes the connection without a response.
fn send_raw(world: &World, request: &[u8], patience: Duration) -> Option<(u16, String)> {
    let mut stream = connect(world);
    stream.set_read_timeout(Some(patience)).unwrap();
    let _refused_early = stream.write_all(request);
    let mut bytes = Vec::new();
    let _reset = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_string()))
}

/// Sends a body with the owner's key. Asserts that the response is not an internal error, and that a refusal has a reason.
fn send_body(world: &World, (method, path, more): (&str, &str, &str), body: &[u8], what: &str) -> u16 {
    let head = format!(
        "{method} {path} HTTP/1.0\r\nhost: localhost\r\n{}{more}content-length: {}\r\n\r\n",
        key_line(world),
        body.len()
    );
    let begun = Instant::now();
    let told = send_raw(world, &[head.as_bytes(), body].concat(), SOON);
    let (status, told) = told.unwrap_or_else(|| panic!("no answer to {what}\n{}", world.log()));
    assert!(begun.elapsed() < SOON, "{what}: {:?}", begun.elapsed());
    assert_ne!(status, 500, "{what}: {told}");
    if status >= 400 {
        let said: Value =
            serde_json::from_str(&told).unwrap_or_else(|error| panic!("{what}: {status} {told}: {error}"));
        assert!(said["error"].is_object(), "{what}: {status} {told}");
    }
    status
}

/// Asserts that the daemon with this process id still runs, answers, finds all files and has not panicked.
pub(super) fn check_daemon_healthy(world: &mut World, pid: u32) {
    assert!(world.exit_status().is_none(), "{}", world.log());
    assert_eq!((world.pid(), get(world, "/health").status), (pid, 200));
    assert!(!world.log().contains("panicked"), "{}", world.log());
    assert_eq!(world.paths(&["heron"]).len(), 10);
}

// Case D12
#[test]
fn mutated_bodies_are_answered_or_refused() {
    let mut world = unlimited_world();
    let (pid, bodies) = (world.pid(), request_bodies());
    let mut fine = 0;
    for number in 0..variable_or("VIC_MUTANTS", DEFAULT_MUTANTS) {
        let mut dice = rng_of_mutant(number);
        let (path, body) = dice.pick(&bodies).clone();
        let bytes = match dice.index_below(3) {
            0 => mutated_text(&[body.to_string()], &PIECES, &mut dice).into_bytes(),
            1 => {
                let mut bytes = body.to_string().into_bytes();
                mutate(&mut bytes, &mut dice);
                bytes
            }
            _ => {
                let mut body = body;
                (0..=dice.index_below(3)).for_each(|_| mutate_json(&mut body, &mut dice));
                body.to_string().into_bytes()
            }
        };
        let what = format!("seed {number}: {path} {:.2000?}", String::from_utf8_lossy(&bytes));
        fine +=
            u64::from(send_body(&world, ("POST", &path, "content-type: application/json\r\n"), &bytes, &what) < 300);
    }
    assert!(fine > 0, "no request succeeded");
    check_daemon_healthy(&mut world, pid);
}

// Case D12
#[test]
fn mutated_urls_and_headers_are_answered_or_refused() {
    const ADDRESSES: [&str; 7] = [
        "/v1/index/status?job_id=job-1",
        "/v1/index/events?job_id=0198c0de-0000-7000-8000-000000000001&x=1",
        "/v1/status?verbose=true",
        "/openapi.json?a=b&a=b",
        "/health?x",
        "/metrics",
        "/v1/corpus/query?filter=a%20b",
    ];
    const PARTS: [&str; 20] = [
        "?", "&", "=", "%", "%00", "%2e%2e", "%ff", "//", "/../", ";", "#", "+", "[]", "job_id=", "..", "*", "@", ":",
        "\\", "%u0041",
    ];
    let mut world = unlimited_world();
    let pid = world.pid();
    for number in 0..variable_or("VIC_MUTANTS", DEFAULT_MUTANTS) {
        let mut dice = rng_of_mutant(number);
        let address = mutated_text(&ADDRESSES, &PARTS, &mut dice);
        let method = *dice.pick(&["GET", "GET", "GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH", "BREW"]);
        // Percent-encodes characters that are not permitted in a URL, as a client does.
        let escaped: String = address
            .bytes()
            .map(|it| if it.is_ascii_graphic() { char::from(it).to_string() } else { format!("%{it:02x}") })
            .collect();
        let head = format!(
            "{method} /{} HTTP/1.0\r\nhost: localhost\r\n{}\r\n",
            escaped.trim_start_matches('/'),
            key_line(&world)
        );
        let told = send_raw(&world, head.as_bytes(), SOON);
        assert!(told.is_some_and(|it| it.0 != 500), "seed {number}: {method} {escaped}\n{}", world.log());
        // Sends the request again with mutated bytes anywhere in the head, which may then never end.
        let mut bytes = head.into_bytes();
        mutate(&mut bytes, &mut dice);
        let told = send_raw(&world, &bytes, Duration::from_millis(100));
        assert!(told.is_none_or(|it| it.0 != 500), "seed {number}: {:?}", String::from_utf8_lossy(&bytes));
    }
    check_daemon_healthy(&mut world, pid);
}

/// Returns valid MCP messages as seeds.
fn mcp_messages() -> Vec<Value> {
    let message = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let call = |name: &str, arguments: Value| message("tools/call", json!({"name": name, "arguments": arguments}));
    let client =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    vec![
        message("initialize", client),
        message("ping", json!({})),
        message("tools/list", json!({"cursor": "x"})),
        message("resources/list", json!({})),
        message("resources/templates/list", json!({})),
        message("resources/read", json!({"uri": "vic://corpus/help"})),
        message("prompts/list", json!({})),
        message("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "x"}})),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}),
        json!({"jsonrpc": "2.0", "id": 7, "result": {}}),
        json!({"jsonrpc": "2.0", "id": "x", "error": {"code": -1, "message": "x"}}),
        call("ask", json!({"query": "where does the heron stand?", "limit": 2})),
        call("search", json!({"query": "heron"})),
        call("files", json!({"query": "1 ext:md after:2020", "limit": 3, "structured": true})),
        call("search", json!({"query": "heron", "max_chars": 300, "cursor": "AQAAAAAAAAAAAAAAAAAAAAAAAA"})),
        call("read", json!({"path": "1.md", "max_chars": 200})),
        call("status", json!({})),
        call("toolset", json!({"add": "graph"})),
        call("axql_run", json!({"axql": "select ?x where ?x is File limit 3"})),
        call("graph_query", json!({"queryType": "edges"})),
        call("graph_query", json!({"queryType": "nodes", "filters": {"semanticId": "File#1", "namePattern": "a*"}})),
        call("corpus_query", json!({"filter": "extension=md AND word_count>1"})),
    ]
}

fn mutated_message(dice: &mut Xorshift) -> Vec<u8> {
    let mut message = dice.pick(&mcp_messages()).clone();
    match dice.index_below(4) {
        0 => {
            let mut bytes = message.to_string().into_bytes();
            mutate(&mut bytes, dice);
            bytes
        }
        1 => mutated_text(&[message.to_string()], &PIECES, dice).into_bytes(),
        _ => {
            (0..=dice.index_below(3)).for_each(|_| mutate_json(&mut message, dice));
            message.to_string().into_bytes()
        }
    }
}

// Case D14
#[test]
fn mutated_mcp_messages_over_http_are_answered_or_refused() {
    let mut world = unlimited_world();
    let pid = world.pid();
    let (mut fine, more) = (0, "content-type: application/json\r\naccept: application/json, text/event-stream\r\n");
    for number in 0..variable_or("VIC_MUTANTS", DEFAULT_MUTANTS) {
        let bytes = mutated_message(&mut rng_of_mutant(number));
        let head = format!(
            "POST /mcp HTTP/1.0\r\nhost: localhost\r\n{}{more}content-length: {}\r\n\r\n",
            key_line(&world),
            bytes.len()
        );
        let told = send_raw(&world, &[head.as_bytes(), &bytes].concat(), SOON);
        let what = format!("seed {number}: {:.2000?}", String::from_utf8_lossy(&bytes));
        let (status, told) = told.unwrap_or_else(|| panic!("no answer to {what}\n{}", world.log()));
        assert!(status != 500 && !told.contains("\"code\":\"internal\""), "{what}: {status} {told}");
        fine += u64::from(told.contains("\"result\""));
    }
    assert!(fine > 0, "no request succeeded");
    check_daemon_healthy(&mut world, pid);
}

// Case D14
#[test]
fn mutated_mcp_messages_over_stdio_stop_nothing() {
    let mut world = unlimited_world();
    let pid = world.pid();
    let mut command = world.command(crate::support::harness::vic_program());
    command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = command.spawn().unwrap();
    let (mut input, output) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
    let messages: Vec<Vec<u8>> = (0..variable_or("VIC_MUTANTS", DEFAULT_MUTANTS))
        .map(|number| mutated_message(&mut rng_of_mutant(number)))
        .collect();
    let writing = std::thread::spawn(move || {
        let mut line = |bytes: &[u8]| {
            let one: Vec<u8> = bytes.iter().copied().filter(|it| *it != b'\n').collect();
            input.write_all(&one).and_then(|()| input.write_all(b"\n")).unwrap();
        };
        line(crate::hostile::request_mutants::mcp_messages()[0].to_string().as_bytes());
        line(br#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#);
        messages.iter().for_each(|it| line(it));
        line(br#"{"jsonrpc": "2.0", "id": "the last", "method": "ping"}"#);
        input
    });
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    let answered = lines.into_iter().any(|it| it.contains("\"the last\""));
    assert!(answered, "`vic mcp` ended before the last message: {:?}", server.try_wait().unwrap());
    drop(writing.join().unwrap());
    assert!(server.wait().unwrap().success());
    check_daemon_healthy(&mut world, pid);
}
