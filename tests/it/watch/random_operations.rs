//! Tests random operations on a real folder: after each `vic sync`, the index matches the disk and every file is found.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::support::long_tests::check_within_time;
use crate::support::long_tests::figure;
use crate::support::long_tests::percentile;
use crate::support::long_tests::size_from_env;
use crate::support::workload::Workload;

/// Promised maximum duration of a sync (p95).
const SYNCED: Duration = Duration::from_secs(2);

/// In each of `rounds` rounds, runs operations, syncs, and compares index and disk. Returns the duration of each sync.
fn run_rounds(seed: u64, rounds: usize, steps: usize) -> Vec<Duration> {
    let world = World::new().start();
    let mut workshop = Workload::new(world.files().canonicalize().unwrap(), seed);
    (0..20).for_each(|_| workshop.write());
    world.index();
    let (caller, over) = (SyncClient::new(&world), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // Requests the status continuously in another thread. Each status asserts that the file counts add up.
        scope.spawn(|| {
            let caller = SyncClient::new(&world);
            while !over.load(Ordering::Relaxed) {
                caller.status();
                std::thread::sleep(Duration::from_millis(25));
            }
        });
        let _over = SetOnDrop(&over);
        let round = |round: usize| {
            for _ in 0..steps {
                workshop.step();
                if workshop.dice.index(10) == 0 {
                    std::thread::sleep(Duration::from_millis(workshop.dice.index(60) as u64));
                }
            }
            let begun = Instant::now();
            caller.sync();
            let took = begun.elapsed();
            workshop.check(&caller, &format!("seed {seed}, round {round} of {steps} steps"));
            took
        };
        (0..rounds).map(round).collect()
    })
}

/// Sets its flag when dropped, also when the test fails, so that the other thread stops.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn sync_matches_disk_after_random_operations() {
    let waits = run_rounds(7, 8, 60);
    println!("waits: {waits:.2?}");
}

/// Runs `VIC_TORTURE_SEEDS` seeds from `VIC_TORTURE_SEED`, each with `VIC_TORTURE_OPERATIONS` operations.
#[test]
#[ignore = "takes hours: see `make torture`"]
fn torture_random_operations() {
    let (first, seeds) = (size_from_env("VIC_TORTURE_SEED", 1), size_from_env("VIC_TORTURE_SEEDS", 20));
    let operations = size_from_env("VIC_TORTURE_OPERATIONS", 10_000);
    let mut all = Vec::new();
    for seed in first..first + seeds {
        let waits = run_rounds(seed, operations.div_ceil(100) as usize, 100);
        let found = format!("index == disk, sync p50 {:.2?}", percentile(&waits, 50));
        figure(&format!("{operations} random operations, seed {seed}"), found);
        all.extend(waits);
    }
    // Checks the time only after all seeds, so that a slow machine does not prevent the other checks.
    check_within_time("a sync after a hundred operations (p95)", percentile(&all, 95), SYNCED);
}
