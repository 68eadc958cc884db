//! Tests that a file on which workers hang or crash is tried at most twice, even if the daemon is restarted in between.
//!
//! The file and the workers are healthy: the test stops the worker just before it gets the file. A third attempt would
//! succeed and index the text, so the test would notice it.

use std::process::Command;
use std::time::Duration;

use crate::daemon::bad_input::workers;
use crate::support::harness::World;

/// Time limit per file in seconds (`VIC_EXTRACT_SECONDS`). An attempt counts as failed after half of it.
const SECONDS: &str = "6";
/// Maximum wait for each step, much longer than the time limit per file.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns a daemon with one indexed file, one idle worker and one pending file.
fn world_with_pending_file() -> World {
    let world = World::new().with("VIC_EXTRACT_SECONDS", SECONDS).start();
    world.write("good.md", "The heron stands in the reeds.");
    world.index();
    world.ok(&["pause"]);
    world.write("bad.md", "A recipe for quince jelly.");
    world.wait_until("the new file is pending", PATIENCE, |it| it.json(&["status"])["coverage"]["pending"] == 1);
    world
}

fn signal_worker(world: &World, signals: &[&str]) {
    let workers = workers(world.pid());
    assert_eq!(workers.len(), 1, "there must be one idle worker");
    for it in signals {
        assert!(Command::new("kill").args([*it, workers[0].to_string().as_str()]).status().unwrap().success());
    }
}

/// Makes a worker hang on the file until the catalog counts this many attempts.
fn make_worker_hang(world: &World, readings: u32) {
    world.ok(&["read", world.files().join("good.md").to_str().unwrap()]);
    signal_worker(world, &["-STOP"]);
    world.ok(&["resume"]);
    world.wait_until("the catalog counts the attempt", PATIENCE, |it| max_strikes(it) == readings);
}

/// Returns the number of attempts that the catalog counts for the pending file with the most attempts.
fn max_strikes(world: &World) -> u32 {
    let catalog = rusqlite::Connection::open(world.data().join("catalog.sqlite")).unwrap();
    catalog.busy_timeout(Duration::from_secs(10)).unwrap();
    let sql = "SELECT coalesce(max(strikes), 0) FROM files WHERE state = 'pending'";
    catalog.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn kill_and_start(world: &mut World) {
    world.kill();
    world.spawn_and_wait();
}

/// Checks that the file is skipped, that a job does not retry it, and that it is indexed after a change.
fn check_skipped_until_changed(world: &World) {
    let coverage = |it: &World| it.json(&["status"])["coverage"].clone();
    world.wait_until("no file is pending", PATIENCE, |it| coverage(it)["pending"] == 0);
    world.index();
    let left = coverage(world);
    assert_eq!((&left["indexed"], &left["reasons"]), (&1.into(), &serde_json::json!({"worker_crash": 1})), "{left}");
    assert!(!world.paths(&["quince jelly"]).contains(&"bad.md".to_string()));
    world.write("bad.md", "Another recipe for quince jelly.");
    world.index();
    assert_eq!(world.paths(&["quince jelly"]).first().map(String::as_str), Some("bad.md"));
}

// Case C12
#[test]
fn hanging_file_is_read_twice_despite_daemon_kills() {
    let mut world = world_with_pending_file();
    make_worker_hang(&world, 1);
    world.ok(&["pause"]);
    kill_and_start(&mut world);
    make_worker_hang(&world, 2);
    kill_and_start(&mut world);
    check_skipped_until_changed(&world);
}

// Case C12
#[test]
fn deadly_file_gets_no_third_reader_after_restart() {
    let mut world = world_with_pending_file();
    make_worker_hang(&world, 1);
    world.ok(&["pause"]);
    kill_and_start(&mut world);
    make_worker_hang(&world, 2);
    // Crashes the worker, which has read another file before. vic retries after such a crash, because remains of the other
    // file could be the cause, but not if the file has had two attempts.
    signal_worker(&world, &["-XCPU", "-CONT"]);
    check_skipped_until_changed(&world);
}
