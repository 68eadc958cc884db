//! Tests changes that are hard to detect: lost events, limits, missing roots, editors, unusual names and dates.
//!
//! Letter and number at the beginning of a test name refer to the adversarial cases in `tests/CASES.md`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use vic::model::{ContentHash, FileState, Status};

use crate::support::capabilities;
use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::support::long_tests::PromiseChecks;
use crate::support::long_tests::check_at_most;
use crate::support::long_tests::figure;
use crate::support::long_tests::percentile;
use crate::support::long_tests::size_from_env;
use crate::watch::kernel_watches;

/// Maximum time until a change is indexed, on a busy machine. On an idle machine it takes a second.
pub(crate) const SOON: Duration = Duration::from_secs(8);

/// Maximum time until the daemon notices that a root is missing.
pub(crate) const ROOT_NOTICED: Duration = Duration::from_secs(10);

/// Promised maximum time until lost events are reported. A busy machine may take twice as long.
const LOSS_REPORTED: Duration = Duration::from_secs(5);

/// The time within which the long test creates very many files.
const CREATION_TIME: Duration = Duration::from_secs(30);

/// Pause between two questions of the long test.
const PAUSE: Duration = Duration::from_millis(50);

/// Starts a daemon and indexes these files. Returns a connected client as well.
pub(crate) fn indexed_world(files: &[&str]) -> (World, SyncClient) {
    index_in(World::new(), files)
}

pub(crate) fn index_in(mut world: World, files: &[&str]) -> (World, SyncClient) {
    files.iter().for_each(|it| drop(world.write(it, format!("The text of {it}."))));
    world.spawn_and_wait();
    world.index();
    let caller = SyncClient::new(&world);
    (world, caller)
}

pub(crate) fn signal_daemon(world: &World, name: &str) {
    assert!(Command::new("kill").args([name, &world.pid().to_string()]).status().unwrap().success());
}

pub(crate) fn indexed_paths(caller: &SyncClient) -> BTreeSet<PathBuf> {
    caller.files().into_keys().collect()
}

/// Returns every file below the root, from a walk by the test itself.
pub(crate) fn paths_on_disk(root: &Path) -> BTreeSet<PathBuf> {
    let walk = walkdir::WalkDir::new(root).into_iter().map(Result::unwrap).filter(|it| !it.file_type().is_dir());
    walk.map(|it| it.path().strip_prefix(root).unwrap().to_path_buf()).collect()
}

pub(crate) fn is_degraded(status: &Status, word: &str) -> bool {
    status.degraded.iter().any(|it| it.contains(word))
}

pub(crate) fn hash_of(text: &str) -> Option<ContentHash> {
    Some(ContentHash(*blake3::hash(text.as_bytes()).as_bytes()))
}

// Case A1
#[test]
fn a1_lost_events_are_reported_and_repaired_by_one_walk() {
    let (world, caller) = indexed_world(&["a.md", "busy/b.md"]);
    signal_daemon(&world, "-STOP");
    for number in 0..9_000 {
        let path = world.files().join(format!("busy/{number}.md"));
        fs::write(&path, "x").unwrap();
        fs::remove_file(path).unwrap();
    }
    fs::write(world.files().join("late.md"), "Written while the daemon slept.").unwrap();
    let begun = Instant::now();
    signal_daemon(&world, "-CONT");
    let mut said = None;
    let healed = caller.poll_until(Duration::from_secs(30), |it| {
        let status = it.status();
        said = said.or_else(|| is_degraded(&status, "events were lost").then(|| begun.elapsed()));
        status.watch.overflows > 0 && status.watch.rescans > 0 && status.degraded.is_empty()
    });
    assert!(healed, "{:?}", caller.status());
    check_at_most(
        "lost events are reported after",
        said.expect("the lost events must be reported"),
        LOSS_REPORTED,
        2 * LOSS_REPORTED,
    );
    assert_eq!(indexed_paths(&caller), paths_on_disk(&world.files()));
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(caller.status().watch.rescans, 1, "one walk must cover all lost events");
    assert!(caller.poll_until(SOON, |it| it.hits("the daemon slept").first().is_some_and(|hit| hit.path == "late.md")));
    world.write("busy/after.md", "The watches still work.");
    assert!(caller.poll_until(SOON, |it| indexed_paths(it).contains(Path::new("busy/after.md"))));
}

// Case A2
#[test]
fn a2_folders_beyond_watch_limit_are_polled_and_reported() {
    let words = ["unshare", "-r", "sh", "-c", "echo 50 > /proc/sys/user/max_inotify_watches && exec \"$@\"", "sh"];
    if !capabilities::can_unshare(&words[1..]) {
        return;
    }
    let limited = World::new().under(words.map(String::from).to_vec()).with("VIC_POLL_SECONDS", "1");
    let files: Vec<String> = (0..500).map(|it| format!("d{it:03}/a.md")).collect();
    let (world, caller) = index_in(limited, &files.iter().map(String::as_str).collect::<Vec<_>>());
    let status = caller.status();
    assert_eq!((status.watch.folders + status.watch.missing, status.watch.polled.len()), (501, 1), "{status:?}");
    assert!((30..50).contains(&status.watch.folders), "{:?}", status.watch);
    for part in ["of 501 folders", "watch limit user.max_inotify_watches (50)", "sysctl"] {
        assert!(is_degraded(&status, part), "{part}: {:?}", status.degraded);
    }
    assert!(!is_degraded(&status, "space"), "a full disk must not be reported: {:?}", status.degraded);
    for folder in ["d001", "d250", "d499"] {
        world.write(&format!("{folder}/new.md"), "A new file in some folder.");
    }
    let all = |it: &SyncClient| indexed_paths(it) == paths_on_disk(&world.files()) && it.status().coverage.pending == 0;
    assert!(caller.poll_until(Duration::from_secs(30), all), "unwatched folders must be polled");
    world.write("d498/newer.md", "One for the sync: heliotrope.");
    caller.sync();
    assert_eq!(caller.hits("heliotrope")[0].path, "d498/newer.md");
}

// Case A3
#[test]
fn a3_files_of_nested_folders_created_at_once_are_found() {
    let (world, caller) = indexed_world(&["z.md"]);
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    for top in ["one", "two", "three"] {
        let mut folder = PathBuf::from(top);
        for letter in letters {
            folder.push(letter);
            fs::create_dir_all(world.files().join(&folder)).unwrap();
            world.write(folder.join("n.md").to_str().unwrap(), format!("In {}.", folder.display()));
        }
    }
    let all = |it: &SyncClient| indexed_paths(it).len() == 31 && it.status().coverage.pending == 0;
    assert!(caller.poll_until(SOON, all), "{:?}", caller.status().coverage);
    caller.sync();
    assert_eq!(indexed_paths(&caller), paths_on_disk(&world.files()));
}

// Case A4
#[test]
fn a4_renamed_large_folder_keeps_every_file() {
    let count = 5_000;
    let files: Vec<String> = (0..count).map(|it| format!("old/{}/{it}.md", it % 7)).collect();
    let mut world = World::new();
    files.iter().for_each(|it| drop(world.write(it, format!("Text of {it}."))));
    world.spawn_and_wait();
    world.index();
    let caller = SyncClient::new(&world);
    let before = caller.files();
    let (versions, chunks) = (table_versions(&world), caller.status().chunks);
    fs::rename(world.files().join("old"), world.files().join("new")).unwrap();
    let moved = |it: &SyncClient| indexed_paths(it).iter().all(|path| path.starts_with("new"));
    assert!(caller.poll_until(SOON, moved));
    caller.sync();
    let after = caller.files();
    assert_eq!(after.len(), count);
    for (path, record) in &before {
        let now = &after[&Path::new("new").join(path.strip_prefix("old").unwrap())];
        assert_eq!((now.id, now.state, now.hash), (record.id, FileState::Indexed, record.hash), "{}", path.display());
    }
    assert_eq!(
        (crate::watch::events::table_versions(&world), caller.status().chunks),
        (versions, chunks),
        "the index must not be written"
    );
    world.write("new/3/later.md", "Written after the move: amaranth.");
    caller.sync();
    assert_eq!(caller.hits("amaranth")[0].path, "new/3/later.md");
}

/// Returns the number of versions of the index tables: one per commit that has not been pruned.
pub(crate) fn table_versions(world: &World) -> usize {
    let tables = fs::read_dir(world.data().join("index")).unwrap().map(|it| it.unwrap().path().join("_versions"));
    tables.filter_map(|it| fs::read_dir(it).ok()).map(Iterator::count).sum()
}

// Case A5
#[test]
fn a5_folder_moved_out_of_root_loses_index_and_watches() {
    let (world, caller) = indexed_world(&["a.md", "d/e/b.md", "d/c.md"]);
    assert_eq!(caller.status().watch.folders, 3);
    let outside = world.files().with_file_name("outside");
    fs::rename(world.files().join("d"), &outside).unwrap();
    caller.sync();
    fs::write(outside.join("e/b.md"), "Changed outside: verbena.").unwrap();
    caller.sync();
    assert_eq!(indexed_paths(&caller), paths_on_disk(&world.files()));
    assert_eq!(caller.hits("\"verbena\"").len(), 0);
    // Waits until the watches of the moved folder are removed: the watcher first waits for the other half of the move event.
    kernel_watches::check_watches(&world, &caller);
}

// Case A6
#[test]
fn a6_editor_saves_yield_one_complete_version() {
    let (world, caller) = indexed_world(&["renamed.md", "backup.md", "slow.md"]);
    let path = |name: &str| world.files().join(name);
    let mut allowed: Vec<Option<ContentHash>> = caller.files().values().map(|it| it.hash).collect();
    let finals =
        ["Saved over: final.", "Saved with a backup: final.", "Written in two parts: the first, and the second."];
    allowed.extend(finals.map(hash_of));
    // Accepts a half-written `slow.md` after a second without writes, because the daemon may then index it; on a busy
    // machine the two writes can be further apart.
    let watch = |written: Instant| {
        for (path, record) in caller.files() {
            let known = allowed.contains(&record.hash) || record.state == FileState::Pending;
            let has_rested = path.ends_with("slow.md") && written.elapsed() > Duration::from_secs(1);
            assert!(known || has_rested, "{} was indexed half written: {record:?}", path.display());
        }
    };
    // Saves by renaming a temporary file over the original.
    fs::write(path(".renamed.md.tmp"), finals[0]).unwrap();
    fs::rename(path(".renamed.md.tmp"), path("renamed.md")).unwrap();
    // Saves as vim does with a backup.
    fs::rename(path("backup.md"), path("backup.md~")).unwrap();
    fs::write(path("backup.md"), finals[1]).unwrap();
    fs::remove_file(path("backup.md~")).unwrap();
    // Saves by truncating the file and writing it slowly through one descriptor.
    let mut slow = fs::File::create(path("slow.md")).unwrap();
    let (first, second) = finals[2].split_at(30);
    for part in [first, second] {
        std::io::Write::write_all(&mut slow, part.as_bytes()).unwrap();
        let written = Instant::now();
        while written.elapsed() < Duration::from_millis(800) {
            watch(written);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    drop(slow);
    let is_final = |it: &SyncClient| {
        let files = it.files();
        let found = ["renamed.md", "backup.md", "slow.md"].map(|name| files[Path::new(name)].hash);
        found == finals.map(hash_of) && files.len() == 3
    };
    assert!(caller.poll_until(SOON, is_final), "{:?}", caller.files());
    caller.sync();
    assert_eq!(caller.hits("\"saved with a backup\"").len(), 1);
}

// Case A7
#[test]
fn a7_growing_file_is_read_at_intervals_and_finally() {
    let (world, caller) = indexed_world(&["log.md"]);
    let seconds = size_from_env("VIC_TORTURE_APPEND_SECONDS", 12);
    let (mut text, mut seen) = ("The text of log.md.".to_string(), BTreeSet::new());
    let mut log = fs::File::options().append(true).open(world.files().join("log.md")).unwrap();
    for number in 0..10 * seconds {
        let line = format!("Line {number} of the log.\n");
        log.write_all(line.as_bytes()).unwrap();
        text.push_str(&line);
        std::thread::sleep(Duration::from_millis(80));
        seen.insert(caller.files()[Path::new("log.md")].hash);
    }
    // At most one version per 5 s, the version before the test, and two more for a slow machine.
    assert!(seen.len() as u64 <= seconds / 5 + 3, "{} versions in {seconds} s", seen.len());
    assert!(caller.poll_until(SOON, |it| it.files()[Path::new("log.md")].hash == hash_of(&text)));
}

// Case A12
#[test]
fn a12_missing_or_emptied_root_keeps_index_and_recovers() {
    let names: Vec<String> = (0..30).map(|it| format!("{}/{it}.md", it % 3)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (world, caller) = index_in(World::new().without_root_override(), &names);
    let (root, away) = (world.files(), world.files().with_file_name("away"));
    let (before, versions) = (caller.files(), table_versions(&world));
    let is_away = |it: &SyncClient| {
        let status = it.status();
        !status.roots[0].available && !status.degraded.is_empty()
    };
    let is_back = |it: &SyncClient| it.status().roots[0].available && it.status().degraded.is_empty();
    let check = |what: &str, harm: &dyn Fn(), cure: &dyn Fn()| {
        harm();
        assert!(caller.poll_until(ROOT_NOTICED, is_away), "{what}: {:?}", caller.status());
        assert!(caller.status().coverage.indexed >= 30, "{what}");
        cure();
        assert!(caller.poll_until(ROOT_NOTICED + SOON, is_back), "{what}: {:?}", caller.status());
        caller.sync();
        let files = caller.files();
        let same = files.iter().all(|(path, it)| before[path].id == it.id && it.state == FileState::Indexed);
        assert!(same && files.len() == 30, "{what}");
    };
    check("gone", &|| fs::rename(&root, &away).unwrap(), &|| fs::rename(&away, &root).unwrap());
    let swap = || {
        fs::rename(&root, &away).unwrap();
        fs::create_dir(&root).unwrap();
    };
    let back = || {
        fs::remove_dir_all(&root).unwrap();
        fs::rename(&away, &root).unwrap();
    };
    check("empty", &swap, &back);
    let block = || {
        fs::rename(&root, &away).unwrap();
        fs::write(&root, "x").unwrap();
    };
    let unblock = || {
        fs::remove_file(&root).unwrap();
        fs::rename(&away, &root).unwrap();
    };
    check("not a folder", &block, &unblock);
    let allow = |mode| fs::set_permissions(&root, fs::Permissions::from_mode(mode)).unwrap();
    check("not readable", &|| allow(0o000), &|| allow(0o755));
    assert_eq!(crate::watch::events::table_versions(&world), versions, "no file must be stored again");
    let half = || {
        swap();
        world.write("other.md", "The only one there.");
    };
    check("more than half gone", &half, &back);
    world.write("1/new.md", "Seen again after all that: gentian.");
    // The new file is found only after the mount guard has noticed the restored folder, which is then watched again.
    let is_seen = |it: &SyncClient| it.hits("gentian").first().is_some_and(|hit| hit.path == "1/new.md");
    assert!(caller.poll_until(ROOT_NOTICED + SOON, is_seen));
}

// Case A12
#[test]
fn a12_real_losses_are_removed_on_confirmation() {
    let names: Vec<String> = (0..30).map(|it| format!("{it}.md")).collect();
    let (mut world, _) = indexed_world(&names.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(world.terminate());
    names.iter().skip(5).for_each(|it| fs::remove_file(world.files().join(it)).unwrap());
    world.spawn_and_wait();
    let caller = SyncClient::new(&world);
    assert!(
        caller.poll_until(ROOT_NOTICED, |it| is_degraded(&it.status(), "25 files, more than half")),
        "{:?}",
        caller.status()
    );
    assert_eq!(caller.files().len(), 30);
    world.ok(&["index", "--accept-losses", world.files().to_str().unwrap()]);
    assert_eq!(indexed_paths(&caller), paths_on_disk(&world.files()));
    assert_eq!(caller.status().degraded, Vec::<String>::new());
}

// Case A14
#[test]
fn a14_deep_tree_is_walked_and_watched_completely() {
    let (world, caller) = indexed_world(&["a.md"]);
    let mut deep = PathBuf::new();
    (0..300).for_each(|_| deep.push("d"));
    world.write(deep.join("end.md").to_str().unwrap(), "At the very end: saxifrage.");
    caller.sync();
    assert_eq!(caller.hits("\"saxifrage\"").len(), 1);
    world.write(deep.join("end.md").to_str().unwrap(), "At the very end, changed: bergamot.");
    caller.sync();
    assert_eq!(caller.hits("\"bergamot\"").len(), 1);
    assert_eq!(caller.status().watch.folders, 301);
}

// Case A14
#[test]
fn too_long_paths_are_reported_and_the_rest_is_watched() {
    use rustix::fs::{Mode, OFlags, mkdirat, openat};
    let (mut world, caller) = indexed_world(&["a.md"]);
    let name = "n".repeat(250);
    let mut folder = openat(rustix::fs::CWD, world.files(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..18 {
        mkdirat(&folder, &name, Mode::RWXU).unwrap();
        folder = openat(&folder, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let check = |world: &World, caller: &SyncClient, when: &str| {
        assert!(caller.poll_until(SOON, |it| is_degraded(&it.status(), "more than 4095 bytes")), "{when}");
        let status = caller.status();
        assert!(status.degraded.iter().all(|it| it.len() < 800), "{when}: {:?}", status.degraded);
        assert_eq!(status.watch.polled, Vec::<String>::new(), "{when}");
        // A file in a deep folder, but below the path limit, must be found.
        let path = world.files().join(&name).join(&name).join(format!("{when}.md"));
        fs::write(&path, format!("Seen as it happens: hellebore {when}.")).unwrap();
        assert!(caller.poll_until(SOON, |it| it.hits(&format!("\"hellebore {when}\"")).len() == 1), "{when}");
    };
    check(&world, &caller, "made");
    drop(caller);
    assert!(world.terminate());
    world.spawn_and_wait();
    check(&world, &SyncClient::new(&world), "started");
}

/// Returns the thread id of the daemon's thread that reads the inotify queue.
fn thread_of_events(world: &World) -> String {
    let tasks = fs::read_dir(format!("/proc/{}/task", world.pid())).unwrap().map(|it| it.unwrap().path());
    let of_events = |it: &PathBuf| fs::read_to_string(it.join("comm")).is_ok_and(|name| name.trim() == "vic-events");
    tasks.filter(of_events).map(|it| it.file_name().unwrap().to_string_lossy().into_owned()).next().unwrap()
}

#[test]
fn dead_watcher_is_reported_replaced_and_caught_up() {
    if !capabilities::can_trace() {
        return;
    }
    let (world, caller) = indexed_world(&["a.md", "deep/b.md"]);
    let thread = thread_of_events(&world);
    // Makes every read of the inotify queue fail from here on.
    let strace = ["-q", "-p", &thread, "-e", "trace=read", "-e", "inject=read:error=EBADF", "-o", "/dev/null"];
    let mut strace = Command::new("strace").args(strace).spawn().unwrap();
    let dead = Path::new("/proc").join(world.pid().to_string()).join("task").join(&thread);
    assert!(caller.poll_until(Duration::from_secs(10), |_| !dead.exists()), "the thread must end");
    world.write("deep/missed.md", "Written while unwatched: saxifrage.");
    let mut was_degraded = false;
    let healed = caller.poll_until(Duration::from_secs(60), |it| {
        let status = it.status();
        was_degraded |= is_degraded(&status, "the watcher is dead: the queue of file events cannot be read");
        status.watch.restarts == 1 && status.degraded.is_empty() && status.watch.folders == 2
    });
    strace.kill().ok();
    strace.wait().unwrap();
    assert!(healed, "{:?}", caller.status());
    assert!(was_degraded, "the dead watcher must be reported");
    assert!(caller.poll_until(SOON, |it| it.hits("saxifrage").first().is_some_and(|hit| hit.path == "deep/missed.md")));
    assert_eq!(caller.status().watch.polled, Vec::<String>::new());
    world.write("deep/after.md", "The new one watches: bergamot.");
    assert!(caller.poll_until(SOON, |it| it.hits("bergamot").first().is_some_and(|hit| hit.path == "deep/after.md")));
}

/// Returns the number of voluntary context switches of a thread.
fn context_switches(world: &World, thread: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/task/{thread}/status", world.pid())).unwrap();
    let number = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    number.unwrap().trim().parse().unwrap()
}

// Case A14
#[test]
fn event_bursts_are_read_in_batches() {
    const FILES: u64 = 2_000;
    let (world, caller) = indexed_world(&["a.md"]);
    let thread = thread_of_events(&world);
    let (before, begun) = (context_switches(&world, &thread), Instant::now());
    for number in 0..FILES {
        std::thread::sleep((number as u32 * Duration::from_micros(500)).saturating_sub(begun.elapsed()));
        world.write(&format!("{number}.md"), format!("Entry {number}."));
    }
    let (waits, seconds) = (context_switches(&world, &thread) - before, begun.elapsed().as_secs_f64());
    // Counts reads of the event queue by context switches: each read causes two, one to wait for an event and one to wait
    // before the next read.
    assert!((waits as f64) < 200.0 * seconds + 50.0 && waits < FILES / 2, "{waits} in {seconds:.1} s");
    caller.sync();
    assert_eq!(caller.status().coverage.found, FILES + 1);
}

// Case A14
#[test]
fn folder_is_not_listed_for_each_new_file() {
    const FILES: u64 = 200;
    if !capabilities::can_trace() {
        return;
    }
    let (world, caller) = indexed_world(&["a.md"]);
    let calls = tempfile::NamedTempFile::new().unwrap();
    let (daemon, to) = (world.pid().to_string(), calls.path().to_str().unwrap().to_owned());
    let strace = ["-f", "-q", "-y", "-p", &daemon, "-e", "trace=getdents64", "-o", &to];
    let mut strace = Command::new("strace").args(strace).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    (0..FILES).for_each(|it| drop(world.write(&format!("{it}.md"), format!("Entry {it}."))));
    caller.sync();
    assert_eq!(caller.hits("\"entry 137\"").len(), 1);
    assert!(Command::new("kill").args(["-INT", &strace.id().to_string()]).status().unwrap().success());
    strace.wait().unwrap();
    let folder = format!("<{}>", world.files().canonicalize().unwrap().display());
    let listed = fs::read_to_string(calls.path()).unwrap().lines().filter(|it| it.contains(&folder)).count();
    assert!(listed < 20, "{listed} times");
}

/// Creates `VIC_TORTURE_FILES` tiny files in one folder within half a minute, and asks questions meanwhile.
// Case A14
#[test]
#[ignore = "takes long: see `make torture`"]
fn torture_a14_many_tiny_files_while_asking() {
    // As many files as a question considers, so that answers at rest and under load have the same number of hits.
    const BEFORE: u64 = 1_000;
    let names: Vec<String> = (0..BEFORE).map(|it| format!("{it}.md")).collect();
    let (world, caller) = indexed_world(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let count = size_from_env("VIC_TORTURE_FILES", 200_000);
    // Asks with pauses, because a client without pauses would compete with the writer for the CPU.
    let ask = |caller: &SyncClient| {
        std::thread::sleep(PAUSE);
        let begun = Instant::now();
        assert!(!caller.hits("text").is_empty());
        begun.elapsed()
    };
    let idle = percentile(&(0..100).map(|_| ask(&caller)).collect::<Vec<_>>(), 95);
    let before = caller.status().rss_mib;
    let (root, begun) = (world.files(), Instant::now());
    let writer = std::thread::spawn(move || {
        for number in 0..count {
            let due = CREATION_TIME.mul_f64(number as f64 / count as f64);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
            fs::write(root.join(format!("t{number}.md")), format!("Tiny {number}.")).unwrap();
        }
    });
    let mut busy = Vec::new();
    while !writer.is_finished() || busy.len() < 100 {
        busy.push(ask(&caller));
    }
    writer.join().unwrap();
    figure("ask p50 while files appear", format!("{:.1?}", percentile(&busy, 50)));
    let (seconds, busy) = (begun.elapsed().as_secs(), percentile(&busy, 95));
    // Allows three times the promise, because the writer uses the CPU and the disk all the time.
    let what = format!("ask p95 while {count} files appear in {seconds} s ({idle:.1?} at rest)");
    let mut promises = PromiseChecks::default();
    promises.at_most(&what, busy, 2 * idle, 6 * idle);
    caller.try_sync(3_600).unwrap();
    assert_eq!(caller.status().coverage.found, BEFORE + count);
    promises.at_most(
        "MiB of memory more at the peak than before those files",
        caller.status().peak_rss_mib - before,
        300.0,
        300.0,
    );
    promises.check();
}
