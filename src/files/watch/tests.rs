use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::oneshot;
use vic_watch::{Descriptor, Event, EventKind, Refusal, WatchBackend};

use crate::files::walk::tests::config;

use crate::files::watch::*;

/// Time within which a change must be reported. Tests wait twice as long, because other tests may keep the machine
/// busy.
const REPORT_DEADLINE: Duration = Duration::from_secs(2);

struct Scene {
    dir: tempfile::TempDir,
    watcher: Watcher,
    receiver: Receiver<Batch>,
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
        watcher.add(7, dir.path(), &Arc::default()).unwrap();
        Scene { dir, watcher, receiver, seen: Vec::new() }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    /// Waits until `kind` is reported, at most twice as long as a report may take.
    fn expect(&mut self, kind: &ChangeKind) {
        let end = Instant::now() + 2 * REPORT_DEADLINE;
        while !self.seen.contains(kind) {
            assert!(Instant::now() < end, "{kind:?} did not come, but {:?}", self.seen);
            match self.receiver.try_recv() {
                Ok(batch) => self.receive(batch),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn receive(&mut self, batch: Batch) {
        self.seen.extend(batch.changes.into_iter().inspect(|it| assert_eq!(it.root_id, 7)).map(|it| it.kind));
        batch.barriers.into_iter().for_each(|it| it.send(()).unwrap());
    }

    /// Waits until all changes so far are reported; returns the changes since the last call.
    fn reach(&mut self) -> Vec<ChangeKind> {
        let (barrier, mut reached) = oneshot::channel();
        self.watcher.add_barrier(barrier);
        while reached.try_recv().is_err() {
            let batch = self.receiver.blocking_recv().unwrap();
            self.receive(batch);
        }
        std::mem::take(&mut self.seen)
    }

    fn expect_touched(&mut self, relative: &str) {
        self.expect(&ChangeKind::Touched(relative.into()));
    }

    fn expect_removed(&mut self, relative: &str) {
        self.expect(&ChangeKind::Removed(relative.into()));
    }
}

#[test]
fn create_modify_rename_and_delete_are_reported_in_time() {
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
    assert!(start.elapsed() < REPORT_DEADLINE, "{:?}", start.elapsed());
}

// Case A3
#[test]
fn new_nested_folders_and_their_files_are_reported() {
    let mut scene = Scene::new(&["a.txt"]);
    fs::create_dir_all(scene.path("n/e/s/t")).unwrap();
    fs::write(scene.path("n/e/s/t/early.txt"), "x").unwrap();
    scene.expect_touched("n");
    fs::write(scene.path("n/e/s/t/late.txt"), "x").unwrap();
    scene.expect_touched("n/e/s/t/late.txt");
}

// Case A4
#[test]
fn renamed_folder_is_one_rename_and_stays_watched() {
    let mut scene = Scene::new(&["d/a.txt", "d/b.txt"]);
    fs::rename(scene.path("d"), scene.path("e")).unwrap();
    scene.expect(&ChangeKind::Renamed { from: "d".into(), to: "e".into() });
    fs::write(scene.path("e/a.txt"), "more").unwrap();
    scene.expect_touched("e/a.txt");
    assert!(!scene.seen.iter().any(|it| matches!(it, ChangeKind::Removed(_))), "{:?}", scene.seen);
}

// Case A6
#[test]
fn save_by_rename_is_touched_and_never_removed() {
    let mut scene = Scene::new(&["doc.txt"]);
    fs::write(scene.path(".doc.swp"), "new text").unwrap();
    fs::rename(scene.path(".doc.swp"), scene.path("doc.txt")).unwrap();
    scene.expect_touched("doc.txt");
    assert!(!scene.seen.contains(&ChangeKind::Removed("doc.txt".into())));
}

#[test]
fn ignored_paths_are_silent_and_rule_change_rescans() {
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

// Case A5
#[test]
fn folder_moved_out_is_removed() {
    let mut scene = Scene::new(&["d/a.txt"]);
    let elsewhere = tempfile::tempdir().unwrap();
    fs::rename(scene.path("d"), elsewhere.path().join("d")).unwrap();
    scene.expect_removed("d");
    scene.watcher.remove(7);
    scene.watcher.remove(7);
    assert_eq!(scene.watcher.problem(7), None);
}

#[test]
fn removed_nested_root_stays_watched_by_parent() {
    let mut scene = Scene::new(&["child/deep/a.txt"]);
    scene.watcher.add(8, &scene.path("child"), &Arc::default()).unwrap();
    scene.watcher.remove(8);
    scene.expect_touched("child");
    fs::write(scene.path("child/deep/a.txt"), "more").unwrap();
    scene.expect_touched("child/deep/a.txt");
}

#[test]
fn folder_moved_in_is_watched_recursively() {
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
fn folder_no_longer_ignored_is_watched() {
    let mut scene = Scene::new(&[".vicignore", "skip/deep/b.txt"]);
    fs::write(scene.path(".vicignore"), "skip/").unwrap();
    scene.expect(&ChangeKind::Rescan);
    fs::remove_file(scene.path(".vicignore")).unwrap();
    scene.seen.clear();
    scene.expect(&ChangeKind::Rescan);
    fs::write(scene.path("skip/deep/b.txt"), "more").unwrap();
    scene.expect_touched("skip/deep/b.txt");
}

#[test]
fn barrier_follows_all_earlier_changes() {
    let mut scene = Scene::new(&["d/a.txt", "b.txt", "c.txt"]);
    for round in 0..20 {
        fs::write(scene.path("d/a.txt"), round.to_string()).unwrap();
        fs::write(scene.path(&format!("d/new-{round}.txt")), "x").unwrap();
        let seen = scene.reach();
        assert!(seen.contains(&ChangeKind::Touched("d/a.txt".into())), "round {round}: {seen:?}");
        assert!(seen.contains(&ChangeKind::Touched(format!("d/new-{round}.txt").into())), "round {round}: {seen:?}");
    }
    fs::rename(scene.path("b.txt"), scene.path("e.txt")).unwrap();
    fs::remove_file(scene.path("c.txt")).unwrap();
    let renamed = ChangeKind::Renamed { from: "b.txt".into(), to: "e.txt".into() };
    let seen = scene.reach();
    assert!(seen.contains(&renamed) && seen.contains(&ChangeKind::Removed("c.txt".into())), "{seen:?}");
    assert_eq!(scene.reach(), []);
}

#[test]
fn reading_files_causes_no_changes() {
    let files: Vec<String> = (0..500).map(|it| format!("{}/{it}.txt", it % 7)).collect();
    let mut scene = Scene::new(&files.iter().map(String::as_str).collect::<Vec<_>>());
    for _ in 0..3 {
        files.iter().for_each(|it| drop(fs::read(scene.path(it)).unwrap()));
    }
    assert_eq!(scene.reach(), []);
    assert_eq!(scene.watcher.counts(), WatchCounts { folders: 8, ..WatchCounts::default() });
}

#[test]
fn heartbeat_stops_when_watcher_dies() {
    let scene = Scene::new(&["a.txt"]);
    let beats = |watcher: &Watcher| {
        let before = watcher.activity();
        watcher.beat();
        let end = Instant::now() + REPORT_DEADLINE;
        while watcher.activity() == before && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        watcher.activity() != before
    };
    assert!(beats(&scene.watcher) && beats(&scene.watcher));
    assert!(scene.watcher.heartbeat_age() < REPORT_DEADLINE);
    scene.watcher.die();
    while scene.watcher.messages.try_send(Message::Remove(0)).is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!beats(&scene.watcher));
}

#[test]
fn replaced_root_is_watched_after_readding() {
    let mut scene = Scene::new(&["files/a.txt"]);
    let root = scene.path("files");
    scene.watcher.add(7, &root, &Arc::default()).unwrap();
    fs::rename(&root, scene.path("aside")).unwrap();
    fs::create_dir(&root).unwrap();
    scene.expect(&ChangeKind::Rescan);
    assert!(!scene.watcher.is_fully_watched(7));
    scene.watcher.add(7, &root, &Arc::default()).unwrap();
    fs::write(root.join("b.txt"), "x").unwrap();
    scene.expect_touched("b.txt");
    fs::write(scene.path("aside/a.txt"), "y").unwrap();
    assert!(!scene.reach().contains(&ChangeKind::Touched("a.txt".into())));
}

/// A watch backend that refuses some folders.
#[derive(Default)]
struct Fake {
    watched: BTreeMap<PathBuf, Descriptor>,
    given: Descriptor,
    denied: Vec<PathBuf>,
    limit: usize,
    remote: Option<PathBuf>,
}

impl WatchBackend for Fake {
    fn watch(&mut self, folder: &Path) -> Result<Descriptor, Refusal> {
        if self.denied.iter().any(|it| it == folder) {
            return Err(Refusal::Denied);
        }
        if self.watched.len() == self.limit {
            return Err(Refusal::Limit);
        }
        self.given += 1;
        assert!(self.watched.insert(folder.into(), self.given).is_none(), "`{}` is watched twice", folder.display());
        Ok(self.given)
    }

    fn unwatch(&mut self, watch: Descriptor) {
        self.watched.retain(|_, it| *it != watch);
    }

    fn remote(&self, folder: &Path) -> Option<&'static str> {
        (self.remote.as_deref() == Some(folder)).then_some("nfs")
    }

    fn watch_heartbeat(&mut self) -> std::io::Result<Descriptor> {
        Ok(0)
    }
}

struct EngineFixture {
    dir: tempfile::TempDir,
    engine: Engine<Fake>,
}

impl EngineFixture {
    /// Creates folders below a root that is not added yet. The watch backend refuses the folders `denied` and allows at
    /// most `limit` watches.
    fn new(folders: &[&str], denied: &[&str], limit: usize) -> EngineFixture {
        let dir = tempfile::tempdir().unwrap();
        folders.iter().for_each(|it| fs::create_dir_all(dir.path().join(it)).unwrap());
        let denied = denied.iter().map(|it| dir.path().join(it)).collect();
        let fake = Fake { denied, limit, ..Fake::default() };
        let shared = Arc::new(Shared::new(Heartbeat::new(Box::new(|| ()))));
        EngineFixture { dir, engine: Engine::new(fake, Rules::new(&config()).unwrap(), shared) }
    }

    fn kernel(&mut self) -> &mut Fake {
        self.engine.folders.kernel_mut()
    }

    fn add(&mut self) -> Result<(), WatchProblem> {
        let path = self.dir.path().to_path_buf();
        self.engine.add_root(7, &path)
    }

    /// Simulates an event of an entry in a watched folder, or, without a name, of the folder itself.
    fn play_event(&mut self, kind: EventKind, folder: &str, name: Option<&str>) {
        let folder = self.dir.path().join(folder);
        let watch = self.kernel().watched.iter().find(|it| *it.0 == folder).map_or(-1, |it| *it.1);
        self.engine.handle_message(Message::Event(Event {
            watch,
            kind,
            is_folder: true,
            cookie: 0,
            name: name.map(Into::into),
        }));
    }

    /// Compares the watched folders with `expected`, and whether the root counts as fully watched with `whole`.
    fn check(&self, expected: &[&str], whole: bool) {
        let kernel = self.engine.folders.kernel();
        let relative = |it: &PathBuf| it.strip_prefix(self.dir.path()).unwrap().to_str().unwrap().to_string();
        assert_eq!(kernel.watched.keys().map(relative).collect::<Vec<_>>(), expected);
        assert_eq!(self.engine.shared.states()[&7].is_complete, whole);
    }

    fn problem(&self) -> Option<String> {
        self.engine.shared.states()[&7].problem.clone().map(|it| it.0)
    }

    fn due(&mut self) -> Vec<ChangeKind> {
        let changes = self.engine.due_changes(Instant::now() + REPORT_DEADLINE);
        changes.into_iter().map(|it| it.kind).collect()
    }
}

#[test]
fn denied_folder_is_watched_once_readable() {
    let mut machine = EngineFixture::new(&["a/b", "c", "locked/d"], &["locked"], 99);
    machine.add().unwrap();
    // The test runs as root, who can list `locked`, so the folder below is watched; other users could not list it.
    machine.check(&["", "a", "a/b", "c", "locked/d"], false);
    assert_eq!(machine.problem(), None, "the walk reports it");
    assert!(!machine.engine.shared.states()[&7].is_detached, "the root itself is still watched");
    machine.kernel().denied.clear();
    machine.play_event(EventKind::AttributesChanged, "", Some("locked"));
    machine.check(&["", "a", "a/b", "c", "locked", "locked/d"], true);
    assert_eq!(machine.due(), [ChangeKind::Touched("locked".into())]);
}

// Case A12
#[test]
fn denied_root_is_a_problem() {
    let mut machine = EngineFixture::new(&[], &[""], 99);
    let problem = machine.add().unwrap_err().0;
    assert!(
        problem.contains("permission denied") && problem.contains(machine.dir.path().to_str().unwrap()),
        "{problem}"
    );
    machine.kernel().denied.clear();
    machine.add().unwrap();
    machine.check(&[""], true);
}

// Case A2
#[test]
fn watch_limit_keeps_watches_and_adds_rest_later() {
    let mut machine = EngineFixture::new(&["a", "b", "c", "d"], &[], 3);
    machine.add().unwrap();
    assert_eq!(machine.engine.folders.kernel().watched.len(), 3);
    let problem = machine.problem().unwrap();
    for part in ["only 3 of 5 folders", "watch limit", "max_", "sysctl"] {
        assert!(problem.contains(part), "{problem}");
    }
    assert!(!problem.contains("space"), "it is not a full disk: {problem}");
    machine.kernel().limit = 99;
    machine.add().unwrap();
    machine.check(&["", "a", "b", "c", "d"], true);
    assert_eq!(machine.problem(), None);
}

#[test]
fn remote_file_system_is_watched_but_not_trusted() {
    let mut machine = EngineFixture::new(&["a", "share/b"], &[], 99);
    machine.kernel().remote = Some(machine.dir.path().join("share"));
    machine.add().unwrap();
    machine.check(&["", "a", "share", "share/b"], true);
    assert!(machine.engine.shared.states()[&7].is_remote);
    let problem = machine.problem().unwrap();
    assert!(problem.contains("share") && problem.contains("nfs") && problem.contains("VIC_POLL_SECONDS"), "{problem}");
}

#[test]
fn ignored_folders_use_no_watch() {
    let mut machine = EngineFixture::new(&["a", "node_modules/x", ".git/objects", ".hidden"], &[], 99);
    fs::write(machine.dir.path().join(".ignore"), "node_modules/").unwrap();
    machine.add().unwrap();
    machine.check(&["", "a"], true);
    machine.play_event(EventKind::Created, "", Some("node_modules"));
    machine.check(&["", "a"], true);
}

// Case A1
#[test]
fn lost_events_renew_watches_and_rescan_once() {
    let mut machine = EngineFixture::new(&["old"], &[], 99);
    machine.add().unwrap();
    fs::rename(machine.dir.path().join("old"), machine.dir.path().join("new")).unwrap();
    let now = Instant::now();
    (0..3).for_each(|_| machine.engine.note_loss(now));
    machine.check(&["", "old"], true);
    assert_eq!(machine.due(), [ChangeKind::Rescan]);
    machine.check(&["", "new"], true);
    assert_eq!(machine.due(), []);
    let counts = *machine.engine.shared.counts();
    assert_eq!((counts.overflows, counts.rescans), (3, 1));
    // A second loss right after a rescan must wait until the interval between rescans is over.
    machine.engine.note_loss(now);
    assert_eq!(machine.due(), []);
    let later = Instant::now() + Duration::from_secs(15);
    assert_eq!(machine.engine.due_changes(later).len(), 1);
}

#[test]
fn barrier_triggers_pending_rescan_at_once() {
    let mut machine = EngineFixture::new(&[], &[], 99);
    machine.add().unwrap();
    let now = Instant::now();
    machine.engine.note_loss(now);
    let changes: Vec<ChangeKind> = machine.engine.all_changes(now).into_iter().map(|it| it.kind).collect();
    assert_eq!(changes, [ChangeKind::Rescan]);
}

#[test]
fn deleted_root_is_watched_after_readding() {
    let mut machine = EngineFixture::new(&["a"], &[], 99);
    machine.add().unwrap();
    machine.play_event(EventKind::FolderGone, "", None);
    machine.check(&[], false);
    machine.add().unwrap();
    machine.check(&["", "a"], true);
    machine.engine.handle_message(Message::Remove(7));
    assert!(machine.engine.folders.kernel().watched.is_empty());
}

#[test]
fn move_self_event_causes_no_change() {
    let mut machine = EngineFixture::new(&["a"], &[], 99);
    machine.add().unwrap();
    machine.play_event(EventKind::FolderGone, "a", None);
    assert_eq!(machine.due(), []);
}

// Case A12
#[test]
fn folder_below_mount_is_watched_after_unmount() {
    let mut machine = EngineFixture::new(&["m/below"], &[], 99);
    machine.add().unwrap();
    machine.play_event(EventKind::Unmounted, "m", None);
    machine.check(&["", "m", "m/below"], true);
    assert_eq!(machine.due(), [ChangeKind::Touched("m".into())]);
}
