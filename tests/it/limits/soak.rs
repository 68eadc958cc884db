//! Runs a daemon with little work for a long time: a save every second, some questions, and folders that are created and
//! deleted. Memory, open descriptors and table versions must not grow.

use std::fs;
use std::time::{Duration, Instant};

use crate::limits::disk_space::MAX_VERSIONS;
use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::support::long_tests::PromiseChecks;
use crate::support::long_tests::figure;
use crate::support::long_tests::size_from_env;
use crate::watch::kernel_watches;

/// Number of files; every second, the next of them is saved.
const FILES: u64 = 200;

/// In a run of at least this length, memory is stable in the second half, so the stricter limit applies.
const HOUR: Duration = Duration::from_secs(3_600);

/// Seconds between two samples of the daemon's memory and descriptors.
const SAMPLE_SECONDS: u64 = 10;

/// Seconds between two times at which temporary folders are created and deleted.
const FOLDER_SECONDS: u64 = 60;

/// A sample of the daemon at a time since the start of the test.
struct Sample {
    at: Duration,
    mib: f64,
    descriptors: usize,
    versions: u64,
}

fn take_sample(world: &World, caller: &SyncClient, at: Duration) -> Sample {
    let process = format!("/proc/{}", world.pid());
    let status = fs::read_to_string(format!("{process}/status")).unwrap();
    let resident = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
    let kib: f64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    let told = caller.status();
    Sample {
        at,
        mib: kib / 1024.0,
        descriptors: fs::read_dir(format!("{process}/fd")).unwrap().count(),
        versions: told.upkeep.versions,
    }
}

/// Returns the median of the numbers.
fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Returns the growth of a sampled number per hour, by linear regression.
fn growth_per_hour(looks: &[Sample], number: impl Fn(&Sample) -> f64) -> f64 {
    let count = looks.len() as f64;
    let hours = |it: &Sample| it.at.as_secs_f64() / 3_600.0;
    let (x, y) = (looks.iter().map(hours).sum::<f64>() / count, looks.iter().map(&number).sum::<f64>() / count);
    let slope = looks.iter().map(|it| (hours(it) - x) * (number(it) - y)).sum::<f64>();
    slope / looks.iter().map(|it| (hours(it) - x).powi(2)).sum::<f64>()
}

/// Saves a file every second for this time, with questions and temporary folders. Returns the samples and the number of
/// saves.
fn save_for(time: Duration, world: &World, caller: &SyncClient) -> (Vec<Sample>, u64) {
    let (begun, mut looks, mut last) = (Instant::now(), Vec::new(), FILES);
    while begun.elapsed() < time {
        last += 1;
        save(world, last);
        if last % 5 == 0 {
            assert!(!caller.hits("the word of the log").is_empty());
        }
        if last % SAMPLE_SECONDS == 0 {
            looks.push(take_sample(world, caller, begun.elapsed()));
        }
        if last % FOLDER_SECONDS == 0 {
            kernel_watches::churn_folders(world, last / FOLDER_SECONDS);
        } else if last % FOLDER_SECONDS == FOLDER_SECONDS / 2 {
            kernel_watches::check_watches(world, caller);
        }
        std::thread::sleep(Duration::from_secs(last - FILES).saturating_sub(begun.elapsed()));
    }
    caller.sync();
    kernel_watches::check_watches(world, caller);
    assert_eq!(caller.hits(&format!("heron{last}"))[0].path, format!("{}.md", last % FILES));
    (looks, last - FILES)
}

fn save(world: &World, second: u64) {
    world.write(&format!("{}.md", second % FILES), format!("Entry {second} of the log: the word is heron{second}."));
}

/// Runs for one hour by default. The first half is warm-up and is not measured.
#[test]
#[ignore = "takes an hour: see `make torture`"]
fn torture_soak() {
    let time = Duration::from_secs(size_from_env("VIC_TORTURE_SOAK_SECONDS", 3_600));
    let world = World::new().start();
    (0..FILES).for_each(|it| save(&world, it));
    world.index();
    let caller = SyncClient::new(&world);
    let (mut looks, saves) = save_for(time, &world, &caller);
    let later = looks.split_off(looks.len() / 2);
    assert!(later.len() >= 4, "{time:?} is too short for a measurement");
    let (first, second) = later.split_at(later.len() / 2);
    let grown = |number: &dyn Fn(&Sample) -> f64| median(second.iter().map(number)) - median(first.iter().map(number));
    let (mib, descriptors) = (grown(&|it| it.mib), grown(&|it| it.descriptors as f64));
    let versions = later.iter().map(|it| it.versions).max().unwrap_or(0);
    figure("saves, one per second", saves);
    // The promise is a growth per hour. In a short run, fluctuations exceed it, so the limit is larger.
    let most = if time >= HOUR { 3.0 } else { 32.0 };
    let mut promises = PromiseChecks::default();
    promises.at_most("growth of memory, MiB per hour", growth_per_hour(&later, |it| it.mib), 1.0, most);
    promises.at_most("growth of memory from the third to the last quarter, MiB", mib, 1.0, 16.0);
    promises.at_most("change of open descriptors from the third to the last quarter", descriptors.abs(), 5.0, 5.0);
    promises.at_most("maximum number of table versions", versions, MAX_VERSIONS, MAX_VERSIONS);
    promises.check();
}
