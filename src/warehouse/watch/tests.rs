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
        let watcher = Watcher::start(Rules::new(&config()).unwrap(), sender).unwrap();
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
fn a_folder_that_moves_in_is_watched_with_all_below_it() {
    let mut scene = Scene::new(&["a.txt"]);
    let elsewhere = tempfile::tempdir_in(scene.dir.path().parent().unwrap()).unwrap();
    fs::create_dir_all(elsewhere.path().join("d/e")).unwrap();
    fs::write(elsewhere.path().join("d/e/f.txt"), "x").unwrap();
    fs::rename(elsewhere.path().join("d"), scene.path("d")).unwrap();
    scene.expect_touched("d");
    fs::write(scene.path("d/e/f.txt"), "more").unwrap();
    scene.expect_touched("d/e/f.txt");
    fs::remove_dir_all(scene.path("d")).unwrap();
    scene.expect_removed("d");
    scene.seen.clear();
    fs::create_dir(scene.path("d")).unwrap();
    scene.expect_touched("d");
    fs::write(scene.path("d/again.txt"), "x").unwrap();
    scene.expect_touched("d/again.txt");
}

#[test]
fn a_folder_that_is_no_longer_ignored_is_watched() {
    let mut scene = Scene::new(&[".vicignore", "skip/deep/b.txt"]);
    fs::write(scene.path(".vicignore"), "skip/").unwrap();
    scene.expect(&ChangeKind::Rescan);
    fs::remove_file(scene.path(".vicignore")).unwrap();
    scene.seen.clear();
    scene.expect(&ChangeKind::Rescan);
    fs::write(scene.path("skip/deep/b.txt"), "more").unwrap();
    scene.expect_touched("skip/deep/b.txt");
}

/// An operating system that refuses some folders.
#[derive(Default)]
struct Fake {
    watched: std::collections::BTreeSet<PathBuf>,
    denied: Vec<PathBuf>,
    limit: usize,
}

impl Kernel for Fake {
    fn watch(&mut self, folder: &Path) -> notify::Result<()> {
        if self.denied.iter().any(|it| it == folder) {
            return Err(notify::Error::io(std::io::ErrorKind::PermissionDenied.into()));
        }
        if self.watched.len() == self.limit {
            return Err(notify::Error::new(notify::ErrorKind::MaxFilesWatch));
        }
        assert!(self.watched.insert(folder.into()), "`{}` is watched twice", folder.display());
        Ok(())
    }

    fn unwatch(&mut self, folder: &Path) {
        self.watched.remove(folder);
    }
}

struct Machine {
    dir: tempfile::TempDir,
    engine: Engine<Fake>,
}

impl Machine {
    /// Folders below a root that is to be added; the system refuses `denied` and gives `limit` watches.
    fn new(folders: &[&str], denied: &[&str], limit: usize) -> Machine {
        let dir = tempfile::tempdir().unwrap();
        folders.iter().for_each(|it| fs::create_dir_all(dir.path().join(it)).unwrap());
        let denied = denied.iter().map(|it| dir.path().join(it)).collect();
        let fake = Fake { denied, limit, ..Fake::default() };
        Machine { dir, engine: Engine::new(fake, Rules::new(&config()).unwrap(), States::default()) }
    }

    fn add(&mut self) -> Result<(), WatchProblem> {
        let path = self.dir.path().to_path_buf();
        self.engine.add(7, &path)
    }

    fn happened(&mut self, kind: EventKind, path: &str) {
        let event = notify::Event::new(kind).add_path(self.dir.path().join(path));
        self.engine.take(Message::Event(Ok(event)));
    }

    /// Compares what is watched, and whether that is all.
    fn check(&self, expected: &[&str], whole: bool) {
        let kernel = self.engine.folders.kernel();
        let watched: Vec<&str> =
            kernel.watched.iter().map(|it| it.strip_prefix(self.dir.path()).unwrap().to_str().unwrap()).collect();
        assert_eq!(watched, expected);
        assert_eq!(lock(&self.engine.states)[&7].whole, whole);
    }

    fn due(&mut self) -> Vec<ChangeKind> {
        let changes = self.engine.due(Instant::now() + DUE);
        changes.into_iter().map(|it| it.kind).collect()
    }
}

#[test]
fn a_folder_that_may_not_be_read_leaves_the_rest_watched_and_is_taken_up_when_it_may() {
    let mut machine = Machine::new(&["a/b", "c", "locked/d"], &["locked"], 99);
    machine.add().unwrap();
    // The listing is the super-user's here, so that it goes on below the folder; a user's would not.
    machine.check(&["", "a", "a/b", "c", "locked/d"], false);
    assert_eq!(lock(&machine.engine.states)[&7].problem, None, "the walk says so");
    machine.engine.folders.kernel_mut().denied.clear();
    let attributes = EventKind::Modify(ModifyKind::Metadata(notify::event::MetadataKind::Any));
    machine.happened(attributes, "locked");
    machine.check(&["", "a", "a/b", "c", "locked", "locked/d"], true);
    assert_eq!(machine.due(), [ChangeKind::Touched("locked".into())]);
}

#[test]
fn a_root_that_may_not_be_read_is_a_problem_of_its_own() {
    let mut machine = Machine::new(&[], &[""], 99);
    let problem = machine.add().unwrap_err().0;
    assert!(
        problem.contains("permission denied") && problem.contains(machine.dir.path().to_str().unwrap()),
        "{problem}"
    );
    machine.engine.folders.kernel_mut().denied.clear();
    machine.add().unwrap();
    machine.check(&[""], true);
}

#[test]
fn at_the_limit_what_is_watched_stays_and_the_rest_comes_when_there_is_room() {
    let mut machine = Machine::new(&["a", "b", "c"], &[], 3);
    machine.add().unwrap();
    assert_eq!(machine.engine.folders.kernel().watched.len(), 3);
    let problem = lock(&machine.engine.states)[&7].problem.clone().unwrap().0;
    assert!(problem.contains("fs.inotify.max_user_watches") && problem.contains("sysctl"), "{problem}");
    machine.engine.folders.kernel_mut().limit = 99;
    machine.add().unwrap();
    machine.check(&["", "a", "b", "c"], true);
    assert_eq!(lock(&machine.engine.states)[&7].problem, None);
}

#[test]
fn ignored_folders_take_no_watch() {
    let mut machine = Machine::new(&["a", "node_modules/x", ".git/objects", ".hidden"], &[], 99);
    fs::write(machine.dir.path().join(".ignore"), "node_modules/").unwrap();
    machine.add().unwrap();
    machine.check(&["", "a"], true);
    machine.happened(EventKind::Create(CreateKind::Folder), "node_modules/x");
    machine.check(&["", "a"], true);
}

#[test]
fn lost_events_make_the_watches_anew_and_are_a_rescan_of_every_root() {
    let mut machine = Machine::new(&["old"], &[], 99);
    machine.add().unwrap();
    fs::rename(machine.dir.path().join("old"), machine.dir.path().join("new")).unwrap();
    let overflow = notify::Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan);
    machine.engine.take(Message::Event(Ok(overflow)));
    machine.check(&["", "new"], true);
    assert_eq!(machine.due(), [ChangeKind::Rescan]);
}

#[test]
fn a_root_that_went_away_is_watched_again_when_it_is_added_again() {
    let mut machine = Machine::new(&["a"], &[], 99);
    machine.add().unwrap();
    machine.happened(EventKind::Remove(notify::event::RemoveKind::Folder), "");
    machine.check(&[], false);
    machine.add().unwrap();
    machine.check(&["", "a"], true);
    machine.engine.take(Message::Remove(7));
    assert!(machine.engine.folders.kernel().watched.is_empty());
}

#[test]
fn a_moved_folder_that_tells_of_itself_by_its_old_name_is_no_news() {
    let mut machine = Machine::new(&["a"], &[], 99);
    machine.add().unwrap();
    machine.happened(EventKind::Modify(ModifyKind::Name(RenameMode::From)), "gone");
    assert_eq!(machine.due(), []);
}
