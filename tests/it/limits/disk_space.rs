//! Tests that a full disk stops only indexing, which resumes without help, and tests the disk usage of vic.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::capabilities;
use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::support::http_client;
use crate::support::long_tests::PromiseChecks;
use crate::support::long_tests::Rng;
use crate::support::long_tests::check_at_most;
use crate::support::long_tests::figure;
use crate::support::long_tests::percentile;
use crate::support::long_tests::size_from_env;

/// Maximum time until indexing has resumed after disk space is free again.
const RESUME_LIMIT: Duration = Duration::from_secs(30);

/// Maximum number of table versions while files are saved continuously.
pub(crate) const MAX_VERSIONS: u64 = 100;

/// Maximum disk usage besides the index, in bytes: databases, their logs and the cached vectors of the last 4,096 texts.
const FIXED_BYTES: u64 = 20 << 20;

/// Disk space that the daemon must leave free (`VIC_DISK_RESERVE_BYTES`), in MiB.
const RESERVE_MIB: u64 = 16;

/// Number of files, and number of files to delete: more than a fifth of all, so that maintenance rewrites the table.
const ENTRIES: u64 = 900;
const DELETED: u64 = 300;

/// Free bytes when maintenance begins: enough for the new keyword index, too few for the vectors of the remaining files.
const LEFT_FOR_UPKEEP: u64 = 480 << 10;

/// Runs an `#[ignore]`d test in a namespace in which a small disk can be mounted.
pub(crate) fn run_in_namespace(test: &str) {
    let own = std::env::current_exe().unwrap();
    if !capabilities::can_unshare(&["-rm", "sh", "-c", "mount -t tmpfs tmpfs /mnt && exec \"$@\"", "sh"]) {
        return;
    }
    let mut command = Command::new("unshare");
    command.arg("-rm").arg(own).args(["--ignored", "--exact", "--nocapture", test]);
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Starts a daemon whose data directory is a disk of 64 MiB, and indexes twenty files.
fn world_on_small_disk(reserve_mib: u64) -> World {
    let world = World::new().with("VIC_DISK_RESERVE_BYTES", &(reserve_mib << 20).to_string());
    std::fs::create_dir(world.data()).unwrap();
    let data = world.data();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs", data.to_str().unwrap()])
        .status();
    assert!(mounted.unwrap().success());
    let world = world.start();
    for number in 0..20 {
        world.write(&format!("{number}.md"), format!("Entry {number} of the harbour log: heron{number}."));
    }
    world.index();
    world
}

/// Returns the number of free bytes on the disk.
fn free_bytes(data: &Path) -> u64 {
    let stat = rustix::fs::statvfs(data).unwrap();
    stat.f_bavail * stat.f_frsize
}

/// Writes a file that fills the disk until this many bytes are free. Returns its path.
fn fill_disk(data: &Path, left: u64) -> std::path::PathBuf {
    let path = data.join("ballast");
    let mut file = std::fs::File::create(&path).unwrap();
    // Fills the rest in pages of 4 KiB, so that no page stays free if `left` is 0.
    for block in [vec![7u8; 1 << 20], vec![7u8; 4 << 10]] {
        while free_bytes(data) >= left + block.len() as u64 && file.write_all(&block).is_ok() {}
    }
    path
}

fn is_first_hit(world: &World, word: &str, path: &str) -> bool {
    world.paths(&[word]).first().is_some_and(|it| it == path)
}

fn wait_until_indexed(world: &World, files: u64, what: &str) -> Duration {
    let begun = Instant::now();
    world.wait_until(what, RESUME_LIMIT, |it| {
        let status = it.json(&["status"]);
        let degraded = status["degraded"].as_array().unwrap().len();
        status["coverage"]["indexed"] == files && status["coverage"]["pending"] == 0 && degraded == 0
    });
    begun.elapsed()
}

// Case B8
#[test]
fn indexing_stops_at_disk_reserve_and_resumes() {
    run_in_namespace("limits::disk_space::inside_at_the_reserve");
}

// Case B8
#[test]
#[ignore = "runs inside the test above"]
fn inside_at_the_reserve() {
    let world = world_on_small_disk(RESERVE_MIB);
    let pid = world.pid();
    let ballast = fill_disk(&world.data(), (RESERVE_MIB - 4) << 20);
    world.write("new.md", "A recipe for quince jelly.");
    let (code, said) = world.fails(&["index", world.files().to_str().unwrap()]);
    assert!(code == 8 && said.contains("MiB free") && said.contains("VIC_DISK_RESERVE_BYTES"), "{code}: {said}");
    world.wait_until("the status reports the full disk", Duration::from_secs(10), |it| {
        it.json(&["status"])["degraded"].to_string().contains("must stay free")
    });
    assert!(is_first_hit(&world, "heron7", "7.md"), "questions must be answered");
    let refused = http_client::post(&world, "/v1/index/start", &json!({}));
    let error = &refused.json()["error"];
    assert_eq!((refused.status, &error["code"]), (507, &json!("storage_full")), "{}", refused.body);
    assert!(error["message"].to_string().contains("MiB free"), "{error}");
    assert!(error["hint"].to_string().contains("VIC_DISK_RESERVE_BYTES"), "{error}");
    assert_eq!(refused.header("retry-after"), None, "retrying later does not help");
    world.wait_until("the new file is pending", Duration::from_secs(10), |it| {
        it.json(&["status"])["coverage"]["pending"] == 1
    });
    std::fs::remove_file(ballast).unwrap();
    let took = wait_until_indexed(&world, 21, "indexing resumes");
    assert!(is_first_hit(&world, "quince jelly", "new.md"));
    assert_eq!(world.pid(), pid);
    figure(
        "disk at its reserve",
        format!("exit code 8, questions answered, indexing resumed {took:.1?} after space was free"),
    );
}

// Case B8
#[test]
fn full_disk_affects_only_writes() {
    run_in_namespace("limits::disk_space::inside_without_a_byte");
}

// Case B8
#[test]
#[ignore = "runs inside the test above"]
fn inside_without_a_byte() {
    let mut world = world_on_small_disk(0);
    let mut files = 20;
    for round in 0..3 {
        let ballast = fill_disk(&world.data(), 0);
        for number in 0..10 {
            world.write(
                &format!("round{round}/{number}.md"),
                format!("Letter {number} on quince{round}x{number} jelly."),
            );
            files += 1;
        }
        std::fs::remove_file(world.files().join(format!("{round}.md"))).unwrap();
        files -= 1;
        let (code, said) = world.fails(&["index", world.files().to_str().unwrap()]);
        assert_eq!(code, 8, "{said}");
        assert!(is_first_hit(&world, "heron7", "7.md"), "questions must be answered");
        assert!(world.exit_status().is_none());
        std::fs::remove_file(ballast).unwrap();
        wait_until_indexed(&world, files, "indexing resumes");
        assert!(is_first_hit(&world, &format!("quince{round}x3"), &format!("round{round}/3.md")));
    }
    // Also kills the daemon while the disk is full, frees the space, and starts the daemon again.
    let ballast = fill_disk(&world.data(), 0);
    world.write("last.md", "A treatise on beekeeping.");
    std::thread::sleep(Duration::from_secs(2));
    world.kill();
    std::fs::remove_file(ballast).unwrap();
    world.spawn_and_wait();
    wait_until_indexed(&world, files + 1, "all files are indexed after a restart");
    assert_eq!(world.json(&["status"])["chunks"], files + 1);
    figure("full disk", "3 rounds and a kill, 0 crashes, 0 lost, questions answered all the time");
}

/// Starts a daemon with data on a small disk. Pauses it before maintenance, so that the table is compacted only after the
/// pause has ended.
fn world_with_pending_compaction() -> World {
    let world = world_on_small_disk(0);
    for number in 20..ENTRIES {
        world.write(&format!("{number}.md"), format!("Entry {number} of the harbour log: heron{number}."));
    }
    world.index();
    world.ok(&["pause"]);
    // Deletes every third file, so that each fragment of the table loses rows and none disappears completely.
    for number in (0..ENTRIES).step_by((ENTRIES / DELETED) as usize) {
        std::fs::remove_file(world.files().join(format!("{number}.md"))).unwrap();
    }
    world.wait_until("deleted files are gone", RESUME_LIMIT, |it| it.json(&["status"])["chunks"] == ENTRIES - DELETED);
    // Waits until old versions are deleted, because that frees disk space at unpredictable times.
    let versions = |it: &World| it.json(&["status"])["upkeep"]["versions"].as_u64();
    world.wait_until("old versions have been deleted", 3 * RESUME_LIMIT, |it| {
        let before = versions(it);
        std::thread::sleep(Duration::from_secs(4));
        versions(it) == before && before <= Some(20)
    });
    world
}

// Case B8
#[test]
fn disk_full_during_upkeep_loses_nothing_and_upkeep_reruns() {
    run_in_namespace("limits::disk_space::inside_of_upkeep");
}

// Case B8
#[test]
#[ignore = "runs inside the test above"]
fn inside_of_upkeep() {
    let mut world = world_with_pending_compaction();
    let ballast = fill_disk(&world.data(), LEFT_FOR_UPKEEP);
    world.ok(&["resume"]);
    world.write("new.md", "A recipe for quince jelly.");
    world.index();
    let told = |world: &World| -> Vec<String> {
        let status = world.json(&["status"]);
        let degraded = status["degraded"].as_array().unwrap();
        degraded.iter().map(|it| it.to_string()).filter(|it| it.contains("maintenance of the index failed")).collect()
    };
    // Waits, because on a busy machine the job ends before the maintenance does.
    world.wait_until("maintenance has failed", RESUME_LIMIT, |it| !told(it).is_empty());
    let told = told(&world);
    let parts = ["cannot compact the index", "No space left", "free some disk space"];
    assert!(told.len() == 1 && parts.iter().all(|it| told[0].contains(it)), "{told:?}");
    let all_is_there = |world: &World| {
        assert_eq!(world.json(&["status"])["chunks"], ENTRIES - DELETED + 1);
        assert!(is_first_hit(world, "quince jelly", "new.md"));
        for number in (1..ENTRIES).step_by(99) {
            assert!(is_first_hit(world, &format!("heron{number}"), &format!("{number}.md")), "{number}");
        }
    };
    all_is_there(&world);
    assert!(world.exit_status().is_none());
    std::fs::remove_file(ballast).unwrap();
    let begun = Instant::now();
    world.wait_until("maintenance is repeated", RESUME_LIMIT, |it| {
        let status = it.json(&["status"]);
        status["upkeep"]["fragments"] == 1 && status["degraded"].as_array().is_some_and(Vec::is_empty)
    });
    let took = begun.elapsed();
    all_is_there(&world);
    world.kill();
    world.spawn_and_wait();
    all_is_there(&world);
    figure(
        "disk that fills up in upkeep",
        format!("0 lost, questions answered, maintenance done {took:.1?} after space was free"),
    );
}

/// Returns the total size of the files below a folder in bytes.
fn bytes_below(folder: &Path) -> u64 {
    let files = walkdir::WalkDir::new(folder).into_iter().flatten();
    files.filter_map(|it| it.metadata().ok()).filter(|it| it.is_file()).map(|it| it.len()).sum()
}

/// Returns a unique text of about four hundred words.
fn unique_text(number: u64) -> String {
    let words = ["harbour", "ledger", "orchard", "granite", "violin", "lantern", "meadow", "copper"];
    let mut dice = Rng::new(number);
    (0..400).map(|_| format!("{} ", words[dice.below(8) as usize])).collect::<String>() + &format!("heron{number}")
}

/// Returns the p95 of the times of sixty questions.
fn question_p95(caller: &SyncClient) -> Duration {
    let ask = |number: u64| {
        let begun = Instant::now();
        assert!(!caller.hits(&format!("harbour lantern {number}")).is_empty());
        begun.elapsed()
    };
    percentile(&(0..60).map(ask).collect::<Vec<_>>(), 95)
}

#[test]
fn last_saved_file_enters_keyword_index_when_quiet() {
    let world = World::new().start();
    (0..3).for_each(|number| drop(world.write(&format!("{number}.md"), unique_text(number))));
    world.index();
    world.write("0.md", unique_text(10));
    SyncClient::new(&world).sync();
    let unindexed = |it: &World| it.json(&["status"])["upkeep"]["unindexed_chunks"].clone();
    assert_eq!(unindexed(&world), 1);
    world.wait_until("the chunk is in the keyword index", Duration::from_secs(20), |it| unindexed(it) == 0);
}

#[test]
fn fragments_are_compacted_when_quiet_but_not_paused() {
    let world = World::new().start();
    (0..20).for_each(|number| drop(world.write(&format!("{number}.md"), unique_text(number))));
    world.index();
    let caller = SyncClient::new(&world);
    // Writes new files instead of changing some, because deleted rows would trigger maintenance.
    for number in 100..110 {
        world.write(&format!("{number}.md"), unique_text(number));
        caller.sync();
    }
    world.ok(&["pause"]);
    // Waits twice as long as the time without changes after which maintenance would begin, to show that the pause prevents
    // it.
    std::thread::sleep(Duration::from_secs(7));
    assert!(caller.status().upkeep.fragments > 8, "{:?}", caller.status().upkeep);
    world.ok(&["resume"]);
    world.wait_until("the table has one fragment", Duration::from_secs(20), |it| {
        it.json(&["status"])["upkeep"]["fragments"] == 1
    });
    assert!(is_first_hit(&world, "heron109", "109.md"));
}

/// Saves files repeatedly and checks the disk usage at the end: the index is at most `times` its initial size, and the data
/// directory at most [`FIXED_BYTES`] larger than that. Old versions are deleted after six minutes without changes. Returns
/// the p95 of questions before the saves, right after them, and at the end.
fn measure_edits(edits: u64, files: u64, times: u64, patience: Duration) -> [Duration; 3] {
    let world = World::new().start();
    (0..files).for_each(|number| drop(world.write(&format!("{number}.md"), unique_text(number))));
    world.index();
    let (data, index, caller) = (world.data(), world.data().join("index"), SyncClient::new(&world));
    let before = question_p95(&caller);
    let (live, begun) = (bytes_below(&index), Instant::now());
    let (mut most_versions, mut most_bytes, mut most_data) = (0, 0, 0);
    for number in 0..edits {
        world.write(&format!("{}.md", number % files), unique_text(files + 1_000 + number));
        // Saves faster than the daemon commits, but too slowly for one commit to contain all saves.
        std::thread::sleep(Duration::from_millis(100));
        if number % 50 == 49 {
            let versions = world.json(&["status"])["upkeep"]["versions"].as_u64().unwrap();
            most_versions = most_versions.max(versions);
            most_bytes = most_bytes.max(bytes_below(&index));
            most_data = most_data.max(bytes_below(&data));
        }
    }
    // Waits, because the daemon may not have noticed the last saves yet.
    caller.sync();
    let right_after = question_p95(&caller);
    world.wait_until("the index is small again", patience, |it| {
        let status = it.json(&["status"]);
        let is_small = bytes_below(&index) <= times * live;
        status["coverage"]["pending"] == 0 && is_small
    });
    let (bytes, took) = (bytes_below(&index), begun.elapsed());
    assert_eq!(world.json(&["status"])["coverage"]["indexed"], files);
    let (of_live, mib) = (|bytes: u64| bytes as f64 / live as f64, |bytes: u64| bytes as f64 / f64::from(1 << 20));
    figure("files saved repeatedly", format!("{edits} saves of {files} files in {took:.0?}"));
    figure("maximum size of the index, times the live data", format!("{:.1}", of_live(most_bytes)));
    figure("size of the index at the end, times the live data", format!("{:.1} (fails above {times})", of_live(bytes)));
    figure("maximum size of the data directory, MiB", format!("{:.1} (live data {:.1})", mib(most_data), mib(live)));
    let mut promises = PromiseChecks::default();
    let most = mib(times * live + FIXED_BYTES);
    promises.at_most("size of the data directory at the end, MiB", mib(bytes_below(&data)), most, most);
    promises.at_most("maximum number of table versions", most_versions, MAX_VERSIONS, MAX_VERSIONS);
    promises.check();
    // A large table may have more fragments, because vic compacts it later, as that takes longer. Neither number of
    // fragments slows down questions.
    let fragments = if files > 1_000 { 64 } else { 12 };
    world.wait_until("maintenance is finished", Duration::from_secs(30), |it| {
        let upkeep = it.json(&["status"])["upkeep"].clone();
        upkeep["unindexed_chunks"] == 0 && upkeep["fragments"].as_u64() <= Some(fragments) && upkeep["now"] == ""
    });
    [before, right_after, question_p95(&caller)]
}

// Case B11
#[test]
fn repeated_saves_leave_few_versions_and_small_index() {
    measure_edits(300, 100, 6, Duration::from_secs(600));
}

// Case B11
#[test]
#[ignore = "takes half an hour: see `make torture`"]
fn torture_ten_thousand_edits() {
    let [before, right_after, after] = measure_edits(
        size_from_env("VIC_TORTURE_EDITS", 10_000),
        size_from_env("VIC_TORTURE_FILES", 100),
        3,
        Duration::from_secs(900),
    );
    let most = before.mul_f64(1.6) + Duration::from_millis(10);
    figure("ask p95 right after the last save", format!("{right_after:.1?}"));
    check_at_most(
        &format!("ask p95 when idle again ({before:.1?} before the saves)"),
        after,
        before.mul_f64(1.2),
        most,
    );
}
