//! Sizes, numbers and times have bounds: whoever sends too much, too slowly or too often is refused, and others do not
//! notice.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::harness::World;
use crate::http::{Answered, connect, get, key_line, post, send};
use crate::openai::{self, HeldBack};

/// Connections of a slow client.
const SLOW: usize = 1_000;

/// The promise is 200 ms; these machines compile and test at the same time.
const SOON: Duration = Duration::from_secs(1);

/// How long `/health` takes, the slowest of so many but for one in a hundred.
fn health_p99(world: &World, times: usize) -> Duration {
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

#[test]
fn a_thousand_slow_connections_delay_nobody_and_are_cut() {
    raise_file_limit();
    let world = World::new().start();
    let usual = health_p99(&world, 100);
    let beginnings: [&[u8]; 4] =
        [b"", b"GET /health HTTP/1.1\r\nhost: local", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"PRI * HTT"];
    let begun = Instant::now();
    let slow: Vec<TcpStream> = (0..SLOW)
        .map(|number| {
            let mut stream = connect(&world);
            stream.write_all(beginnings[number % beginnings.len()]).unwrap();
            stream
        })
        .collect();
    let among_slow = health_p99(&world, 100);
    println!("health p99: {usual:?} alone, {among_slow:?} among {SLOW} slow connections");
    assert!(among_slow < SOON.max(usual * 5), "{among_slow:?}, {usual:?} alone");
    let limit = Duration::from_secs(30);
    for stream in slow.into_iter().step_by(37) {
        assert!(is_cut(stream, limit), "not after {:?}", begun.elapsed());
    }
    println!("all were cut after {:?}", begun.elapsed());
    assert!(begun.elapsed() < limit, "{:?}", begun.elapsed());
}

#[test]
fn what_is_too_long_is_refused_fast_and_takes_no_memory() {
    let world = World::new().start();
    let before = world.json(&["status"])["rss_mib"].as_f64().unwrap();
    let key = key_line(&world);
    let long = "x".repeat(1 << 20);
    let many = "x: y\r\n".repeat(100_000);
    for (what, request) in [
        ("a path of a megabyte", format!("GET /{long} HTTP/1.1\r\nhost: localhost\r\n{key}\r\n")),
        (
            "a key of a megabyte",
            format!("GET /v1/status HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {long}\r\n\r\n"),
        ),
        ("100,000 headers", format!("GET /health HTTP/1.1\r\nhost: localhost\r\n{many}\r\n")),
    ] {
        let begun = Instant::now();
        let mut stream = connect(&world);
        let _refused_early = stream.write_all(request.as_bytes());
        let mut told = Vec::new();
        let _reset = stream.read_to_end(&mut told);
        let told = String::from_utf8_lossy(&told).into_owned();
        assert!(
            told.is_empty() || told.contains(" 431 ") || told.contains(" 414 ") || told.contains(" 401 "),
            "{what}: {told}"
        );
        assert!(begun.elapsed() < Duration::from_secs(5), "{what}: {:?}", begun.elapsed());
    }
    let announced = format!(
        "POST /v1/ask HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 10000000000\r\n{key}\r\n"
    );
    assert_eq!(crate::http::raw(&world, &announced).status, 413);
    let zipped = send(&world, "POST", "/v1/ask", &[("content-encoding", "gzip")], "\u{1f}\u{8b}");
    assert_eq!(zipped.status, 400, "nothing is unpacked: {}", zipped.body);
    let after = world.json(&["status"])["rss_mib"].as_f64().unwrap();
    assert!(after < before + 64.0, "{before} MiB before, {after} MiB after");
    assert_eq!(get(&world, "/health").status, 200);
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The beginning of a connection: preface and empty settings.
fn preface() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[])].concat()
}

/// `GET /health` as a block of headers.
fn block() -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x04, 7];
    block.extend(b"/health");
    block.extend([0x01, 9]);
    block.extend(b"localhost");
    block
}

#[test]
fn storms_of_frames_end_their_connection_and_nothing_else() {
    let world = World::new().start();
    let begun = Instant::now();
    // Streams that are opened and reset at once.
    let mut resets = preface();
    for number in 0..10_000 {
        let stream = 2 * number + 1;
        resets.extend(frame(1, 0x5, stream, &block()));
        resets.extend(frame(3, 0, stream, &8u32.to_be_bytes()));
    }
    // Headers that never end.
    let mut endless = [preface(), frame(1, 0x1, 1, &block())].concat();
    for _ in 0..1_000 {
        endless.extend(frame(9, 0, 1, &[0u8; 16_000]));
    }
    // More streams than are allowed, all open.
    let mut streams = preface();
    for number in 0..10_000 {
        streams.extend(frame(1, 0x4, 2 * number + 1, &block()));
    }
    for (what, storm) in [("resets", resets), ("headers", endless), ("streams", streams)] {
        let mut stream = connect(&world);
        let reader = stream.try_clone().unwrap();
        let reading = std::thread::spawn(move || is_cut(reader, Duration::from_secs(20)));
        let _cut_early = stream.write_all(&storm);
        let p99 = health_p99(&world, 50);
        println!("{what}: health p99 {p99:?}");
        assert!(p99 < SOON, "{what}: {p99:?}");
        let _gone = stream.shutdown(std::net::Shutdown::Write);
        assert!(reading.join().unwrap(), "{what}: the connection is kept");
    }
    println!("after {:?}", begun.elapsed());
    assert_eq!(get(&world, "/health").status, 200);
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
