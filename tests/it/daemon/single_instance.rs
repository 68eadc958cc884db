//! Tests that a data directory has at most one daemon.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::harness::World;

/// Maximum time until a second daemon has exited.
const SOON: Duration = Duration::from_secs(2);

fn start(world: &World) -> Child {
    let mut command = world.command(env!("CARGO_BIN_EXE_vicd"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

// Case B10
#[test]
fn second_start_exits_and_killed_daemon_frees_lock() {
    let mut world = World::new().start();
    let begun = Instant::now();
    assert_eq!(start(&world).wait().unwrap().code(), Some(5));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    world.kill();
    // Starts at once, without a retry: the kill must have freed the lock.
    world.spawn_and_wait();
    assert!(world.exit_status().is_none());
}

// Case B10
#[test]
fn one_of_hundred_concurrent_starts_remains() {
    let world = World::new();
    let mut starts: Vec<Child> = (0..100).map(|_| start(&world)).collect();
    let begun = Instant::now();
    while starts.len() > 1 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} still run", starts.len());
        starts.retain_mut(|it| match it.try_wait().unwrap() {
            None => true,
            Some(status) => {
                assert_eq!(status.code(), Some(5), "the exit code must report that another daemon runs");
                false
            }
        });
        std::thread::sleep(Duration::from_millis(20));
    }
    world.wait_until("one daemon listens", Duration::from_secs(30), |it| it.data().join("listen").exists());
    let mut winner = starts.pop().unwrap();
    assert_eq!(world.json(&["status"])["pid"], winner.id());
    assert!(winner.try_wait().unwrap().is_none());
    winner.kill().unwrap();
    winner.wait().unwrap();
}
