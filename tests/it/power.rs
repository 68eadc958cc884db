//! The power goes at any moment: whatever was acknowledged is there afterwards.

use std::time::{Duration, Instant};

use crate::disk::{self, Disk, Loss};
use crate::harness::World;
use crate::kills::change_for;
use crate::means;
use crate::oracle::Oracle;
use crate::torture::{Dice, figure, percentile, size, soon};

/// What may be lost, by turns.
const LOSSES: [Loss; 5] = [Loss::All, Loss::Bytes, Loss::Some, Loss::AllButDeletions, Loss::Some];

/// A daemon answers within this time whatever it finds, 95 times in 100.
const HEALED: Duration = Duration::from_secs(2);

/// Traces a run of so many seconds, and opens so many disks that it may have left; so many of them with a daemon.
/// Gives how long those took to start.
fn lose_power(seconds: u64, images: u64, daemons: u64, seed: u64) -> Vec<Duration> {
    if !means::can_trace() {
        return Vec::new();
    }
    let calls = tempfile::tempdir().unwrap();
    let mut world = World::new();
    world.begin(&disk::launcher(&calls.path().join("calls")));
    world.until("the daemon answers", Duration::from_secs(60), |it| it.data().join("listen").exists());
    let mut oracle = Oracle::new(&world, seed);
    for _ in 0..20 {
        oracle.change_one();
    }
    world.index();
    for _ in 0..seconds {
        change_for(&mut oracle, &world, Duration::from_millis(900));
        // Each job ends with upkeep.
        world.index();
        oracle.note_acknowledged(&world);
    }
    world.kill();
    // A daemon that is started with an image must not be able to read anything again.
    std::fs::rename(world.files(), world.files().with_file_name("away")).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let disk = Disk::read(calls.path(), &world.data());
    let moments = disk.moments();
    let mut dice = Dice::new(seed);
    let (mut promises, mut lost, mut starts) = (0, Vec::new(), Vec::new());
    for number in 0..images {
        let moment = moments[dice.below(moments.len() as u64) as usize];
        let loss = LOSSES[number as usize % LOSSES.len()];
        let mut target = World::new();
        disk.image(moment, loss, &mut dice, &target.data());
        let what = format!("image {number} of seed {seed}, {loss:?} after `{}`", disk.describe(moment));
        if number < daemons {
            // A daemon first: it has to start without help.
            let begun = Instant::now();
            target = target.start();
            starts.push(begun.elapsed());
            assert!(target.terminate(), "{what}\n{}", target.log());
        }
        let wrong = oracle.check_at_rest(&target.data(), disk.time_of(moment));
        if !wrong.is_empty() {
            lost.push(format!("{what}:\n{}\n{}", wrong.join("\n"), target.log()));
        }
        promises += oracle.promised_at(disk.time_of(moment));
    }
    // All of them: which images are wrong tells more than the first.
    assert!(lost.is_empty(), "{} of {images} images:\n{}", lost.len(), lost.join("\n"));
    assert!(promises > images, "{promises} promises show nothing");
    figure("power loss", format!("{images} of {images} images open, {promises} acknowledged versions, 0 lost"));
    starts
}

#[test]
fn whatever_was_acknowledged_is_there_after_the_power_has_gone() {
    lose_power(6, 30, 3, 1);
}

#[test]
#[ignore = "ten minutes; make torture"]
fn torture_power_loss() {
    let (seconds, images) = (size("VIC_TORTURE_SECONDS", 40), size("VIC_TORTURE_IMAGES", 200));
    let starts = lose_power(seconds, images, 20, size("VIC_TORTURE_SEED", 2));
    soon("ready on a disk that lost its power (p95)", percentile(&starts, 95), HEALED);
}
