//! Tests of `vic doctor`: databases damaged beyond the first page, unparsable key tables, and the comparison of index and
//! catalog while another index is built.

use super::*;
use crate::catalog::{DeletionPolicy, FileStamp, IndexedMark};
use crate::model::{ContentHash, Contents, FileKind, FileState, FoundFile};
use crate::store::LanceStore;

/// Creates a data directory with only a format file, and an empty folder beside it; returns both and the configuration.
fn empty() -> (tempfile::TempDir, Config, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (data, root) = (dir.path().join("data"), dir.path().join("root"));
    [&data, &root].iter().for_each(|it| std::fs::create_dir(it).unwrap());
    let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone().into_os_string())).unwrap();
    std::fs::write(config.format_path(), format!("vic data directory, format {}\n", directory::FORMAT)).unwrap();
    (dir, config, root)
}

/// Runs `vic doctor` and returns the result of the check with this name.
async fn found(config: &Config, fix: bool, name: &str) -> Check {
    let checks = doctor(config, fix).await.unwrap().checks;
    checks.into_iter().find(|it| it.name == name).unwrap()
}

#[tokio::test]
async fn databases_damaged_after_first_page_are_recreated() {
    let (dir, config, _) = empty();
    let open_all = || {
        Catalog::open_or_recover(&config.catalog_path()).unwrap();
        JobLog::open(&config.job_db_path).unwrap();
        AuditLog::open(&config.audit_path()).unwrap();
        VectorCache::open(&config.vector_cache_path(), 9).unwrap();
        EvidenceCache::open(&config.evidence_path(), 9).unwrap();
        CorpusStore::open(&config.corpus_path()).unwrap();
        GraphStore::open(&config.graph_path()).unwrap();
        TranscriptLog::open(&config.transcripts_path()).unwrap();
    };
    std::fs::create_dir_all(config.job_db_path.parent().unwrap()).unwrap();
    open_all();
    let entries = walkdir::WalkDir::new(dir.path()).into_iter().flatten().map(walkdir::DirEntry::into_path);
    let databases: Vec<PathBuf> = entries.filter(|it| it.extension().is_some_and(|it| it == "sqlite")).collect();
    assert_eq!(databases.len(), 8, "{databases:?}");
    for path in &databases {
        catalog::flush_database(path).unwrap();
        // Damages everything but the first page, whose header makes the file look like a database.
        let mut content = std::fs::read(path).unwrap();
        content[4096..].fill(0xA5);
        std::fs::write(path, content).unwrap();
    }
    let problems = doctor(&config, false).await.unwrap().checks;
    for path in &databases {
        let named = format!("`{}`", path.display());
        let is_told = |it: &Check| it.health == Health::Problem && it.finding.contains(&named);
        assert!(problems.iter().any(is_told), "{named}: {problems:?}");
    }
    doctor(&config, true).await.unwrap();
    for path in &databases {
        catalog::check_database(path).unwrap();
        assert!(PathBuf::from(format!("{}.damaged", path.display())).exists(), "{} is kept", path.display());
    }
    open_all();
}

#[tokio::test]
async fn damaged_key_table_is_reported_and_kept() {
    let (dir, config, _) = empty();
    let check = async |fix: bool| found(&config, fix, "keys").await;
    assert_eq!(check(false).await.health, Health::Ok, "a key table is optional");
    keys::add(&config, "ada", &[dir.path().into()], keys::Right::Read).unwrap();
    assert_eq!(check(false).await.finding, "the owner's key and 1 more");
    std::fs::write(config.keys_path(), "[{").unwrap();
    for fix in [false, true] {
        let told = check(fix).await;
        assert_eq!(told.health, Health::Problem);
        assert!(told.finding.contains("keys.json") && told.cure.unwrap().contains("fix it"));
        assert_eq!(std::fs::read_to_string(config.keys_path()).unwrap(), "[{");
    }
}

// Case B12
#[test]
fn disagreement_must_be_seen_twice_beside_daemon() {
    let (first, later) =
        (Disagreement { lost: vec![1, 2], orphans: vec![3, 4] }, Disagreement { lost: vec![2, 5], orphans: vec![4] });
    assert_eq!(first.confirmed_by(&later), Disagreement { lost: vec![2], orphans: vec![4] });
}

#[tokio::test]
async fn empty_own_key_is_problem_with_hint() {
    let (_dir, config, _) = empty();
    std::fs::write(config.key_path(), "").unwrap();
    let told = found(&config, true, "keys").await;
    assert!(told.health == Health::Problem && told.cure.unwrap().contains("move it aside"));
}

// Case B12
#[tokio::test]
async fn missing_catalog_with_indexed_roots_is_problem() {
    let (_dir, config, root) = empty();
    let check = async || found(&config, false, "index").await;
    assert_eq!(check().await.health, Health::Ok, "there was none");
    drop(catalog_of_one_file(&config, &root));
    assert_eq!(check().await.health, Health::Ok);
    std::fs::write(config.catalog_path(), "").unwrap();
    for name in ["catalog.sqlite-wal", "catalog.sqlite-shm"] {
        std::fs::remove_file(config.data_dir.join(name)).ok();
    }
    for _ in 0..2 {
        let told = check().await;
        assert!(told.health == Health::Problem && told.cure.unwrap().contains("start the daemon"));
        std::fs::remove_file(config.catalog_path()).ok();
    }
}

#[tokio::test]
async fn check_without_fix_does_not_migrate_catalog() {
    let (_dir, config, root) = empty();
    drop(catalog_of_one_file(&config, &root));
    let version = |set: Option<u32>| -> u32 {
        let db = rusqlite::Connection::open(config.catalog_path()).unwrap();
        set.into_iter().for_each(|it| db.pragma_update(None, "user_version", it).unwrap());
        db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    };
    version(Some(1));
    let told = found(&config, false, "index").await;
    assert!(told.health == Health::Problem && told.cure.unwrap().contains("start the daemon"));
    assert_eq!(version(None), 1);
}

/// Creates a catalog with one indexed file that has chunks.
fn catalog_of_one_file(config: &Config, root: &Path) -> Catalog {
    let catalog = Catalog::open(&config.catalog_path()).unwrap();
    let root = catalog.add_root(root).unwrap();
    let found = FoundFile {
        path: "a.md".into(),
        size: 1,
        modified_ns: 1,
        changed_ns: 1,
        created_ns: None,
        inode: 1,
        device: 1,
        mode: 0o100_644,
        uid: 0,
        skip: None,
    };
    catalog.apply_scan(root.id, None, vec![found], &[], true, DeletionPolicy::All).unwrap();
    let file = FileStamp::new(&catalog.next_pending(0, 1).unwrap()[0]);
    let (hash, kind, media_type) = (ContentHash([7; 32]), FileKind::Text, String::new());
    let mark = IndexedMark {
        file,
        hash,
        kind,
        media_type,
        chunks: 3,
        detail: String::new(),
        awaiting: 0,
        contents: Contents::default(),
        language: None,
    };
    assert_eq!(catalog.mark_indexed(&[mark]).unwrap(), 1);
    catalog
}

// Case B13
#[tokio::test]
async fn serving_index_is_not_compared_during_rebuild() {
    let (_dir, config, root) = empty();
    let catalog = catalog_of_one_file(&config, &root);
    // The serving table of the old model lacks the file, which is only in the table being built for the new model.
    drop(LanceStore::open(&config.db_path, "aaaaaaaaaaaa", 8).await.unwrap());
    for (key, value) in [("serving_fingerprint", "aaaaaaaaaaaa"), ("serving_dimension", "8")] {
        catalog.meta_set(key, value).unwrap();
    }
    let check = async |fix: bool| {
        let told = found(&config, fix, "index and catalog").await;
        (told.health, catalog.record_by_path(&root.canonicalize().unwrap().join("a.md")).unwrap().unwrap().state)
    };
    catalog.meta_set("building_fingerprint", "bbbbbbbbbbbb").unwrap();
    assert_eq!(check(false).await, (Health::Ok, FileState::Indexed));
    assert_eq!(check(true).await, (Health::Ok, FileState::Indexed));
    for none in ["", "aaaaaaaaaaaa"] {
        catalog.meta_set("building_fingerprint", none).unwrap();
        assert_eq!(check(false).await, (Health::Problem, FileState::Indexed));
    }
    assert_eq!(check(true).await, (Health::Fixed, FileState::Pending));
}
