//! Tests that many new files are found by keywords long before they are embedded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::support::openai_server::{self, HoldableServer};
use crate::support::scripted_server::Server;

/// Number of files, more than fit into one embedding batch.
const FILES: usize = 450;

/// Words that every file contains and no question contains. The fake embedder holds or delays texts with these words.
const LOG: &str = "harbour log";

fn world_with_embedder(server: &Server, files: usize) -> World {
    let world = openai_server::with_embedder(World::new(), server).start();
    write_entries(&world, "", files);
    world
}

fn write_entries(world: &World, folder: &str, files: usize) {
    for number in 0..files {
        world.write(&format!("{folder}{number}.md"), format!("Entry {folder}number{number} of the {LOG}."));
    }
}

/// Returns the numbers of indexed files, pending files, and files without vectors.
fn counts(caller: &SyncClient) -> (u64, u64, u64) {
    let it = caller.status().coverage;
    (it.indexed, it.pending, it.awaiting_vectors)
}

#[test]
fn new_files_are_found_by_keywords_before_vectors_exist() {
    let model = HoldableServer::start(LOG);
    model.hold();
    let mut world = world_with_embedder(&model.server, FILES);
    world.ok(&["index", "--no-wait", world.files().to_str().unwrap()]);
    let (all, caller) = (FILES as u64, SyncClient::new(&world));
    let by_words = (all, 0, all);
    assert!(caller.poll_until(Duration::from_secs(90), |it| counts(it) == by_words), "{:?}", counts(&caller));
    let answer = world.json(&["ask", "number417"]);
    assert!(answer["hits"][0]["path"].as_str().unwrap().ends_with("417.md"), "{answer:#}");
    assert!(answer["warnings"].to_string().contains("by keywords only"), "{answer:#}");
    let begins = |it: &SyncClient| it.status().running_jobs[0].chunks_awaiting == all;
    assert!(caller.poll_until(Duration::from_secs(30), begins), "{:?}", caller.status().running_jobs);
    let (code, said) = world.fails(&["similar", world.files().join("417.md").to_str().unwrap()]);
    assert!(code == 6 && said.contains("vectors"), "{code}: {said}");
    world.kill();
    world.spawn_and_wait();
    let caller = SyncClient::new(&world);
    assert_eq!(counts(&caller), by_words);
    model.release();
    assert!(caller.poll_until(Duration::from_secs(90), |it| counts(it) == (all, 0, 0)), "{:?}", counts(&caller));
    assert_eq!(caller.status().chunks, all);
    world.ok(&["similar", world.files().join("417.md").to_str().unwrap()]);
    assert_eq!(world.json(&["ask", "number417"])["warnings"].as_array().map(Vec::len), Some(0));
}

#[test]
fn file_refused_by_model_fails_alone() {
    let server = openai_server::start_failing(|text| text.contains("spoilt"));
    let world = world_with_embedder(&server, FILES);
    world.write("bad.md", "An entry that is spoilt.");
    world.ok(&["index", "--no-wait", world.files().to_str().unwrap()]);
    let (all, caller) = (FILES as u64, SyncClient::new(&world));
    let is_over = |it: &SyncClient| counts(it) == (all, 0, 0) && it.status().coverage.failed == 1;
    assert!(caller.poll_until(Duration::from_secs(90), is_over), "{:?}", caller.status().coverage);
    assert_eq!(caller.status().chunks, all);
    let failed = world.json(&["files", "--state", "failed"]);
    assert_eq!(failed["files"][0]["reason"], "embed_failed", "{failed:#}");
}

#[test]
fn temporary_model_failure_costs_no_file() {
    let is_broken = Arc::new(AtomicBool::new(false));
    let broken = is_broken.clone();
    let server = openai_server::start_failing(move |_| broken.load(Ordering::Relaxed));
    let world = world_with_embedder(&server, 5);
    world.index();
    is_broken.store(true, Ordering::Relaxed);
    world.write("0.md", "Entry number0 of the harbour log, written anew.");
    write_entries(&world, "late/", 3);
    let caller = SyncClient::new(&world);
    assert!(caller.poll_until(Duration::from_secs(30), |it| !it.status().degraded.is_empty()), "{:?}", caller.status());
    let coverage = caller.status().coverage;
    assert_eq!((coverage.failed, coverage.found), (0, 8), "{coverage:?}");
    assert!(world.paths(&["number0"]).contains(&"0.md".to_string()), "previously indexed files must be found");
    is_broken.store(false, Ordering::Relaxed);
    assert!(caller.poll_until(Duration::from_secs(90), |it| counts(it) == (8, 0, 0)), "{:?}", caller.status());
    assert_eq!(caller.hits("\"anew\"").len(), 1);
}

#[test]
fn large_files_are_found_by_keywords_before_vectors_exist() {
    let model = HoldableServer::start(LOG);
    model.hold();
    let world = world_with_embedder(&model.server, 0);
    let filler = "Nothing else of note is in this entry of the harbour log.\n".repeat(60_000);
    (0..3).for_each(|it| drop(world.write(&format!("{it}.md"), format!("Entry number{it}.\n{filler}"))));
    world.ok(&["index", "--no-wait", world.files().to_str().unwrap()]);
    let caller = SyncClient::new(&world);
    let by_words = |it: &SyncClient| matches!(counts(it), (3, 0, 1..));
    let found = caller.poll_until(Duration::from_secs(90), by_words);
    model.release();
    assert!(found, "{:?}", counts(&caller));
}

#[test]
fn late_files_are_indexed_while_vectors_are_pending() {
    // Number of files, more than the index processes at once.
    const FILES: usize = 4_000;
    let server = openai_server::start_with_delay(LOG, || std::thread::sleep(Duration::from_millis(300)));
    let world = world_with_embedder(&server, FILES);
    world.ok(&["index", "--no-wait", world.files().to_str().unwrap()]);
    let (all, caller) = (FILES as u64, SyncClient::new(&world));
    assert!(
        caller.poll_until(Duration::from_secs(90), |it| it.status().coverage.indexed == all),
        "{:?}",
        counts(&caller)
    );
    // Writes more files than the urgent queue accepts at once; files in this queue overtake running jobs.
    write_entries(&world, "late/", 100);
    let late = || counts(&caller).0 == all + 100;
    world.wait_until("the late files are indexed", Duration::from_secs(90), |_| late());
    assert!(counts(&caller).2 > 0, "{:?}", counts(&caller));
    world.wait_until("all have vectors", Duration::from_secs(120), |_| counts(&caller) == (all + 100, 0, 0));
    assert_eq!(caller.status().chunks, all + 100);
}

#[test]
fn queries_during_a_job_find_all_rows_in_the_keyword_index() {
    // Number of files, enough for two commits of words and two of vectors, one every ten seconds.
    const FILES: usize = 4_000;
    let server = openai_server::start_with_delay(LOG, || std::thread::sleep(Duration::from_millis(300)));
    let world = world_with_embedder(&server, FILES);
    world.ok(&["index", "--no-wait", world.files().to_str().unwrap()]);
    let (all, caller) = (FILES as u64, SyncClient::new(&world));
    let unindexed = |it: &SyncClient| it.status().upkeep.unindexed_chunks;
    assert!(caller.poll_until(Duration::from_secs(90), |it| counts(it) == (all, 0, all)), "{:?}", counts(&caller));
    // The rows of the last commit are added before the vectors begin.
    assert!(caller.poll_until(Duration::from_secs(5), |it| unindexed(it) <= 20), "{}", unindexed(&caller));
    let is_committed = |it: &SyncClient| counts(it).2 < all && unindexed(it) > 100;
    assert!(caller.poll_until(Duration::from_secs(60), is_committed), "{:?}", counts(&caller));
    // The first query has the rows with vectors added, long before the next commit of the job.
    caller.hits("number417");
    assert!(caller.poll_until(Duration::from_secs(5), |it| unindexed(it) <= 20), "{}", unindexed(&caller));
}
