//! Tests of the selection of files by name and metadata.

use crate::catalog::tests::*;

#[test]
fn files_outside_scope_are_not_found_or_counted() {
    let scene = CatalogFixture::indexed(&["notes/budget.md", "notes/deep/plan.md", "img.png"]);
    let check = |filter: FileFilter, expected: &[&str]| assert_eq!(scene.names(&filter), expected, "{filter:?}");
    let scope = |folders: &[&str]| Scope::Folders(folders.iter().map(|it| scene.path(it)).collect());
    let within = |folders: &[&str]| FileFilter { scope: scope(folders), ..FileFilter::default() };
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
    let scene = CatalogFixture::indexed(&[
        "Budget 2024.PDF",
        "notes/budget.md",
        "notes/deep/plan.md",
        "img.png",
        "50%_off.txt",
    ]);
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
    check(FileFilter { owner: Some("unknown-owner".into()), ..any() }, &[]);
    check(
        FileFilter { name_words: vec!["md".into(), String::new(), "MD".into()], ..any() },
        &["notes/budget.md", "notes/deep/plan.md"],
    );
    for beyond in [
        FileFilter { path_glob: Some("?".repeat(500_000)), ..any() },
        FileFilter { extensions: vec!["md".into(); 1_001], ..any() },
        FileFilter { name_words: (0..17).map(|it| format!("w{it}")).collect(), ..any() },
    ] {
        assert_eq!(scene.catalog.select(&beyond).unwrap_err().code, crate::error::ErrorCode::InvalidArgument);
    }
    let bad = FileFilter { path_glob: Some("a[".into()), ..any() };
    assert!(scene.catalog.select(&bad).unwrap_err().message.contains("a["));
}

#[test]
fn search_returns_pages_newest_first_with_total() {
    let scene = CatalogFixture::new(&["a", "b", "c"]);
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
fn predicate_over_100000_files_is_fast() {
    let scene = CatalogFixture::new(&[]);
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
    scene.catalog.apply_scan(scene.root.id, None, (0..100_000).map(file).collect(), &[], true, CAUTIOUS).unwrap();
    let any = FileFilter::default();
    let is_pdf = |row: &PredicateRow| row.cells[1] == Cell::Text("pdf".into());
    let is_large = |row: &PredicateRow| matches!(row.cells[0], Cell::Number(size) if size >= 50_000);
    let sift = || {
        let begun = std::time::Instant::now();
        let found = scene
            .catalog
            .select_where(&any, &[Column::Size, Column::Extension], |it| is_pdf(it) && is_large(it))
            .unwrap();
        (found.len(), begun.elapsed())
    };
    let runs: Vec<_> = (0..5).map(|_| sift()).collect();
    let quickest = runs.iter().map(|it| it.1).min().unwrap();
    println!("100,000 files sifted in {quickest:?}");
    assert!(runs.iter().all(|it| it.0 == 12_500), "{runs:?}");
    // The target is 0.1 s; the limit is higher for an unoptimised build on a busy machine.
    assert!(quickest.as_millis() < 500, "{quickest:?}");
    assert_eq!(scene.catalog.all_records(&any).unwrap().len(), 100_000);
}
