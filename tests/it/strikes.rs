//! A file over which workers hang or die is read twice and no more, whatever becomes of the daemon in between.
//!
//! The file is good, and so are the workers: one that is about to be given it is stopped beforehand. Whoever gave it to a third
//! one would find what stands in it.

use std::process::Command;
use std::time::Duration;

use crate::harness::World;
use crate::robustness::workers;

/// A worker is at a file for suspiciously long after half of this.
const SECONDS: &str = "6";
/// A good deal more than that.
const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon at rest that has read one file, and has another before it.
fn before_the_first_reading() -> World {
    let world = World::new().with("VIC_EXTRACT_SECONDS", SECONDS).start();
    world.write("good.md", "The heron stands in the reeds.");
    world.index();
    world.ok(&["pause"]);
    world.write("bad.md", "A recipe for quince jelly.");
    world.until("the file waits", PATIENCE, |it| it.json(&["status"])["coverage"]["pending"] == 1);
    world
}

fn signal(world: &World, signals: &[&str]) {
    let workers = workers(world.pid());
    assert_eq!(workers.len(), 1, "the one that rests");
    for it in signals {
        assert!(Command::new("kill").args([*it, workers[0].to_string().as_str()]).status().unwrap().success());
    }
}

/// Has a worker hang over the file, until so many such readings are on disk.
fn hang(world: &World, readings: u32) {
    world.ok(&["read", world.files().join("good.md").to_str().unwrap()]);
    signal(world, &["-STOP"]);
    world.ok(&["resume"]);
    world.until("the reading counts", PATIENCE, |it| strikes(it) == readings);
}

/// The most readings that are noted of a file that waits.
fn strikes(world: &World) -> u32 {
    let catalog = rusqlite::Connection::open(world.data().join("catalog.sqlite")).unwrap();
    catalog.busy_timeout(Duration::from_secs(10)).unwrap();
    let sql = "SELECT coalesce(max(strikes), 0) FROM files WHERE state = 'pending'";
    catalog.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn kill_and_start(world: &mut World) {
    world.kill();
    world.spawn();
}

/// Checks that the file is left alone, by jobs as well, and is read when it changes.
fn check_it_is_left_alone_until_it_changes(world: &World) {
    let coverage = |it: &World| it.json(&["status"])["coverage"].clone();
    world.until("it is settled", PATIENCE, |it| coverage(it)["pending"] == 0);
    world.index();
    let left = coverage(world);
    assert_eq!((&left["indexed"], &left["reasons"]), (&1.into(), &serde_json::json!({"worker_crash": 1})), "{left}");
    assert!(!world.paths(&["quince jelly"]).contains(&"bad.md".to_string()));
    world.write("bad.md", "Another recipe for quince jelly.");
    world.index();
    assert_eq!(world.paths(&["quince jelly"]).first().map(String::as_str), Some("bad.md"));
}

#[test]
fn a_file_over_which_readers_hung_is_read_twice_though_the_daemon_is_killed_after_each_reading() {
    let mut world = before_the_first_reading();
    hang(&world, 1);
    world.ok(&["pause"]);
    kill_and_start(&mut world);
    hang(&world, 2);
    kill_and_start(&mut world);
    check_it_is_left_alone_until_it_changes(&world);
}

#[test]
fn a_file_whose_second_reader_dies_after_a_restart_is_given_to_no_third_one() {
    let mut world = before_the_first_reading();
    hang(&world, 1);
    world.ok(&["pause"]);
    kill_and_start(&mut world);
    hang(&world, 2);
    // It has read a file before: what that left behind might be why it dies, and another would have its turn.
    signal(&world, &["-XCPU", "-CONT"]);
    check_it_is_left_alone_until_it_changes(&world);
}
