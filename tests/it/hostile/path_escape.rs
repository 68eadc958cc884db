//! Tests that files outside the roots are never read: not by a crafted path, a symbolic link, or a race.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use vic::config::WalkConfig;
use vic::files::{Rules, WalkToken, open_beneath, walk};

use crate::hostile::read_apis::ReadApis;
use crate::hostile::symlink_race::StopOnDrop;
use crate::hostile::symlink_race::swap_with_link;
use crate::support::client::SyncClient;
use crate::support::harness::World;

/// Content of the files outside the root. Must not appear in any answer.
const CANARY: &str = "xylophonecanary";

/// Minimum number of walks while a folder is swapped. With an implementation that used paths instead of file descriptors,
/// one of the first forty walks found names outside the root in each of twenty trials, mostly one of the first three.
const MIN_WALKS: usize = 500;

/// Minimum number of walks that find the folder, and of walks that find the link in its place. With fewer, the swap and the
/// walks did not overlap and the test checked nothing. The number of walks that this takes depends on the load of the
/// machine.
const MIN_SEEN: usize = 10;

// Case A9
#[test]
fn open_never_leaves_root_during_symlink_swap() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
    // Files have the same names inside and outside, so that only the content tells which file was read.
    for (folder, text) in [(root.join("sub/deep"), "inside"), (outside.join("deep"), CANARY)] {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("f.txt"), text).unwrap();
        std::fs::write(folder.parent().unwrap().join("f.txt"), text).unwrap();
    }
    let stop = AtomicBool::new(false);
    let (mut read, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        scope.spawn(|| swap_with_link(&root.join("sub"), &outside, Duration::ZERO, &stop));
        for turn in 0..100_000 {
            let path = if turn % 2 == 0 { "sub/f.txt" } else { "sub/deep/f.txt" };
            match open_beneath(&root, Path::new(path)) {
                Ok(file) => {
                    assert_eq!(std::io::read_to_string(file).unwrap(), "inside", "after {turn} turns");
                    read += 1;
                }
                Err(_) => refused += 1,
            }
        }
    });
    // Both states must have been seen often, or there was no race.
    assert!(read > 1_000 && refused > 1_000, "{read} read, {refused} refused");
}

/// Writes fifty files with `word` in their names, and `same.txt`, a name that every folder has.
fn fill_folder(folder: &Path, word: &str) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("same.txt"), word).unwrap();
    for number in 0..50 {
        std::fs::write(folder.join(format!("{word}-{number}.txt")), word).unwrap();
    }
}

// Case A9
#[test]
fn walk_never_leaves_root_during_symlink_swap() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
    for folder in [root.clone(), root.join("sub"), root.join("sub/deep"), root.join("sub/deep/er")] {
        fill_folder(&folder, "inside");
    }
    for folder in [outside.clone(), outside.join("deep"), outside.join(CANARY), outside.join(CANARY).join("deep")] {
        fill_folder(&folder, CANARY);
    }
    let rules =
        WalkConfig { ignore: vec![], include_hidden: false, max_file_bytes: 1 << 20, watch: false, rescan_seconds: 60 };
    let rules = Rules::new(&rules).unwrap();
    let stop = AtomicBool::new(false);
    let (mut whole, mut broken) = (0, 0);
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        // The state changes about every duration of a walk, so that one walk can see both states.
        scope.spawn(|| swap_with_link(&root.join("sub"), &outside, Duration::from_micros(200), &stop));
        for round in 0..100 * MIN_WALKS {
            if round >= MIN_WALKS && whole > MIN_SEEN && broken > MIN_SEEN {
                break;
            }
            let mut seen: Vec<PathBuf> = Vec::new();
            let report = walk(&root, &rules, None, &WalkToken::default(), |it| {
                assert!(!it.path.ends_with("same.txt") || it.size == "inside".len() as u64, "in round {round}");
                seen.push(it.path);
            })
            .unwrap();
            whole += usize::from(seen.iter().any(|it| it.starts_with("sub/deep/er")));
            broken += usize::from(!report.unreadable.is_empty());
            seen.extend(report.unreadable);
            seen.extend(report.problems.into_iter().map(|it| it.path));
            let foreign = seen.iter().find(|it| it.to_string_lossy().contains(CANARY));
            assert_eq!(foreign, None, "in round {round}");
        }
    });
    assert!(whole > MIN_SEEN && broken > MIN_SEEN, "{whole} walks found the folder, {broken} the link in its place");
}

// Case A8
#[test]
fn hard_link_is_indexed_and_symlink_is_not() {
    let world = World::new().start();
    let outside = world.files().parent().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("hard.md"), "The hardlinked marmot.").unwrap();
    std::fs::write(outside.join("soft.md"), format!("The {CANARY}.")).unwrap();
    std::fs::hard_link(outside.join("hard.md"), world.files().join("hard.md")).unwrap();
    symlink(outside.join("soft.md"), world.files().join("soft.md")).unwrap();
    symlink(&outside, world.files().join("folder")).unwrap();
    symlink(world.files(), world.files().join("loop")).unwrap();
    symlink("/proc/self/fd", world.files().join("open")).unwrap();
    symlink("/", world.files().join("everything")).unwrap();
    world.index();
    // A hard link is indexed as an ordinary file, because the file system does not tell which name is the original.
    assert_eq!(world.paths(&["hardlinked marmot"])[0], "hard.md");
    let status = world.json(&["status"]);
    assert_eq!((status["coverage"]["found"].as_u64(), status["coverage"]["indexed"].as_u64()), (Some(6), Some(1)));
    assert!(!world.json(&["ask", CANARY]).to_string().contains(&format!("The {CANARY}")));
}

/// Returns spellings of the path of a file outside the root, relative and absolute.
fn path_spellings(files: &str, outside: &str) -> Vec<String> {
    let mut forms: Vec<String> = [
        "FILES/../NAME",
        "FILES/./../NAME",
        "FILES/sub/../../NAME",
        "FILES//..//NAME",
        "FILES/sub/./.././../NAME",
        "/OUT",
        "//OUT",
        "/./OUT",
        "FILES/link",
        "FILES/folder/canary.md",
        "FILES/folder/../NAME",
        "FILES/folder/./canary.md",
        "file://OUT",
        "file:///OUT",
        "FILES/..%2fNAME",
        "FILES/%2e%2e/NAME",
        "FILES/..\\NAME",
        "FILES\\..\\NAME",
        "FILES/..;/NAME",
        "FILES/.../NAME",
        "FILES/\u{ff0e}\u{ff0e}/NAME",
        "FILES/..\u{0}/NAME",
        "OUT\u{0}.md",
        "OUT!/",
        "OUT!/a",
        "FILES/a.zip!/../NAME",
        "FILES/a.zip!/OUT",
        "FILES/../NAME!/x",
        "~/NAME",
        "~root/NAME",
        "$HOME/NAME",
        "OUT ",
        " OUT",
        "OUT/",
        "OUT/.",
        "OUT#1",
        "OUT?x",
        "/proc/self/root/OUT",
        "/proc/self/cwd/../NAME",
        "/dev/fd/0",
        "/proc/self/fd/3",
        "/etc/passwd",
        "FILES/../../../../../../etc/passwd",
        "/proc/self/environ",
        "FILES",
        "",
        ".",
        "..",
    ]
    .map(|it| it.replace("FILES", files).replace("OUT", outside).replace("NAME", "canary.md"))
    .to_vec();
    forms.push(format!("{files}/{}etc/passwd", "../".repeat(200)));
    forms.push(format!("{files}/{}", "a".repeat(5_000)));
    forms
}

// Cases C16, E13
#[test]
fn outside_path_in_any_spelling_is_refused_by_every_api() {
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").with("VIC_MCP_TOOLS", "all").start();
    let outside = world.files().parent().unwrap().join("canary.md");
    std::fs::write(&outside, CANARY).unwrap();
    std::fs::create_dir(world.files().join("sub")).unwrap();
    symlink(&outside, world.files().join("link")).unwrap();
    symlink(world.files().parent().unwrap(), world.files().join("folder")).unwrap();
    let good = world.write("good.md", "All is well.");
    world.write("a.zip", "PK");
    world.index();
    let found = |world: &World| world.json(&["status"])["coverage"]["found"].clone();
    let (before, ways) = (found(&world), ReadApis::for_world(&world));
    let forms = path_spellings(&world.files().display().to_string(), &outside.display().to_string());
    assert!(forms.len() >= 40);
    for form in &forms {
        for told in ways.try_all(form) {
            assert!(!told.text.contains(CANARY), "{} reads {form:?}: {}", told.api, told.text);
            assert!(told.is_refused, "{} does not refuse {form:?}: {}", told.api, told.text);
        }
    }
    // Waits for the jobs that requests have started. They must not have added a file.
    SyncClient::new(&world).sync();
    world.index();
    assert_eq!(found(&world), before);
    assert!(!world.paths(&[CANARY]).iter().any(|it| it.contains("canary")));
    for told in ways.try_all(good.to_str().unwrap()).into_iter().filter(|it| it.api.contains("read")) {
        assert!(told.text.contains("All is well."), "{}: {}", told.api, told.text);
    }
}

// Case A10
#[test]
fn pipe_socket_and_sparse_file_are_skipped() {
    let world = World::new().start();
    let made = std::process::Command::new("mkfifo").arg(world.files().join("pipe.md")).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(world.files().join("socket.md")).unwrap();
    let sparse = std::fs::File::create(world.files().join("sparse.md")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    world.write("good.md", "The ferry leaves at nine.");
    let begun = std::time::Instant::now();
    world.index();
    assert!(begun.elapsed() < Duration::from_secs(20));
    let reasons = &world.json(&["status"])["coverage"]["reasons"];
    assert_eq!((reasons["not_regular"].as_u64(), reasons["sparse"].as_u64()), (Some(2), Some(1)), "{reasons}");
    assert_eq!(world.paths(&["ferry"])[0], "good.md");
}
