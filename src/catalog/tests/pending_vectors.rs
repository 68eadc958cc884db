use crate::catalog::tests::*;

/// Marks a file as indexed with `awaiting` of its 9 chunks still without a vector.
fn mark_awaiting(scene: &CatalogFixture, file: &str, awaiting: u32) {
    scene.catalog.requeue(&RequeueScope::Ids(vec![scene.id(file)])).unwrap();
    let mark = IndexedMark { awaiting, chunks: 9, ..mark(&scene.record(file).unwrap()) };
    scene.catalog.mark_indexed(&[mark]).unwrap();
}

fn age(scene: &CatalogFixture, file: &str, days: u64) {
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(days * 24 * 60 * 60);
    fs::File::open(scene.path(file)).unwrap().set_modified(then).unwrap();
}

#[test]
fn awaiting_orders_recent_then_small_files_first() {
    let scene = CatalogFixture::new(&["old-small", "recent-large", "recent-small", "old-large", "whole"]);
    for file in ["old-large", "recent-large"] {
        scene.write(file, &"a long text ".repeat(9));
    }
    ["old-small", "old-large"].iter().for_each(|it| age(&scene, it, 90));
    scene.scan();
    for file in ["old-small", "recent-large", "recent-small", "old-large"] {
        mark_awaiting(&scene, file, 4);
    }
    mark_awaiting(&scene, "whole", 0);
    let month_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(30 * 24 * 60 * 60);
    let recent_ns = month_ago.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64;
    let order = ["recent-small", "recent-large", "old-small", "old-large"].map(|it| scene.id(it));
    assert_eq!(scene.catalog.awaiting_files(recent_ns).unwrap(), order);
    assert_eq!((scene.catalog.awaiting_chunks().unwrap(), scene.catalog.any_awaiting().unwrap()), (16, true));
    let coverage = scene.catalog.coverage(None).unwrap();
    assert_eq!((coverage.indexed, coverage.awaiting_vectors), (5, 4));
    let elsewhere = Scope::Folders([PathBuf::from("/elsewhere")].into());
    assert_eq!(scene.catalog.coverage_within(&elsewhere).unwrap().awaiting_vectors, 0);
}

#[test]
fn file_awaits_vectors_until_embedded_or_requeued() {
    let scene = CatalogFixture::new(&["a", "b", "c"]);
    scene.scan();
    ["a", "b", "c"].iter().for_each(|it| mark_awaiting(&scene, it, 2));
    mark_awaiting(&scene, "a", 0);
    scene.write("b", "another text");
    scene.scan();
    fs::remove_file(scene.path("c")).unwrap();
    scene.scan();
    assert_eq!(scene.catalog.awaiting_files(0).unwrap(), [0; 0]);
    assert_eq!(scene.catalog.coverage(None).unwrap().awaiting_vectors, 0);
}

#[test]
fn mark_vectors_leaves_requeued_file_pending() {
    let scene = CatalogFixture::new(&["a", "b", "c"]);
    scene.scan();
    ["a", "b", "c"].iter().for_each(|it| mark_awaiting(&scene, it, 9));
    let made = |file| IndexedMark { chunks: 9, ..mark(&scene.record(file).unwrap()) };
    let marks = [made("a"), made("b"), IndexedMark { chunks: 8, ..made("c") }];
    scene.catalog.requeue(&RequeueScope::Ids(vec![scene.id("b")])).unwrap();
    assert_eq!(scene.catalog.mark_vectors(&marks).unwrap(), 1);
    assert_eq!((scene.state("a"), scene.state("b")), (FileState::Indexed, FileState::Pending));
    assert_eq!(scene.catalog.awaiting_files(0).unwrap(), [scene.id("c")], "its number of chunks changed meanwhile");
    assert_eq!(scene.catalog.awaiting_chunks_of(scene.id("b")).unwrap(), 9, "a copy waits for as many vectors");
    assert_eq!(scene.catalog.untried_files(9).unwrap(), [scene.id("b")]);
}

#[test]
fn mark_refused_fails_unchanged_files_only() {
    let scene = CatalogFixture::new(&["a", "b", "c"]);
    scene.scan();
    ["a", "b", "c"].iter().for_each(|it| mark_awaiting(&scene, it, 9));
    let refused = |file, chunks| {
        let record = scene.record(file).unwrap();
        let (kind, media_type, hash) = (record.kind, record.media_type.clone(), record.hash);
        let reason = Reason::EmbedFailed;
        (
            ReasonMark {
                file: FileStamp::new(&record),
                reason,
                detail: "no".into(),
                hash,
                kind,
                media_type,
                contents: Contents::default(),
            },
            chunks,
        )
    };
    let marks = [refused("a", 9), refused("b", 9), refused("c", 8)];
    scene.catalog.requeue(&RequeueScope::Ids(vec![scene.id("b")])).unwrap();
    assert_eq!(scene.catalog.mark_refused(&marks).unwrap(), 1);
    let a = scene.record("a").unwrap();
    assert_eq!((a.state, a.reason, a.chunks), (FileState::Failed, Some(Reason::EmbedFailed), 0));
    assert_eq!((scene.state("b"), scene.state("c")), (FileState::Pending, FileState::Indexed));
    assert_eq!(scene.catalog.awaiting_files(0).unwrap(), [scene.id("c")]);
}
