//! Tests mutated files in a folder that a running daemon watches: the daemon must count each file, find every good file
//! beside them, and keep running.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::hostile::mutants::DEFAULT_MUTANTS;
use crate::hostile::mutants::mutant;
use crate::hostile::mutants::originals;
use crate::hostile::mutants::rng_of_mutant;
use crate::hostile::mutants::variable_or;
use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::support::long_tests::figure;

/// One good file is written per this number of mutants.
const MUTANTS_PER_GOOD_FILE: u64 = 10;

/// Returns the maximum time to process this number of files on a busy machine.
fn time_limit(files: u64) -> Duration {
    Duration::from_secs(120) + Duration::from_millis(500) * files as u32
}

// Case C17
#[test]
fn mutants_in_folder_leave_daemon_and_neighbors_intact() {
    let count = variable_or("VIC_MUTANTS", DEFAULT_MUTANTS);
    // Without OCR, which is slow and runs in a separate worker pool.
    let mut world = World::new().with("VIC_OCR", "never").start();
    let begun = Instant::now();
    let (pid, caller, originals) = (world.pid(), SyncClient::new(&world), originals());
    world.index();
    let mut good = BTreeSet::new();
    for number in 0..count {
        let mut dice = rng_of_mutant(number);
        let original = dice.pick(&originals);
        let name = &original.name;
        world.write(&format!("{}/{number}-{name}", number % 100), mutant(&original.bytes, &mut dice));
        if number % MUTANTS_PER_GOOD_FILE == 0 {
            let path = format!("{}/good{number}.md", number % 100);
            world.write(&path, format!("The word of this neighbour is kingfisher{number}."));
            good.insert((path, format!("kingfisher{number}")));
        }
    }
    let found = count + good.len() as u64;
    // `SyncClient::status` also asserts that the file counts add up.
    let all = |it: &SyncClient| {
        let coverage = it.status().coverage;
        coverage.found == found && coverage.pending == 0
    };
    assert!(caller.poll_until(time_limit(found), all), "{:?}\n{}", caller.status(), world.log());
    let coverage = caller.status().coverage;
    let peak = caller.status().peak_rss_mib;
    let found = format!("{} in {:.0?}, daemon {peak:.0} MiB: {:?}", good.len(), begun.elapsed(), coverage.reasons);
    figure(&format!("{count} mutants and some good files in the folder of a daemon"), found);
    let deaths = ["worker_crash", "timeout"].map(|it| coverage.reasons.get(it).copied().unwrap_or(0));
    assert!(deaths.iter().sum::<u64>() * 100 <= count, "over 1 % crash or hang a worker: {coverage:?}");
    let missing: Vec<&String> = good
        .iter()
        // Searches the word in quotes: without, vector hits of the nearly identical documents would rank above the word hit.
        .filter(|(path, word)| !caller.hits(&format!("\"{word}\"")).iter().any(|it| it.path == *path))
        .map(|it| &it.0)
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(world.exit_status().is_none(), "{}", world.log());
    assert_eq!(caller.status().pid, pid);
    assert!(!world.log().contains("panicked"), "{}", world.log());
}
