//! Tests the inotify watches of the daemon as the kernel lists them: exactly one per folder, while folders come and go.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::support::client::SyncClient;
use crate::support::harness::World;

/// The inotify event mask of the watcher's heartbeat file, which is watched only for writes. Watches of folders have other
/// masks and are the ones to count.
const HEARTBEAT_MASK: &str = "2";

/// Returns the inodes of the folders that a process watches. A folder that is watched twice appears twice.
fn watched_inodes(process: u32) -> Vec<u64> {
    let infos = fs::read_dir(format!("/proc/{process}/fdinfo")).unwrap();
    let texts = infos.filter_map(|it| fs::read_to_string(it.unwrap().path()).ok());
    let inodes = texts.flat_map(|text| text.lines().filter_map(folder_of).collect::<Vec<_>>());
    let mut inodes: Vec<u64> = inodes.collect();
    inodes.sort_unstable();
    inodes
}

/// Returns the inode of a watched folder from a line such as `inotify wd:4 ino:a003ef sdev:fe00000 mask:4000fce ...`.
fn folder_of(line: &str) -> Option<u64> {
    let field = |name: &str| line.strip_prefix("inotify ")?.split(' ').find_map(|it| it.strip_prefix(name));
    let inode = u64::from_str_radix(field("ino:")?, 16).ok();
    inode.filter(|_| field("mask:") != Some(HEARTBEAT_MASK))
}

/// Returns the inodes of a folder and of all folders below it.
fn folder_inodes(root: &Path) -> Vec<u64> {
    use std::os::unix::fs::MetadataExt;
    let entries = walkdir::WalkDir::new(root).into_iter().flatten().filter(|it| it.file_type().is_dir());
    let mut inodes: Vec<u64> = entries.map(|it| it.metadata().unwrap().ino()).collect();
    inodes.sort_unstable();
    inodes
}

/// Waits until the kernel has exactly one watch per folder, and the daemon reports the same number.
pub(crate) fn check_watches(world: &World, caller: &SyncClient) {
    let limit = Duration::from_secs(20);
    let is_as_on_disk = |_: &SyncClient| watched_inodes(world.pid()) == folder_inodes(&world.files());
    assert!(
        caller.poll_until(limit, is_as_on_disk),
        "the kernel watches {:?}, but the folders are {:?}; {:?}\n{}",
        watched_inodes(world.pid()),
        folder_inodes(&world.files()),
        caller.status().watch,
        world.log()
    );
    let count = folder_inodes(&world.files()).len() as u64;
    let counts = |it: &SyncClient| (it.status().watch.folders, it.status().watch.missing);
    assert!(caller.poll_until(limit, |it| counts(it) == (count, 0)), "{:?} of {count}", counts(caller));
}

/// Creates, fills, renames and deletes a nested folder, and moves a subfolder of it out of the root. Creates another folder
/// that stays until the next call.
pub(crate) fn churn_folders(world: &World, turn: u64) {
    let path = |name: String| world.files().join(name);
    let fill = |folder: String| {
        for inner in ["", "inner/", "inner/most/"] {
            world.write(&format!("{folder}/{inner}note.md"), format!("Turn {turn}: a note about larks in {inner}."));
        }
    };
    fill("made".into());
    fs::rename(path("made".into()), path(format!("renamed-{turn}"))).unwrap();
    fill(format!("kept-{turn}"));
    let outside = |turn: u64| world.files().with_file_name(format!("outside-{turn}"));
    fs::rename(path(format!("renamed-{turn}/inner")), outside(turn)).unwrap();
    fs::remove_dir_all(path(format!("renamed-{turn}"))).unwrap();
    for former in [path(format!("kept-{}", turn.wrapping_sub(1))), outside(turn.wrapping_sub(1))] {
        if former.exists() {
            fs::remove_dir_all(former).unwrap();
        }
    }
}

// Case A5
#[test]
fn every_folder_has_exactly_one_kernel_watch() {
    let world = World::new().start();
    world.write("a/b/c.md", "A note about larks.");
    world.index();
    let caller = SyncClient::new(&world);
    check_watches(&world, &caller);
    assert_eq!(watched_inodes(world.pid()).len(), 3, "the test must see the three watches");
    for turn in 0..20 {
        churn_folders(&world, turn);
        // Checks only every third turn, so that in other turns changes arrive while earlier ones are still being processed.
        if turn % 3 == 2 {
            check_watches(&world, &caller);
        }
    }
    caller.sync();
    check_watches(&world, &caller);
}
