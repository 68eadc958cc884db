//! Sizes, numbers and times have bounds: whoever sends too much, too slowly or too often is refused, and others do not
//! notice.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::h2;
use crate::harness::World;
use crate::http::{Answered, connect, get, key, key_line, post, send};
use crate::openai::{self, HeldBack};
use crate::torture::{Promises, percentile, size};

/// Connections of a slow client.
const SLOW: usize = 1_000;

/// `/health` answers within this time whatever others do, 99 times in 100.
pub(crate) const HEALTH: Duration = Duration::from_millis(200);

/// What is too long is refused within this time.
const REFUSED: Duration = Duration::from_millis(100);

/// Who sends too slowly is cut within this time.
const CUT: Duration = Duration::from_secs(15);

/// Memory that requests which are refused may take: twice the longest body, in MiB.
const HELD_MIB: f64 = 4.0;

/// How long `/health` takes, the slowest of so many but for one in a hundred.
pub(crate) fn health_p99(world: &World, times: usize) -> Duration {
    let mut took: Vec<Duration> = (0..times)
        .map(|_| {
            let begun = Instant::now();
            assert_eq!(get(world, "/health").status, 200);
            begun.elapsed()
        })
        .collect();
    took.sort();
    took[times - 1 - times / 100]
}

/// Memory of the daemon, in MiB, without asking it.
pub(crate) fn resident(world: &World) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", world.pid())).unwrap();
    let resident = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
    resident.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

/// Lets this process have more connections than is usual.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(8_192).min(8_192);
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }).unwrap();
}

/// Whether the other side closes within a time; what comes before is read.
fn is_cut(mut stream: TcpStream, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).unwrap();
    let mut buffer = [0; 4_096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => (),
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// Opens many connections that never send a whole request; gives how long `/health` takes before and meanwhile, and how long
/// those took to be cut that were looked at, one in `step`.
fn among_slow(world: &World, step: usize) -> (Duration, Duration, Duration) {
    raise_file_limit();
    let usual = health_p99(world, 100);
    let body = format!("POST /v1/ask HTTP/1.1\r\nhost: localhost\r\n{}content-length: 99\r\n\r\n{{", key_line(world));
    let beginnings: [&[u8]; 5] = [
        b"",
        b"GET /health HTTP/1.1\r\nhost: local",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PRI * HTT",
        body.as_bytes(),
    ];
    let slow: Vec<TcpStream> = (0..SLOW)
        .map(|number| {
            let mut stream = connect(world);
            stream.write_all(beginnings[number % beginnings.len()]).unwrap();
            stream
        })
        .collect();
    let begun = Instant::now();
    let meanwhile = health_p99(world, 200);
    for stream in slow.into_iter().step_by(step) {
        assert!(is_cut(stream, 2 * CUT), "not after {:?}", begun.elapsed());
    }
    (usual, meanwhile, begun.elapsed())
}

#[test]
fn a_thousand_slow_connections_delay_nobody_and_are_cut() {
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").start();
    let (usual, meanwhile, cut) = among_slow(&world, 37);
    println!("health p99: {usual:?} alone, {meanwhile:?} among {SLOW} slow connections; all were cut after {cut:?}");
    // These machines compile and test at the same time.
    assert!(meanwhile < (3 * HEALTH).max(usual * 5), "{meanwhile:?}, {usual:?} alone");
    assert!(cut < 2 * CUT, "{cut:?}");
}

/// Requests that are longer than they may be, and how each is refused.
fn too_long(world: &World) -> Vec<(&'static str, String, u16)> {
    let key = key_line(world);
    let long = "x".repeat(1 << 20);
    let many = "x: y\r\n".repeat(100_000);
    let post = |path: &str, more: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\naccept: \
             application/json, text/event-stream\r\n{key}{more}"
        )
    };
    let piece = format!("10000\r\n{}\r\n", &long[..0x10000]);
    vec![
        ("a path of a megabyte", format!("GET /{long} HTTP/1.1\r\nhost: localhost\r\n{key}\r\n"), 431),
        (
            "a key of a megabyte",
            format!("GET /v1/status HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {long}\r\n\r\n"),
            431,
        ),
        ("100,000 headers", format!("GET /health HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"), 431),
        ("10 GB that are announced", post("/v1/ask", "content-length: 10000000000\r\n\r\n"), 413),
        (
            "25 MB of pieces without an end",
            post("/v1/ask", "transfer-encoding: chunked\r\n\r\n") + &piece.repeat(400),
            413,
        ),
        ("a call of 10 MB", post("/mcp", &format!("content-length: {}\r\n\r\n{}", 10 << 20, long.repeat(10))), 413),
    ]
}

/// Sends a request that nobody reads to its end; gives the status of the answer, and how long that took. There is an answer
/// in any case: who is cut without a word tries again.
fn refusal(world: &World, request: &str) -> (u16, Duration) {
    let begun = Instant::now();
    let mut stream = connect(world);
    let _cut_early = stream.write_all(request.as_bytes());
    let mut told = Vec::new();
    let _reset = stream.read_to_end(&mut told);
    let told = String::from_utf8_lossy(&told).into_owned();
    let status = told.strip_prefix("HTTP/1.1 ").and_then(|it| it.get(..3)?.parse().ok());
    (status.unwrap_or_else(|| panic!("no answer: `{told}`")), begun.elapsed())
}

/// As [`refusal`], for a message of gRPC that says that it has a gigabyte; gives the code.
fn refusal_over_grpc(world: &World) -> (u16, Duration) {
    let begun = Instant::now();
    let key = format!("Bearer {}", key(world));
    let message = (1 << 30, &[0; 100][..]);
    let called =
        h2::call_announcing(world, "localhost", "/vic.v1.Vic/Ask", &[("authorization", key.as_str())], message);
    (called.code.unwrap_or_else(|| panic!("no code: {called:?}")) as u16, begun.elapsed())
}

/// Sends everything that is too long, again and again; that so many in a hundred are refused in time is promised, and that it
/// takes no memory.
fn check_too_long(world: &World, rounds: usize, part: usize) {
    const RESOURCE_EXHAUSTED: u16 = 8;
    let requests = too_long(world);
    let over_http = requests.iter().map(|(what, request, status)| (*what, Some(request), *status));
    let tries: Vec<_> = over_http.chain([("a message of a gigabyte", None, RESOURCE_EXHAUSTED)]).collect();
    let send =
        |request: Option<&String>| request.map_or_else(|| refusal_over_grpc(world), |request| refusal(world, request));
    // The first of each kind makes what stays.
    tries.iter().for_each(|it| assert_eq!(send(it.1).0, it.2, "{}", it.0));
    let before = resident(world);
    let (mut promises, mut most) = (Promises::default(), before);
    for (what, request, expected) in tries {
        let mut times = Vec::new();
        for _ in 0..rounds {
            let (status, took) = send(request);
            assert_eq!(status, expected, "{what}");
            times.push(took);
            most = most.max(resident(world));
        }
        promises.soon(&format!("{what}: refused (p{part} of {rounds})"), percentile(&times, part), REFUSED);
    }
    promises.at_most("memory for what is refused, MiB", most - before, HELD_MIB, 3.0 * HELD_MIB);
    promises.check();
}

#[test]
fn what_is_too_long_is_refused_fast_and_takes_no_memory() {
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").start();
    check_too_long(&world, 5, 50);
    let zipped = send(&world, "POST", "/v1/ask", &[("content-encoding", "gzip")], "\u{1f}\u{8b}");
    assert_eq!(zipped.status, 400, "nothing is unpacked: {}", zipped.body);
    assert_eq!(get(&world, "/health").status, 200);
}

/// Everything that is too long, and a thousand slow connections, by the numbers that are promised.
#[test]
#[ignore = "measures, and needs the machine for itself: see `make torture`"]
fn torture_limits() {
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").start();
    check_too_long(&world, size("VIC_TORTURE_REFUSALS", 50) as usize, 99);
    let (_, meanwhile, cut) = among_slow(&world, 1);
    let mut promises = Promises::default();
    promises.soon(&format!("health among {SLOW} slow connections (p99)"), meanwhile, HEALTH);
    promises.at_most(
        &format!("until the last of {SLOW} slow connections is cut"),
        cut,
        CUT,
        CUT + Duration::from_secs(5),
    );
    promises.check();
}

#[test]
fn more_questions_than_places_are_answered_or_refused_at_once_with_a_time_to_come_back() {
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").start();
    for number in 0..50 {
        world.write(&format!("{number}.md"), format!("Page {number} of the gardener's almanac, with notes on frost."));
    }
    world.index();
    let ask = || -> (Answered, Duration) {
        let begun = Instant::now();
        (post(&world, "/v1/ask", &json!({"query": "what do the notes on frost say?", "limit": 50})), begun.elapsed())
    };
    let told: Vec<(Answered, Duration)> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..200).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let (answered, refused): (Vec<_>, Vec<_>) = told.iter().partition(|(it, _)| it.status == 200);
    println!("{} answered, {} refused", answered.len(), refused.len());
    assert!(!answered.is_empty());
    for (it, _) in &refused {
        assert_eq!((it.status, it.header("retry-after")), (429, Some("1")), "{}", it.body);
    }
    let page = send(&world, "GET", "/metrics", &[], "").body;
    let value = |name: &str| -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in\n{page}")).parse().unwrap()
    };
    assert_eq!(value("vic_questions_total{outcome=\"ok\"}"), answered.len() as f64);
    assert_eq!(value("vic_refusals_total{reason=\"busy\"}"), refused.len() as f64);
    assert_eq!(value("vic_files{state=\"indexed\"}"), 50.0);
    assert_eq!(value("vic_requests_waiting{queue=\"questions\"}"), 0.0);
    assert!(value("vic_embedded_tokens_total") > 0.0);
    assert_eq!(post(&world, "/v1/ask", &json!({"query": "frost"})).status, 200, "and it is as before");
}

/// Refused at once, with the time to come back; says whether it was.
fn is_refused(answered: &Answered) -> bool {
    if answered.status == 429 {
        assert_eq!(answered.header("retry-after"), Some("1"), "{}", answered.body);
    }
    answered.status == 429
}

#[test]
fn jobs_that_wait_are_bounded_those_of_the_index_and_those_of_verbs() {
    // Without watching, or the second note would be the watcher's and the job would end without it.
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").with("VIC_WATCH", "0").start();
    world.write("a.md", "The first note, about herons.");
    world.index();
    // Reading waits, so that the first job does not end and all others wait for it.
    world.ok(&["pause"]);
    world.write("b.md", "The second note, about herons.");
    let ingest = post(&world, "/v1/corpus/ingest", &json!({"paths": [world.files()], "async": true}));
    assert_eq!(ingest.status, 202, "{}", ingest.body);
    world.until("it is at work", Duration::from_secs(20), |it| {
        it.json(&["jobs"]).as_array().unwrap().iter().any(|job| job["state"] == "running")
    });
    let extract = || post(&world, "/v1/corpus/extract", &json!({"schema": "Code", "async": true}));
    let start = || post(&world, "/v1/index/start", &json!({"root": world.files()}));
    let taken = |ask: &dyn Fn() -> Answered| (0..200).take_while(|_| !is_refused(&ask())).count();
    assert_eq!((taken(&extract), taken(&start)), (63, 127), "beside the one that is at work");
    let at_once = post(&world, "/v1/corpus/ingest", &json!({"paths": [world.files()]}));
    assert!(is_refused(&at_once), "an INGEST that somebody waits for has a job of the index too: {}", at_once.body);
    let (code, said) = world.fails(&["index", world.files().to_str().unwrap()]);
    assert!(code == 8 && said.contains("vic jobs"), "{code}: {said}");
    assert_eq!(get(&world, "/health").status, 200);
    world.ok(&["resume"]);
    world.until("there is room again", Duration::from_secs(60), |_| !is_refused(&start()) && !is_refused(&extract()));
}

#[test]
fn syncs_that_wait_are_bounded_and_those_that_do_are_answered() {
    let model = HeldBack::start("herons");
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0");
    let world = openai::embeds_for(world, &model.server).start();
    world.write("a.md", "The first note, about herons.");
    world.index();
    // Files wait for their vectors for as long as the model says nothing.
    model.hold();
    world.write("b.md", "The second note, about herons.");
    let is_pending = |it: &World| it.json(&["status"])["coverage"]["pending"] == 1;
    world.until("the second is known", Duration::from_secs(20), is_pending);
    let refused = AtomicUsize::new(0);
    let sync = || {
        let answered = post(&world, "/v1/sync", &json!({"timeout_seconds": 50}));
        refused.fetch_add(usize::from(is_refused(&answered)), Ordering::Relaxed);
        answered.status
    };
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..300).map(|_| scope.spawn(sync)).collect();
        let begun = Instant::now();
        while refused.load(Ordering::Relaxed) < 44 && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(10));
        }
        model.let_go();
        asking.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let count = |status: u16| statuses.iter().filter(|it| **it == status).count();
    assert_eq!((count(200), count(429)), (256, 44));
    assert_eq!(post(&world, "/v1/sync", &json!({})).status, 200);
}
