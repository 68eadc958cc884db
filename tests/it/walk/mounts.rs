//! Tests disks that are unmounted, such as USB sticks and network shares: their files stay indexed, and unmounting succeeds.
//!
//! Each test runs an `#[ignore]`d test inside a namespace in which disks can be mounted.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use vic::model::FileState;

use crate::limits::disk_space::run_in_namespace;
use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::watch::events::ROOT_NOTICED;
use crate::watch::events::SOON;
use crate::watch::events::index_in;
use crate::watch::events::is_degraded;
use crate::watch::events::table_versions;

/// Files in the file system of the root itself.
const HERE: [&str; 2] = ["a.md", "b/c.md"];

/// Files on the disk that is unmounted.
const ON_DISK: [&str; 3] = ["d.md", "e/f.md", "e/g.md"];

/// Time after which the daemon has noticed the mounts in a new root; it checks for mounts every five seconds.
const MOUNT_SEEN: Duration = Duration::from_secs(7);

fn run_ok(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A file system of the test, mounted at `home` and bind-mounted at `place`. Only `place` is unmounted, so the files
/// survive.
struct Disk {
    home: String,
    place: String,
}

impl Disk {
    fn new(home: &Path, place: &Path) -> Disk {
        let disk = Disk { home: home.display().to_string(), place: place.display().to_string() };
        fs::create_dir_all(home).unwrap();
        fs::create_dir_all(place).unwrap();
        run_ok("mount", &["-t", "tmpfs", "tmpfs", &disk.home]);
        disk.mount();
        disk
    }

    fn mount(&self) {
        run_ok("mount", &["--bind", &self.home, &self.place]);
    }

    /// Unmounts the disk as a user does, which fails while a file on the disk is open.
    fn unmount(&self) {
        run_ok("umount", &[&self.place]);
    }
}

/// Unmounts and remounts the disk. Meanwhile `is_away` must become true; no file may be removed, and none stored again.
fn check_unmount(world: &World, caller: &SyncClient, disk: &Disk, is_away: &dyn Fn(&SyncClient) -> bool) {
    let (before, stored) = (caller.files(), table_versions(world));
    // Waits until the daemon has noticed the mount, because it checks mounts every five seconds.
    std::thread::sleep(MOUNT_SEEN);
    disk.unmount();
    assert!(caller.poll_until(ROOT_NOTICED + SOON, is_away), "{:?}", caller.status());
    let away = caller.files();
    assert!(before.iter().all(|(path, it)| away.get(path).is_some_and(|now| now.hash == it.hash)), "{away:?}");
    disk.mount();
    let is_back = |it: &SyncClient| it.status().roots[0].available && it.status().degraded.is_empty();
    assert!(caller.poll_until(ROOT_NOTICED + SOON, is_back), "{:?}", caller.status());
    caller.sync();
    let back = caller.files();
    let is_same = |path, now: &vic::model::FileRecord| {
        let before: &vic::model::FileRecord = &before[path];
        (before.id, before.hash, now.state) == (now.id, now.hash, FileState::Indexed)
    };
    assert!(back.len() == before.len() && back.iter().all(|(path, it)| is_same(path, it)), "{back:?}");
    assert_eq!(table_versions(world), stored, "no file must be stored again");
    assert_eq!(caller.hits("the text of f.md").first().map(|it| it.path.ends_with("f.md")), Some(true));
}

// Case A12
#[test]
fn a12_unmounted_root_keeps_index_and_recovers() {
    run_in_namespace("walk::mounts::inside_root_on_disk");
}

#[test]
#[ignore = "runs inside the test above"]
fn inside_root_on_disk() {
    let world = World::new();
    let disk = Disk::new(&world.files().with_file_name("home"), &world.files());
    let (world, caller) = index_in(world, &ON_DISK);
    check_unmount(&world, &caller, &disk, &|it| !it.status().roots[0].available && !it.status().degraded.is_empty());
    world.write("e/new.md", "Written when it was back: gentian.");
    assert!(caller.poll_until(SOON, |it| it.hits("gentian").first().is_some_and(|hit| hit.path == "e/new.md")));
}

// Case A12
#[test]
fn a12_unmounted_disk_below_root_keeps_index_and_recovers() {
    run_in_namespace("walk::mounts::inside_root_with_disk");
}

#[test]
#[ignore = "runs inside the test above"]
fn inside_root_with_disk() {
    let world = World::new();
    let disk = Disk::new(&world.files().with_file_name("home"), &world.files().join("m"));
    let on_disk = ON_DISK.map(|it| format!("m/{it}"));
    let files: Vec<&str> = HERE.into_iter().chain(on_disk.iter().map(String::as_str)).collect();
    let (world, caller) = index_in(world, &files);
    check_unmount(&world, &caller, &disk, &|it| is_degraded(&it.status(), "not mounted"));
    world.write("m/e/new.md", "Written when it was back: gentian.");
    assert!(caller.poll_until(SOON, |it| it.hits("gentian").first().is_some_and(|hit| hit.path == "m/e/new.md")));
    // A folder that was available all the time must still be watched.
    world.write("b/new.md", "Written beside it: saxifrage.");
    assert!(caller.poll_until(SOON, |it| it.hits("saxifrage").first().is_some_and(|hit| hit.path == "b/new.md")));
}
