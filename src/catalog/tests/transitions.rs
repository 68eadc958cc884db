//! Tests of the marks: what they record, and when they are refused.

use crate::catalog::tests::*;

// Case C14
#[test]
fn mark_is_refused_after_file_changed() {
    let scene = CatalogFixture::new(&["a.txt"]);
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

// Case C14
#[test]
fn mark_is_refused_after_mode_inode_or_type_changed() {
    let check = |change: &dyn Fn(&CatalogFixture), path: &str, marked: u64| {
        let scene = CatalogFixture::new(&["a.txt"]);
        scene.scan();
        let read = scene.record("a.txt").unwrap();
        let time = scene.path("a.txt").metadata().unwrap().modified().unwrap();
        change(&scene);
        fs::File::open(scene.path(path)).unwrap().set_modified(time).unwrap();
        scene.scan();
        let now = scene.record(path).unwrap();
        assert_eq!((now.id, now.found.size, now.found.modified_ns), (read.id, read.found.size, read.found.modified_ns));
        assert_eq!(FileStamp::new(&read).matches(&now), marked == 1, "{path}");
        assert_eq!(scene.catalog.mark_indexed(&[mark(&read)]).unwrap(), marked, "{path}");
        // Marks the file again, which must be refused because it is no longer pending.
        assert_eq!(scene.catalog.mark_indexed(&[mark(&read)]).unwrap(), 0);
    };
    let rename = |scene: &CatalogFixture, to: &str| {
        fs::rename(scene.path("a.txt"), scene.path(to)).unwrap();
        scene.apply_rename_event("a.txt", to);
    };
    check(&|it| fs::set_permissions(it.path("a.txt"), fs::Permissions::from_mode(0o600)).unwrap(), "a.txt", 0);
    check(
        &|it| {
            it.write("other", "a.tx!");
            fs::rename(it.path("other"), it.path("a.txt")).unwrap();
        },
        "a.txt",
        0,
    );
    check(&|it| rename(it, "a.md"), "a.md", 0);
    let scene = CatalogFixture::new(&["a.txt"]);
    scene.scan();
    let read = scene.record("a.txt").unwrap();
    rename(&scene, "b.txt");
    assert_eq!(scene.catalog.mark_indexed(&[mark(&read)]).unwrap(), 1, "the path is not part of the stamp");
}

#[test]
fn without_file_keeps_hash_of_requeued_file() {
    let scene = CatalogFixture::indexed(&["a.txt", "b.txt"]);
    let hashes: std::collections::HashSet<ContentHash> =
        ["a.txt", "b.txt"].map(|it| scene.record(it).unwrap().hash.unwrap()).into_iter().collect();
    let orphans = || scene.catalog.hashes_without_file(hashes.clone()).unwrap();
    scene.catalog.requeue(&RequeueScope::All).unwrap();
    scene.catalog.requeue(&RequeueScope::All).unwrap();
    assert_eq!((scene.record("a.txt").unwrap().hash, orphans().len()), (None, 0));
    fs::remove_file(scene.path("b.txt")).unwrap();
    scene.scan();
    assert_eq!(orphans().len(), 1);
    scene.write("a.txt", "something else");
    scene.scan();
    scene.index();
    assert_eq!(orphans().len(), 2);
}

#[test]
fn file_fails_after_five_tries_and_is_retried_on_change() {
    let scene = CatalogFixture::new(&["poison.txt", "good.txt"]);
    scene.scan();
    let id = scene.id("poison.txt");
    for _ in 0..9 {
        scene.catalog.begin_try(&[id]).unwrap();
        scene.catalog.clear_tries().unwrap();
    }
    for deaths in 1..5 {
        scene.catalog.begin_try(&[id]).unwrap();
        assert_eq!(scene.catalog.next_pending(0, 10).unwrap().len(), 2, "{deaths} deaths are no proof");
    }
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

// Case C12
#[test]
fn file_fails_after_two_strikes_until_it_changes() {
    let scene = CatalogFixture::new(&["hangs.pdf", "good.txt", "slow.pdf"]);
    scene.scan();
    let (hangs, slow) = (scene.id("hangs.pdf"), scene.id("slow.pdf"));
    let restart = || {
        // An orderly shutdown resets the attempts, and a requeue does not reset the strikes of a pending file.
        scene.catalog.clear_tries().unwrap();
        scene.catalog.requeue(&RequeueScope::Ids(vec![hangs, slow])).unwrap();
        scene.catalog.fail_by_strikes().unwrap()
    };
    for id in [hangs, slow] {
        assert_eq!(scene.catalog.add_strikes(id, 1).unwrap(), 1);
    }
    assert_eq!((restart(), scene.catalog.next_pending(0, 10).unwrap().len()), (0, 3), "one strike may be bad luck");
    // A file with two strikes that is indexed in the end was only slow; its strikes are reset.
    scene.catalog.add_strikes(slow, 1).unwrap();
    scene.catalog.mark_indexed(&[mark(&scene.record("slow.pdf").unwrap())]).unwrap();
    scene.catalog.requeue(&RequeueScope::Ids(vec![slow])).unwrap();
    assert_eq!(scene.catalog.add_strikes(hangs, 1).unwrap(), 2, "before a restart and after it");
    assert_eq!(restart(), 1);
    let record = scene.record("hangs.pdf").unwrap();
    assert_eq!((record.state, record.reason), (FileState::Failed, Some(Reason::WorkerCrash)));
    // The chunks that were indexed before the file changed are orphans.
    assert_eq!((record.chunks, scene.catalog.orphaned_files(&[(hangs, 1)].into()).unwrap()), (0, vec![hangs]));
    assert_eq!(scene.catalog.next_pending(0, 10).unwrap().len(), 2);
    // A requeue after an update of the parsers, or a change of the file, resets the strikes.
    scene.catalog.requeue(&RequeueScope::Failed(None)).unwrap();
    assert_eq!((restart(), scene.state("hangs.pdf")), (0, FileState::Pending));
    scene.catalog.add_strikes(hangs, 2).unwrap();
    assert_eq!(restart(), 1);
    scene.write("hangs.pdf", "an antidote");
    scene.scan();
    assert_eq!((restart(), scene.state("hangs.pdf")), (0, FileState::Pending));
}

#[test]
fn pictures_are_listed_until_every_page_was_read() {
    let files = [
        ("a.pdf", FileKind::Pdf, "9 pages without a text layer", true),
        ("b.pdf", FileKind::Pdf, "2 pages read by OCR; 7 pages without a text layer", true),
        ("c.pdf", FileKind::Pdf, "9 pages read by OCR", false),
        ("d.pdf", FileKind::Pdf, "", false),
        ("e.png", FileKind::Image, "", true),
        ("f.png", FileKind::Image, "1 pages read by OCR", false),
        ("g.tif", FileKind::Image, "1 pages read by OCR; 3 pages without a text layer", true),
        ("h.txt", FileKind::Text, "", false),
    ];
    let scene = CatalogFixture::new(&files.map(|it| it.0));
    scene.scan();
    let marks = files.map(|(name, kind, detail, _)| IndexedMark {
        kind,
        detail: detail.into(),
        ..mark(&scene.record(name).unwrap())
    });
    scene.catalog.mark_indexed(&marks).unwrap();
    let found = scene.catalog.unread_pictures(None, false, 0, 99).unwrap();
    let mut found: Vec<String> = found.iter().map(|it| it.found.path.to_string_lossy().into()).collect();
    found.sort();
    let expected: Vec<&str> = files.iter().filter(|it| it.3).map(|it| it.0).collect();
    assert_eq!(found, expected);
}
