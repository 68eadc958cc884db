//! Measures a daemon at four times its capacity with an open loop: clients send at a constant rate without waiting for
//! responses, as many independent users do.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::harness::World;
use crate::support::http_client::get;
use crate::support::http_client::post;
use crate::support::long_tests::PromiseChecks;
use crate::support::long_tests::figure;
use crate::support::long_tests::percentile;
use crate::support::long_tests::size_from_env;
use crate::support::openai_server;
use crate::support::scripted_server::Server;

/// Number of client threads: far more than the questions that the daemon admits at once, so that the rate stays constant.
const CLIENT_THREADS: usize = 96;

/// Simulated response time of a remote model for each question.
const MODEL_TIME: Duration = Duration::from_millis(50);

/// Status and time of a question, and whether a refusal says when to retry.
struct Response {
    status: u16,
    told_when: bool,
    took: Duration,
}

/// Sends one question and waits for the response.
fn ask(world: &World, number: usize) -> Response {
    let begun = Instant::now();
    let answered =
        post(world, "/v1/ask", &json!({"query": format!("what do the notes on frost of page {number} say?")}));
    Response { status: answered.status, told_when: answered.header("retry-after").is_some(), took: begun.elapsed() }
}

/// Closed loop: each client sends its next question after it has received a response.
fn closed_loop(world: &World, clients: usize, time: Duration) -> Vec<Response> {
    let (begun, all) = (Instant::now(), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for client in 0..clients {
            let all = &all;
            scope.spawn(move || {
                let mut own = Vec::new();
                while begun.elapsed() < time {
                    own.push(ask(world, client * 7 + own.len()));
                }
                all.lock().unwrap().extend(own);
            });
        }
    });
    all.into_inner().unwrap()
}

/// Open loop: sends questions at a constant rate per second, independently of the responses.
fn open_loop(world: &World, rate: f64, time: Duration) -> Vec<Response> {
    let (begun, next, all) = (Instant::now(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let total = (rate * time.as_secs_f64()) as usize;
    std::thread::scope(|scope| {
        for _ in 0..CLIENT_THREADS {
            scope.spawn(|| {
                let mut own = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total {
                        break;
                    }
                    let due = Duration::from_secs_f64(number as f64 / rate);
                    std::thread::sleep(due.saturating_sub(begun.elapsed()));
                    own.push(ask(world, number));
                }
                all.lock().unwrap().extend(own);
            });
        }
    });
    all.into_inner().unwrap()
}

/// Returns the 99th percentile of the times.
fn p99(took: Vec<Duration>) -> Duration {
    percentile(&took, 99)
}

fn answer_times(outcomes: &[Response]) -> Vec<Duration> {
    outcomes.iter().filter(|it| it.status == 200).map(|it| it.took).collect()
}

/// Returns the times of requests to `/health`, sent until `over` is set.
fn watch_health(world: &World, over: &AtomicBool) -> Vec<Duration> {
    let mut took = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        assert_eq!(get(world, "/health").status, 200);
        took.push(begun.elapsed());
        std::thread::sleep(Duration::from_millis(50));
    }
    took
}

/// Factors by which the results may exceed the promised values.
struct Tolerance {
    /// Factor on the promised response time.
    time: u32,
    /// Factor on the promised share of lost throughput.
    missing: f64,
}

/// Overloads a daemon, and checks its throughput and response times against the promised values.
fn flood(world: &World, borne: &Tolerance) {
    for number in 0..500 {
        world.write(&format!("{number}.md"), format!("Page {number} of the gardener's almanac, with notes on frost."));
    }
    world.index();
    let idle = p99(answer_times(&closed_loop(world, 1, Duration::from_secs(5))));
    let peak = answer_times(&closed_loop(world, 8, Duration::from_secs(10))).len() as f64 / 10.0;
    let memory = || world.json(&["status"])["rss_mib"].as_f64().unwrap();
    let before = memory();
    let time = Duration::from_secs(size_from_env("VIC_TORTURE_OVERLOAD_SECONDS", 60));
    let over = AtomicBool::new(false);
    let (outcomes, health) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch_health(world, &over));
        let outcomes = open_loop(world, 4.0 * peak, time);
        over.store(true, Ordering::Relaxed);
        (outcomes, watching.join().unwrap())
    });
    let accepted = answer_times(&outcomes);
    let refused: Vec<&Response> = outcomes.iter().filter(|it| it.status != 200).collect();
    let goodput = accepted.len() as f64 / time.as_secs_f64();
    figure("answers per second at the peak load, and at four times the peak load", format!("{peak:.0}, {goodput:.0}"));
    figure("refusals", refused.len());
    let mut promises = PromiseChecks::default();
    let what = format!("p99 of an answer during the overload ({idle:.1?} without)");
    promises.at_most(&what, p99(accepted), 3 * idle, borne.time * 3 * idle);
    promises.within_time(
        "p99 of a refusal",
        p99(refused.iter().map(|it| it.took).collect()),
        Duration::from_millis(50),
    );
    promises.within_time("p99 of /health during the overload", p99(health), Duration::from_millis(100));
    promises.at_most("additional memory after the overload, MiB", memory() - before, 100.0, 100.0);
    let missing = 100.0 * (1.0 - goodput / peak);
    promises.at_most(
        "answers lost by the overload in comparison with the peak load, %",
        missing,
        10.0,
        10.0 * borne.missing,
    );
    assert!(refused.iter().all(|it| it.status == 429 && it.told_when), "every refusal must be 429 with `retry-after`");
    std::thread::sleep(Duration::from_secs(5));
    let after = p99(answer_times(&closed_loop(world, 1, Duration::from_secs(3))));
    promises.within_time("p99 of an answer 5 s after the overload", after, idle);
    promises.check();
}

/// The simulated model takes most of the time, so clients and daemon do not compete for the CPU.
#[test]
#[ignore = "measures, and needs the machine for itself: see `make torture`"]
fn torture_overload_of_slow_model() {
    let server = Server::start(|asked| {
        std::thread::sleep(MODEL_TIME);
        openai_server::answer(&["any"], asked, &|_| String::new())
    });
    let world = World::new()
        .with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0")
        .with("VIC_EMBED_BACKEND", "openai")
        .with("VIC_OPENAI_BASE_URL", &server.address)
        .with("VIC_OPENAI_EMBED_MODEL", "any")
        .start();
    flood(&world, &Tolerance { time: 1, missing: 1.0 });
}

/// Clients and daemon compete for the same CPU cores, so the tolerance is larger.
#[test]
#[ignore = "measures, and needs the machine for itself: see `make torture`"]
fn torture_overload_of_the_processors() {
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").start();
    flood(&world, &Tolerance { time: 3, missing: 4.0 });
}
