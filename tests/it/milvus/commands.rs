//! Commands of `vic` over an index in Milvus Lite.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::milvus::{kill_lite, lite_processes, wait_for_end_of_lite, world_with_milvus};
use crate::support::harness::{World, sample_dir};

/// Returns a running daemon that has indexed the sample files.
fn world_with_samples() -> World {
    let world = world_with_milvus();
    let copied = Command::new("cp").arg("-r").arg(sample_dir()).arg(world.files()).status().unwrap();
    assert!(copied.success());
    let world = world.start();
    world.index();
    world
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
#[ignore = "needs milvus-lite: make test-milvus"]
fn commands_answer_from_milvus_lite() {
    let mut world = world_with_samples();
    world.write("pump.md", "# Pumps\nThe harbour pump was replaced on 3 March 2024 by Lindqvist.\n");
    world.write("hidden.md", "# Codes\nThe code of the zeppelin hangar is 4711.\n");
    world.ok(&["sync"]);
    assert_eq!(world.paths(&["ask", "who replaced the harbour pump"])[0], "pump.md");
    assert_eq!(world.paths(&["ask", "+zeppelin +hangar"]), ["hidden.md"]);
    assert_eq!(world.paths(&["ask", "\"harbour pump was replaced\""]), ["pump.md"]);
    assert!(!world.paths(&["ask", "harbour pump -lindqvist"]).contains(&"pump.md".to_string()));
    assert_eq!(world.paths(&["ask", "pump", "--ext", "md", "--limit", "1"]), ["pump.md"]);
    assert!(world.ok(&["grep", "4711"]).contains("hidden.md"));
    assert!(!world.paths(&["similar", "pump.md"]).is_empty());
    let status = world.json(&["status"]);
    assert!(status["upkeep"]["store"].as_str().unwrap().starts_with("Milvus Lite"), "{status}");
    assert!(world.ok(&["doctor"]).contains("agree on"), "while the daemon runs");
    fs::remove_file(world.files().join("hidden.md")).unwrap();
    world.ok(&["sync"]);
    assert!(world.paths(&["ask", "+zeppelin +hangar"]).is_empty());
    let before = world.json(&["status"])["chunks"].clone();
    world.ok(&["index", "--full"]);
    assert_eq!(world.json(&["status"])["chunks"], before);
    assert!(world.terminate());
    wait_for_end_of_lite(&world);
    assert!(world.ok(&["doctor"]).contains("agree on"), "without a daemon");
    wait_for_end_of_lite(&world);
    world.spawn_and_wait();
    assert_eq!(world.paths(&["ask", "who replaced the harbour pump"])[0], "pump.md");
}

#[test]
#[ignore = "needs milvus-lite: make test-milvus"]
fn killed_milvus_lite_is_started_again() {
    let world = world_with_milvus();
    world.write("pump.md", "The harbour pump was replaced.\n");
    let world = world.start();
    world.index();
    let first = lite_processes(&world);
    kill_lite(&world);
    world.wait_until("Milvus Lite runs again", Duration::from_secs(20), |it| {
        let now = lite_processes(it);
        !now.is_empty() && now != first
    });
    world.wait_until("the answer is back", Duration::from_secs(30), |it| {
        it.vic(&["ask", "--format", "json", "+harbour"]).stdout.windows(7).any(|it| it == b"pump.md")
    });
}

#[test]
#[ignore = "needs milvus-lite: make test-milvus"]
fn model_switch_moves_alias_and_drops_old_collection() {
    let mut world = world_with_milvus();
    world.write("pump.md", "The harbour pump was replaced.\n");
    world = world.start();
    world.index();
    world.kill();
    wait_for_end_of_lite(&world);
    world = world.with("VIC_EMBED_PRECISION", "fp32").start();
    world.wait_until("the new model answers", Duration::from_secs(60), |it| {
        let ledgers = fs::read_dir(it.data().join("index/milvus")).unwrap().flatten();
        let names = ledgers.map(|it| it.file_name().to_string_lossy().into_owned());
        names.filter(|it| it.ends_with(".sqlite")).count() == 1
    });
    assert_eq!(world.paths(&["ask", "harbour pump"]), ["pump.md"]);
}

#[test]
#[ignore = "needs milvus-lite: make test-milvus"]
fn directory_of_another_milvus_lite_is_refused_with_its_lock() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("milvus_lite.db");
    let mut world = world_with_milvus().with("VIC_MILVUS_URI", dir.to_str().unwrap());
    let mut command = Command::new("milvus-lite");
    command.args(["server", "--host", "127.0.0.1", "--port", &free_port().to_string(), "--data-dir"]).arg(&dir);
    let mut other = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    world.wait_until("the other server locks the directory", Duration::from_secs(60), |_| dir.join("LOCK").exists());
    world.spawn_without_wait();
    world.wait_until("the daemon ends", Duration::from_secs(120), |it| it.log().contains("end the other program"));
    assert!(world.log().contains("another process holds the lock"), "{}", world.log());
    other.kill().and_then(|()| other.wait()).unwrap();
    world.spawn_and_wait();
}

#[test]
fn missing_milvus_lite_is_refused_with_command() {
    let mut world = world_with_milvus().with("PATH", "/nonexistent");
    world.spawn_without_wait();
    world.wait_until("the daemon ends", Duration::from_secs(20), |it| it.log().contains("pip install milvus-lite"));
    assert!(world.log().contains("`milvus-lite` is not installed"), "{}", world.log());
}
