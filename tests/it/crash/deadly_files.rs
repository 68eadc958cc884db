//! A file on which workers hang or die is read at most twice, even if the daemon is restarted in between.
//!
//! File and workers are healthy: the worker is stopped just before it gets the file. A third reading would succeed and index
//! the text.

use std::process::Command;
use std::time::Duration;

use crate::daemon::bad_input::workers;
use crate::support::harness::World;

/// Time limit per file. After half of it, a reading counts as suspicious.
const SECONDS: &str = "6";
/// Much longer than that.
const PATIENCE: Duration = Duration::from_secs(30);

/// A world with one indexed file, one idle worker, and another pending file.
fn world_with_pending_file() -> World {
    let world = World::new().with("VIC_EXTRACT_SECONDS", SECONDS).start();
    world.write("good.md", "The heron stands in the reeds.");
    world.index();
    world.ok(&["pause"]);
    world.write("bad.md", "A recipe for quince jelly.");
    world.wait_until("the file waits", PATIENCE, |it| it.json(&["status"])["coverage"]["pending"] == 1);
    world
}

fn signal_worker(world: &World, signals: &[&str]) {
    let workers = workers(world.pid());
    assert_eq!(workers.len(), 1, "one idle worker");
    for it in signals {
        assert!(Command::new("kill").args([*it, workers[0].to_string().as_str()]).status().unwrap().success());
    }
}

/// Makes a worker hang on the file until this many readings are recorded.
fn make_worker_hang(world: &World, readings: u32) {
    world.ok(&["read", world.files().join("good.md").to_str().unwrap()]);
    signal_worker(world, &["-STOP"]);
    world.ok(&["resume"]);
    world.wait_until("the reading counts", PATIENCE, |it| max_strikes(it) == readings);
}

/// Returns the maximum number of readings recorded for a pending file.
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

/// Checks that the file is skipped, also by jobs, and read when it changes.
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

#[test]
fn deadly_file_gets_no_third_reader_after_restart() {
    let mut world = world_with_pending_file();
    make_worker_hang(&world, 1);
    world.ok(&["pause"]);
    kill_and_start(&mut world);
    make_worker_hang(&world, 2);
    // The worker has read a file before. Remains of it could cause the death, so a fresh worker would get a turn.
    signal_worker(&world, &["-XCPU", "-CONT"]);
    check_skipped_until_changed(&world);
}
