//! Tests of a daemon with its index in Milvus Lite: `make test-milvus` runs them. The tests of the store in `src/store` need no
//! Milvus: a mock server stands in for it there.

mod commands;
mod deployment;
mod kills;

use std::process::Command;
use std::time::Duration;

use crate::support::harness::World;

/// Returns a setup whose daemon keeps its index in Milvus Lite.
fn world_with_milvus() -> World {
    World::new().with("VIC_VECTOR_BACKEND", "milvus")
}

/// Returns the process ids of the Milvus Lite of a setup.
fn lite_processes(world: &World) -> Vec<String> {
    let pattern = format!("milvus-lite server .*{}", world.data().display());
    let found = Command::new("pgrep").args(["-f", &pattern]).output().unwrap();
    String::from_utf8_lossy(&found.stdout).split_whitespace().map(String::from).collect()
}

/// Waits until the Milvus Lite of a setup has ended, as it does when its daemon ends.
fn wait_for_end_of_lite(world: &World) {
    world.wait_until("Milvus Lite ends with its daemon", Duration::from_secs(20), |it| lite_processes(it).is_empty());
}

fn kill_lite(world: &World) {
    for process in lite_processes(world) {
        Command::new("kill").args(["-KILL", &process]).status().unwrap();
    }
}
