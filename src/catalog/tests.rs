mod pending_vectors;
mod coverage;
mod queries;
mod transitions;
mod renames;
mod name_index;
mod removal;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{StatementStatus, params};

use super::*;
use crate::config::WalkConfig;
use crate::files::{Rules, WalkToken, walk};
use crate::model::{
    ContentHash, Contents, FileFilter, FileId, FileKind, FileRecord, FileState, FoundFile, Reason, Root, Scope,
};

/// The cautious deletion policy, with a function that reports every file system as mounted.
const CAUTIOUS: DeletionPolicy<'static> = DeletionPolicy::Cautious(&|_, _| false);

/// A temporary folder with files, and a catalog with this folder as its root.
struct CatalogFixture {
    dir: tempfile::TempDir,
    catalog: Catalog,
    root: Root,
}

impl CatalogFixture {
    fn new(files: &[&str]) -> CatalogFixture {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        let catalog = Catalog::open(&dir.path().join("catalog.sqlite")).unwrap();
        let root = catalog.add_root(&dir.path().join("root")).unwrap();
        let scene = CatalogFixture { dir, catalog, root };
        files.iter().for_each(|it| scene.write(it, it));
        scene
    }

    /// Returns a fixture in which every file is marked as indexed.
    fn indexed(files: &[&str]) -> CatalogFixture {
        let scene = CatalogFixture::new(files);
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
        let config = WalkConfig {
            ignore: Vec::new(),
            include_hidden: false,
            max_file_bytes: 1000,
            watch: false,
            rescan_seconds: 0,
        };
        let mut found = Vec::new();
        let (rules, leash) = (Rules::new(&config).unwrap(), WalkToken::default());
        walk(&self.root.path, &rules, within.map(Path::new), &leash, |it| found.push(it)).unwrap();
        found
    }

    fn scan(&self) -> ScanOutcome {
        self.scan_within(None)
    }

    fn scan_within(&self, within: Option<&str>) -> ScanOutcome {
        self.catalog.apply_scan(self.root.id, within.map(Path::new), self.walk(within), &[], true, CAUTIOUS).unwrap()
    }

    /// Marks every pending file as indexed.
    fn index(&self) -> u64 {
        let pending = self.catalog.next_pending(0, 1000).unwrap();
        self.catalog.mark_indexed(&pending.iter().map(mark).collect::<Vec<_>>()).unwrap()
    }

    /// Applies the event of a rename that happened some time ago.
    fn apply_rename_event(&self, from: &str, to: &str) {
        let on_disk = |path: &Path| {
            let found = self.path(path.to_str()?).symlink_metadata().ok()?;
            Some((found.dev(), found.ino()))
        };
        self.catalog.rename_trees(self.root.id, &[(from.into(), to.into())], &on_disk).unwrap();
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
        contents: Contents::default(),
        file: FileStamp::new(record),
        hash: ContentHash(hash),
        kind: FileKind::Text,
        media_type: "text/plain".into(),
        chunks: 1,
        detail: String::new(),
        language: None,
    }
}

fn outcome(added: u64, changed: u64, unchanged: u64, renamed: u64, removed: u64) -> ScanOutcome {
    ScanOutcome { found: added + changed + unchanged + renamed, added, changed, unchanged, renamed, removed }
}

#[test]
fn select_part_is_none_for_folder_above_all_roots() {
    let scene = CatalogFixture::indexed(&["a/one.txt", "b/two.txt"]);
    let selected = |filter: FileFilter| scene.catalog.select_part(&filter).unwrap().map(|it| it.len());
    let under = |path: PathBuf| FileFilter { under: Some(path), ..FileFilter::default() };
    assert_eq!(selected(under(scene.root.path.clone())), None);
    assert_eq!(selected(under(scene.dir.path().canonicalize().unwrap())), None);
    assert_eq!(selected(under(scene.path("a"))), Some(1));
    let large = FileFilter { min_size: Some(1 << 20), ..under(scene.root.path.clone()) };
    assert_eq!(selected(large), Some(0));
    let within = Scope::Folders(vec![scene.path("b")].into());
    assert_eq!(selected(FileFilter { scope: within, ..under(scene.root.path.clone()) }), Some(1));
    fs::create_dir(scene.dir.path().join("other")).unwrap();
    scene.catalog.add_root(&scene.dir.path().join("other")).unwrap();
    assert_eq!(selected(under(scene.root.path.clone())), Some(2));
}

#[test]
fn scan_counts_added_changed_unchanged_removed() {
    let scene = CatalogFixture::new(&["a.txt", "b.txt", "sub/c.txt"]);
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
fn mode_change_requeues_file_and_keeps_hash() {
    let scene = CatalogFixture::indexed(&["a.txt"]);
    let hash = scene.record("a.txt").unwrap().hash;
    fs::set_permissions(scene.path("a.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(scene.scan(), outcome(0, 1, 0, 0, 0));
    let record = scene.record("a.txt").unwrap();
    assert_eq!((record.state, record.hash, record.chunks), (FileState::Pending, hash, 1));
}

#[test]
fn restored_mtime_still_counts_as_change() {
    let scene = CatalogFixture::indexed(&["a.txt"]);
    let time = scene.path("a.txt").metadata().unwrap().modified().unwrap();
    scene.write("a.txt", "a.tx!");
    fs::File::options().write(true).open(scene.path("a.txt")).unwrap().set_modified(time).unwrap();
    assert_eq!(scene.scan(), outcome(0, 1, 0, 0, 0));
}

#[test]
fn rename_to_new_extension_or_secret_is_reclassified() {
    let scene = CatalogFixture::indexed(&["a.txt", "b.txt"]);
    fs::rename(scene.path("a.txt"), scene.path("a.md")).unwrap();
    fs::rename(scene.path("b.txt"), scene.path("b.pem")).unwrap();
    assert_eq!(scene.scan().renamed, 2);
    let record = scene.record("a.md").unwrap();
    assert_eq!((record.state, record.kind, record.extension.as_str()), (FileState::Pending, FileKind::Markup, "md"));
    assert_eq!(scene.record("b.pem").unwrap().reason, Some(Reason::Secret));
    assert_eq!(scene.catalog.tombstones(10).unwrap().len(), 1, "the chunks of the secret must leave the store");
}

#[test]
fn apply_walks_commits_once() {
    let scene = CatalogFixture::indexed(&["a.md", "b.md", "c.md", "d/e.md"]);
    fs::remove_file(scene.path("a.md")).unwrap();
    scene.write("b.md", "another");
    scene.write("new.md", "new");
    fs::remove_dir_all(scene.path("d")).unwrap();
    let commits = scene.catalog.commit_counter();
    let before = *commits.borrow();
    let places = ["a.md", "b.md", "c.md", "d", "new.md"].map(Path::new);
    let walks = places.iter().map(|place| WalkResult {
        root: scene.root.id,
        within: Some(place),
        found: scene.walk(place.to_str()),
        unreadable: &[],
        complete: true,
        ignored: HashSet::new(),
    });
    let outcomes = scene.catalog.apply_walks(walks.collect(), CAUTIOUS, ScanPass::First).unwrap();
    let expected =
        [(0, 0, 0, 0, 1), (0, 1, 0, 0, 0), (0, 0, 1, 0, 0)].map(|it| Some(outcome(it.0, it.1, it.2, it.3, it.4)));
    assert_eq!(outcomes[..3], expected);
    // A file that vanished together with its folder may have been moved, so the first scan returns `None`.
    assert_eq!(outcomes[3..], [None, Some(outcome(1, 0, 0, 0, 0))]);
    assert_eq!(*commits.borrow(), before + 1);
}

#[test]
fn unreadable_root_is_not_treated_as_empty() {
    let scene = CatalogFixture::indexed(&["mount/a.md", "mount/b.md"]);
    let seen = |unreadable: &[PathBuf]| {
        scene.catalog.apply_scan(scene.root.id, None, vec![], unreadable, true, CAUTIOUS).unwrap();
        let root = scene.catalog.roots().unwrap().remove(0);
        assert_eq!(scene.record("mount/a.md").unwrap().state, FileState::Indexed);
        root.available
    };
    assert!(seen(&["mount".into()]));
    assert!(!seen(&[]));
}

#[test]
fn walk_skip_is_undone_only_by_walk() {
    let scene = CatalogFixture::new(&["empty.txt", "large.txt", "odd.txt"]);
    scene.write("empty.txt", "");
    scene.write("large.txt", &"x".repeat(2000));
    scene.scan();
    assert_eq!(scene.record("empty.txt").unwrap().reason, Some(Reason::Empty));
    assert_eq!(scene.record("large.txt").unwrap().reason, Some(Reason::TooLarge));
    let odd = scene.record("odd.txt").unwrap();
    let reason = |reason| ReasonMark {
        file: FileStamp::new(&odd),
        reason,
        detail: "why".into(),
        hash: None,
        kind: FileKind::Other,
        media_type: String::new(),
        contents: Contents::default(),
    };
    assert_eq!(scene.catalog.mark_reason(&[reason(Reason::TooLarge)]).unwrap(), 1);
    assert_eq!(scene.scan(), outcome(0, 0, 3, 0, 0));
    assert_eq!(scene.state("odd.txt"), FileState::Skipped);
    assert_eq!(scene.catalog.requeue(&RequeueScope::All).unwrap(), 1, "files skipped by the walk stay skipped");
    scene.write("empty.txt", "no more");
    scene.write("large.txt", "no more");
    assert_eq!(scene.scan(), outcome(0, 2, 1, 0, 0));
    assert_eq!(scene.index(), 3);
    scene.write("large.txt", &"x".repeat(2000));
    let old = scene.id("large.txt");
    assert_eq!(scene.scan(), outcome(0, 1, 2, 0, 0));
    assert_eq!(scene.catalog.tombstones(10).unwrap(), [old], "its chunks must leave the store");
    assert_eq!(scene.state("large.txt"), FileState::Skipped);
}

#[test]
fn next_pending_returns_pages() {
    let scene = CatalogFixture::new(&["a", "b", "c", "d", "e"]);
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
fn begin_untried_takes_pending_files_once() {
    let scene = CatalogFixture::indexed(&["old.txt"]);
    ["d/a.txt", "d/b.txt", "d-2/c.txt"].iter().for_each(|it| scene.write(it, it));
    scene.scan();
    let check = |path: &str, limit: usize, expected: usize| {
        let files = scene.catalog.untried_below(scene.root.id, &[path.into()], limit).unwrap().concat();
        assert_eq!(files.len(), expected, "{path}");
        files.into_iter().map(|it| it.0).collect::<Vec<_>>()
    };
    for (path, limit, expected) in [("d/a.txt", 9, 1), ("d", 9, 2), ("d", 1, 1), ("", 9, 3), ("old.txt", 9, 0)] {
        check(path, limit, expected);
    }
    let several = ["d/a.txt", "old.txt"].map(PathBuf::from);
    let found = scene.catalog.untried_below(scene.root.id, &several, 9).unwrap();
    assert_eq!(found, [vec![(scene.id("d/a.txt"), 7)], vec![]]);
    assert_eq!([0, 2, 3, 9].map(|most| scene.catalog.pending_up_to(most).unwrap()), [0, 2, 3, 3]);
    let ids = [check("d", 9, 2), vec![scene.id("old.txt"), 99]].concat();
    assert_eq!(scene.catalog.begin_untried(&ids).unwrap().len(), 2);
    assert_eq!(scene.catalog.begin_untried(&ids).unwrap(), []);
    check("d", 9, 0);
}

#[test]
fn same_content_finds_copy_while_original_is_indexed() {
    let scene = CatalogFixture::indexed(&["a.txt"]);
    let record = scene.record("a.txt").unwrap();
    assert_eq!(scene.catalog.same_content(record.hash.unwrap()).unwrap(), Some(record.id));
    assert_eq!(scene.catalog.same_content(ContentHash([7; 32])).unwrap(), None);
    fs::remove_file(scene.path("a.txt")).unwrap();
    scene.scan_within(Some("a.txt"));
    assert_eq!(scene.catalog.same_content(record.hash.unwrap()).unwrap(), None);
}

#[test]
fn requeue_respects_scope() {
    let scene = CatalogFixture::indexed(&["a.txt", "d/b.txt", "d/c.txt"]);
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
fn parent_root_adopts_files_of_nested_roots() {
    let scene = CatalogFixture::new(&[]);
    let (x, y) = (scene.dir.path().join("above/x"), scene.dir.path().join("above/y"));
    fs::create_dir_all(x.join("sub")).unwrap();
    fs::create_dir_all(&y).unwrap();
    let name = Path::new(OsStr::from_bytes(b"caf\xe9.txt"));
    fs::write(x.join(name), "x").unwrap();
    let scene = CatalogFixture { root: scene.catalog.add_root(&x).unwrap(), ..scene };
    assert_eq!(scene.catalog.add_root(&x.join("sub/../sub")).unwrap().id, scene.root.id);
    scene.catalog.add_root(&y).unwrap();
    scene.scan();
    scene.index();
    let id = scene.catalog.record_by_path(&scene.root.path.join(name)).unwrap().unwrap().id;
    let above = scene.catalog.add_root(&scene.dir.path().join("above")).unwrap();
    assert_eq!(scene.catalog.roots().unwrap().len(), 2);
    let scene = CatalogFixture { root: above, ..scene };
    assert_eq!(scene.scan(), outcome(0, 0, 1, 0, 0));
    let record = scene.catalog.records(&[id]).unwrap().remove(0);
    assert_eq!((record.found.path, record.state), (Path::new("x").join(name), FileState::Indexed));
    assert!(scene.catalog.add_root(&scene.dir.path().join("catalog.sqlite")).is_err());
    assert!(scene.catalog.add_root(&scene.dir.path().join("missing")).is_err());
}

#[test]
fn nested_root_survives_adding_and_removing_parent() {
    let scene = CatalogFixture::new(&[]);
    let above = scene.dir.path().canonicalize().unwrap().join("above");
    let (x, sub) = (above.join("x"), above.join("x/sub"));
    fs::create_dir_all(&sub).unwrap();
    for file in [above.join("out.txt"), x.join("in.txt"), sub.join("deep.txt")] {
        fs::write(file, "x").unwrap();
    }
    let scene = CatalogFixture { root: scene.catalog.add_root(&x).unwrap(), ..scene };
    scene.scan();
    scene.index();
    let ids = [scene.id("in.txt"), scene.id("sub/deep.txt")];
    let inner = scene.root.id;
    let scene = CatalogFixture { root: scene.catalog.add_root(&above).unwrap(), ..scene };
    scene.catalog.add_root(&sub).unwrap();
    scene.scan();
    scene.index();
    let named = || -> Vec<PathBuf> {
        let roots = scene.catalog.named_roots().unwrap();
        roots.into_iter().map(|it| it.path).filter(|it| it.starts_with(&above)).collect()
    };
    assert_eq!(named(), [x.clone(), above.clone(), sub.clone()]);
    let out = scene.id("out.txt");
    assert_eq!(scene.catalog.remove_root(scene.root.id).unwrap(), [out], "only the files that no other root covers");
    assert_eq!(named(), [x.clone(), sub.clone()]);
    let records = scene.catalog.records(&ids).unwrap();
    let places: Vec<_> = records.iter().map(|it| (it.root_id, it.found.path.to_str().unwrap(), it.state)).collect();
    assert_eq!(places, [(inner, "in.txt", FileState::Indexed), (inner, "sub/deep.txt", FileState::Indexed)]);
    let below = scene.catalog.named_roots().unwrap().into_iter().find(|it| it.path == sub).unwrap();
    assert_eq!(scene.catalog.remove_root(below.id).unwrap(), [] as [FileId; 0], "its files belong to another root");
    let found: Vec<_> = scene.catalog.roots().unwrap().into_iter().filter(|it| it.path == x).collect();
    assert_eq!((found.len(), named()), (1, vec![x]));
}

#[test]
fn removed_root_rejects_scans_and_keeps_id_retired() {
    let scene = CatalogFixture::indexed(&["a.txt"]);
    scene.catalog.remove_root(scene.root.id).unwrap();
    let error = scene.catalog.apply_scan(scene.root.id, None, scene.walk(None), &[], true, CAUTIOUS).unwrap_err();
    assert_eq!(error.code, crate::error::ErrorCode::NotFound);
    assert!(scene.catalog.add_root(&scene.root.path).unwrap().id > scene.root.id);
}

#[test]
fn corrupt_catalog_error_names_path_and_hint() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.sqlite");
    fs::write(&path, b"no database ".repeat(1000)).unwrap();
    let error = Catalog::open(&path).err().unwrap();
    assert_eq!(error.code, crate::error::ErrorCode::DataLoss);
    assert!(error.message.contains(path.to_str().unwrap()) && error.hint.unwrap().contains("aside"));
}

#[test]
fn meta_set_overwrites_value_by_key() {
    let scene = CatalogFixture::new(&[]);
    assert_eq!(scene.catalog.meta_get("model").unwrap(), None);
    scene.catalog.meta_set("model", "a").unwrap();
    scene.catalog.meta_set("model", "b").unwrap();
    assert_eq!(scene.catalog.meta_get("model").unwrap().as_deref(), Some("b"));
}

#[test]
fn prepared_statement_is_not_replanned() {
    let scene = CatalogFixture::indexed(&["d/a.txt", "d/b.txt"]);
    let root = scene.root.id;
    let planned = scene.catalog.database.read(|db| {
        let sql = "SELECT id FROM files WHERE deleted_ns IS NULL AND root_id = ?1 AND path >= ?2 AND path < ?3";
        let mut statement = db.prepare(sql)?;
        for number in 0..9 {
            let (from, to) = (format!("d/{number}").into_bytes(), b"d/z".to_vec());
            assert_eq!(statement.query_map(params![root, from, to], |row| row.get::<_, i64>(0))?.count(), 2);
        }
        Ok(statement.get_status(StatementStatus::RePrepare))
    });
    assert_eq!(planned.unwrap(), 0);
}
