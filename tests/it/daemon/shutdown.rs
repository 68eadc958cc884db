//! Tests that the daemon ends within its time limits, also while work is in progress.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::harness::World;
use crate::support::http_client::connect;
use crate::support::http_client::key_line;
use crate::support::http_client::post;
use crate::support::long_tests::PromiseChecks;
use crate::support::long_tests::Rng;
use crate::support::long_tests::figure;
use crate::support::long_tests::percentile;
use crate::support::long_tests::size_from_env;
use crate::support::openai_server;
use crate::support::scripted_server::Server;

/// Promised maximum shutdown time of a busy daemon.
const MAX_SHUTDOWN: Duration = Duration::from_secs(10);

/// Factor on the limits for a busy test machine. A daemon that hangs exceeds even the raised limits.
const BUSY_FACTOR: u32 = 5;

/// Promised maximum time until the daemon ends after a second signal.
const MAX_SECOND_SIGNAL: Duration = Duration::from_millis(200);

/// Response time of the fake model: longer than any shutdown, so that requests to the model are still pending.
const MODEL_DELAY: Duration = Duration::from_secs(60);

/// Request headers of an MCP client over HTTP.
const OVER_MCP: &str = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";

/// Promised maximum shutdown time of an idle daemon.
const MAX_IDLE_SHUTDOWN: Duration = Duration::from_secs(1);

fn terminate(daemon: &Child) {
    let pid = daemon.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
}

/// Sends SIGTERM to the daemon. Returns the time until the daemon has exited successfully.
fn shutdown_time(world: &mut World) -> Duration {
    let mut daemon = world.release();
    let begun = Instant::now();
    terminate(&daemon);
    let status = daemon.wait().unwrap();
    assert!(status.success(), "{status}\n{}", world.log());
    begun.elapsed()
}

/// Opens a TCP connection to the daemon and sends these bytes.
fn connect_and_send(world: &World, bytes: &[u8]) -> TcpStream {
    let mut stream = connect(world);
    stream.write_all(bytes).unwrap();
    stream
}

/// Sends a question whose body never completes, so that the request is in progress until the daemon ends it.
fn incomplete_request(world: &World) -> TcpStream {
    let head = "POST /v1/ask HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n";
    let stream = connect_and_send(world, format!("{head}{}\r\n{{\"query\"", key_line(world)).as_bytes());
    std::thread::sleep(Duration::from_millis(300));
    stream
}

/// Sends a complete request. Returns the connection, from which the response can be read.
fn post_without_reading(world: &World, path: &str, headers: &str, body: &Value) -> TcpStream {
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n{headers}", body.len());
    connect_and_send(world, format!("{head}{}\r\n{body}", key_line(world)).as_bytes())
}

#[test]
fn removed_data_directory_ends_daemon_with_reason() {
    let mut world = World::new().start();
    world.write("a.md", "A lantern for the quay.");
    world.index();
    let aside = world.data().with_extension("aside");
    std::fs::rename(world.data(), &aside).unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = world.exit_status() {
            break status;
        }
        assert!(begun.elapsed() < BUSY_FACTOR * MAX_SHUTDOWN, "the daemon has not ended\n{}", world.log());
        std::thread::sleep(Duration::from_millis(50));
    };
    let said = format!("the data directory `{}` is gone", world.data().display());
    assert!(!status.success() && world.log().contains(&said), "{status}\n{}", world.log());
    // When the data directory is moved back, a new daemon can use it.
    std::fs::remove_dir_all(world.data()).ok();
    std::fs::rename(&aside, world.data()).unwrap();
    world.kill();
    world.spawn_and_wait();
    assert_eq!(world.paths(&["lantern"]), ["a.md"]);
}

#[test]
fn idle_daemon_ends_within_a_second_with_open_connections() {
    let mut world = World::new().start();
    let kept = connect_and_send(&world, b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n");
    kept.peek(&mut [0; 16]).unwrap();
    let _connections = [
        kept,
        connect_and_send(&world, b""),
        connect_and_send(&world, b"GET /health HTTP/1.1\r\nhost: loc"),
        connect_and_send(&world, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        connect_and_send(&world, b"PRI * HT"),
    ];
    let _silent = std::os::unix::net::UnixStream::connect(world.data().join("vicd.sock")).unwrap();
    let took = shutdown_time(&mut world);
    println!("idle: {took:?}");
    assert!(took < MAX_IDLE_SHUTDOWN * BUSY_FACTOR, "{took:?}");
}

/// Every kind of stream that a daemon can hold open: the events of a job and of an answer, a job that a gRPC client follows,
/// an MCP session, an MCP question over HTTP without a session, a request with an incomplete body, and a question to a
/// plugin that ignores SIGTERM.
struct Streams {
    events: TcpStream,
    answer: TcpStream,
    children: [Child; 3],
    /// The file to which the plugin writes its process id.
    plugin: PathBuf,
    _requests: [TcpStream; 2],
}

impl Streams {
    fn open(world: &World) -> Streams {
        let job = post(world, "/v1/index/start", &json!({"root": world.files(), "full": true})).json();
        let events = format!("/v1/index/events?job_id={}", job["job_id"].as_str().unwrap());
        let head = format!("GET {events} HTTP/1.1\r\nhost: localhost\r\n{}\r\n", key_line(world));
        let events = connect_and_send(world, head.as_bytes());
        events.peek(&mut [0; 16]).unwrap();
        let follow = |arguments: &[&str]| {
            let mut command = world.command(crate::support::harness::vic_program());
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
        let answer = post_without_reading(world, "/v1/ask", "accept: text/event-stream\r\n", &question);
        answer.peek(&mut [0; 16]).unwrap();
        let call = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": question},
        });
        let _requests = [post_without_reading(world, "/mcp", OVER_MCP, &call), incomplete_request(world)];
        Streams { events, answer, children, plugin, _requests }
    }

    /// Waits until the plugin has written its process id.
    fn await_plugin(&self, world: &World) {
        world.wait_until("the plugin runs", MAX_SHUTDOWN, |_| {
            std::fs::read_to_string(&self.plugin).is_ok_and(|it| it.ends_with('\n'))
        });
    }

    /// Closes the streams. Returns the events of the job and of the answer, and asserts that the plugin has ended.
    fn close(mut self) -> [String; 2] {
        let plugin = std::fs::read_to_string(&self.plugin).unwrap_or_default();
        let lives = |pid: &str| !pid.is_empty() && Path::new("/proc").join(pid).exists();
        assert!(!lives(plugin.trim()), "the plugin must end with the daemon");
        let told = [&mut self.events, &mut self.answer].map(|stream| {
            let mut told = String::new();
            let _cut = stream.read_to_string(&mut told);
            told
        });
        for child in &mut self.children {
            // Ignores the error: the client that follows the job has already ended.
            let _ended = child.kill();
            child.wait().unwrap();
        }
        told
    }
}

/// Returns a daemon with files to index and with a model that responds slowly.
fn busy_world() -> (World, Server) {
    let model = openai_server::start(&["m"], |_| {
        std::thread::sleep(MODEL_DELAY);
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
fn open_streams_and_jobs_do_not_delay_shutdown() {
    let (mut world, model) = busy_world();
    let streams = Streams::open(&world);
    world.wait_until("the model is asked", MAX_SHUTDOWN, |_| !model.requests_at("/v1/chat/completions").is_empty());
    streams.await_plugin(&world);
    let took = shutdown_time(&mut world);
    println!("busy: {took:?}");
    assert!(took < MAX_SHUTDOWN * BUSY_FACTOR, "{took:?}");
    // The events tell clients why the daemon ended.
    let [job, answer] = streams.close();
    assert!(job.contains("event: error") || job.contains("event: done"), "{job}");
    assert!(answer.contains("event: error") && answer.contains("vicd stopped before"), "{answer}");
    // No file was lost: the next daemon indexes the rest.
    world.spawn_and_wait();
    world.index();
    assert_eq!(world.json(&["status"])["coverage"]["indexed"], 300);
}

#[test]
#[ignore = "takes ten minutes: see `make torture`"]
fn torture_shutdown() {
    let ((mut world, _model), mut dice) = (busy_world(), Rng::new(16));
    let runs = size_from_env("VIC_TORTURE_SHUTDOWNS", 50);
    let took: Vec<Duration> = (0..runs)
        .map(|_| {
            let streams = Streams::open(&world);
            std::thread::sleep(Duration::from_millis(dice.below(3_000)));
            let took = shutdown_time(&mut world);
            streams.close();
            world.spawn_and_wait();
            took
        })
        .collect();
    figure("SIGTERM with every kind of stream open", format!("{runs} shutdowns, {:.1?} (p50)", percentile(&took, 50)));
    // Uses the promised time as the bound, without a factor for slow machines, because a daemon that hangs takes longer on
    // any machine.
    let mut promises = PromiseChecks::default();
    promises.at_most(
        "SIGTERM with every kind of stream open, the longest",
        percentile(&took, 100),
        MAX_SHUTDOWN,
        MAX_SHUTDOWN,
    );
    let again: Vec<Duration> = (0..10).map(|_| second_signal_time(&mut world)).collect();
    promises.within_time("a second SIGTERM, the longest of 10", percentile(&again, 100), MAX_SECOND_SIGNAL);
    world.index();
    let idle = (0..10).map(|_| {
        let took = shutdown_time(&mut world);
        world.spawn_and_wait();
        world.index();
        took
    });
    promises.within_time("SIGTERM to an idle daemon, the longest of 10", idle.max().unwrap(), MAX_IDLE_SHUTDOWN);
    promises.check();
    assert_eq!(world.json(&["status"])["coverage"]["indexed"], 300);
}

/// Returns the time from a second SIGTERM to the end of the daemon while a request is incomplete. Restarts the daemon.
fn second_signal_time(world: &mut World) -> Duration {
    let _endless = incomplete_request(world);
    let mut daemon = world.release();
    terminate(&daemon);
    std::thread::sleep(Duration::from_millis(500));
    assert!(daemon.try_wait().unwrap().is_none(), "the daemon must wait for the incomplete request");
    let begun = Instant::now();
    terminate(&daemon);
    assert!(daemon.wait().unwrap().success());
    let took = begun.elapsed();
    world.spawn_and_wait();
    took
}

#[test]
fn second_signal_ends_daemon_immediately() {
    let took = second_signal_time(&mut World::new().start());
    println!("second signal: {took:?}");
    assert!(took < MAX_SECOND_SIGNAL * BUSY_FACTOR, "{took:?}");
}
