use std::fs;
use std::time::Instant;

use tokio::sync::mpsc::{Receiver, channel};

use super::*;
use crate::warehouse::walk::tests::config;

/// A result is due within 2 s of a change; the machine may be busy with other tests, so that only the average counts.
const DUE: Duration = Duration::from_secs(2);

struct Scene {
    dir: tempfile::TempDir,
    watcher: Watcher,
    receiver: Receiver<Vec<Change>>,
    seen: Vec<ChangeKind>,
}

impl Scene {
    fn new(files: &[&str]) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let (sender, receiver) = channel(64);
        let mut watcher = Watcher::start(Rules::new(&config()).unwrap(), sender).unwrap();
        watcher.add(7, dir.path()).unwrap();
        Scene { dir, watcher, receiver, seen: Vec::new() }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    /// Waits until `kind` has come, at most twice as long as it is due.
    fn expect(&mut self, kind: &ChangeKind) {
        let end = Instant::now() + 2 * DUE;
        while !self.seen.contains(kind) {
            assert!(Instant::now() < end, "{kind:?} did not come, but {:?}", self.seen);
            match self.receiver.try_recv() {
                Ok(batch) => {
                    self.seen.extend(batch.into_iter().inspect(|it| assert_eq!(it.root_id, 7)).map(|it| it.kind));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn expect_touched(&mut self, relative: &str) {
        self.expect(&ChangeKind::Touched(relative.into()));
    }

    fn expect_removed(&mut self, relative: &str) {
        self.expect(&ChangeKind::Removed(relative.into()));
    }
}

#[test]
fn create_modify_rename_and_delete_are_seen_in_time() {
    let mut scene = Scene::new(&["old.txt", "move.txt", "gone.txt"]);
    let start = Instant::now();
    fs::write(scene.path("new.txt"), "x").unwrap();
    fs::write(scene.path("old.txt"), "more").unwrap();
    fs::rename(scene.path("move.txt"), scene.path("moved.txt")).unwrap();
    fs::remove_file(scene.path("gone.txt")).unwrap();
    scene.expect_touched("new.txt");
    scene.expect_touched("old.txt");
    scene.expect(&ChangeKind::Renamed { from: "move.txt".into(), to: "moved.txt".into() });
    scene.expect_touched("moved.txt");
    scene.expect_removed("gone.txt");
    assert!(start.elapsed() < DUE, "{:?}", start.elapsed());
}

#[test]
fn files_of_new_nested_folders_lie_below_a_touched_folder_or_are_touched() {
    let mut scene = Scene::new(&["a.txt"]);
    fs::create_dir_all(scene.path("n/e/s/t")).unwrap();
    fs::write(scene.path("n/e/s/t/early.txt"), "x").unwrap();
    scene.expect_touched("n");
    fs::write(scene.path("n/e/s/t/late.txt"), "x").unwrap();
    scene.expect_touched("n/e/s/t/late.txt");
}

#[test]
fn a_renamed_folder_is_one_rename_and_is_still_watched() {
    let mut scene = Scene::new(&["d/a.txt", "d/b.txt"]);
    fs::rename(scene.path("d"), scene.path("e")).unwrap();
    scene.expect(&ChangeKind::Renamed { from: "d".into(), to: "e".into() });
    fs::write(scene.path("e/a.txt"), "more").unwrap();
    scene.expect_touched("e/a.txt");
    assert!(!scene.seen.iter().any(|it| matches!(it, ChangeKind::Removed(_))), "{:?}", scene.seen);
}

#[test]
fn a_file_saved_by_renaming_over_it_is_touched_and_never_removed() {
    let mut scene = Scene::new(&["doc.txt"]);
    fs::write(scene.path(".doc.swp"), "new text").unwrap();
    fs::rename(scene.path(".doc.swp"), scene.path("doc.txt")).unwrap();
    scene.expect_touched("doc.txt");
    assert!(!scene.seen.contains(&ChangeKind::Removed("doc.txt".into())));
}

#[test]
fn ignored_paths_are_silent_and_a_changed_ignore_file_is_a_rescan() {
    let mut scene = Scene::new(&["a.txt", "skip/b.txt"]);
    fs::write(scene.path(".gitignore"), "skip/\n").unwrap();
    scene.expect(&ChangeKind::Rescan);
    fs::write(scene.path("skip/b.txt"), "more").unwrap();
    fs::write(scene.path(".hidden"), "x").unwrap();
    fs::write(scene.path("a.txt"), "more").unwrap();
    scene.expect_touched("a.txt");
    fs::remove_file(scene.path("a.txt")).unwrap();
    scene.expect_removed("a.txt");
    let loud = scene.seen.iter().find(|it| match it {
        ChangeKind::Touched(path) | ChangeKind::Removed(path) => path != Path::new("a.txt"),
        _ => false,
    });
    assert_eq!(loud, None);
}

#[test]
fn a_folder_that_moves_out_is_removed_and_a_root_can_be_let_go() {
    let mut scene = Scene::new(&["d/a.txt"]);
    let elsewhere = tempfile::tempdir().unwrap();
    fs::rename(scene.path("d"), elsewhere.path().join("d")).unwrap();
    scene.expect_removed("d");
    scene.watcher.remove(7);
    scene.watcher.remove(7);
    assert_eq!(scene.watcher.problem(7), None);
}

#[test]
fn an_overflow_is_a_rescan_of_every_root() {
    let dir = tempfile::tempdir().unwrap();
    let rules = Rules::new(&config()).unwrap();
    let mut roots: Vec<WatchedRoot> = [3, 4]
        .map(|id| WatchedRoot {
            id,
            path: dir.path().join(id.to_string()),
            rules: rules.clone(),
            matcher: rules.matcher(dir.path()).unwrap(),
            problem: None,
        })
        .into();
    let overflow = notify::Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan);
    let batch = changes(&mut roots, Ok(vec![DebouncedEvent::new(overflow, Instant::now())]));
    let expected: Vec<Change> = [3, 4].map(|root_id| Change { root_id, kind: ChangeKind::Rescan }).into();
    assert_eq!(batch, expected);
}

#[test]
fn the_watch_limit_is_named_with_its_cure_and_only_concerns_its_root() {
    let mut error = notify::Error::new(notify::ErrorKind::MaxFilesWatch);
    error.paths.push("/r/sub".into());
    let text = explain(Path::new("/r"), &error);
    assert!(text.contains("fs.inotify.max_user_watches") && text.contains("sysctl"), "{text}");
    let rules = Rules::new(&config()).unwrap();
    let root = |id, path: &str| WatchedRoot {
        id,
        path: path.into(),
        rules: rules.clone(),
        matcher: rules.matcher(Path::new(path)).unwrap(),
        problem: None,
    };
    let mut roots = vec![root(1, "/r"), root(2, "/other")];
    assert_eq!(changes(&mut roots, Err(vec![error])), [Change { root_id: 1, kind: ChangeKind::Rescan }]);
    assert!(roots[0].problem.is_some() && roots[1].problem.is_none());
}
