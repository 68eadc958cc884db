//! Tests of the search by file names and by names inside files.

use crate::catalog::tests::*;

impl CatalogFixture {
    /// Returns the files whose names match a question, best first.
    fn find_named(&self, question: &str) -> Vec<String> {
        self.find_named_among(question, None)
    }

    fn find_named_among(&self, question: &str, among: Option<&[FileId]>) -> Vec<String> {
        let named = self.catalog.find_by_name(&name_words(question), among, 9).unwrap();
        let ids: Vec<FileId> = named.iter().map(|it| it.file_id).collect();
        assert!(named.iter().all(|it| (0.0..=1.0).contains(&it.share) && !it.matched_words.is_empty()));
        let records = self.catalog.records(&ids).unwrap();
        records.iter().map(|it| it.found.path.to_string_lossy().into()).collect()
    }

    fn find_phrase(&self, run: &[&str]) -> Vec<String> {
        let run: Vec<String> = run.iter().map(|it| (*it).to_string()).collect();
        let records = self.catalog.records(&self.catalog.with_name_phrase(&run).unwrap()).unwrap();
        records.iter().map(|it| it.found.path.to_string_lossy().into()).collect()
    }

    /// Marks a file as indexed with these names inside it.
    fn read(&self, file: &str, names: &[&str]) {
        let contents = Contents { names: names.iter().map(|it| (*it).into()).collect(), ..Contents::default() };
        let mark = IndexedMark { contents, ..mark(&self.record(file).unwrap()) };
        assert_eq!(self.catalog.mark_indexed(&[mark]).unwrap(), 1);
    }
}

#[test]
fn name_search_ranks_rare_words_first() {
    let files = ["tariff-register-omega.txt", "tariff-register-2.txt", "tariff-3.txt", "winter ledger.txt", "note.txt"];
    let scene = CatalogFixture::indexed(&files);
    assert_eq!(scene.find_named("omega")[0], "tariff-register-omega.txt");
    assert_eq!(
        scene.find_named("the tariff register"),
        ["tariff-register-omega.txt", "tariff-register-2.txt", "tariff-3.txt"]
    );
    assert_eq!(scene.find_named("Winter-Ledgers")[0], "winter ledger.txt");
    assert_eq!(scene.find_named("winter ledger.txt")[0], "winter ledger.txt");
    assert!(
        scene.find_named("harbour").is_empty()
            && scene.find_named("").is_empty()
            && scene.find_named("\" * -").is_empty()
    );
}

#[test]
fn name_search_ignores_case_accents_and_joints() {
    let files = [
        "\u{dc}bersicht.md",
        "u\u{308}bung.md",
        "Stra\u{df}e/plan.md",
        "WinterLedger2024.md",
        "\u{5951}\u{7d04}\u{66f8}.pdf",
    ];
    let scene = CatalogFixture::indexed(&files);
    for (question, at) in [
        ("ubersicht", 0),
        ("\u{fc}bung", 1),
        ("strasse", 2),
        ("winter ledger", 3),
        ("2024", 3),
        ("winterledger2024", 3),
        ("\u{5951}\u{7d04}", 4),
    ] {
        assert_eq!(scene.find_named(question).first().map(String::as_str), Some(files[at]), "{question}");
    }
}

#[test]
fn inner_names_are_searchable_until_file_changes() {
    let scene = CatalogFixture::new(&["mail.eml", "photos.zip"]);
    scene.scan();
    scene.read("mail.eml", &["pump-plan.pdf", "a\nb.txt"]);
    scene.read("photos.zip", &["2024/Heronsong.mp4"]);
    assert_eq!(scene.find_named("pump plan"), ["mail.eml"]);
    assert_eq!(scene.find_named("heronsong"), ["photos.zip"]);
    let (mail, archive) = (scene.id("mail.eml"), scene.id("photos.zip"));
    let contents = scene.catalog.inner_contents(&[mail, archive]).unwrap();
    assert_eq!(contents[&mail].names, ["pump-plan.pdf", "a b.txt"]);
    let with = FileFilter { with_inner_names: true, ..FileFilter::default() };
    assert_eq!(scene.names(&with), ["mail.eml", "photos.zip"]);
    // After a reindex, the mail contains other names; a removed file has none.
    scene.catalog.requeue(&RequeueScope::All).unwrap();
    scene.read("mail.eml", &["valve.pdf"]);
    assert!(scene.find_named("pump plan").is_empty());
    assert_eq!(scene.find_named("valve"), ["mail.eml"]);
    fs::remove_file(scene.path("photos.zip")).unwrap();
    scene.scan();
    assert!(scene.find_named("heronsong").is_empty() && scene.catalog.inner_contents(&[archive]).unwrap().is_empty());
    scene.catalog.compact_names().unwrap();
    assert_eq!(scene.find_named("valve"), ["mail.eml"]);
}

#[test]
fn name_index_follows_new_renamed_and_removed_files() {
    let scene = CatalogFixture::indexed(&["heron.md", "old/pike.md", "old/perch.md"]);
    scene.write("heron 2.md", "new");
    scene.scan();
    assert_eq!(scene.find_named("heron").len(), 2);
    // Renames reported by the watcher: a file, and a folder.
    let rename = |from: &str, to: &str| {
        fs::rename(scene.path(from), scene.path(to)).unwrap();
        scene.catalog.rename_trees(scene.root.id, &[(from.into(), to.into())], &|_| None).unwrap();
    };
    rename("heron.md", "bittern.md");
    rename("old", "new");
    assert_eq!(
        (scene.find_named("heron"), scene.find_named("bittern")),
        (vec!["heron 2.md".into()], vec!["bittern.md".into()])
    );
    assert_eq!((scene.find_named("pike"), scene.find_named("old")), (vec!["new/pike.md".to_string()], vec![]));
    // Renames and removals found by a walk.
    fs::rename(scene.path("new/perch.md"), scene.path("new/tench.md")).unwrap();
    fs::remove_file(scene.path("heron 2.md")).unwrap();
    scene.scan();
    assert_eq!((scene.find_named("perch"), scene.find_named("heron")), (vec![], Vec::<String>::new()));
    assert_eq!(scene.find_named("tench"), ["new/tench.md"]);
    // An outer root takes over the files of this root; then every root is removed.
    scene.catalog.add_root(scene.dir.path()).unwrap();
    assert_eq!(scene.find_named("root tench")[0], "root/new/tench.md");
    while let Some(root) = scene.catalog.roots().unwrap().pop() {
        scene.catalog.remove_root(root.id).unwrap();
    }
    assert!(scene.find_named("tench").is_empty());
}

#[test]
fn name_phrase_matches_one_name_in_order() {
    let scene = CatalogFixture::indexed(&["tariff-register-omega.txt", "register/tariff.txt", "TariffRegister.md"]);
    assert_eq!(scene.find_phrase(&["tariff", "register"]), ["TariffRegister.md", "tariff-register-omega.txt"]);
    assert_eq!(scene.find_phrase(&["OMEGA"]), ["tariff-register-omega.txt"]);
    assert!(scene.find_phrase(&["register", "tariff"]).is_empty() && scene.find_phrase(&["omeg"]).is_empty());
}

#[test]
fn disallowed_files_do_not_displace_allowed_ones() {
    let scene = CatalogFixture::new(&["old/IMG_of_herons.png"]);
    scene.scan();
    // Creates more matches than the limit of a common word, all newer than the allowed file.
    (0..6_050).for_each(|it| scene.write(&format!("IMG_{it}.png"), "a picture"));
    scene.scan();
    let only = [scene.id("old/IMG_of_herons.png")];
    assert_eq!(scene.find_named_among("img", Some(&only)), ["old/IMG_of_herons.png"]);
    let mut many: Vec<FileId> = scene.catalog.select(&FileFilter::default()).unwrap().into_iter().take(2_500).collect();
    many.sort_unstable();
    assert_eq!(scene.find_named_among("herons img", Some(&many))[0], "old/IMG_of_herons.png");
    assert_eq!(scene.find_named("img herons")[0], "old/IMG_of_herons.png");
    assert_eq!(scene.find_named("img").len(), 9);
    // Disallowed files do not affect the weights of words either: `img` is rare among the allowed files.
    let share = |words: &str, among: &[FileId]| {
        scene.catalog.find_by_name(&name_words(words), Some(among), 9).unwrap()[0].share
    };
    assert!((share("img zebra", &only) - share("herons zebra", &only)).abs() < 1e-6);
}

#[test]
fn upgrade_fills_names_and_requeues_containers() {
    let scene = CatalogFixture::new(&["heron.md", "mail.eml", "sheet.xlsx"]);
    scene.scan();
    for file in ["mail.eml", "sheet.xlsx"] {
        let kind = scene.record(file).unwrap().kind;
        scene.catalog.mark_indexed(&[IndexedMark { kind, ..mark(&scene.record(file).unwrap()) }]).unwrap();
    }
    scene.index();
    let path = scene.dir.path().join("catalog.sqlite");
    let old = rusqlite::Connection::open(&path).unwrap();
    let back = "DROP TABLE names; ALTER TABLE files DROP COLUMN inner_names; ALTER TABLE files DROP COLUMN mail_first_ns; \
                ALTER TABLE files DROP COLUMN mail_last_ns; PRAGMA user_version = 4;";
    old.execute_batch(back).unwrap();
    // Drops the columns that later formats added, if there are any.
    old.execute_batch("ALTER TABLE roots DROP COLUMN above").ok();
    old.execute_batch("DROP INDEX files_language; ALTER TABLE files DROP COLUMN language").ok();
    old.execute_batch("ALTER TABLE files DROP COLUMN authors").ok();
    old.execute_batch("ALTER TABLE files DROP COLUMN subject").ok();
    drop(old);
    let scene = CatalogFixture { catalog: Catalog::open(&path).unwrap(), ..scene };
    assert!(scene.find_named("heron").is_empty());
    assert_eq!(
        ["heron.md", "mail.eml", "sheet.xlsx"].map(|it| scene.state(it) == FileState::Pending),
        [false, true, true]
    );
    // Renames a file before the fill reaches it.
    fs::rename(scene.path("heron.md"), scene.path("bittern.md")).unwrap();
    scene.apply_rename_event("heron.md", "bittern.md");
    scene.catalog.fill_names(&|| false).unwrap();
    assert!(scene.find_named("mail").is_empty());
    scene.catalog.fill_names(&|| true).unwrap();
    assert_eq!(
        (scene.find_named("mail"), scene.find_named("bittern")),
        (vec!["mail.eml".into()], vec!["bittern.md".into()])
    );
    assert!(scene.find_named("heron").is_empty());
    scene.write("new heron.md", "new");
    scene.scan();
    assert_eq!(scene.find_named("heron"), ["new heron.md"]);
}

#[test]
fn large_adopted_root_is_reindexed_by_fill_names() {
    let scene = CatalogFixture::new(&[]);
    (0..2_100).for_each(|it| scene.write(&format!("img-{it}.png"), "a picture"));
    scene.scan();
    let above = scene.path("").parent().unwrap().to_path_buf();
    let folder = scene.path("").file_name().unwrap().to_string_lossy().into_owned();
    scene.catalog.add_root(&above).unwrap();
    assert!(scene.find_named(&folder).is_empty());
    scene.catalog.fill_names(&|| true).unwrap();
    assert_eq!(scene.find_named(&folder).len(), 9);
}

#[test]
fn mail_filter_uses_sent_date() {
    let scene = CatalogFixture::new(&["old.eml", "box.mbox", "plain.eml"]);
    scene.scan();
    for (file, sent_ns) in [("old.eml", Some((5, 5))), ("box.mbox", Some((2, 9))), ("plain.eml", None)] {
        let contents = Contents { sent_ns, ..Contents::default() };
        scene.catalog.mark_indexed(&[IndexedMark { contents, ..mark(&scene.record(file).unwrap()) }]).unwrap();
    }
    let within = |after, before| FileFilter {
        mail_dates: true,
        modified_after_ns: Some(after),
        modified_before_ns: Some(before),
        ..FileFilter::default()
    };
    assert_eq!(scene.names(&within(4, 6)), ["box.mbox", "old.eml"]);
    assert_eq!(scene.names(&within(8, 10)), ["box.mbox"]);
    assert_eq!(scene.names(&within(10, i64::MAX)), ["plain.eml"]);
    assert!(scene.names(&FileFilter { mail_dates: false, ..within(1, 10) }).is_empty());
}
