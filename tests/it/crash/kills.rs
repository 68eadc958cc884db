//! Tests that a daemon killed at any moment loses no acknowledged change, and restarts without help.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::capabilities;
use crate::support::crash_oracle::CrashOracle;
use crate::support::harness::World;
use crate::support::long_tests::check_within_time;
use crate::support::long_tests::figure;
use crate::support::long_tests::percentile;
use crate::support::long_tests::size_from_env;

/// Maximum pause between two groups of changes, in milliseconds.
const PAUSE_MS: u64 = 120;

/// Promised time until a daemon answers after a restart that follows a kill (p95).
const RESTART_LIMIT: Duration = Duration::from_secs(5);

/// The system calls with which the daemon makes data durable or visible. `?` marks calls that some CPU architectures lack.
const COMMITTING: [&str; 7] =
    ["syncfs", "fdatasync", "linkat", "renameat,?rename", "pwrite64", "fsync", "unlinkat,?unlink"];

/// Returns a daemon with an indexed folder, and an oracle that changes the files.
fn world_with_oracle(seed: u64) -> (World, CrashOracle) {
    let world = World::new().start();
    let mut oracle = CrashOracle::new(&world, seed);
    for _ in 0..10 {
        oracle.change_one();
    }
    world.index();
    oracle.note_acknowledged(&world);
    (world, oracle)
}

/// Changes files for this time, and records which changes the daemon acknowledges.
pub(crate) fn change_for(oracle: &mut CrashOracle, world: &World, long: Duration) {
    let end = Instant::now() + long;
    while Instant::now() < end {
        for _ in 0..oracle.draw(1..4) {
            oracle.change_one();
        }
        let pause = Duration::from_millis(oracle.draw(0..PAUSE_MS));
        std::thread::sleep(pause.min(end.saturating_duration_since(Instant::now())));
        oracle.note_acknowledged(world);
    }
}

/// Checks a copy of the data of a killed daemon, restarts the daemon and checks the index. Returns the start time.
pub(crate) fn check_after_death(world: &mut World, oracle: &mut CrashOracle, what: &str) -> Duration {
    let copy = tempfile::tempdir().unwrap();
    copy_data(&world.data(), copy.path());
    let wrong = oracle.check_stored(&copy.path().join("data"), u64::MAX);
    assert!(wrong.is_empty(), "{what}:\n{}\n{}", wrong.join("\n"), world.log());
    let begun = Instant::now();
    world.spawn_and_wait();
    let took = begun.elapsed();
    oracle.check_converged(world);
    took
}

fn copy_data(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
}

/// Kills the daemon `kills` times, each after a random time from the range in milliseconds. Returns the time of each
/// restart.
fn kill_repeatedly(kills: u64, seed: u64, wait: std::ops::Range<u64>) -> Vec<Duration> {
    let (mut world, mut oracle) = world_with_oracle(seed);
    let mut starts = Vec::new();
    for kill in 0..kills {
        let wait = Duration::from_millis(oracle.draw(wait.clone()));
        if kill % 5 == 4 {
            // In one of five rounds, the daemon is killed during its start.
            world.kill();
            world.spawn_with_launcher(&[]);
            std::thread::sleep(wait / 4);
        } else {
            change_for(&mut oracle, &world, wait);
        }
        world.kill();
        starts.push(check_after_death(&mut world, &mut oracle, &format!("kill {kill} of seed {seed}")));
        oracle.note_acknowledged(&world);
    }
    assert!(oracle.acknowledgements > kills, "only {} acknowledgements", oracle.acknowledgements);
    let acknowledged = oracle.acknowledgements;
    figure(
        "kill -9 at any moment",
        format!("{kills} kills, {acknowledged} acknowledged changes, 0 lost, 0 twice, 0 failed starts"),
    );
    starts
}

// Case B1
#[test]
fn killed_daemon_neither_loses_nor_duplicates() {
    kill_repeatedly(30, 1, 50..1_500);
}

// Case B1
#[test]
#[ignore = "takes an hour: see `make torture`"]
fn torture_kill_at_any_moment() {
    let starts =
        kill_repeatedly(size_from_env("VIC_TORTURE_KILLS", 500), size_from_env("VIC_TORTURE_SEED", 2), 50..3_000);
    check_within_time("ready again after a kill (p95)", percentile(&starts, 95), RESTART_LIMIT);
}

/// Kills the daemon at each of these system calls: once at each of the occurrences in `numbers`.
fn kill_at_calls(calls: &[&str], numbers: std::ops::RangeInclusive<u64>) {
    if !capabilities::can_trace() {
        return;
    }
    let (mut world, mut oracle) = world_with_oracle(3);
    let (mut hits, mut tried) = (Vec::new(), 0);
    for call in calls {
        let mut killed = 0;
        for number in numbers.clone() {
            killed += u32::from(is_killed_at(call, number, &mut world, &mut oracle));
            tried += 1;
            check_after_death(&mut world, &mut oracle, &format!("{call} number {number}"));
        }
        hits.push((call, killed));
    }
    let killed: u32 = hits.iter().map(|it| it.1).sum();
    let each: Vec<String> = hits.iter().map(|(call, killed)| format!("{call}: {killed}")).collect();
    figure(
        "kill at the Nth call",
        format!("{killed} of {tried} runs killed the daemon ({}), 0 lost, 0 indexed twice", each.join("; ")),
    );
    let never: Vec<_> = hits.iter().filter(|it| it.1 == 0).collect();
    assert!(never.is_empty(), "these calls never killed the daemon: {never:?}");
}

/// Runs a daemon that is killed when a thread makes this call for the `number`th time. Returns whether the kill happened.
fn is_killed_at(call: &str, number: u64, world: &mut World, oracle: &mut CrashOracle) -> bool {
    world.kill();
    let inject = format!("inject={call}:signal=KILL:when={number}");
    let strace = ["strace", "-D", "-f", "-q", "-e", &format!("trace={call}"), "-e", &inject, "-o", "/dev/null"];
    world.spawn_with_launcher(&strace.map(String::from));
    let begun = Instant::now();
    while world.exit_status().is_none() && begun.elapsed() < Duration::from_secs(8) {
        change_for(oracle, world, Duration::from_millis(300));
    }
    let is_killed = world.exit_status().is_some_and(|it| it.signal() == Some(libc::SIGKILL));
    world.kill();
    is_killed
}

// Cases B2, B12
#[test]
fn kill_during_commit_loses_nothing() {
    kill_at_calls(&["syncfs", "linkat", "fdatasync"], 1..=3);
}

// Case B2
#[test]
#[ignore = "takes half an hour: see `make torture`"]
fn torture_kill_at_calls() {
    kill_at_calls(&COMMITTING, 1..=size_from_env("VIC_TORTURE_CALLS", 20));
}
