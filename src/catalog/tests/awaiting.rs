use super::*;

/// Has a file read, with so many chunks that wait.
fn mark_awaiting(scene: &Scene, file: &str, awaiting: u32) {
    scene.catalog.requeue(&RequeueScope::Ids(vec![scene.id(file)])).unwrap();
    let mark = IndexedMark { awaiting, chunks: 9, ..mark(&scene.record(file).unwrap()) };
    scene.catalog.mark_indexed(&[mark]).unwrap();
}

fn age(scene: &Scene, file: &str, days: u64) {
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(days * 24 * 60 * 60);
    fs::File::open(scene.path(file)).unwrap().set_modified(then).unwrap();
}

#[test]
fn recent_files_get_their_vectors_before_old_ones_and_small_before_large() {
    let scene = Scene::new(&["old-small", "recent-large", "recent-small", "old-large", "whole"]);
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
    assert_eq!(scene.catalog.awaiting(recent_ns).unwrap(), order);
    assert_eq!((scene.catalog.awaiting_chunks().unwrap(), scene.catalog.any_awaiting().unwrap()), (16, true));
    let coverage = scene.catalog.coverage(None).unwrap();
    assert_eq!((coverage.indexed, coverage.awaiting_vectors), (5, 4));
    let elsewhere = Scope::Folders([PathBuf::from("/elsewhere")].into());
    assert_eq!(scene.catalog.coverage_within(&elsewhere).unwrap().awaiting_vectors, 0);
}

#[test]
fn a_file_waits_for_its_vectors_until_it_has_them_or_is_read_again() {
    let scene = Scene::new(&["a", "b", "c"]);
    scene.scan();
    ["a", "b", "c"].iter().for_each(|it| mark_awaiting(&scene, it, 2));
    mark_awaiting(&scene, "a", 0);
    scene.write("b", "another text");
    scene.scan();
    fs::remove_file(scene.path("c")).unwrap();
    scene.scan();
    assert_eq!(scene.catalog.awaiting(0).unwrap(), [0; 0]);
    assert_eq!(scene.catalog.coverage(None).unwrap().awaiting_vectors, 0);
}

#[test]
fn vectors_of_a_file_that_is_to_be_read_again_do_not_say_that_it_was() {
    let scene = Scene::new(&["a", "b", "c"]);
    scene.scan();
    ["a", "b", "c"].iter().for_each(|it| mark_awaiting(&scene, it, 9));
    let made = |file| IndexedMark { chunks: 9, ..mark(&scene.record(file).unwrap()) };
    let marks = [made("a"), made("b"), IndexedMark { chunks: 8, ..made("c") }];
    scene.catalog.requeue(&RequeueScope::Ids(vec![scene.id("b")])).unwrap();
    assert_eq!(scene.catalog.mark_vectors(&marks).unwrap(), 1);
    assert_eq!((scene.state("a"), scene.state("b")), (FileState::Indexed, FileState::Pending));
    assert_eq!(scene.catalog.awaiting(0).unwrap(), [scene.id("c")], "evidence came beside it");
    assert_eq!(scene.catalog.awaiting_of(scene.id("b")).unwrap(), 9, "a copy of it waits as it does");
    assert_eq!(scene.catalog.all_untried(9).unwrap(), [scene.id("b")]);
}

#[test]
fn a_file_whose_vectors_are_refused_waits_no_longer_and_one_that_changed_meanwhile_stays_as_it_is() {
    let scene = Scene::new(&["a", "b", "c"]);
    scene.scan();
    ["a", "b", "c"].iter().for_each(|it| mark_awaiting(&scene, it, 9));
    let refused = |file, chunks| {
        let record = scene.record(file).unwrap();
        let (kind, media_type, hash) = (record.kind, record.media_type.clone(), record.hash);
        let reason = Reason::EmbedFailed;
        (
            ReasonMark {
                file: AsRead::of(&record),
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
    assert_eq!(scene.catalog.awaiting(0).unwrap(), [scene.id("c")]);
}
