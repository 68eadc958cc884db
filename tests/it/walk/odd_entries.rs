//! Tests special files, unusual file names and unusual dates.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use vic::model::{FileState, Reason};

use crate::support::capabilities;
use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::watch::events::ROOT_NOTICED;
use crate::watch::events::SOON;
use crate::watch::events::hash_of;
use crate::watch::events::indexed_world;
use crate::watch::events::paths_on_disk;

// Case A8
#[test]
fn a8_symlinks_are_not_followed_and_hard_links_are_indexed() {
    let (world, caller) = indexed_world(&["real.md", "d/inner.md"]);
    let outside = world.files().with_file_name("outside.md");
    fs::write(&outside, "Outside: a secret called zinnia.").unwrap();
    let path = |name: &str| world.files().join(name);
    symlink(path("d"), path("d/loop")).unwrap();
    symlink("/", path("everything")).unwrap();
    symlink("/proc/self/fd", path("descriptors")).unwrap();
    symlink(&outside, path("linked.md")).unwrap();
    caller.sync();
    let files = caller.files();
    for link in ["d/loop", "everything", "descriptors", "linked.md"] {
        assert_eq!(files[Path::new(link)].reason, Some(Reason::Symlink), "{link}");
    }
    assert_eq!((files.len(), caller.hits("\"zinnia\"").len()), (6, 0));
    fs::hard_link(&outside, path("hard.md")).unwrap();
    caller.sync();
    assert_eq!(caller.hits("\"zinnia\"")[0].path, "hard.md", "a hard link in the root must be indexed");
}

// Case A10
#[test]
fn a10_special_files_are_listed_and_block_nothing() {
    let (world, caller) = indexed_world(&["a.md"]);
    let path = |name: &str| world.files().join(name);
    assert!(Command::new("mkfifo").arg(path("pipe.md")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(path("socket.md")).unwrap();
    fs::File::create(path("sparse.md")).unwrap().set_len(1 << 40).unwrap();
    world.write("b.md", "Beside them: columbine.");
    caller.sync();
    let files = caller.files();
    let reason = |name: &str| files[Path::new(name)].reason;
    assert_eq!(reason("pipe.md"), Some(Reason::NotRegular));
    assert_eq!(reason("socket.md"), Some(Reason::NotRegular));
    assert_eq!(reason("sparse.md"), Some(Reason::Sparse));
    assert_eq!(caller.hits("columbine")[0].path, "b.md");
}

// Case A10
#[test]
fn a10_device_in_place_of_file_is_skipped() {
    let mut world = World::new();
    let (place, script) = (world.write("endless.md", ""), "mount --bind /dev/zero \"$0\" && exec \"$@\"");
    let words = ["-rm", "sh", "-c", script, place.to_str().unwrap()];
    if !capabilities::can_unshare(&words) {
        return;
    }
    // Each command started by the launcher has its own mount namespace; only that of the daemon matters here.
    world.spawn_with_launcher(&[&["unshare"], &words[..]].concat().iter().map(|it| it.to_string()).collect::<Vec<_>>());
    world.write("b.md", "Beside it: columbine.");
    // Waits for the address file without running `vic`, which could start another daemon outside the namespace.
    world.wait_until("the daemon answers", Duration::from_secs(60), |it| it.data().join("listen").exists());
    world.index();
    let caller = SyncClient::new(&world);
    assert_eq!(caller.files()[Path::new("endless.md")].reason, Some(Reason::NotRegular));
    assert_eq!(caller.hits("columbine")[0].path, "b.md");
}

// Case A11
#[test]
fn a11_odd_names_are_indexed_and_distinguished() {
    use std::os::unix::ffi::OsStrExt;
    let (world, caller) = indexed_world(&["a.md"]);
    let long = format!("{}.md", "l".repeat(252));
    let names: Vec<&[u8]> = vec![
        b"new\nline.md",
        long.as_bytes(),
        b"-rf.md",
        "right\u{202e}dm.md".as_bytes(),
        "caf\u{e9}.md".as_bytes(),
        "cafe\u{301}.md".as_bytes(),
        b"foo#1.md",
        b"foo.md#1",
        b"bad-\xff-utf8.md",
        b"quote'\"`$(x).md",
        b" leading and trailing .md ",
    ];
    for (number, name) in names.iter().enumerate() {
        fs::write(world.files().join(std::ffi::OsStr::from_bytes(name)), format!("Number {number} is odd.")).unwrap();
    }
    caller.sync();
    let files = caller.files();
    assert_eq!(files.keys().cloned().collect::<BTreeSet<_>>(), paths_on_disk(&world.files()));
    for (number, name) in names.iter().enumerate() {
        let record = &files[Path::new(std::ffi::OsStr::from_bytes(name))];
        assert_eq!(record.hash, hash_of(&format!("Number {number} is odd.")), "{}", record.found.path.display());
    }
    let shown = world.ok(&["files"]);
    assert!(!shown.contains('\u{202e}') && !shown.contains("new\nline"), "{shown}");
}

// Case A13
#[test]
fn a13_past_and_future_dates_hide_no_file() {
    let (world, caller) = indexed_world(&["a.md", "b.md", "c.md"]);
    let before = caller.files();
    let year = Duration::from_secs(365 * 24 * 3_600);
    let date = |path: &Path, moment| fs::File::options().write(true).open(path).unwrap().set_modified(moment).unwrap();
    let outside = world.files().with_file_name("old.md");
    fs::write(&outside, "Written long ago: speedwell.").unwrap();
    date(&outside, SystemTime::UNIX_EPOCH + year);
    fs::rename(&outside, world.files().join("old.md")).unwrap();
    let future = world.write("future.md", "Dated far ahead: larkspur.");
    date(&future, SystemTime::UNIX_EPOCH + 131 * year);
    // Dates `b.md` a year back, as if the clock had been set back by a year when the file was saved.
    date(&world.files().join("b.md"), SystemTime::now() - year);
    caller.sync();
    assert_eq!((&*caller.hits("speedwell")[0].path, &*caller.hits("larkspur")[0].path), ("old.md", "future.md"));
    fs::write(&future, "Changed under a date of the past: foxglove.").unwrap();
    date(&future, SystemTime::UNIX_EPOCH + 2 * year);
    caller.sync();
    assert_eq!(caller.hits("foxglove")[0].path, "future.md");
    let after = caller.files();
    for name in ["a.md", "b.md", "c.md"] {
        let (before, after) = (&before[Path::new(name)], &after[Path::new(name)]);
        assert_eq!((before.id, before.hash, after.state), (after.id, after.hash, FileState::Indexed), "{name}");
    }
}

// Case A13
#[test]
fn a13_verification_finds_change_with_same_size_and_times() {
    let (mut world, caller) = indexed_world(&["a.md", "b.md"]);
    drop(caller);
    assert!(world.terminate());
    let text = replace_keeping_metadata(&world, "a.md");
    let mut world = world.with("VIC_VERIFY_SECONDS", "2");
    world.spawn_and_wait();
    let caller = SyncClient::new(&world);
    assert!(caller.poll_until(ROOT_NOTICED + SOON, |it| it.files()[Path::new("a.md")].hash == hash_of(&text)));
    caller.sync();
    assert_eq!(caller.hits("ibis")[0].path, "a.md");
}

// Case A13
#[test]
fn a13_verification_resumes_after_restart() {
    let (mut world, caller) = indexed_world(&["a.md", "b.md"]);
    drop(caller);
    assert!(world.terminate());
    let (first, second) = (replace_keeping_metadata(&world, "a.md"), replace_keeping_metadata(&world, "b.md"));
    let catalog = rusqlite::Connection::open(world.data().join("catalog.sqlite")).unwrap();
    let come_to: i64 = catalog.query_row("SELECT min(id) FROM files", [], |row| row.get(0)).unwrap();
    // Pretends that a verification round began long ago and has passed the first of the two files.
    for (key, value) in [("verified_ms", "1".to_string()), ("verified_up_to", come_to.to_string())] {
        catalog.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)", (key, value)).unwrap();
    }
    drop(catalog);
    world.spawn_and_wait();
    let caller = SyncClient::new(&world);
    assert!(caller.poll_until(ROOT_NOTICED + SOON, |it| it.files()[Path::new("b.md")].hash == hash_of(&second)));
    caller.sync();
    assert_ne!(caller.files()[Path::new("a.md")].hash, hash_of(&first), "the first file must wait for the next round");
}

/// Replaces the text of a file by one of the same length, with unchanged size and times. Returns the new text.
fn replace_keeping_metadata(world: &World, name: &str) -> String {
    let path = world.files().join(name);
    let modified = path.metadata().unwrap().modified().unwrap();
    let text = format!("The ibis of {name}.");
    assert_eq!(text.len() as u64, path.metadata().unwrap().len());
    fs::write(&path, &text).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    forget_status_change(world, &path);
    text
}

/// Copies the status change time of the file to the catalog, so that it no longer reveals a change. This imitates a file
/// system without such times.
fn forget_status_change(world: &World, path: &Path) {
    use std::os::unix::fs::MetadataExt;
    let metadata = path.metadata().unwrap();
    let changed_ns = metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec();
    let catalog = rusqlite::Connection::open(world.data().join("catalog.sqlite")).unwrap();
    let name = path.file_name().unwrap().as_encoded_bytes();
    let changed = catalog.execute("UPDATE files SET changed_ns = ?1 WHERE path = ?2", (changed_ns, name)).unwrap();
    assert_eq!(changed, 1);
}
