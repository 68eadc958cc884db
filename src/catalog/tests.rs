mod awaiting;
mod coverage;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::config::WalkConfig;
use crate::model::{ContentHash, FileFilter, FileId, FileKind, FileRecord, FileState, FoundFile, Reason, Root, Scope};
use crate::warehouse::{Rules, walk};

/// As the index believes what it sees, with everything mounted.
const CAREFUL: Belief<'static> = Belief::Careful(&|_, _| false);

/// A real folder, and a catalog of it.
struct Scene {
    dir: tempfile::TempDir,
    catalog: Catalog,
    root: Root,
}

impl Scene {
    fn new(files: &[&str]) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        let catalog = Catalog::open(&dir.path().join("catalog.sqlite")).unwrap();
        let root = catalog.add_root(&dir.path().join("root")).unwrap();
        let scene = Scene { dir, catalog, root };
        files.iter().for_each(|it| scene.write(it, it));
        scene
    }

    /// The scene with every file indexed.
    fn indexed(files: &[&str]) -> Scene {
        let scene = Scene::new(files);
        scene.scan();
        scene.index();
        scene
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.root.path.join(relative)
    }

    fn write(&self, relative: &str, text: &str) {
        fs::create_dir_all(self.path(relative).parent().unwrap()).unwrap();
        fs::write(self.path(relative), text).unwrap();
    }

    fn walk(&self, within: Option<&str>) -> Vec<FoundFile> {
        let config =
            WalkConfig { ignore: Vec::new(), hidden: false, max_file_bytes: 1000, watch: false, rescan_seconds: 0 };
        let mut found = Vec::new();
        let (rules, cancel) = (Rules::new(&config).unwrap(), AtomicBool::new(false));
        walk(&self.root.path, &rules, within.map(Path::new), &cancel, |it| found.push(it)).unwrap();
        found
    }

    fn scan(&self) -> ScanOutcome {
        self.scan_within(None)
    }

    fn scan_within(&self, within: Option<&str>) -> ScanOutcome {
        self.catalog.apply_scan(self.root.id, within.map(Path::new), self.walk(within), &[], true, CAREFUL).unwrap()
    }

    /// Marks every pending file as indexed.
    fn index(&self) -> u64 {
        let pending = self.catalog.next_pending(0, 1000).unwrap();
        self.catalog.mark_indexed(&pending.iter().map(mark).collect::<Vec<_>>()).unwrap()
    }

    /// Hears of a move that happened some time ago.
    fn hear_of_move(&self, from: &str, to: &str) {
        let on_disk = |path: &Path| {
            let found = self.path(path.to_str()?).symlink_metadata().ok()?;
            Some((found.dev(), found.ino()))
        };
        self.catalog.rename_tree(self.root.id, Path::new(from), Path::new(to), &on_disk).unwrap();
    }

    fn record(&self, relative: &str) -> Option<FileRecord> {
        self.catalog.record_by_path(&self.path(relative)).unwrap()
    }

    fn id(&self, relative: &str) -> FileId {
        self.record(relative).unwrap().id
    }

    fn state(&self, relative: &str) -> FileState {
        self.record(relative).unwrap().state
    }

    fn names(&self, filter: &FileFilter) -> Vec<String> {
        let records = self.catalog.records(&self.catalog.select(filter).unwrap()).unwrap();
        let mut names: Vec<String> = records.iter().map(|it| it.found.path.to_string_lossy().into()).collect();
        names.sort();
        names
    }
}

fn mark(record: &FileRecord) -> IndexedMark {
    let hash = fs::read(record.absolute()).map(|it| *blake3::hash(&it).as_bytes()).unwrap_or_default();
    IndexedMark {
        awaiting: 0,
        id: record.id,
        size: record.found.size,
        modified_ns: record.found.modified_ns,
        hash: ContentHash(hash),
        kind: FileKind::Text,
        media_type: "text/plain".into(),
        chunks: 1,
        detail: String::new(),
    }
}

fn outcome(added: u64, changed: u64, unchanged: u64, renamed: u64, removed: u64) -> ScanOutcome {
    ScanOutcome { found: added + changed + unchanged + renamed, added, changed, unchanged, renamed, removed }
}

#[test]
fn a_scan_tells_new_changed_unchanged_and_removed_apart() {
    let scene = Scene::new(&["a.txt", "b.txt", "sub/c.txt"]);
    assert_eq!(scene.scan(), outcome(3, 0, 0, 0, 0));
    assert_eq!(scene.index(), 3);
    assert_eq!(scene.scan(), outcome(0, 0, 3, 0, 0));
    scene.write("a.txt", "longer than before");
    fs::remove_file(scene.path("b.txt")).unwrap();
    scene.write("d.txt", "d");
    let gone = scene.catalog.record_by_path(&scene.path("b.txt")).unwrap().unwrap().id;
    assert_eq!(scene.scan(), outcome(1, 1, 1, 0, 1));
    assert_eq!(scene.state("a.txt"), FileState::Pending);
    assert_eq!(scene.state("sub/c.txt"), FileState::Indexed);
    assert_eq!(scene.record("b.txt"), None);
    assert_eq!(scene.catalog.records(&[gone]).unwrap(), []);
    assert_eq!(scene.catalog.tombstones(10).unwrap(), [gone]);
    scene.catalog.forget(&[gone, scene.id("a.txt")]).unwrap();
    assert!(scene.catalog.tombstones(10).unwrap().is_empty());
    assert!(scene.record("a.txt").is_some());
}

#[test]
fn a_changed_mode_is_looked_at_again_but_keeps_the_hash() {
    let scene = Scene::indexed(&["a.txt"]);
    let hash = scene.record("a.txt").unwrap().hash;
    fs::set_permissions(scene.path("a.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(scene.scan(), outcome(0, 1, 0, 0, 0));
    let record = scene.record("a.txt").unwrap();
    assert_eq!((record.state, record.hash, record.chunks), (FileState::Pending, hash, 1));
}

#[test]
fn a_restored_modification_time_hides_nothing() {
    let scene = Scene::indexed(&["a.txt"]);
    let time = scene.path("a.txt").metadata().unwrap().modified().unwrap();
    scene.write("a.txt", "a.tx!");
    fs::File::options().write(true).open(scene.path("a.txt")).unwrap().set_modified(time).unwrap();
    assert_eq!(scene.scan(), outcome(0, 1, 0, 0, 0));
}

#[test]
fn a_renamed_file_keeps_its_number_and_state() {
    let scene = Scene::indexed(&["a.txt", "b.txt"]);
    let id = scene.id("a.txt");
    fs::create_dir(scene.path("sub")).unwrap();
    fs::rename(scene.path("a.txt"), scene.path("sub/new name.txt")).unwrap();
    assert_eq!(scene.scan(), outcome(0, 0, 1, 1, 0));
    let record = scene.record("sub/new name.txt").unwrap();
    assert_eq!((record.id, record.state), (id, FileState::Indexed));
    assert_eq!(scene.scan(), outcome(0, 0, 2, 0, 0));
    assert_eq!(scene.names(&FileFilter { name_words: vec!["NEW".into()], ..FileFilter::default() }).len(), 1);
}

#[test]
fn a_new_extension_or_a_secret_name_is_judged_anew() {
    let scene = Scene::indexed(&["a.txt", "b.txt"]);
    fs::rename(scene.path("a.txt"), scene.path("a.md")).unwrap();
    fs::rename(scene.path("b.txt"), scene.path("b.pem")).unwrap();
    assert_eq!(scene.scan().renamed, 2);
    let record = scene.record("a.md").unwrap();
    assert_eq!((record.state, record.kind, record.extension.as_str()), (FileState::Pending, FileKind::Markup, "md"));
    assert_eq!(scene.record("b.pem").unwrap().reason, Some(Reason::Secret));
    assert_eq!(scene.catalog.tombstones(10).unwrap().len(), 1, "the chunks of the secret have to leave the store");
}

#[test]
fn many_places_are_brought_in_line_by_one_commit() {
    let scene = Scene::indexed(&["a.md", "b.md", "c.md", "d/e.md"]);
    fs::remove_file(scene.path("a.md")).unwrap();
    scene.write("b.md", "another");
    scene.write("new.md", "new");
    fs::remove_dir_all(scene.path("d")).unwrap();
    let commits = scene.catalog.changes();
    let before = *commits.borrow();
    let places = ["a.md", "b.md", "c.md", "d", "new.md"].map(Path::new);
    let walks = places.iter().map(|place| Walked {
        root: scene.root.id,
        within: Some(place),
        found: scene.walk(place.to_str()),
        unreadable: &[],
        complete: true,
    });
    let outcomes = scene.catalog.apply_walks(walks.collect(), CAREFUL, Look::First).unwrap();
    let expected =
        [(0, 0, 0, 0, 1), (0, 1, 0, 0, 0), (0, 0, 1, 0, 0)].map(|it| Some(outcome(it.0, it.1, it.2, it.3, it.4)));
    assert_eq!(outcomes[..3], expected);
    // What is gone with its folder may be moving: it is for a second look to say.
    assert_eq!(outcomes[3..], [None, Some(outcome(1, 0, 0, 0, 0))]);
    assert_eq!(*commits.borrow(), before + 1);
}

#[test]
fn a_file_that_moves_while_its_root_is_walked_keeps_its_number_and_state() {
    let scene = Scene::indexed(&["a/one.md", "b/two.md"]);
    let before = scene.record("b/two.md");
    let look = |found: Vec<FoundFile>, look| {
        let walked = Walked { root: scene.root.id, within: None, found, unreadable: &[], complete: true };
        scene.catalog.apply_walk(walked, CAREFUL, look).unwrap()
    };
    // Its new folder was listed before it came, its old one after it had gone.
    let mut missed = scene.walk(None);
    missed.retain(|it| it.path != Path::new("b/two.md"));
    fs::rename(scene.path("b/two.md"), scene.path("a/two.md")).unwrap();
    assert_eq!(look(missed.clone(), Look::First), None);
    assert_eq!(scene.record("b/two.md"), before, "nothing was changed");
    assert_eq!(look(scene.walk(None), Look::First), Some(outcome(0, 0, 1, 1, 0)));
    assert_eq!((scene.id("a/two.md"), scene.state("a/two.md")), (before.unwrap().id, FileState::Indexed));
    fs::remove_file(scene.path("a/two.md")).unwrap();
    assert_eq!(look(scene.walk(None), Look::First), None);
    assert_eq!(look(scene.walk(None), Look::Second), Some(outcome(0, 0, 1, 0, 1)));
}

#[test]
fn a_hard_link_is_no_rename() {
    let scene = Scene::indexed(&["a.txt"]);
    fs::hard_link(scene.path("a.txt"), scene.path("b.txt")).unwrap();
    assert_eq!(scene.scan_within(Some("b.txt")), outcome(1, 0, 0, 0, 0));
    assert!(scene.record("a.txt").is_some() && scene.record("b.txt").is_some());
    fs::remove_file(scene.path("a.txt")).unwrap();
    assert_eq!(scene.scan().removed, 1);
}

#[test]
fn a_renamed_folder_of_many_files_keeps_them_all() {
    let files: Vec<String> = (0..500).map(|it| format!("old/{}/{it}.txt", it % 7)).collect();
    let scene = Scene::indexed(&files.iter().map(String::as_str).collect::<Vec<_>>());
    let ids = scene.catalog.select(&FileFilter::default()).unwrap();
    fs::rename(scene.path("old"), scene.path("new")).unwrap();
    assert_eq!(scene.catalog.rename_tree(scene.root.id, Path::new("old"), Path::new("new"), &|_| None).unwrap(), 500);
    assert_eq!(scene.catalog.select(&FileFilter::default()).unwrap(), ids);
    assert_eq!(scene.scan_within(Some("new")), outcome(0, 0, 500, 0, 0));
    fs::rename(scene.path("new"), scene.path("newer")).unwrap();
    assert_eq!(scene.scan(), outcome(0, 0, 0, 500, 0));
    assert_eq!(scene.catalog.select(&FileFilter::default()).unwrap(), ids);
    assert_eq!(scene.index(), 0);
}

#[test]
fn a_file_renamed_by_event_replaces_what_was_there_and_is_not_read_again() {
    let scene = Scene::indexed(&["a.txt", "b.txt"]);
    let (id, old) = (scene.id("a.txt"), scene.id("b.txt"));
    fs::rename(scene.path("a.txt"), scene.path("b.txt")).unwrap();
    assert_eq!(scene.catalog.rename_tree(scene.root.id, Path::new("a.txt"), Path::new("b.txt"), &|_| None).unwrap(), 1);
    assert_eq!((scene.id("b.txt"), scene.record("a.txt")), (id, None));
    assert_eq!(scene.catalog.tombstones(10).unwrap(), [old]);
    assert_eq!(scene.scan(), outcome(0, 0, 1, 0, 0));
}

#[test]
fn a_file_read_at_its_new_place_stays_when_the_move_is_heard_of_later() {
    let scene = Scene::indexed(&["a.txt"]);
    scene.write("a.txt", "saved and moved at once");
    fs::rename(scene.path("a.txt"), scene.path("b.txt")).unwrap();
    scene.scan_within(Some("b.txt"));
    assert_eq!(scene.index(), 1);
    let read = scene.record("b.txt").unwrap();
    scene.hear_of_move("a.txt", "b.txt");
    assert_eq!((scene.record("b.txt"), scene.record("a.txt")), (Some(read), None));
}

#[test]
fn what_is_found_at_the_new_place_stays_found_also_while_it_is_read_again() {
    let scene = Scene::new(&["a.txt"]);
    scene.scan();
    fs::rename(scene.path("a.txt"), scene.path("b.txt")).unwrap();
    scene.write("b.txt", "moved and saved at once");
    scene.scan_within(Some("b.txt"));
    let read = scene.record("b.txt").unwrap();
    scene.catalog.mark_indexed(&[mark(&read)]).unwrap();
    scene.catalog.requeue(&RequeueScope::Ids(vec![read.id])).unwrap();
    scene.hear_of_move("a.txt", "b.txt");
    assert_eq!((scene.id("b.txt"), scene.record("a.txt")), (read.id, None));
}

#[test]
fn a_file_that_moves_over_another_takes_its_place_although_that_was_looked_at_first() {
    let scene = Scene::indexed(&["new.txt", "old.txt"]);
    let id = scene.id("new.txt");
    fs::rename(scene.path("new.txt"), scene.path("old.txt")).unwrap();
    scene.scan_within(Some("old.txt"));
    assert_eq!(scene.state("old.txt"), FileState::Pending, "what was read of it is another text");
    scene.hear_of_move("new.txt", "old.txt");
    assert_eq!((scene.id("old.txt"), scene.state("old.txt")), (id, FileState::Indexed));
}

#[test]
fn a_file_that_could_not_be_read_at_its_old_place_is_tried_at_the_new_one() {
    let scene = Scene::new(&["a.txt", "b.txt"]);
    scene.scan();
    for (file, reason) in [("a.txt", Reason::Io), ("b.txt", Reason::WorkerCrash)] {
        let it = scene.record(file).unwrap();
        let mark = ReasonMark {
            id: it.id,
            size: it.found.size,
            modified_ns: it.found.modified_ns,
            reason,
            detail: "it was gone when it was to be read".into(),
            hash: None,
            kind: it.kind,
            media_type: String::new(),
        };
        scene.catalog.mark_reason(&[mark]).unwrap();
        fs::create_dir_all(scene.path("d")).unwrap();
        let to = format!("d/{file}");
        fs::rename(scene.path(file), scene.path(&to)).unwrap();
        scene.catalog.rename_tree(scene.root.id, Path::new(file), Path::new(&to), &|_| None).unwrap();
        scene.scan();
    }
    assert_eq!((scene.state("d/a.txt"), scene.state("d/b.txt")), (FileState::Pending, FileState::Failed));
}

#[test]
fn a_removed_folder_takes_its_files_and_no_neighbour() {
    let scene = Scene::indexed(&["d/a.txt", "d/e/b.txt", "d.txt", "d-2/c.txt", "d0"]);
    fs::remove_dir_all(scene.path("d")).unwrap();
    assert_eq!(scene.scan_within(Some("d")), outcome(0, 0, 0, 0, 2));
    assert_eq!(scene.scan_within(Some("gone")), outcome(0, 0, 0, 0, 0));
    assert_eq!(scene.names(&FileFilter::default()), ["d-2/c.txt", "d.txt", "d0"]);
    fs::remove_dir_all(scene.path("d-2")).unwrap();
    assert_eq!(scene.scan_within(Some("d-2")), outcome(0, 0, 0, 0, 1));
    assert_eq!(scene.names(&FileFilter::default()), ["d.txt", "d0"]);
}

#[test]
fn nothing_is_removed_where_the_walk_did_not_look() {
    let scene = Scene::indexed(&["a.txt", "locked/b.txt", "locked/deep/c.txt", "locked-not/d.txt"]);
    let found = || scene.walk(Some("a.txt"));
    let locked = [PathBuf::from("locked")];
    let root = scene.root.id;
    assert_eq!(scene.catalog.apply_scan(root, None, found(), &locked, false, CAREFUL).unwrap().removed, 0);
    assert_eq!(scene.catalog.apply_scan(root, None, found(), &locked, true, CAREFUL).unwrap().removed, 1);
    assert_eq!(scene.names(&FileFilter::default()), ["a.txt", "locked/b.txt", "locked/deep/c.txt"]);
    assert_eq!(scene.scan(), outcome(1, 0, 3, 0, 0));
}

#[test]
fn a_root_that_is_suddenly_empty_loses_nothing_and_says_so() {
    let scene = Scene::indexed(&["a.txt"]);
    fs::rename(scene.path("a.txt"), scene.dir.path().join("aside")).unwrap();
    assert_eq!(scene.scan(), ScanOutcome::default());
    let root = scene.catalog.roots().unwrap().remove(0);
    assert!(!root.available && root.problem.contains("empty"), "{root:?}");
    assert_eq!(scene.state("a.txt"), FileState::Indexed);
    fs::rename(scene.dir.path().join("aside"), scene.path("a.txt")).unwrap();
    scene.scan();
    let root = scene.catalog.roots().unwrap().remove(0);
    assert!(root.available && root.problem.is_empty());
}

#[test]
fn more_than_half_of_a_root_that_is_gone_at_once_stays_until_it_is_back_or_the_user_says_so() {
    let names: Vec<String> = (0..24).map(|it| format!("{}/{it}.txt", it % 3)).collect();
    let scene = Scene::indexed(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let count = || scene.catalog.coverage(None).unwrap().indexed;
    let root = || scene.catalog.roots().unwrap().remove(0);
    for folder in ["0", "1"] {
        fs::rename(scene.path(folder), scene.dir.path().join(folder)).unwrap();
    }
    assert_eq!((scene.scan().removed, count()), (0, 24));
    assert!(!root().available, "{:?}", root());
    for part in ["16 files", "more than half", "--accept-losses"] {
        assert!(root().problem.contains(part), "{:?}", root());
    }
    fs::rename(scene.dir.path().join("0"), scene.path("0")).unwrap();
    assert_eq!(scene.scan().removed, 8, "a third of the root is believed");
    assert!(root().available && root().problem.is_empty(), "{:?}", root());
    fs::remove_dir_all(scene.path("0")).unwrap();
    fs::remove_dir_all(scene.path("2")).unwrap();
    assert_eq!(scene.scan().removed, 0);
    let removed = scene.catalog.apply_scan(scene.root.id, None, Vec::new(), &[], true, Belief::All).unwrap().removed;
    assert_eq!((removed, count(), root().available), (16, 0, true));
}

#[test]
fn a_folder_whose_end_was_seen_is_believed_whatever_its_share() {
    let names: Vec<String> = (0..30).map(|it| format!("d/{it}.txt")).chain(["a.txt".into()]).collect();
    let scene = Scene::indexed(&names.iter().map(String::as_str).collect::<Vec<_>>());
    fs::remove_dir_all(scene.path("d")).unwrap();
    assert_eq!(scene.scan_within(Some("d")).removed, 30);
}

#[test]
fn files_of_a_file_system_that_is_not_mounted_stay() {
    let scene = Scene::indexed(&["a.txt", "m/b.txt", "m/c.txt", "d.txt"]);
    fs::remove_dir_all(scene.path("m")).unwrap();
    fs::remove_file(scene.path("d.txt")).unwrap();
    let away: Belief<'_> = Belief::Careful(&|path, _| path.starts_with("m"));
    let found = scene.walk(None);
    let outcome = scene.catalog.apply_scan(scene.root.id, None, found, &[], true, away).unwrap();
    assert_eq!(outcome.removed, 1);
    assert_eq!(scene.names(&FileFilter::default()), ["a.txt", "m/b.txt", "m/c.txt"]);
    let root = scene.catalog.roots().unwrap().remove(0);
    assert!(root.available && root.problem.contains("2 files") && root.problem.contains("not mounted"), "{root:?}");
    assert_eq!(scene.scan().removed, 2);
    assert_eq!(scene.catalog.roots().unwrap().remove(0).problem, "");
}

#[test]
fn the_walks_verdict_is_taken_back_by_a_walk_only() {
    let scene = Scene::new(&["empty.txt", "large.txt", "odd.txt"]);
    scene.write("empty.txt", "");
    scene.write("large.txt", &"x".repeat(2000));
    scene.scan();
    assert_eq!(scene.record("empty.txt").unwrap().reason, Some(Reason::Empty));
    assert_eq!(scene.record("large.txt").unwrap().reason, Some(Reason::TooLarge));
    let odd = scene.record("odd.txt").unwrap();
    let reason = |reason| ReasonMark {
        id: odd.id,
        size: odd.found.size,
        modified_ns: odd.found.modified_ns,
        reason,
        detail: "why".into(),
        hash: None,
        kind: FileKind::Other,
        media_type: String::new(),
    };
    assert_eq!(scene.catalog.mark_reason(&[reason(Reason::TooLarge)]).unwrap(), 1);
    assert_eq!(scene.scan(), outcome(0, 0, 3, 0, 0));
    assert_eq!(scene.state("odd.txt"), FileState::Skipped);
    assert_eq!(scene.catalog.requeue(&RequeueScope::All).unwrap(), 1, "skips of the walk stay");
    scene.write("empty.txt", "no more");
    scene.write("large.txt", "no more");
    assert_eq!(scene.scan(), outcome(0, 2, 1, 0, 0));
    assert_eq!(scene.index(), 3);
    scene.write("large.txt", &"x".repeat(2000));
    let old = scene.id("large.txt");
    assert_eq!(scene.scan(), outcome(0, 1, 2, 0, 0));
    assert_eq!(scene.catalog.tombstones(10).unwrap(), [old], "its chunks have to leave the store");
    assert_eq!(scene.state("large.txt"), FileState::Skipped);
}

#[test]
fn a_mark_is_refused_when_the_file_changed_meanwhile() {
    let scene = Scene::new(&["a.txt"]);
    scene.scan();
    let read = mark(&scene.record("a.txt").unwrap());
    scene.write("a.txt", "changed while it was read");
    scene.scan();
    assert_eq!(scene.catalog.mark_indexed(std::slice::from_ref(&read)).unwrap(), 0);
    assert_eq!(scene.state("a.txt"), FileState::Pending);
    fs::remove_file(scene.path("a.txt")).unwrap();
    scene.scan_within(Some("a.txt"));
    assert_eq!(scene.catalog.mark_indexed(&[read]).unwrap(), 0);
}

#[test]
fn a_file_that_ends_the_process_twice_fails_and_is_tried_again_when_it_changes() {
    let scene = Scene::new(&["poison.txt", "good.txt"]);
    scene.scan();
    let id = scene.id("poison.txt");
    for _ in 0..3 {
        scene.catalog.begin_try(&[id]).unwrap();
        scene.catalog.clear_tries().unwrap();
    }
    scene.catalog.begin_try(&[id]).unwrap();
    assert_eq!(scene.catalog.next_pending(0, 10).unwrap().len(), 2, "one crash is no proof");
    scene.catalog.begin_try(&[id]).unwrap();
    let path = scene.dir.path().join("catalog.sqlite");
    let reopened = Catalog::open(&path).unwrap();
    assert_eq!(reopened.next_pending(0, 10).unwrap().len(), 1);
    let record = scene.record("poison.txt").unwrap();
    assert_eq!((record.state, record.reason), (FileState::Failed, Some(Reason::WorkerCrash)));
    scene.write("poison.txt", "an antidote");
    scene.scan();
    assert_eq!((scene.state("poison.txt"), scene.record("poison.txt").unwrap().tries), (FileState::Pending, 0));
}

#[test]
fn pending_files_come_page_by_page() {
    let scene = Scene::new(&["a", "b", "c", "d", "e"]);
    scene.scan();
    let mut seen = Vec::new();
    loop {
        let page = scene.catalog.next_pending(seen.last().copied().unwrap_or(0), 2).unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page.iter().map(|it| it.id));
    }
    assert_eq!(seen, scene.catalog.select(&FileFilter::default()).unwrap());
    assert_eq!(scene.catalog.pending_count(Some(scene.root.id)).unwrap(), 5);
    assert_eq!(scene.catalog.pending_count(Some(scene.root.id + 1)).unwrap(), 0);
}

#[test]
fn what_is_pending_below_a_path_is_taken_once() {
    let scene = Scene::indexed(&["old.txt"]);
    ["d/a.txt", "d/b.txt", "d-2/c.txt"].iter().for_each(|it| scene.write(it, it));
    scene.scan();
    let check = |path: &str, limit: usize, expected: usize| {
        let files = scene.catalog.untried(scene.root.id, Path::new(path), limit).unwrap();
        assert_eq!(files.len(), expected, "{path}");
        files.into_iter().map(|it| it.0).collect::<Vec<_>>()
    };
    for (path, limit, expected) in [("d/a.txt", 9, 1), ("d", 9, 2), ("d", 1, 1), ("", 9, 3), ("old.txt", 9, 0)] {
        check(path, limit, expected);
    }
    assert_eq!(scene.catalog.untried(scene.root.id, Path::new("d/a.txt"), 9).unwrap(), [(scene.id("d/a.txt"), 7)]);
    let ids = [check("d", 9, 2), vec![scene.id("old.txt"), 99]].concat();
    assert_eq!(scene.catalog.begin_untried(&ids).unwrap().len(), 2);
    assert_eq!(scene.catalog.begin_untried(&ids).unwrap(), []);
    check("d", 9, 0);
}

#[test]
fn a_copy_is_known_by_its_content_as_long_as_the_original_is_indexed() {
    let scene = Scene::indexed(&["a.txt"]);
    let record = scene.record("a.txt").unwrap();
    assert_eq!(scene.catalog.same_content(record.hash.unwrap()).unwrap(), Some(record.id));
    assert_eq!(scene.catalog.same_content(ContentHash([7; 32])).unwrap(), None);
    fs::remove_file(scene.path("a.txt")).unwrap();
    scene.scan_within(Some("a.txt"));
    assert_eq!(scene.catalog.same_content(record.hash.unwrap()).unwrap(), None);
}

#[test]
fn files_are_requeued_by_scope() {
    let scene = Scene::indexed(&["a.txt", "d/b.txt", "d/c.txt"]);
    let count = |scope| {
        let requeued = scene.catalog.requeue(&scope).unwrap();
        assert_eq!(scene.catalog.pending_count(None).unwrap(), requeued);
        assert_eq!(scene.index(), requeued);
        requeued
    };
    assert_eq!(count(RequeueScope::All), 3);
    assert_eq!(count(RequeueScope::Under(scene.path("d"))), 2);
    assert_eq!(count(RequeueScope::Under(scene.dir.path().canonicalize().unwrap())), 3);
    assert_eq!(count(RequeueScope::Under("/elsewhere".into())), 0);
    assert_eq!(count(RequeueScope::Ids(vec![scene.id("a.txt"), 99])), 1);
}

#[test]
fn files_are_found_by_the_words_of_their_names_those_with_most_first() {
    let scene = Scene::indexed(&["quay lease 2024.pdf", "old/lease.md", "quay.md", "plan.md"]);
    scene.write("lease of the quay.txt", "new");
    scene.scan();
    let check = |filter: &FileFilter, states: &[FileState], words: &[&str], limit: usize, expected: &[&str]| {
        let words: Vec<String> = words.iter().map(|it| (*it).into()).collect();
        let found = scene.catalog.named(filter, states, &words, limit).unwrap();
        let names: Vec<_> = found.iter().map(|it| it.found.path.to_str().unwrap()).collect();
        assert_eq!(names, expected, "{words:?}");
    };
    let any = FileFilter::default();
    let both = ["lease of the quay.txt", "quay lease 2024.pdf"];
    check(&any, &[], &["Quay", "lease"], 9, &[both[0], both[1], "old/lease.md", "quay.md"]);
    check(&any, &[], &["quay", "lease"], 1, &both[..1]);
    check(&any, &[], &["quay", "lease", "2024"], 9, &[both[1], both[0]]);
    check(&any, &[FileState::Pending, FileState::Failed], &["lease"], 9, &both[..1]);
    check(&FileFilter { path_glob: Some("*.md".into()), ..any.clone() }, &[], &["lease"], 9, &["old/lease.md"]);
    check(&any, &[], &[], 9, &[]);
    check(&any, &[], &["%"], 9, &[]);
}

#[test]
fn what_lies_outside_a_scope_is_neither_found_nor_counted() {
    let scene = Scene::indexed(&["notes/budget.md", "notes/deep/plan.md", "img.png"]);
    let check = |filter: FileFilter, expected: &[&str]| assert_eq!(scene.names(&filter), expected, "{filter:?}");
    let scope = |folders: &[&str]| Scope::Folders(folders.iter().map(|it| scene.path(it)).collect());
    let within = |folders: &[&str]| FileFilter { within: scope(folders), ..FileFilter::default() };
    check(within(&["notes"]), &["notes/budget.md", "notes/deep/plan.md"]);
    check(within(&["notes/deep", "img.png", "elsewhere"]), &["img.png", "notes/deep/plan.md"]);
    check(FileFilter { under: Some("/".into()), ..within(&["note"]) }, &[]);
    check(within(&[]), &[]);
    for (folders, found) in [(&["notes"][..], 2), (&["notes", "img.png"], 3), (&["note"], 0)] {
        assert_eq!(scene.catalog.coverage_within(&scope(folders)).unwrap().found, found, "{folders:?}");
    }
    assert_eq!(scene.catalog.coverage_within(&Scope::All).unwrap(), scene.catalog.coverage(None).unwrap());
}

#[test]
fn filters_select_by_metadata() {
    let scene = Scene::indexed(&["Budget 2024.PDF", "notes/budget.md", "notes/deep/plan.md", "img.png", "50%_off.txt"]);
    fs::File::options().write(true).open(scene.path("img.png")).unwrap().set_len(500).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000);
    fs::File::options().write(true).open(scene.path("img.png")).unwrap().set_modified(old).unwrap();
    scene.scan();
    let check = |filter: FileFilter, expected: &[&str]| assert_eq!(scene.names(&filter), expected, "{filter:?}");
    let any = FileFilter::default;
    let all = ["50%_off.txt", "Budget 2024.PDF", "img.png", "notes/budget.md", "notes/deep/plan.md"];
    check(any(), &all);
    check(FileFilter { extensions: vec!["pdf".into(), "png".into()], ..any() }, &["Budget 2024.PDF", "img.png"]);
    check(FileFilter { name_words: vec!["BUDGET".into()], ..any() }, &["Budget 2024.PDF", "notes/budget.md"]);
    check(FileFilter { name_words: vec!["budget".into(), "md".into()], ..any() }, &["notes/budget.md"]);
    check(FileFilter { name_words: vec!["%_".into()], ..any() }, &["50%_off.txt"]);
    check(FileFilter { path_glob: Some("*.md".into()), ..any() }, &["notes/budget.md", "notes/deep/plan.md"]);
    check(FileFilter { path_glob: Some("notes/*.md".into()), ..any() }, &["notes/budget.md"]);
    check(FileFilter { path_glob: Some("**/NOTES/**".into()), ..any() }, &["notes/budget.md", "notes/deep/plan.md"]);
    let root = scene.root.path.file_name().unwrap().to_str().unwrap();
    check(FileFilter { path_glob: Some(format!("**/{root}/**")), ..any() }, &all);
    check(FileFilter { path_glob: Some(format!("{root}/**")), ..any() }, &[]);
    check(FileFilter { under: Some(scene.path("notes/deep")), ..any() }, &["notes/deep/plan.md"]);
    check(FileFilter { under: Some(scene.path("img.png")), ..any() }, &["img.png"]);
    check(FileFilter { under: Some("/".into()), ..any() }, &all);
    check(FileFilter { under: Some(scene.path("note")), ..any() }, &[]);
    check(FileFilter { min_size: Some(500), max_size: Some(u64::MAX), ..any() }, &["img.png"]);
    check(FileFilter { modified_before_ns: Some(1_000_000_000_001), ..any() }, &["img.png"]);
    check(FileFilter { modified_after_ns: Some(1_000_000_000_001), ..any() }, &[all[0], all[1], all[3], all[4]]);
    check(FileFilter { state: Some(FileState::Pending), ..any() }, &["img.png"]);
    let record = scene.record("img.png").unwrap();
    check(FileFilter { owner: Some(record.owner), ..any() }, &all);
    check(FileFilter { owner: Some(record.found.uid.to_string()), ..any() }, &all);
    check(FileFilter { owner: Some("nobody-at-all".into()), ..any() }, &[]);
    let bad = FileFilter { path_glob: Some("a[".into()), ..any() };
    assert!(scene.catalog.select(&bad).unwrap_err().message.contains("a["));
}

#[test]
fn a_search_gives_pages_newest_first_with_the_total() {
    let scene = Scene::new(&["a", "b", "c"]);
    for (name, seconds) in [("a", 30), ("b", 10), ("c", 20)] {
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        fs::File::options().write(true).open(scene.path(name)).unwrap().set_modified(time).unwrap();
    }
    scene.scan();
    let page = |limit, offset| {
        let (records, total) = scene.catalog.search(&FileFilter::default(), limit, offset).unwrap();
        assert_eq!(total, 3);
        records.iter().map(|it| it.found.path.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    assert_eq!((page(2, 0), page(2, 2), page(2, 4)), (vec!["a".into(), "c".into()], vec!["b".into()], vec![]));
}

#[test]
fn roots_do_not_overlap_and_a_root_above_takes_over() {
    let scene = Scene::new(&[]);
    let (x, y) = (scene.dir.path().join("above/x"), scene.dir.path().join("above/y"));
    fs::create_dir_all(x.join("sub")).unwrap();
    fs::create_dir_all(&y).unwrap();
    let name = Path::new(OsStr::from_bytes(b"caf\xe9.txt"));
    fs::write(x.join(name), "x").unwrap();
    let scene = Scene { root: scene.catalog.add_root(&x).unwrap(), ..scene };
    assert_eq!(scene.catalog.add_root(&x.join("sub/../sub")).unwrap().id, scene.root.id);
    scene.catalog.add_root(&y).unwrap();
    scene.scan();
    scene.index();
    let id = scene.catalog.record_by_path(&scene.root.path.join(name)).unwrap().unwrap().id;
    let above = scene.catalog.add_root(&scene.dir.path().join("above")).unwrap();
    assert_eq!(scene.catalog.roots().unwrap().len(), 2);
    let scene = Scene { root: above, ..scene };
    assert_eq!(scene.scan(), outcome(0, 0, 1, 0, 0));
    let record = scene.catalog.records(&[id]).unwrap().remove(0);
    assert_eq!((record.found.path, record.state), (Path::new("x").join(name), FileState::Indexed));
    assert_eq!(scene.catalog.remove_root(scene.root.id).unwrap(), [id]);
    assert_eq!(scene.catalog.tombstones(9).unwrap(), [id]);
    assert_eq!(scene.catalog.coverage(None).unwrap().found, 0);
    assert!(scene.catalog.add_root(&scene.dir.path().join("catalog.sqlite")).is_err());
    assert!(scene.catalog.add_root(&scene.dir.path().join("missing")).is_err());
}

#[test]
fn a_removed_root_refuses_scans_and_its_number_is_not_used_again() {
    let scene = Scene::indexed(&["a.txt"]);
    scene.catalog.remove_root(scene.root.id).unwrap();
    let error = scene.catalog.apply_scan(scene.root.id, None, scene.walk(None), &[], true, CAREFUL).unwrap_err();
    assert_eq!(error.code, crate::error::ErrorCode::NotFound);
    assert!(scene.catalog.add_root(&scene.root.path).unwrap().id > scene.root.id);
}

#[test]
fn a_garbage_catalog_is_told_with_its_path_and_cure() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.sqlite");
    fs::write(&path, b"no database ".repeat(1000)).unwrap();
    let error = Catalog::open(&path).err().unwrap();
    assert_eq!(error.code, crate::error::ErrorCode::DataLoss);
    assert!(error.message.contains(path.to_str().unwrap()) && error.hint.unwrap().contains("aside"));
}

#[test]
fn values_are_kept_by_key() {
    let scene = Scene::new(&[]);
    assert_eq!(scene.catalog.meta_get("model").unwrap(), None);
    scene.catalog.meta_set("model", "a").unwrap();
    scene.catalog.meta_set("model", "b").unwrap();
    assert_eq!(scene.catalog.meta_get("model").unwrap().as_deref(), Some("b"));
}

#[test]
fn a_condition_over_a_hundred_thousand_files_takes_a_moment() {
    let scene = Scene::new(&[]);
    let file = |number: u64| FoundFile {
        path: format!("folder-{}/file-{number}.{}", number % 100, if number.is_multiple_of(4) { "pdf" } else { "md" })
            .into(),
        size: number,
        modified_ns: 1,
        changed_ns: 1,
        created_ns: None,
        inode: number + 10,
        device: 1,
        mode: 0o100_644,
        uid: 0,
        skip: None,
    };
    scene.catalog.apply_scan(scene.root.id, None, (0..100_000).map(file).collect(), &[], true, CAREFUL).unwrap();
    let any = FileFilter::default();
    let is_pdf = |row: &SievedRow| row.cells[1] == Cell::Text("pdf".into());
    let is_large = |row: &SievedRow| matches!(row.cells[0], Cell::Number(size) if size >= 50_000);
    let sift = || {
        let begun = std::time::Instant::now();
        let found =
            scene.catalog.sieve(&any, &[Column::Size, Column::Extension], |it| is_pdf(it) && is_large(it)).unwrap();
        (found.len(), begun.elapsed())
    };
    let runs: Vec<_> = (0..5).map(|_| sift()).collect();
    let quickest = runs.iter().map(|it| it.1).min().unwrap();
    println!("100,000 files sifted in {quickest:?}");
    assert!(runs.iter().all(|it| it.0 == 12_500), "{runs:?}");
    // A tenth of a second is promised; without optimisation, on a busy machine, it may take some times that.
    assert!(quickest.as_millis() < 500, "{quickest:?}");
    assert_eq!(scene.catalog.all_records(&any).unwrap().len(), 100_000);
}
