//! Tests of renames and moves, which keep the id and the state of a file.

use crate::catalog::tests::*;

#[test]
fn renamed_file_keeps_id_and_state() {
    let scene = CatalogFixture::indexed(&["a.txt", "b.txt"]);
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
fn moved_file_with_new_permissions_is_pending() {
    use std::os::unix::fs::PermissionsExt;
    let scene = CatalogFixture::indexed(&["a.txt", "sub/b.txt", "sub/c.txt"]);
    let close = |path: &str| fs::set_permissions(scene.path(path), fs::Permissions::from_mode(0o200)).unwrap();
    fs::rename(scene.path("a.txt"), scene.path("moved.txt")).unwrap();
    close("moved.txt");
    assert_eq!(scene.scan().renamed, 1);
    assert_eq!(scene.state("moved.txt"), FileState::Pending, "detected by a walk");
    fs::rename(scene.path("sub"), scene.path("other")).unwrap();
    close("other/b.txt");
    scene.apply_rename_event("sub", "other");
    scene.scan();
    assert_eq!(scene.state("other/b.txt"), FileState::Pending, "reported by the watcher, then walked");
    assert_eq!(scene.state("other/c.txt"), FileState::Indexed);
}

#[test]
fn file_moved_during_walk_keeps_id_and_state() {
    let scene = CatalogFixture::indexed(&["a/one.md", "b/two.md"]);
    let before = scene.record("b/two.md");
    let look = |found: Vec<FoundFile>, look| {
        let left_out = HashSet::new();
        let walked =
            WalkResult { root: scene.root.id, within: None, found, unreadable: &[], complete: true, ignored: left_out };
        scene.catalog.apply_walk(walked, CAUTIOUS, look).unwrap()
    };
    // Imitates a walk that listed folder `a` before the file was moved there, and folder `b` after the file had left.
    let mut missed = scene.walk(None);
    missed.retain(|it| it.path != Path::new("b/two.md"));
    fs::rename(scene.path("b/two.md"), scene.path("a/two.md")).unwrap();
    assert_eq!(look(missed.clone(), ScanPass::First), None);
    assert_eq!(scene.record("b/two.md"), before, "nothing was changed");
    assert_eq!(look(scene.walk(None), ScanPass::First), Some(outcome(0, 0, 1, 1, 0)));
    assert_eq!((scene.id("a/two.md"), scene.state("a/two.md")), (before.unwrap().id, FileState::Indexed));
    fs::remove_file(scene.path("a/two.md")).unwrap();
    assert_eq!(look(scene.walk(None), ScanPass::First), None);
    assert_eq!(look(scene.walk(None), ScanPass::Second), Some(outcome(0, 0, 1, 0, 1)));
}

#[test]
fn hard_link_is_not_a_rename() {
    let scene = CatalogFixture::indexed(&["a.txt"]);
    fs::hard_link(scene.path("a.txt"), scene.path("b.txt")).unwrap();
    assert_eq!(scene.scan_within(Some("b.txt")), outcome(1, 0, 0, 0, 0));
    assert!(scene.record("a.txt").is_some() && scene.record("b.txt").is_some());
    fs::remove_file(scene.path("a.txt")).unwrap();
    assert_eq!(scene.scan().removed, 1);
}

#[test]
fn renamed_folder_keeps_all_files() {
    let files: Vec<String> = (0..500).map(|it| format!("old/{}/{it}.txt", it % 7)).collect();
    let scene = CatalogFixture::indexed(&files.iter().map(String::as_str).collect::<Vec<_>>());
    let ids = scene.catalog.select(&FileFilter::default()).unwrap();
    fs::rename(scene.path("old"), scene.path("new")).unwrap();
    assert_eq!(scene.catalog.rename_trees(scene.root.id, &[("old".into(), "new".into())], &|_| None).unwrap(), 500);
    assert_eq!(scene.catalog.select(&FileFilter::default()).unwrap(), ids);
    assert_eq!(scene.scan_within(Some("new")), outcome(0, 0, 500, 0, 0));
    fs::rename(scene.path("new"), scene.path("newer")).unwrap();
    assert_eq!(scene.scan(), outcome(0, 0, 0, 500, 0));
    assert_eq!(scene.catalog.select(&FileFilter::default()).unwrap(), ids);
    assert_eq!(scene.index(), 0);
}

#[test]
fn rename_event_replaces_target_without_reindexing() {
    let scene = CatalogFixture::indexed(&["a.txt", "b.txt"]);
    let (id, old) = (scene.id("a.txt"), scene.id("b.txt"));
    fs::rename(scene.path("a.txt"), scene.path("b.txt")).unwrap();
    assert_eq!(scene.catalog.rename_trees(scene.root.id, &[("a.txt".into(), "b.txt".into())], &|_| None).unwrap(), 1);
    assert_eq!((scene.id("b.txt"), scene.record("a.txt")), (id, None));
    assert_eq!(scene.catalog.tombstones(10).unwrap(), [old]);
    assert_eq!(scene.scan(), outcome(0, 0, 1, 0, 0));
}

#[test]
fn late_rename_event_keeps_file_indexed_at_target() {
    let scene = CatalogFixture::indexed(&["a.txt"]);
    scene.write("a.txt", "saved and moved at once");
    fs::rename(scene.path("a.txt"), scene.path("b.txt")).unwrap();
    scene.scan_within(Some("b.txt"));
    assert_eq!(scene.index(), 1);
    let read = scene.record("b.txt").unwrap();
    scene.apply_rename_event("a.txt", "b.txt");
    assert_eq!((scene.record("b.txt"), scene.record("a.txt")), (Some(read), None));
}

#[test]
fn late_rename_event_keeps_requeued_target() {
    let scene = CatalogFixture::new(&["a.txt"]);
    scene.scan();
    fs::rename(scene.path("a.txt"), scene.path("b.txt")).unwrap();
    scene.write("b.txt", "moved and saved at once");
    scene.scan_within(Some("b.txt"));
    let read = scene.record("b.txt").unwrap();
    scene.catalog.mark_indexed(&[mark(&read)]).unwrap();
    scene.catalog.requeue(&RequeueScope::Ids(vec![read.id])).unwrap();
    scene.apply_rename_event("a.txt", "b.txt");
    assert_eq!((scene.id("b.txt"), scene.record("a.txt")), (read.id, None));
}

// Case A6
#[test]
fn save_by_rename_keeps_old_chunks_until_reindexed() {
    for is_known in [false, true] {
        let scene = CatalogFixture::indexed(&["a.txt"]);
        let id = scene.id("a.txt");
        scene.write("new.txt", "another text");
        if is_known {
            scene.scan();
        }
        fs::rename(scene.path("new.txt"), scene.path("a.txt")).unwrap();
        scene.apply_rename_event("new.txt", "a.txt");
        scene.scan_within(Some("new.txt"));
        scene.scan_within(Some("a.txt"));
        let now = scene.record("a.txt").unwrap();
        assert_eq!((now.id, now.state, now.chunks), (id, FileState::Pending, 1));
        assert_eq!((scene.record("new.txt"), scene.index()), (None, 1));
    }
}

#[test]
fn rename_over_scanned_file_keeps_source_row() {
    let scene = CatalogFixture::indexed(&["new.txt", "old.txt"]);
    let id = scene.id("new.txt");
    fs::rename(scene.path("new.txt"), scene.path("old.txt")).unwrap();
    scene.scan_within(Some("old.txt"));
    assert_eq!(scene.state("old.txt"), FileState::Pending, "its indexed text is outdated");
    scene.apply_rename_event("new.txt", "old.txt");
    assert_eq!((scene.id("old.txt"), scene.state("old.txt")), (id, FileState::Indexed));
}

#[test]
fn io_failure_is_retried_after_move() {
    let scene = CatalogFixture::new(&["a.txt", "b.txt"]);
    scene.scan();
    for (file, reason) in [("a.txt", Reason::Io), ("b.txt", Reason::WorkerCrash)] {
        let it = scene.record(file).unwrap();
        let mark = ReasonMark {
            file: FileStamp::new(&it),
            reason,
            detail: "it was gone when it was to be read".into(),
            hash: None,
            kind: it.kind,
            media_type: String::new(),
            contents: Contents::default(),
        };
        scene.catalog.mark_reason(&[mark]).unwrap();
        fs::create_dir_all(scene.path("d")).unwrap();
        let to = format!("d/{file}");
        fs::rename(scene.path(file), scene.path(&to)).unwrap();
        scene.catalog.rename_trees(scene.root.id, &[(file.into(), (&to).into())], &|_| None).unwrap();
        scene.scan();
    }
    assert_eq!((scene.state("d/a.txt"), scene.state("d/b.txt")), (FileState::Pending, FileState::Failed));
}

#[test]
fn names_sorting_between_folder_and_its_files_are_distinct() {
    let scene = CatalogFixture::indexed(&["D.txt", "d-2/c.txt", "d.txt", "d/a.txt", "d/a/b.txt", "d0", "é.txt"]);
    let moved = scene.id("d-2/c.txt");
    scene.write("d.txt", "another text");
    fs::remove_file(scene.path("d0")).unwrap();
    fs::rename(scene.path("d-2/c.txt"), scene.path("z.txt")).unwrap();
    for new in ["d!", "d/a-1", "d/a.txt~"] {
        scene.write(new, new);
    }
    assert_eq!(scene.scan(), outcome(3, 1, 4, 1, 1));
    assert_eq!(scene.id("z.txt"), moved);
    assert_eq!(scene.state("d.txt"), FileState::Pending);
    assert_eq!(scene.scan(), outcome(0, 0, 9, 0, 0));
}

// Case A13
#[test]
fn reused_inode_is_not_a_move() {
    for (later, expected) in [(0, outcome(0, 0, 0, 1, 0)), (1, outcome(1, 0, 0, 0, 1))] {
        let scene = CatalogFixture::new(&["a.txt"]);
        let mut found = scene.walk(None);
        // Sets the creation time, because some file systems do not report one.
        found[0].created_ns = Some(1);
        scene.catalog.apply_scan(scene.root.id, None, found.clone(), &[], true, CAUTIOUS).unwrap();
        scene.index();
        found[0].path = "b.txt".into();
        found[0].created_ns = Some(1 + later);
        let scanned = scene.catalog.apply_scan(scene.root.id, None, found, &[], true, CAUTIOUS).unwrap();
        assert_eq!(scanned, expected);
    }
}
