//! The end comes soon, whatever is under way.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::World;
use crate::http::{connect, key_line, post};
use crate::openai;
use crate::server::Server;
use crate::torture::{Dice, Promises, figure, percentile, size};

/// The longest that the daemon may take.
const ALWAYS: Duration = Duration::from_secs(10);

/// Where others keep the machine busy everything takes longer; what hangs takes longer still.
const BUSY_MACHINE: u32 = 3;

/// The longest that the second signal may take.
const AT_ONCE: Duration = Duration::from_millis(200);

/// Longer than any end may take: whoever waits for the model waits when the daemon ends.
const THINKING: Duration = Duration::from_secs(60);

/// What a client of MCP over HTTP sends.
const OVER_MCP: &str = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";

/// The longest that an idle daemon may take.
const IDLE: Duration = Duration::from_secs(1);

fn terminate(daemon: &Child) {
    let pid = daemon.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
}

/// How long the daemon takes to end well after SIGTERM.
fn end(world: &mut World) -> Duration {
    let mut daemon = world.release();
    let begun = Instant::now();
    terminate(&daemon);
    let status = daemon.wait().unwrap();
    assert!(status.success(), "{status}\n{}", world.log());
    begun.elapsed()
}

/// A connection on which so much was sent.
fn sent(world: &World, bytes: &[u8]) -> TcpStream {
    let mut stream = connect(world);
    stream.write_all(bytes).unwrap();
    stream
}

/// A question whose body never comes: a request at work for as long as the daemon lets it.
fn endless(world: &World) -> TcpStream {
    let head = "POST /v1/ask HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n";
    let stream = sent(world, format!("{head}{}\r\n{{\"query\"", key_line(world)).as_bytes());
    std::thread::sleep(Duration::from_millis(300));
    stream
}

/// A whole request, whose answer is to come.
fn posted(world: &World, path: &str, headers: &str, body: &Value) -> TcpStream {
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n{headers}", body.len());
    sent(world, format!("{head}{}\r\n{body}", key_line(world)).as_bytes())
}

#[test]
fn a_daemon_whose_data_directory_is_taken_away_ends_and_says_so() {
    let mut world = World::new().start();
    world.write("a.md", "A lantern for the quay.");
    world.index();
    let aside = world.data().with_extension("aside");
    std::fs::rename(world.data(), &aside).unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = world.ended() {
            break status;
        }
        assert!(begun.elapsed() < BUSY_MACHINE * ALWAYS, "it goes on\n{}", world.log());
        std::thread::sleep(Duration::from_millis(50));
    };
    let said = format!("the data directory `{}` is gone", world.data().display());
    assert!(!status.success() && world.log().contains(&said), "{status}\n{}", world.log());
    // Put back, it is as it was.
    std::fs::remove_dir_all(world.data()).ok();
    std::fs::rename(&aside, world.data()).unwrap();
    world.kill();
    world.spawn();
    assert_eq!(world.paths(&["lantern"]), ["a.md"]);
}

#[test]
fn an_idle_daemon_ends_within_a_second_however_many_connections_are_open() {
    let mut world = World::new().start();
    let kept = sent(&world, b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n");
    kept.peek(&mut [0; 16]).unwrap();
    let _connections = [
        kept,
        sent(&world, b""),
        sent(&world, b"GET /health HTTP/1.1\r\nhost: loc"),
        sent(&world, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        sent(&world, b"PRI * HT"),
    ];
    let _silent = std::os::unix::net::UnixStream::connect(world.data().join("vicd.sock")).unwrap();
    let took = end(&mut world);
    println!("idle: {took:?}");
    assert!(took < IDLE * BUSY_MACHINE, "{took:?}");
}

/// Every kind of stream that a daemon can hold open: events of a job and of an answer, a job that is followed by gRPC,
/// an MCP session, a question over MCP and HTTP (where there are no sessions), one whose body never comes, the job, and a
/// plugin that does not want to end.
struct Streams {
    events: TcpStream,
    answer: TcpStream,
    children: [Child; 3],
    /// Where the plugin writes which process it is.
    plugin: PathBuf,
    _requests: [TcpStream; 2],
}

impl Streams {
    fn open(world: &World) -> Streams {
        let job = post(world, "/v1/index/start", &json!({"root": world.files(), "full": true})).json();
        let events = format!("/v1/index/events?job_id={}", job["job_id"].as_str().unwrap());
        let head = format!("GET {events} HTTP/1.1\r\nhost: localhost\r\n{}\r\n", key_line(world));
        let events = sent(world, head.as_bytes());
        events.peek(&mut [0; 16]).unwrap();
        let follow = |arguments: &[&str]| {
            let mut command = world.command(crate::harness::vic_program());
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        let plugin = world.files().with_file_name("plugin");
        std::fs::remove_file(&plugin).ok();
        let stays = format!("trap '' TERM; echo $$ > '{}'; while :; do sleep 1000; done", plugin.display());
        let children = [
            follow(&["mcp"]),
            follow(&["index", "--full", "--wait", world.files().to_str().unwrap()]),
            follow(&["llm", "ask", "who keeps the almanac", "--command", "sh", "--arg", "-c", "--arg", &stays]),
        ];
        let question = json!({"query": "who keeps the almanac"});
        let answer = posted(world, "/v1/ask", "accept: text/event-stream\r\n", &question);
        answer.peek(&mut [0; 16]).unwrap();
        let call = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": question},
        });
        let _requests = [posted(world, "/mcp", OVER_MCP, &call), endless(world)];
        Streams { events, answer, children, plugin, _requests }
    }

    /// Waits until the plugin runs.
    fn await_plugin(&self, world: &World) {
        world.until("the plugin runs", ALWAYS, |_| {
            std::fs::read_to_string(&self.plugin).is_ok_and(|it| it.ends_with('\n'))
        });
    }

    /// Returns what those were told who watched the events of the job and of the answer. Of the plugin nothing is left.
    fn close(mut self) -> [String; 2] {
        let plugin = std::fs::read_to_string(&self.plugin).unwrap_or_default();
        let lives = |pid: &str| !pid.is_empty() && Path::new("/proc").join(pid).exists();
        assert!(!lives(plugin.trim()), "the plugin outlives the daemon");
        let told = [&mut self.events, &mut self.answer].map(|stream| {
            let mut told = String::new();
            let _cut = stream.read_to_string(&mut told);
            told
        });
        for child in &mut self.children {
            // Who followed the job has ended by itself.
            let _ended = child.kill();
            child.wait().unwrap();
        }
        told
    }
}

/// A daemon that has something to do, and asks a model that takes its time.
fn busy() -> (World, Server) {
    let model = openai::start(&["m"], |_| {
        std::thread::sleep(THINKING);
        String::new()
    });
    let world = World::new().with("VIC_LIBRARIAN_BACKEND", "openai").with("VIC_OPENAI_MODEL", "m");
    let world = world.with("VIC_OPENAI_BASE_URL", &model.address).start();
    for number in 0..300 {
        world.write(&format!("{number}.md"), format!("Page {number} of the gardener's almanac. ").repeat(40));
    }
    (world, model)
}

#[test]
fn open_streams_a_running_job_and_an_unfinished_request_hold_nothing_up() {
    let (mut world, model) = busy();
    let streams = Streams::open(&world);
    world.until("the model is asked", ALWAYS, |_| !model.asked("/v1/chat/completions").is_empty());
    streams.await_plugin(&world);
    let took = end(&mut world);
    println!("busy: {took:?}");
    assert!(took < ALWAYS * BUSY_MACHINE, "{took:?}");
    // Who watched is told why it ends.
    let [job, answer] = streams.close();
    assert!(job.contains("event: error") || job.contains("event: done"), "{job}");
    assert!(answer.contains("event: error") && answer.contains("vicd stopped before"), "{answer}");
    // Nothing was lost: the next daemon goes on.
    world.spawn();
    world.index();
    assert_eq!(world.json(&["status"])["coverage"]["indexed"], 300);
}

#[test]
#[ignore = "ten minutes; make torture"]
fn torture_shutdown() {
    let ((mut world, _model), mut dice) = (busy(), Dice::new(16));
    let runs = size("VIC_TORTURE_SHUTDOWNS", 50);
    let took: Vec<Duration> = (0..runs)
        .map(|_| {
            let streams = Streams::open(&world);
            std::thread::sleep(Duration::from_millis(dice.below(3_000)));
            let took = end(&mut world);
            streams.close();
            world.spawn();
            took
        })
        .collect();
    figure("SIGTERM with every kind of stream open", format!("{runs} ends, {:.1?} (p50)", percentile(&took, 50)));
    // No more than this on any machine: what hangs hangs for longer.
    let mut promises = Promises::default();
    promises.at_most("the longest of them", percentile(&took, 100), ALWAYS, ALWAYS);
    let again: Vec<Duration> = (0..10).map(|_| end_twice(&mut world)).collect();
    promises.soon("the second signal, the longest of 10", percentile(&again, 100), AT_ONCE);
    world.index();
    let idle = (0..10).map(|_| {
        let took = end(&mut world);
        world.spawn();
        world.index();
        took
    });
    promises.soon("SIGTERM at rest, the longest of 10", idle.max().unwrap(), IDLE);
    promises.check();
    assert_eq!(world.json(&["status"])["coverage"]["indexed"], 300);
}

/// How long the daemon takes to end after a second SIGTERM while it waits for a request, and starts the next one.
fn end_twice(world: &mut World) -> Duration {
    let _endless = endless(world);
    let mut daemon = world.release();
    terminate(&daemon);
    std::thread::sleep(Duration::from_millis(500));
    assert!(daemon.try_wait().unwrap().is_none(), "the unfinished request is waited for");
    let begun = Instant::now();
    terminate(&daemon);
    assert!(daemon.wait().unwrap().success());
    let took = begun.elapsed();
    world.spawn();
    took
}

#[test]
fn the_second_signal_ends_it_at_once() {
    let took = end_twice(&mut World::new().start());
    println!("second signal: {took:?}");
    assert!(took < AT_ONCE * BUSY_MACHINE, "{took:?}");
}
