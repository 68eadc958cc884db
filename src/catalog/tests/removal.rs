//! Tests: which vanished files are deleted from the catalog, and which are kept.

use super::*;

#[test]
fn removed_folder_removes_only_its_files() {
    let scene = CatalogFixture::indexed(&["d/a.txt", "d/e/b.txt", "d.txt", "d-2/c.txt", "d0"]);
    fs::remove_dir_all(scene.path("d")).unwrap();
    assert_eq!(scene.scan_within(Some("d")), outcome(0, 0, 0, 0, 2));
    assert_eq!(scene.scan_within(Some("gone")), outcome(0, 0, 0, 0, 0));
    assert_eq!(scene.names(&FileFilter::default()), ["d-2/c.txt", "d.txt", "d0"]);
    fs::remove_dir_all(scene.path("d-2")).unwrap();
    assert_eq!(scene.scan_within(Some("d-2")), outcome(0, 0, 0, 0, 1));
    assert_eq!(scene.names(&FileFilter::default()), ["d.txt", "d0"]);
}

#[test]
fn files_outside_walked_area_are_kept() {
    let scene = CatalogFixture::indexed(&["a.txt", "locked/b.txt", "locked/deep/c.txt", "locked-not/d.txt"]);
    let found = || scene.walk(Some("a.txt"));
    let locked = [PathBuf::from("locked")];
    let root = scene.root.id;
    assert_eq!(scene.catalog.apply_scan(root, None, found(), &locked, false, CAUTIOUS).unwrap().removed, 0);
    assert_eq!(scene.catalog.apply_scan(root, None, found(), &locked, true, CAUTIOUS).unwrap().removed, 1);
    assert_eq!(scene.names(&FileFilter::default()), ["a.txt", "locked/b.txt", "locked/deep/c.txt"]);
    assert_eq!(scene.scan(), outcome(1, 0, 3, 0, 0));
}

#[test]
fn suddenly_empty_root_is_kept_and_reported() {
    let scene = CatalogFixture::indexed(&["a.txt"]);
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
fn loss_of_more_than_half_needs_confirmation() {
    let names: Vec<String> = (0..24).map(|it| format!("{}/{it}.txt", it % 3)).collect();
    let scene = CatalogFixture::indexed(&names.iter().map(String::as_str).collect::<Vec<_>>());
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
    assert_eq!(scene.scan().removed, 8, "the removal of a third is accepted");
    assert!(root().available && root().problem.is_empty(), "{:?}", root());
    fs::remove_dir_all(scene.path("0")).unwrap();
    fs::remove_dir_all(scene.path("2")).unwrap();
    assert_eq!(scene.scan().removed, 0);
    let removed =
        scene.catalog.apply_scan(scene.root.id, None, Vec::new(), &[], true, DeletionPolicy::All).unwrap().removed;
    assert_eq!((removed, count(), root().available), (16, 0, true));
}

#[test]
fn observed_folder_removal_is_accepted_at_any_share() {
    let names: Vec<String> = (0..30).map(|it| format!("d/{it}.txt")).chain(["a.txt".into()]).collect();
    let scene = CatalogFixture::indexed(&names.iter().map(String::as_str).collect::<Vec<_>>());
    fs::remove_dir_all(scene.path("d")).unwrap();
    assert_eq!(scene.scan_within(Some("d")).removed, 30);
}

// Case A12
#[test]
fn files_of_unmounted_file_system_are_kept() {
    let scene = CatalogFixture::indexed(&["a.txt", "m/b.txt", "m/c.txt", "d.txt"]);
    fs::remove_dir_all(scene.path("m")).unwrap();
    fs::remove_file(scene.path("d.txt")).unwrap();
    let away: DeletionPolicy<'_> = DeletionPolicy::Cautious(&|path, _| path.starts_with("m"));
    let found = scene.walk(None);
    let outcome = scene.catalog.apply_scan(scene.root.id, None, found, &[], true, away).unwrap();
    assert_eq!(outcome.removed, 1);
    assert_eq!(scene.names(&FileFilter::default()), ["a.txt", "m/b.txt", "m/c.txt"]);
    let root = scene.catalog.roots().unwrap().remove(0);
    assert!(root.available && root.problem.contains("2 files") && root.problem.contains("not mounted"), "{root:?}");
    assert_eq!(scene.scan().removed, 2);
    assert_eq!(scene.catalog.roots().unwrap().remove(0).problem, "");
}

// Case A12
#[test]
fn missing_file_is_removed_after_device_number_changed() {
    let scene = CatalogFixture::indexed(&["a.txt", "b.txt", "c.txt"]);
    fs::remove_file(scene.path("b.txt")).unwrap();
    let mut found = scene.walk(None);
    let before = found[0].device;
    found.iter_mut().for_each(|it| it.device = before + 1);
    let away = |_: &std::path::Path, device: u64| device == before;
    let outcome =
        scene.catalog.apply_scan(scene.root.id, None, found, &[], true, DeletionPolicy::Cautious(&away)).unwrap();
    assert_eq!(outcome.removed, 1);
    assert_eq!(scene.names(&FileFilter::default()), ["a.txt", "c.txt"]);
}

// Case B12
#[test]
fn stored_but_unmarked_file_becomes_tombstone() {
    // As if vic was killed after the store had committed the chunks and before the catalog marked the files.
    let scene = CatalogFixture::new(&["a.txt", "b.txt"]);
    scene.scan();
    let emptied = scene.id("a.txt");
    scene.write("a.txt", "");
    scene.scan();
    assert_eq!(scene.record("a.txt").unwrap().reason, Some(Reason::Empty));
    assert_eq!(scene.catalog.tombstones(9).unwrap(), [emptied]);
    let left = |is_stored: bool| scene.catalog.paths_of_removed(&[emptied], &|_| is_stored).unwrap();
    assert_eq!((left(false), left(true)), (Some(Vec::new()), Some(vec![scene.path("a.txt")])));
    scene.catalog.remove_root(scene.root.id).unwrap();
    assert_eq!((left(false), left(true)), (Some(Vec::new()), None));
}
