use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, Mode};

use crate::config::WalkConfig;
use crate::error::ErrorCode;
use crate::files::walk::*;
use crate::machine::test_needs::can_prove;
use crate::model::Reason;

pub(crate) fn config() -> WalkConfig {
    WalkConfig { ignore: Vec::new(), include_hidden: false, max_file_bytes: 1 << 30, watch: true, rescan_seconds: 3600 }
}

pub(crate) fn make_fifo(path: &Path) {
    rustix::fs::mkfifoat(CWD, path, Mode::RWXU).unwrap();
}

/// Creates these files; the content of a file is its path, or `text` if it is given as `path=text`.
fn tree(files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in files {
        let (path, text) = file.split_once('=').unwrap_or((file, file));
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn run_walk(root: &Path, config: &WalkConfig, within: Option<&str>) -> (BTreeMap<PathBuf, Option<Reason>>, WalkReport) {
    let rules = Rules::new(config).unwrap().excluding([root.join("vic-data")]);
    let mut seen = BTreeMap::new();
    let report = walk(root, &rules, within.map(Path::new), &WalkToken::default(), |found| {
        assert!(seen.insert(found.path, found.skip).is_none(), "an entry came twice");
    })
    .unwrap();
    assert_eq!(report.entries, seen.len() as u64);
    (seen, report)
}

fn check(root: &Path, config: &WalkConfig, within: Option<&str>, expected: &[&str]) {
    let (seen, report) = run_walk(root, config, within);
    let seen: Vec<&str> = seen.keys().map(|it| it.to_str().unwrap()).collect();
    assert_eq!(seen, expected);
    assert!(report.complete && report.problems.is_empty(), "{report:?}");
}

#[test]
fn ignored_hidden_and_own_files_are_not_found() {
    let dir = tree(&[
        "a.txt",
        "b.log",
        "sub/.gitignore=*.tmp",
        "sub/c.tmp",
        "sub/d.txt",
        ".gitignore=*.log",
        ".vicignore=private/",
        ".ignore=e.*",
        "e.txt",
        "private/f.txt",
        ".hidden/g.txt",
        ".env=TOKEN=1",
        "node_modules/h.js",
        "vic-data/catalog.sqlite",
    ]);
    let config = WalkConfig { ignore: vec!["node_modules".into()], ..config() };
    check(dir.path(), &config, None, &["a.txt", "sub/d.txt"]);
    check(dir.path(), &config, Some("sub"), &["sub/d.txt"]);
    check(dir.path(), &config, Some("sub/d.txt"), &["sub/d.txt"]);
    for nothing in ["sub/c.tmp", "private", "private/f.txt", ".env", "gone", "vic-data/catalog.sqlite"] {
        check(dir.path(), &config, Some(nothing), &[]);
    }
}

#[test]
fn hidden_option_excludes_version_control_and_secrets() {
    let dir = tree(&[".notes/a.md", ".env=TOKEN=1", ".git/config", ".ssh/id_rsa", ".ssh/known_hosts"]);
    let (seen, _) = run_walk(dir.path(), &WalkConfig { include_hidden: true, ..config() }, None);
    let seen: Vec<_> = seen.iter().map(|(path, skip)| (path.to_str().unwrap(), *skip)).collect();
    let secret = Some(Reason::Secret);
    assert_eq!(seen, [(".env", secret), (".notes/a.md", None), (".ssh/id_rsa", secret), (".ssh/known_hosts", secret)]);
}

#[test]
fn unreadable_entries_are_found_with_reason() {
    let dir = tree(&["server.pem", "little.key=PK\x03\x04 slides", "tls.key=-----BEGIN", "public-key.txt", "empty="]);
    let root = dir.path();
    make_fifo(&root.join("fifo"));
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    symlink("/etc", root.join("link-to-folder")).unwrap();
    symlink("/etc/passwd", root.join("link")).unwrap();
    symlink(root, root.join("loop")).unwrap();
    fs::File::create(root.join("sparse")).unwrap().set_len(1 << 40).unwrap();
    fs::write(root.join("large"), vec![b'x'; 80_000]).unwrap();
    fs::write(root.join("talk.key"), [b"PK\x03\x04".as_slice(), &[b'x'; 40_000]].concat()).unwrap();
    fs::write(root.join("store.key"), vec![b'x'; 40_000]).unwrap();
    let rules = WalkConfig { max_file_bytes: 64 << 10, ..config() };
    let (seen, report) = run_walk(root, &rules, None);
    let seen: Vec<_> = seen.iter().map(|(path, skip)| (path.to_str().unwrap(), *skip)).collect();
    assert!(report.complete);
    assert_eq!(
        seen,
        [
            ("empty", Some(Reason::Empty)),
            ("fifo", Some(Reason::NotRegular)),
            ("large", Some(Reason::TooLarge)),
            ("link", Some(Reason::Symlink)),
            ("link-to-folder", Some(Reason::Symlink)),
            ("little.key", Some(Reason::Secret)),
            ("loop", Some(Reason::Symlink)),
            ("public-key.txt", None),
            ("server.pem", Some(Reason::Secret)),
            ("socket", Some(Reason::NotRegular)),
            ("sparse", Some(Reason::Sparse)),
            ("store.key", Some(Reason::Secret)),
            ("talk.key", None),
            ("tls.key", Some(Reason::Secret)),
        ]
    );
    for (path, _) in &seen {
        let (alone, _) = run_walk(root, &rules, Some(path));
        assert_eq!(alone.len(), 1, "{path}");
    }
}

#[test]
fn non_utf8_names_are_found() {
    let dir = tree(&["-rf", "two\nlines", "e\u{301}", "\u{e9}"]);
    let name = OsStr::from_bytes(b"caf\xe9.txt");
    fs::write(dir.path().join(name), "x").unwrap();
    let (seen, _) = run_walk(dir.path(), &config(), None);
    assert_eq!(seen.len(), 5);
    assert!(seen.contains_key(Path::new(name)));
}

#[test]
fn ignore_files_above_root_have_no_effect() {
    let dir = tree(&[".gitignore=*", "root/a.txt"]);
    check(&dir.path().join("root"), &config(), None, &["a.txt"]);
}

#[test]
fn unreadable_root_is_an_error() {
    let dir = tree(&["file"]);
    for (name, code) in [("missing", ErrorCode::NotFound), ("file", ErrorCode::InvalidArgument)] {
        let rules = Rules::new(&config()).unwrap();
        let error = walk(&dir.path().join(name), &rules, None, &WalkToken::default(), |_| ()).unwrap_err();
        assert_eq!(error.code, code);
    }
}

#[test]
fn unreadable_folder_is_reported_and_rest_is_found() {
    let dir = tree(&["a.txt", "locked/b.txt"]);
    fs::set_permissions(dir.path().join("locked"), std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    if can_prove(dir.path().join("locked").read_dir().is_err(), "permissions do not stop root") {
        let (seen, report) = run_walk(dir.path(), &config(), None);
        assert_eq!(seen.len(), 1);
        assert_eq!(report.unreadable, [PathBuf::from("locked")]);
        assert!(report.complete && report.problems.len() == 1);
    }
    fs::set_permissions(dir.path().join("locked"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
fn list_failure_marks_folder_unreadable() {
    let dir = tree(&["locked/a.txt"]);
    let rules = Rules::new(&config()).unwrap();
    let failure = |kind: io::ErrorKind| ignore::Error::WithDepth {
        depth: 1,
        err: Box::new(ignore::Error::WithPath {
            path: dir.path().join("locked"),
            err: Box::new(ignore::Error::Io(kind.into())),
        }),
    };
    let leash = WalkToken::default();
    let walk = RootWalk::new(dir.path(), &rules, &leash).unwrap();
    walk.note_error(&failure(io::ErrorKind::NotFound));
    walk.note_error(&failure(io::ErrorKind::PermissionDenied));
    let report = walk.report(0).unwrap();
    assert_eq!(report.unreadable, [PathBuf::from("locked")]);
}

/// Lists `root` while its folder `sub` has the content of `outside`; then replaces `sub` by a link to `outside`, and calls
/// `after`, which may change it again. Returns the result of the walk over that list.
fn swapped_after_listing(dir: &Path, after: fn(&Path)) -> (Vec<PathBuf>, WalkReport) {
    let (root, outside) = (dir.join("root"), dir.join("outside"));
    let (rules, leash) = (Rules::new(&config()).unwrap(), WalkToken::default());
    let listed = RootWalk::new(&root, &rules, &leash).unwrap().builder(None).build();
    let listed: Vec<DirEntry> = listed.collect::<Result<_, _>>().unwrap();
    fs::rename(root.join("sub"), &outside).unwrap();
    symlink(&outside, root.join("sub")).unwrap();
    after(&root);
    let walk = RootWalk::new(&root, &rules, &leash).unwrap();
    let mut last = None;
    let found = listed.iter().filter_map(|it| walk.to_found_file(it, &mut last)).map(|it| it.path).collect();
    (found, walk.report(0).unwrap())
}

#[test]
fn folder_swapped_for_link_is_unreadable() {
    let dir = tree(&["root/a.txt", "root/sub/theirs.txt", "root/sub/private/theirs.txt"]);
    let (found, report) = swapped_after_listing(dir.path(), |_| ());
    assert_eq!(found, [PathBuf::from("a.txt")]);
    assert_eq!(report.unreadable, [PathBuf::from("sub")]);
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert!(report.problems[0].sentence.contains("root/sub` became a link"), "{report:?}");
}

#[test]
fn names_from_outside_are_dropped_after_folder_returns() {
    let dir = tree(&["root/a.txt", "root/sub/theirs.txt", "root/sub/same.txt", "root/sub/private/theirs.txt"]);
    let (mut found, report) = swapped_after_listing(dir.path(), |root| {
        fs::remove_file(root.join("sub")).unwrap();
        fs::create_dir(root.join("sub")).unwrap();
        fs::write(root.join("sub/same.txt"), "ours").unwrap();
    });
    found.sort();
    assert_eq!(found, [PathBuf::from("a.txt"), PathBuf::from("sub/same.txt")]);
    assert!(report.complete && report.unreadable.is_empty() && report.problems.is_empty(), "{report:?}");
}

#[test]
fn invalid_rule_outside_root_is_not_reported() {
    let dir = tree(&["root/sub/.gitignore=[z-a]", "root/b.txt"]);
    let (root, rules) = (dir.path().join("root"), Rules::new(&config()).unwrap());
    let leash = WalkToken::default();
    let read = || {
        let walk = RootWalk::new(&root, &rules, &leash).unwrap();
        assert!(!walk.visible.hides(Path::new("sub/a"), false));
        walk
    };
    let (here, elsewhere) = (read().report(0).unwrap(), read());
    assert!(here.unreadable.is_empty() && here.problems[0].sentence.contains("z-a"), "{here:?}");
    fs::rename(root.join("sub"), dir.path().join("outside")).unwrap();
    symlink(dir.path().join("outside"), root.join("sub")).unwrap();
    let elsewhere = elsewhere.report(0).unwrap();
    assert_eq!(elsewhere.unreadable, [PathBuf::from("sub")]);
    assert!(!elsewhere.problems[0].sentence.contains("z-a"), "{elsewhere:?}");
}

#[test]
fn walk_is_incomplete_when_root_is_replaced() {
    let dir = tree(&["root/a.txt"]);
    let (root, rules) = (dir.path().join("root"), Rules::new(&config()).unwrap());
    let report = walk(&root, &rules, None, &WalkToken::default(), |_| {
        fs::rename(&root, dir.path().join("aside")).unwrap();
        fs::create_dir(&root).unwrap();
    })
    .unwrap();
    assert!(!report.complete);
    assert!(report.problems[0].sentence.contains("was replaced"), "{report:?}");
}

#[test]
fn walk_is_incomplete_when_cancelled_or_root_is_empty() {
    let dir = tree(&["a", "b"]);
    let rules = Rules::new(&config()).unwrap();
    let leash = WalkToken::default();
    leash.stop();
    let report = walk(dir.path(), &rules, None, &leash, |_| ()).unwrap();
    assert!(!report.complete);
    let empty = tempfile::tempdir().unwrap();
    let (_, report) = run_walk(empty.path(), &config(), Some("a"));
    assert!(!report.complete);
}

#[test]
fn root_replaced_between_lookups_removes_nothing() {
    let dir = tree(&["old/a.txt", "new/b.txt"]);
    let (root, rules) = (dir.path().join("root"), Rules::new(&config()).unwrap());
    fs::rename(dir.path().join("old"), &root).unwrap();
    let mut looks = PlaceWalker::new(&root, &rules);
    let mut look = |place: &str| looks.walk(Some(Path::new(place)), &WalkToken::default(), |_| ()).unwrap();
    assert_eq!((look("a.txt").entries, look("b.txt").complete), (1, true));
    fs::rename(&root, dir.path().join("old")).unwrap();
    fs::rename(dir.path().join("new"), &root).unwrap();
    let report = look("b.txt");
    assert!(!report.complete && report.problems[0].sentence.contains("was replaced"), "{report:?}");
    assert_eq!(look("b.txt").entries, 1, "the root is opened again");
    assert_eq!((look("a.txt").entries, look("a.txt").complete), (0, true), "a missing file counts as gone");
}

#[test]
fn unresponsive_mount_is_skipped_as_unreadable() {
    let dir = tree(&["a.txt", "sub/mount/b.txt", "sub/c.txt"]);
    let mount = dir.path().join("sub/mount");
    let seen = |within: Option<&str>| {
        let (seen, report) = run_walk(dir.path(), &config(), within);
        let told = report.problems.iter().filter(|it| it.sentence.contains("does not answer")).count();
        assert!(report.complete && told == report.unreadable.len(), "{report:?}");
        let seen: Vec<String> = seen.into_keys().map(|it| it.display().to_string()).collect();
        (seen.join(" "), report.unreadable)
    };
    unresponsive::set_unresponsive(&mount, true);
    assert_eq!(seen(None), ("a.txt sub/c.txt".into(), vec![PathBuf::from("sub/mount")]));
    assert_eq!(seen(Some("sub")), ("sub/c.txt".into(), vec![PathBuf::from("sub/mount")]));
    assert_eq!(seen(Some("sub/mount/b.txt")), (String::new(), vec![PathBuf::from("sub/mount/b.txt")]));
    assert_eq!(seen(Some("a.txt")), ("a.txt".into(), vec![]));
    let mut folders = Vec::new();
    let rules = Rules::new(&config()).unwrap();
    crate::files::walk::visible_folders(dir.path(), &rules, Path::new(""), |it| {
        folders.push(it.to_path_buf());
        true
    })
    .unwrap();
    assert_eq!(folders, [dir.path().to_path_buf(), dir.path().join("sub")]);
    unresponsive::set_unresponsive(&mount, false);
    assert_eq!(seen(None).0, "a.txt sub/c.txt sub/mount/b.txt");
}

#[test]
fn outside_names_are_not_reported_during_link_swaps() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (dir, outside) = (tree(&["sub/a.txt"]), tree(&["canary/a.txt"]));
    let (root, stop) = (dir.path().canonicalize().unwrap(), AtomicBool::new(false));
    let (rules, leash) = (Rules::new(&config()).unwrap(), WalkToken::default());
    let walk = RootWalk::new(&root, &rules, &leash).unwrap();
    let [folder, aside, link] = ["sub", "aside", "link"].map(|it| root.join(it));
    let mut places = BTreeMap::<PathBuf, u32>::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                symlink(outside.path(), &link).unwrap();
                fs::rename(&folder, &aside).unwrap();
                fs::rename(&link, &folder).unwrap();
                fs::remove_file(&folder).unwrap();
                fs::rename(&aside, &folder).unwrap();
            }
        });
        for _ in 0..50_000 {
            // Ignores a missing entry, which is not reported.
            let broken = walk.broken_prefix(Path::new("sub/canary/a.txt")).filter(|it| !is_gone(&it.1));
            broken.into_iter().for_each(|it| *places.entry(it.0.to_path_buf()).or_default() += 1);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(places.keys().collect::<Vec<_>>(), [Path::new("sub")], "{places:?}");
}
