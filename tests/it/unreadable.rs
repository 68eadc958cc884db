//! A disk that answers with errors: the path and the cure are named, nothing is taken for damage, nothing is put aside or
//! deleted, and all is there again when the disk is.
//!
//! The errors are put into system calls on the one file by `strace`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::damage::{check_all_is_read, copy_of, newest_manifest, origin, refusal, snapshot, table_files};
use crate::harness::World;
use crate::means;

/// Calls that read.
const READING: &str = "read,pread64,readv,preadv,preadv2";

/// Calls by which something is brought to the disk.
const SYNCING: &str = "fsync,fdatasync,syncfs";

/// Arguments of `strace` that let these calls on a file, or all of them, fail; what it sees goes to another.
fn failing(calls: &str, file: Option<&Path>, seen: &Path) -> Vec<String> {
    let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:error=EIO"));
    let seen = seen.to_str().unwrap();
    let mut words: Vec<String> = ["-f", "-q", "-e", &trace, "-e", &inject, "-o", seen].map(String::from).into();
    if let Some(file) = file {
        words.extend(["-P".to_string(), file.display().to_string()]);
    }
    words
}

/// How many calls were refused so far. Where none was, a test shows nothing.
fn refused(seen: &Path) -> usize {
    std::fs::read_to_string(seen).unwrap_or_default().matches("(INJECTED)").count()
}

/// Checks that every file is there as it was, and no other; a database may have taken up its own log.
fn check_all_is_kept(before: &[(PathBuf, Vec<u8>)], after: &[(PathBuf, Vec<u8>)], file: &Path) {
    let names = |files: &[(PathBuf, Vec<u8>)]| files.iter().map(|it| it.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(before), names(after), "{}", file.display());
    for ((path, was), (_, is)) in before.iter().zip(after) {
        let is_database = path.extension().is_some_and(|it| it == "sqlite");
        assert!(was == is || (is_database && is.len() >= was.len()), "{}: {} differs", file.display(), path.display());
    }
}

/// A file of a data directory.
type Find = fn(&Path) -> PathBuf;

/// Files that a start has to read, and what must be said of each.
const NEEDED: [(&str, Find); 4] = [
    ("catalog.sqlite", |data| data.join("catalog.sqlite")),
    ("index", newest_manifest),
    ("index", |data| table_files(data, ".lance/data/").remove(0)),
    ("roots.txt", |data| data.join("roots.txt")),
];

#[test]
fn a_start_that_cannot_read_a_file_says_so_and_changes_nothing() {
    if !means::can_trace() {
        return;
    }
    let origin = origin();
    for (named, find) in NEEDED {
        let mut world = copy_of(&origin);
        let file = find(&world.data());
        let before = snapshot(&world.data());
        let place = tempfile::tempdir().unwrap();
        let seen = place.path().join("seen");
        let words = failing(READING, Some(&file), &seen);
        world = world.under(["strace".to_string(), "-D".into()].into_iter().chain(words).collect());
        let said: Vec<String> = (0..2)
            .map(|_| {
                let (code, said) = refusal(&world);
                assert_eq!(code, Some(4), "{}: {said}", file.display());
                assert!(said.contains(named) && said.contains("hint: nothing was changed"), "{said}");
                said.lines().filter(|it| it.starts_with("error:")).collect()
            })
            .collect();
        assert_eq!(said[0], said[1], "the same at every start");
        assert!(refused(&seen) > 0, "{}: nothing was refused", file.display());
        check_all_is_kept(&before, &snapshot(&world.data()), &file);
        let mut world = world.under(Vec::new());
        world.spawn();
        check_all_is_read(&world, named);
    }
}

#[test]
fn a_directory_that_cannot_be_written_to_is_named_at_every_start_and_stays_as_it_is() {
    let origin = origin();
    let world = copy_of(&origin);
    let data = world.data().display().to_string();
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" && exec \"$@\"";
    let launcher = ["unshare", "-rm", "sh", "-c", script, data.as_str()].map(String::from).to_vec();
    if !means::can_unshare(&["-rm", "sh", "-c", script, data.as_str()]) {
        return;
    }
    let before = snapshot(&world.data());
    let world = world.under(launcher);
    for _ in 0..2 {
        let (code, said) = refusal(&world);
        assert!(code == Some(7) && said.contains(&data) && said.contains("hint: "), "{code:?}: {said}");
    }
    assert_eq!(snapshot(&world.data()), before);
}

/// Lets calls of a running daemon fail from now on.
fn attach(world: &World, calls: &str, file: Option<&Path>, seen: &Path) -> Child {
    let mut command = Command::new("strace");
    command.args(["-p", &world.pid().to_string()]).args(failing(calls, file, seen));
    let strace = command.stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let is_traced = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", world.pid())).unwrap();
        !status.contains("TracerPid:\t0\n")
    };
    while !is_traced() {
        assert!(begun.elapsed() < Duration::from_secs(10), "strace does not attach");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The other threads follow.
    std::thread::sleep(Duration::from_millis(300));
    strace
}

fn detach(mut strace: Child) {
    assert!(Command::new("kill").args(["-INT", &strace.id().to_string()]).status().unwrap().success());
    strace.wait().unwrap();
}

#[test]
fn a_commit_that_the_disk_refuses_is_no_commit_and_is_made_up_for() {
    if !means::can_trace() {
        return;
    }
    let mut world = World::new().start();
    world.write("a.md", "Written to a good disk: speedwell.");
    world.index();
    let place = tempfile::tempdir().unwrap();
    let seen = place.path().join("seen");
    let strace = attach(&world, SYNCING, None, &seen);
    world.write("b.md", "Written to a bad disk: larkspur.");
    let job = world.vic(&["index", world.files().to_str().unwrap()]);
    let said = [job.stdout, job.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
    assert!(!job.status.success(), "{said}");
    assert!(["Input/output error", "disk I/O error"].iter().any(|it| said.contains(it)), "{said}");
    let status = world.json(&["status"]);
    assert!(status["coverage"]["indexed"].as_u64() <= Some(1), "{status:#}");
    assert_eq!(world.paths(&["speedwell"]).first().map(String::as_str), Some("a.md"), "what there is answers");
    detach(strace);
    assert!(refused(&seen) > 0, "nothing was refused");
    world.index();
    for (word, name) in [("speedwell", "a.md"), ("larkspur", "b.md")] {
        assert_eq!(world.paths(&[word]).first().map(String::as_str), Some(name));
    }
    let aside = walkdir::WalkDir::new(world.data()).into_iter().flatten();
    let aside: Vec<PathBuf> =
        aside.map(|it| it.into_path()).filter(|it| it.to_string_lossy().contains("damaged")).collect();
    assert!(aside.is_empty(), "{aside:?}");
    world.kill();
    world.spawn();
    assert_eq!(world.json(&["status"])["coverage"]["indexed"], 2);
}

#[test]
fn a_question_that_cannot_read_the_table_says_so_and_the_next_one_is_answered() {
    if !means::can_trace() {
        return;
    }
    let mut world = origin();
    world.spawn();
    let index = world.data().join("index");
    let before = table_files(&world.data(), ".lance/").len();
    assert_eq!(world.paths(&["heron3"]).first().map(String::as_str), Some("3.md"));
    let place = tempfile::tempdir().unwrap();
    let seen = place.path().join("seen");
    let data_file = table_files(&world.data(), ".lance/data/").remove(0);
    let strace = attach(&world, READING, Some(&data_file), &seen);
    let file = world.files().join("3.md").display().to_string();
    // Each of them reads the table anew, however much of it is at hand for questions in words.
    for question in [["grep", "heron3"], ["similar", &file], ["grep", "heron[34]"]] {
        let so_far = refused(&seen);
        let (code, said) = world.fails(&question);
        let names = [index.to_str().unwrap(), "Input/output error", "hint: "];
        assert!(code == 4 && names.iter().all(|it| said.contains(it)), "{question:?}: {code}, {said}");
        assert!(refused(&seen) > so_far, "{question:?}: it failed of something else: {said}");
    }
    assert_eq!(world.paths(&["heron3"]).first().map(String::as_str), Some("3.md"), "what is at hand answers");
    detach(strace);
    assert!(world.ended().is_none(), "{}", world.log());
    for question in [["grep", "heron3"], ["similar", &file]] {
        world.ok(&question);
    }
    check_all_is_read(&world, "the disk answered again");
    assert!(table_files(&world.data(), ".lance/").len() >= before);
}
