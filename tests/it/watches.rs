//! The watches of a daemon as the kernel has them, whatever it says of them itself: one for each folder and no other, however
//! folders come and go.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::caller::Caller;
use crate::harness::World;

/// What the file through which the watcher hears of itself is watched for, and no folder: that it is written to.
const HEARTBEAT: &str = "2";

/// The folders that a process watches, by their inodes; one that is watched twice is there twice.
fn watched(process: u32) -> Vec<u64> {
    let infos = fs::read_dir(format!("/proc/{process}/fdinfo")).unwrap();
    let texts = infos.filter_map(|it| fs::read_to_string(it.unwrap().path()).ok());
    let inodes = texts.flat_map(|text| text.lines().filter_map(folder_of).collect::<Vec<_>>());
    let mut inodes: Vec<u64> = inodes.collect();
    inodes.sort_unstable();
    inodes
}

/// The inode of a folder in a line as `inotify wd:4 ino:a003ef sdev:fe00000 mask:4000fce ...`.
fn folder_of(line: &str) -> Option<u64> {
    let field = |name: &str| line.strip_prefix("inotify ")?.split(' ').find_map(|it| it.strip_prefix(name));
    let inode = u64::from_str_radix(field("ino:")?, 16).ok();
    inode.filter(|_| field("mask:") != Some(HEARTBEAT))
}

/// A folder and all that are in it, by their inodes.
fn folders(root: &Path) -> Vec<u64> {
    use std::os::unix::fs::MetadataExt;
    let entries = walkdir::WalkDir::new(root).into_iter().flatten().filter(|it| it.file_type().is_dir());
    let mut inodes: Vec<u64> = entries.map(|it| it.metadata().unwrap().ino()).collect();
    inodes.sort_unstable();
    inodes
}

/// Checks that the kernel has a watch for each folder, soon, and the daemon counts as many.
pub(crate) fn check(world: &World, caller: &Caller) {
    let limit = Duration::from_secs(20);
    let is_as_on_disk = |_: &Caller| watched(world.pid()) == folders(&world.files());
    assert!(
        caller.within(limit, is_as_on_disk),
        "the kernel watches {:?}, and there are {:?}; {:?}\n{}",
        watched(world.pid()),
        folders(&world.files()),
        caller.status().watch,
        world.log()
    );
    let count = folders(&world.files()).len() as u64;
    let counts = |it: &Caller| (it.status().watch.folders, it.status().watch.missing);
    assert!(caller.within(limit, |it| counts(it) == (count, 0)), "{:?} of {count}", counts(caller));
}

/// Makes, fills, renames and deletes a folder with others in it, and moves one out, where it stays; what it leaves takes the
/// place of what it left before.
pub(crate) fn come_and_go(world: &World, turn: u64) {
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

#[test]
fn the_kernel_watches_every_folder_once_and_no_other_however_they_come_and_go() {
    let world = World::new().start();
    world.write("a/b/c.md", "A note about larks.");
    world.index();
    let caller = Caller::new(&world);
    check(&world, &caller);
    assert_eq!(watched(world.pid()).len(), 3, "and it is seen here");
    for turn in 0..20 {
        come_and_go(&world, turn);
        // By turns: some changes come while the ones before are still looked at.
        if turn % 3 == 2 {
            check(&world, &caller);
        }
    }
    caller.sync();
    check(&world, &caller);
}
