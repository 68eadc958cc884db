//! Tests that every passage in an answer is in its file or marked as outdated, while files change and vanish during queries.

use std::collections::HashMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::support::long_tests::figure;
use crate::support::long_tests::size_from_env;

/// Number of files that are written and deleted in turn.
const FILES: u64 = 8;

/// Number of rounds between two syncs. After a sync, no hit may be outdated.
const SYNC_INTERVAL: u64 = 20;

/// The files on disk, each with the number of the round in which the test wrote it.
type WrittenRounds = HashMap<String, u64>;

/// Sets its flag when dropped, also after a panic, because another thread runs until the flag is set.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Searches until `over` is set. Returns the number of searches, and errors for hits in files that were deleted before the
/// search.
fn query_loop(world: &World, gone: &Mutex<HashMap<String, Instant>>, over: &AtomicBool) -> (u64, Vec<String>) {
    let caller = SyncClient::new(world);
    let (mut asked, mut wrong) = (0, Vec::new());
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        for hit in caller.hits("amaranth") {
            if gone.lock().unwrap().get(&hit.path).is_some_and(|at| *at < begun) {
                wrong.push(format!("`{}` was deleted before question {asked}", hit.path));
            }
        }
        asked += 1;
    }
    (asked, wrong)
}

/// Checks that the hits match the files on disk, and adds errors to `wrong`. Returns the number of hits marked as outdated.
fn check_hits(caller: &SyncClient, present: &WrittenRounds, round: u64, wrong: &mut Vec<String>) -> u64 {
    let mut old = 0;
    for hit in caller.hits("amaranth") {
        let Some(written) = present.get(&hit.path) else {
            wrong.push(format!("round {round}: `{}` is deleted", hit.path));
            continue;
        };
        let vouched = ["verified", "unchanged"].iter().any(|it| hit.metadata["citation"] == **it);
        old += u64::from(!vouched);
        if vouched && !hit.excerpt.contains(&format!("Round {written}:")) {
            wrong.push(format!("round {round}: `{}` has round {written}, the hit shows: {}", hit.path, hit.excerpt));
        }
    }
    old
}

#[test]
fn answers_match_disk_through_edits_and_deletions() {
    let rounds = size_from_env("VIC_TORTURE_CITATIONS", 200);
    let world = World::new().start();
    world.index();
    let (gone, over) = (Mutex::new(HashMap::new()), AtomicBool::new(false));
    let (mut wrong, mut old, mut present) = (Vec::new(), 0, WrittenRounds::new());
    let (asked, seen) = std::thread::scope(|scope| {
        let asking = scope.spawn(|| query_loop(&world, &gone, &over));
        let end = SetOnDrop(&over);
        let caller = SyncClient::new(&world);
        for round in 0..rounds {
            let name = format!("{}.md", round * 5 % FILES);
            if round % 3 == 2 && present.remove(&name).is_some() {
                fs::remove_file(world.files().join(&name)).unwrap();
                gone.lock().unwrap().insert(name, Instant::now());
            } else {
                gone.lock().unwrap().remove(&name);
                world.write(&name, format!("Round {round}: amaranth grows at the wall of {name}."));
                present.insert(name, round);
            }
            old += check_hits(&caller, &present, round, &mut wrong);
            if round % SYNC_INTERVAL == SYNC_INTERVAL - 1 {
                caller.sync();
                assert_eq!(check_hits(&caller, &present, round, &mut wrong), 0, "round {round}: outdated after a sync");
                assert_eq!(caller.hits("amaranth").len(), present.len(), "round {round}");
            }
        }
        drop(end);
        asking.join().unwrap()
    });
    wrong.extend(seen);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(asked > rounds / 4, "only {asked} questions were asked");
    figure(
        "edits and deletions under questions",
        format!("{rounds} rounds, {asked} questions beside them, 0 wrong passages, {old} said to be old"),
    );
}
