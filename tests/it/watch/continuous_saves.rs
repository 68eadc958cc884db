//! Tests questions and jobs while files are saved continuously.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::client::SyncClient;
use crate::support::harness::World;

/// Sets its flag when dropped, also after a failed assertion, because a thread scope waits for its threads.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls `save` with 0, 1, 2 and so on until `work` has ended. Returns the number of calls.
fn save_during(save: impl Fn(u64) + Sync, work: impl FnOnce()) -> u64 {
    let (is_over, saves) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                save(saves.fetch_add(1, Ordering::Relaxed));
            }
        });
        let _over = SetOnDrop(&is_over);
        work();
    });
    saves.into_inner()
}

// Case B11
#[test]
fn repeatedly_saved_file_is_in_every_answer() {
    let world = World::new().with("VIC_LOG_LEVEL", "debug").start();
    for number in 0..200 {
        world.write(&format!("{number}.md"), format!("Entry {number} of the harbour log."));
    }
    world.write("diary.md", "The kingfisher is back.");
    world.index();
    let caller = SyncClient::new(&world);
    // Each save renames a complete file into place, because a truncated file would be empty for a moment.
    let aside = world.files().with_file_name("aside.md");
    let save = |number| {
        std::fs::write(&aside, format!("The kingfisher is back, for the {number}th time.")).unwrap();
        std::fs::rename(&aside, world.files().join("diary.md")).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    };
    let (begun, mut asked, mut missed) = (Instant::now(), 0, Vec::new());
    let saves = save_during(save, || {
        while begun.elapsed() < Duration::from_secs(8) {
            for question in ["kingfisher", "\"kingfisher\""] {
                asked += 1;
                if !caller.hits(question).iter().any(|it| it.path == "diary.md") {
                    missed.push((asked, question));
                }
            }
        }
    });
    let anew = world.log().matches("searching again").count();
    println!("{saves} saves, {asked} questions, {anew} searches that were repeated");
    assert!(saves > 5 && asked > 50, "{saves} {asked}");
    assert!(missed.is_empty(), "{} of {asked}: {missed:?}", missed.len());
}

/// Returns a text that takes longer to extract than the time between two saves. No line equals one of an earlier version.
fn long_entry(number: u64) -> String {
    (0..80).map(|line| format!("Line {line} of entry {number} of the harbour log, wind from the west.\n\n")).collect()
}

// Case A7
#[test]
fn job_ends_despite_continuous_saves() {
    const FILES: u64 = 20;
    let world = World::new().start();
    let save = |number: u64| {
        world.write(&format!("{}.md", number % FILES), long_entry(number));
        std::thread::sleep(Duration::from_millis(5));
    };
    (0..FILES).for_each(save);
    world.index();
    let ended = |it: &World| it.json(&["status"])["running_jobs"].as_array().unwrap().is_empty();
    let work = || {
        for _ in 0..2 {
            world.ok(&["index", "--no-wait", world.files().to_str().unwrap()]);
        }
        world.wait_until("both jobs have ended", Duration::from_secs(120), ended);
    };
    let saves = save_during(|number| save(FILES + number), work);
    let caller = SyncClient::new(&world);
    caller.sync();
    for last in (FILES..FILES + saves).rev().take(FILES as usize) {
        let hits = caller.hits(&format!("\"entry {last} of\""));
        assert!(hits.iter().any(|it| it.path == format!("{}.md", last % FILES)), "{last} of {saves}\n{}", world.log());
    }
}
