//! Tests a disk with read errors: the daemon reports the path and a remedy, treats no file as damaged, moves no file aside,
//! deletes nothing, and works again when the disk does.
//!
//! `strace` injects the errors into the system calls on one file.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::crash::damaged_data::check_all_is_read;
use crate::crash::damaged_data::copy_of;
use crate::crash::damaged_data::crashed_world;
use crate::crash::damaged_data::newest_manifest;
use crate::crash::damaged_data::refused_start;
use crate::crash::damaged_data::snapshot;
use crate::crash::damaged_data::table_files;
use crate::support::capabilities;
use crate::support::harness::World;

/// System calls that read a file.
const READ_CALLS: &str = "read,pread64,readv,preadv,preadv2";

/// System calls that sync data to the disk.
const SYNC_CALLS: &str = "fsync,fdatasync,syncfs";

/// Returns `strace` arguments that make these calls fail with EIO, on one file or on all. The trace is written to `seen`.
fn failing_strace(calls: &str, file: Option<&Path>, seen: &Path) -> Vec<String> {
    let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:error=EIO"));
    let seen = seen.to_str().unwrap();
    let mut words: Vec<String> = ["-f", "-q", "-e", &trace, "-e", &inject, "-o", seen].map(String::from).into();
    if let Some(file) = file {
        words.extend(["-P".to_string(), file.display().to_string()]);
    }
    words
}

/// Returns the number of calls that `strace` made fail so far. At zero, a test has checked nothing.
fn failed_calls(seen: &Path) -> usize {
    std::fs::read_to_string(seen).unwrap_or_default().matches("(INJECTED)").count()
}

/// Checks that all files are unchanged and none was added. A database may have grown by the content of its write-ahead log.
fn check_all_is_kept(before: &[(PathBuf, Vec<u8>)], after: &[(PathBuf, Vec<u8>)], file: &Path) {
    let names = |files: &[(PathBuf, Vec<u8>)]| files.iter().map(|it| it.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(before), names(after), "{}", file.display());
    for ((path, was), (_, is)) in before.iter().zip(after) {
        let is_database = path.extension().is_some_and(|it| it == "sqlite");
        assert!(was == is || (is_database && is.len() >= was.len()), "{}: {} differs", file.display(), path.display());
    }
}

/// Returns the path of a certain file in a data directory.
type FindFile = fn(&Path) -> PathBuf;

/// Files that the daemon must read at a start, each with the text that the error must contain.
const NEEDED_AT_START: [(&str, FindFile); 4] = [
    ("catalog.sqlite", |data| data.join("catalog.sqlite")),
    ("index", newest_manifest),
    ("index", |data| table_files(data, ".lance/data/").remove(0)),
    ("roots.txt", |data| data.join("roots.txt")),
];

// Case B9
#[test]
fn start_with_unreadable_file_fails_and_changes_nothing() {
    if !capabilities::can_trace() {
        return;
    }
    let origin = crashed_world();
    for (named, find) in NEEDED_AT_START {
        let mut world = copy_of(&origin);
        let file = find(&world.data());
        let before = snapshot(&world.data());
        let place = tempfile::tempdir().unwrap();
        let seen = place.path().join("seen");
        let words = failing_strace(READ_CALLS, Some(&file), &seen);
        world = world.under(["strace".to_string(), "-D".into()].into_iter().chain(words).collect());
        let said: Vec<String> = (0..2)
            .map(|_| {
                let (code, said) = refused_start(&world);
                assert_eq!(code, Some(4), "{}: {said}", file.display());
                assert!(said.contains(named) && said.contains("hint: nothing was changed"), "{said}");
                said.lines().filter(|it| it.starts_with("error:")).collect()
            })
            .collect();
        assert_eq!(said[0], said[1], "every start must report the same error");
        assert!(failed_calls(&seen) > 0, "{}: no call failed", file.display());
        check_all_is_kept(&before, &snapshot(&world.data()), &file);
        let mut world = world.under(Vec::new());
        world.spawn_and_wait();
        check_all_is_read(&world, named);
    }
}

// Case B6
#[test]
fn read_only_directory_fails_every_start_unchanged() {
    let origin = crashed_world();
    let world = copy_of(&origin);
    let data = world.data().display().to_string();
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" && exec \"$@\"";
    let launcher = ["unshare", "-rm", "sh", "-c", script, data.as_str()].map(String::from).to_vec();
    if !capabilities::can_unshare(&["-rm", "sh", "-c", script, data.as_str()]) {
        return;
    }
    let before = snapshot(&world.data());
    let world = world.under(launcher);
    for _ in 0..2 {
        let (code, said) = refused_start(&world);
        assert!(code == Some(7) && said.contains(&data) && said.contains("hint: "), "{code:?}: {said}");
    }
    assert_eq!(snapshot(&world.data()), before);
}

/// Attaches `strace` to the running daemon, so that these calls fail from now on.
fn attach(world: &World, calls: &str, file: Option<&Path>, seen: &Path) -> Child {
    let mut command = Command::new("strace");
    command.args(["-p", &world.pid().to_string()]).args(failing_strace(calls, file, seen));
    let strace = command.stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let is_traced = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", world.pid())).unwrap();
        !status.contains("TracerPid:\t0\n")
    };
    while !is_traced() {
        assert!(begun.elapsed() < Duration::from_secs(10), "strace has not attached within 10 s");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Waits for the other threads, which are attached a moment later.
    std::thread::sleep(Duration::from_millis(300));
    strace
}

fn detach(mut strace: Child) {
    assert!(Command::new("kill").args(["-INT", &strace.id().to_string()]).status().unwrap().success());
    strace.wait().unwrap();
}

// Case B9
#[test]
fn failed_commit_is_discarded_and_repeated() {
    if !capabilities::can_trace() {
        return;
    }
    let mut world = World::new().start();
    world.write("a.md", "Written to a good disk: speedwell.");
    world.index();
    let place = tempfile::tempdir().unwrap();
    let seen = place.path().join("seen");
    let strace = attach(&world, SYNC_CALLS, None, &seen);
    world.write("b.md", "Written to a bad disk: larkspur.");
    let job = world.vic(&["index", world.files().to_str().unwrap()]);
    let said = [job.stdout, job.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
    assert!(!job.status.success(), "{said}");
    assert!(["Input/output error", "disk I/O error"].iter().any(|it| said.contains(it)), "{said}");
    let status = world.json(&["status"]);
    assert!(status["coverage"]["indexed"].as_u64() <= Some(1), "{status:#}");
    assert_eq!(world.paths(&["speedwell"]).first().map(String::as_str), Some("a.md"), "must still be found");
    detach(strace);
    assert!(failed_calls(&seen) > 0, "no call failed");
    world.index();
    for (word, name) in [("speedwell", "a.md"), ("larkspur", "b.md")] {
        assert_eq!(world.paths(&[word]).first().map(String::as_str), Some(name));
    }
    let aside = walkdir::WalkDir::new(world.data()).into_iter().flatten();
    let aside: Vec<PathBuf> =
        aside.map(|it| it.into_path()).filter(|it| it.to_string_lossy().contains("damaged")).collect();
    assert!(aside.is_empty(), "{aside:?}");
    world.kill();
    world.spawn_and_wait();
    assert_eq!(world.json(&["status"])["coverage"]["indexed"], 2);
}

// Case B9
#[test]
fn failed_table_read_is_reported_and_next_query_works() {
    if !capabilities::can_trace() {
        return;
    }
    let mut world = crashed_world();
    world.spawn_and_wait();
    let index = world.data().join("index");
    let before = table_files(&world.data(), ".lance/").len();
    assert_eq!(world.paths(&["heron3"]).first().map(String::as_str), Some("3.md"));
    let place = tempfile::tempdir().unwrap();
    let seen = place.path().join("seen");
    let data_file = table_files(&world.data(), ".lance/data/").remove(0);
    let strace = attach(&world, READ_CALLS, Some(&data_file), &seen);
    let file = world.files().join("3.md").display().to_string();
    // Uses queries that read the table each time, because a cache answers keyword searches.
    for question in [["grep", "heron3"], ["similar", &file], ["grep", "heron[34]"]] {
        let so_far = failed_calls(&seen);
        let (code, said) = world.fails(&question);
        let names = [index.to_str().unwrap(), "Input/output error", "hint: "];
        assert!(code == 4 && names.iter().all(|it| said.contains(it)), "{question:?}: {code}, {said}");
        assert!(failed_calls(&seen) > so_far, "{question:?}: no read failed: {said}");
    }
    assert_eq!(world.paths(&["heron3"]).first().map(String::as_str), Some("3.md"), "the cache must still answer");
    detach(strace);
    assert!(world.exit_status().is_none(), "{}", world.log());
    for question in [["grep", "heron3"], ["similar", &file]] {
        world.ok(&question);
    }
    check_all_is_read(&world, "the disk works again");
    assert!(table_files(&world.data(), ".lance/").len() >= before);
}
