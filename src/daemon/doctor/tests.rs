//! Databases that are damaged deep inside, where opening does not look; a table of keys that nobody understands.

use super::*;

#[tokio::test]
async fn every_database_is_looked_at_and_one_that_is_damaged_deep_inside_is_begun_anew() {
    let dir = tempfile::tempdir().unwrap();
    let config =
        Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| dir.path().as_os_str().to_owned())).unwrap();
    std::fs::write(config.format_path(), format!("vic data directory, format {}\n", directory::FORMAT)).unwrap();
    let open_all = || {
        Catalog::open_or_rescue(&config.catalog_path()).unwrap();
        Jobs::open(&config.job_db_path).unwrap();
        AuditLog::open(&config.audit_path()).unwrap();
        VectorCache::open(&config.vector_cache_path(), 9).unwrap();
        EvidenceCache::open(&config.evidence_path(), 9).unwrap();
        CorpusBook::open(&config.corpus_path()).unwrap();
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
        // The first page, which says what it is, is whole.
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
async fn a_damaged_table_of_keys_is_a_problem_with_a_cure_and_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let config =
        Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| dir.path().as_os_str().to_owned())).unwrap();
    std::fs::write(config.format_path(), format!("vic data directory, format {}\n", directory::FORMAT)).unwrap();
    let check = async |fix: bool| {
        let checks = doctor(&config, fix).await.unwrap().checks;
        checks.into_iter().find(|it| it.name == "keys").unwrap()
    };
    assert_eq!(check(false).await.health, Health::Ok, "there need not be one");
    keys::add(&config, "ada", &[dir.path().into()], keys::Right::Read).unwrap();
    assert_eq!(check(false).await.finding, "the owner's and 1 more");
    std::fs::write(config.keys_path(), "[{").unwrap();
    for fix in [false, true] {
        let told = check(fix).await;
        assert_eq!(told.health, Health::Problem);
        assert!(told.finding.contains("keys.json") && told.cure.unwrap().contains("mend it"));
        assert_eq!(std::fs::read_to_string(config.keys_path()).unwrap(), "[{");
    }
}
