//! Skills from the worker to the index: the library as the daemon wires it, with the daemon's own worker processes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use vic::catalog::{Catalog, EvidenceCache, Jobs};
use vic::config::Config;
use vic::embed::models::ModelStore;
use vic::extract::{PoolSettings, Tools, WorkerPool};
use vic::index::{Index, Parts};
use vic::model::{FileRecord, FileState, IndexRequest, JobState, OcrMode, PrivacyMode, Reason, StoredChunk, Tier};
use vic::skills::Skills;
use vic::store::{FileSet, KeywordQuery};

use crate::harness::sample;

struct House {
    dir: TempDir,
    index: Index,
    catalog: Catalog,
    skills: Skills,
    shutdown: CancellationToken,
}

impl Drop for House {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl House {
    /// Opens an index over a folder that holds copies of these samples.
    async fn with(samples: &[&str]) -> House {
        vic::embed::disable_telemetry();
        let dir = tempfile::tempdir().unwrap();
        let files = dir.path().join("files");
        std::fs::create_dir(&files).unwrap();
        for path in samples {
            let name = Path::new(path).file_name().unwrap();
            std::fs::copy(sample().join(path), files.join(name)).unwrap();
        }
        let data = dir.path().join("data").into_os_string();
        let config = Config::from_lookup(&|name| match name {
            "VIC_DATA_DIR" => Some(data.clone()),
            "VIC_WATCH" => Some(OsString::from("0")),
            "VIC_MODELS_DIR" => std::env::var_os(name),
            _ => None,
        })
        .unwrap();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_vicd"));
        let models = ModelStore::new(config.model_dirs.clone());
        let tools = Tools { pdfium: models.library("pdfium").ok(), ocr: None };
        let settings = PoolSettings { workers: 2, limits: config.limits.clone(), tools, skills: false };
        let skill_pool =
            Arc::new(WorkerPool::new(program.clone(), vic::skills::pool_settings(&models, &config.limits)));
        let evidence = Arc::new(EvidenceCache::open(&config.evidence_path(), 1 << 20).unwrap());
        let catalog = Catalog::open(&config.catalog_path()).unwrap();
        let parts = Parts {
            jobs: Jobs::open(&config.job_db_path).unwrap(),
            embedder: vic::embed::open(&config).await.unwrap(),
            pool: Arc::new(WorkerPool::new(program, settings)),
            skills: skill_pool.clone(),
            evidence: evidence.clone(),
            models: models.clone(),
            catalog: catalog.clone(),
            config,
        };
        let shutdown = CancellationToken::new();
        let index = Index::open(parts, shutdown.clone()).await.unwrap();
        let skills = Skills::new(skill_pool, evidence, models);
        House { dir, index, catalog, skills, shutdown }
    }

    fn files(&self) -> PathBuf {
        self.dir.path().join("files").canonicalize().unwrap()
    }

    async fn job(&self, ocr: OcrMode, full: bool) {
        let paths = vec![self.files().to_str().unwrap().to_string()];
        let job = self.index.start_job(IndexRequest { paths, full, ocr, ..IndexRequest::default() }).await.unwrap();
        let mut watch = self.index.watch_job(&job.job_id).unwrap();
        let end = watch.wait_for(|it| it.state.is_final()).await.unwrap();
        assert_eq!(end.state, JobState::Completed, "{end:?}");
    }

    fn record(&self, name: &str) -> FileRecord {
        self.catalog.record_by_path(&self.files().join(name)).unwrap().unwrap()
    }

    async fn passages(&self, words: &str) -> Vec<StoredChunk> {
        let store = self.index.serving().store;
        let hits = store.keyword_leg(&KeywordQuery { text: words.into() }, &FileSet::All, 5).await.unwrap();
        store.chunks(&hits.into_iter().map(|it| (it.file_id, it.chunk_id)).collect::<Vec<_>>()).await.unwrap()
    }

    /// Runs the skills that a question for signatures runs, and writes back what they find.
    async fn look(&self, name: &str) -> (usize, bool) {
        let record = self.record(name);
        let skills = ["pdf_layout".to_string(), "ocr_image".to_string()];
        let findings = self
            .skills
            .run_all(&[record.clone()], &skills, PrivacyMode::LocalOnly, Duration::from_secs(120))
            .await;
        assert!(findings.warnings.is_empty(), "{:?}", findings.warnings);
        let (_, evidence) = findings.found.first().expect("one skill applies");
        assert_eq!(findings.found.len(), 1, "the same page is not read by two skills");
        let ids = self.index.add_evidence(&record, &evidence.skill, &evidence.document).await.unwrap();
        (ids.len(), evidence.cached)
    }
}

const SCAN: &str = "idr-contract-scan.pdf";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_skill_finds_in_a_scan_is_in_the_index_from_then_on() {
    let house = House::with(&["Contracts/idr-contract-scan.pdf"]).await;
    house.job(OcrMode::Never, false).await;
    assert_eq!(house.record(SCAN).reason, Some(Reason::NoText));
    assert!(house.passages("Henrike Dahl").await.is_empty());

    let (chunks, cached) = house.look(SCAN).await;
    assert!(chunks > 0 && !cached);
    let record = house.record(SCAN);
    assert_eq!((record.state, record.chunks as usize), (FileState::Indexed, chunks));
    let found = house.passages("who signed Henrike Dahl").await;
    let signed =
        found.iter().find(|it| it.chunk.body().starts_with("Signatures (signed by)")).expect("a block of its own");
    assert_eq!((signed.chunk.tier, signed.chunk.anchor.page), (Tier::L2, Some(2)));
    assert!(signed.chunk.anchor.region.is_some());
    assert_eq!(signed.chunk.heading_path.first().map(String::as_str), Some("pdf_layout"));

    let (again, cached) = house.look(SCAN).await;
    assert_eq!((again, cached, house.record(SCAN).chunks as usize), (chunks, true, chunks), "nothing is there twice");

    house.job(OcrMode::Never, true).await;
    assert_eq!(house.record(SCAN).chunks as usize, chunks, "unchanged content keeps it through a rebuild");

    std::fs::copy(sample().join("Contracts/nda-northreach-polytechnic.pdf"), house.files().join(SCAN)).unwrap();
    let before = record;
    house.job(OcrMode::Never, false).await;
    assert!(house.passages("Henrike Dahl").await.is_empty(), "another content drops it");
    let late = vic::model::Document::default();
    assert!(house.index.add_evidence(&before, "pdf_layout", &late).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_stands_beside_the_text_of_the_file() {
    let name = "supply-agreement-SA-2025-017.pdf";
    let house = House::with(&["Contracts/supply-agreement-SA-2025-017.pdf"]).await;
    house.job(OcrMode::Never, false).await;
    let before = house.record(name).chunks as usize;
    let (chunks, _) = house.look(name).await;
    assert_eq!(house.record(name).chunks as usize, before + chunks);
    let tiers: Vec<Tier> = house.passages("Ada Quill Jorun Salte").await.iter().map(|it| it.chunk.tier).collect();
    assert!(tiers.contains(&Tier::L1) && tiers.contains(&Tier::L2), "{tiers:?}");
    let refused = house.index.add_evidence(&house.record(name), "guess", &vic::model::Document::default()).await;
    assert!(refused.unwrap_err().message.contains("guess"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_of_text_become_text_of_their_document_at_index_time() {
    let house = House::with(&[
        "Contracts/idr-contract-scan.pdf",
        "Scans/piano-receipt.png",
        "Notes/rye-bread.md",
    ])
    .await;
    house.job(OcrMode::Auto, false).await;
    let scan = house.record(SCAN);
    assert_eq!((scan.state, scan.detail.as_str()), (FileState::Indexed, "2 pages read by OCR"));
    let found = house.passages("Henrike Dahl Harbour Master").await;
    assert!(
        found.iter().any(|it| it.file_id == scan.id && it.chunk.tier == Tier::L1 && it.chunk.anchor.page.is_some())
    );
    assert_eq!(house.record("piano-receipt.png").state, FileState::Indexed);
    let chunks = scan.chunks;
    house.job(OcrMode::Auto, true).await;
    assert_eq!(house.record(SCAN).chunks, chunks, "a rebuild takes it from the cache");
}
