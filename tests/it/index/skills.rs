//! Tests skills from the worker to the index. Uses the library as the daemon does, with real worker processes.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use vic::catalog::{Catalog, CorpusStore, EvidenceCache, EvidenceKey, JobLog};
use vic::config::Config;
use vic::embed::models::ModelStore;
use vic::extract::{PoolSettings, Tools, WorkerPool};
use vic::index::{Index, IndexParts};
use vic::model::{
    Anchor, Block, BlockKind, Document, FileRecord, FileState, IndexRequest, JobState, OcrMode, PauseRequest,
    Principal, PrivacyMode, Reason, Scope, StoredChunk, Tier,
};
use vic::skills::Skills;
use vic::store::{FileSet, KeywordQuery};

use crate::support::harness::sample_dir;

pub(crate) struct TestIndex {
    dir: TempDir,
    index: Index,
    pub(crate) catalog: Catalog,
    evidence: Arc<EvidenceCache>,
    skills: Skills,
    shutdown: CancellationToken,
}

impl Drop for TestIndex {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl TestIndex {
    /// Opens an index over a folder with copies of these sample files.
    async fn with_samples(samples: &[&str]) -> TestIndex {
        TestIndex::open(samples, true).await
    }

    /// Like [`TestIndex::with_samples`]. Without `with_models`, OCR is not available.
    async fn open(samples: &[&str], with_models: bool) -> TestIndex {
        let fill = |files: &Path| {
            for path in samples {
                let name = Path::new(path).file_name().unwrap();
                std::fs::copy(sample_dir().join(path), files.join(name)).unwrap();
            }
        };
        TestIndex::with_worker(Path::new(env!("CARGO_BIN_EXE_vic-worker")), fill, with_models).await
    }

    /// Opens an index over a folder that `fill` fills, with this worker program.
    pub(crate) async fn with_worker(program: &Path, fill: impl FnOnce(&Path), with_models: bool) -> TestIndex {
        vic::embed::disable_telemetry();
        let dir = tempfile::tempdir().unwrap();
        let files = dir.path().join("files");
        std::fs::create_dir(&files).unwrap();
        fill(&files);
        let data = dir.path().join("data").into_os_string();
        let config = Config::from_lookup(&|name| match name {
            "VIC_DATA_DIR" => Some(data.clone()),
            "VIC_WATCH" => Some(OsString::from("0")),
            // The job at the start must not run OCR, because tests need images without OCR text.
            "VIC_OCR" => Some(OsString::from("never")),
            "VIC_EXTRACT_SECONDS" => {
                Some(OsString::from("2")).filter(|_| program != Path::new(env!("CARGO_BIN_EXE_vic-worker")))
            }
            "VIC_MODELS_DIR" => std::env::var_os(name),
            _ => None,
        })
        .unwrap();
        let program = program.to_path_buf();
        let nowhere = vec![dir.path().join("nowhere")];
        let models = ModelStore::new(if with_models { config.model_dirs.clone() } else { nowhere });
        let tools = Tools { pdfium: models.library("pdfium").ok(), ocr: None };
        let settings = PoolSettings { workers: 2, limits: config.limits.clone(), tools, skills: false };
        let skill_pool =
            Arc::new(WorkerPool::new(program.clone(), vic::skills::pool_settings(&models, &config.limits)));
        let evidence = Arc::new(EvidenceCache::open(&config.evidence_path(), 1 << 20).unwrap());
        let catalog = Catalog::open(&config.catalog_path()).unwrap();
        let parts = IndexParts {
            jobs: JobLog::open(&config.job_db_path).unwrap(),
            embedder: vic::embed::open(&config).await.unwrap(),
            pool: Arc::new(WorkerPool::new(program, settings)),
            skills: skill_pool.clone(),
            evidence: evidence.clone(),
            book: Arc::new(CorpusStore::open(&config.corpus_path()).unwrap()),
            models: models.clone(),
            catalog: catalog.clone(),
            config,
        };
        let shutdown = CancellationToken::new();
        let index = Index::open(parts, shutdown.clone()).await.unwrap();
        let skills = Skills::new(skill_pool, evidence.clone(), models);
        TestIndex { dir, index, catalog, evidence, skills, shutdown }
    }

    fn files(&self) -> PathBuf {
        self.dir.path().join("files").canonicalize().unwrap()
    }

    pub(crate) async fn job(&self, ocr: OcrMode, full: bool) {
        let paths = vec![self.files().to_str().unwrap().to_string()];
        let request = IndexRequest { paths, full, ocr, ..IndexRequest::default() };
        let job = self.index.start_job(request, &Scope::All, &Principal::Owner).await.unwrap();
        let mut watch = self.index.watch_job(&job.job_id).unwrap();
        let end = watch.wait_for(|it| it.state.is_final()).await.unwrap();
        assert_eq!(end.state, JobState::Completed, "{end:?}");
    }

    pub(crate) fn record(&self, name: &str) -> FileRecord {
        self.catalog.record_by_path(&self.files().join(name)).unwrap().unwrap()
    }

    async fn passages(&self, words: &str) -> Vec<StoredChunk> {
        let store = self.index.serving().store;
        let hits = store
            .keyword_leg(
                &KeywordQuery { terms: vic_words::question_terms(words, &vic_words::Language::ALL) },
                &FileSet::All,
                5,
            )
            .await
            .unwrap();
        store.chunks(&hits.into_iter().map(|it| (it.file_id, it.chunk_id)).collect::<Vec<_>>()).await.unwrap()
    }

    /// Runs the skills of a question about signatures and adds their output to the index. Returns the number of chunks, and
    /// whether the output came from the cache.
    async fn run_and_store(&self, name: &str) -> (usize, bool) {
        let record = self.record(name);
        let skills = ["pdf_layout".to_string(), "ocr_image".to_string()];
        let findings = self
            .skills
            .run_all(std::slice::from_ref(&record), &skills, PrivacyMode::LocalOnly, Duration::from_secs(120))
            .await;
        assert!(findings.warnings.is_empty(), "{:?}", findings.warnings);
        let (_, evidence) = findings.found.first().expect("one skill applies");
        assert_eq!(findings.found.len(), 1, "only one skill must process the page");
        let ids = self.index.add_evidence(&record, &evidence.skill, &evidence.document).await.unwrap();
        (ids.len(), evidence.cached)
    }
}

const SCAN: &str = "idr-contract-scan.pdf";

#[tokio::test(flavor = "multi_thread")]
async fn skill_evidence_of_scan_stays_in_index() {
    let house = TestIndex::with_samples(&["Contracts/idr-contract-scan.pdf"]).await;
    house.job(OcrMode::Never, false).await;
    assert_eq!(house.record(SCAN).reason, Some(Reason::NoText));
    assert!(house.passages("Henrike Dahl").await.is_empty());

    let (chunks, cached) = house.run_and_store(SCAN).await;
    assert!(chunks > 0 && !cached);
    let record = house.record(SCAN);
    assert_eq!((record.state, record.chunks as usize), (FileState::Indexed, chunks));
    let found = house.passages("who signed Henrike Dahl").await;
    let signed =
        found.iter().find(|it| it.chunk.body().starts_with("Signed by: Henrike Dahl")).expect("a block of its own");
    assert_eq!((signed.chunk.tier, signed.chunk.anchor.page), (Tier::L2, Some(2)));
    assert!(signed.chunk.anchor.region.is_some());
    assert_eq!(signed.chunk.heading_path.first().map(String::as_str), Some("pdf_layout"));

    let (again, cached) = house.run_and_store(SCAN).await;
    assert_eq!((again, cached, house.record(SCAN).chunks as usize), (chunks, true, chunks), "no duplicates");

    house.job(OcrMode::Never, true).await;
    assert_eq!(house.record(SCAN).chunks as usize, chunks, "a rebuild must keep the evidence of unchanged content");

    std::fs::copy(sample_dir().join("Contracts/nda-northreach-polytechnic.pdf"), house.files().join(SCAN)).unwrap();
    let before = record;
    house.job(OcrMode::Never, false).await;
    assert!(house.passages("Henrike Dahl").await.is_empty(), "new content must drop the evidence");
    let late = Document::default();
    assert!(house.index.add_evidence(&before, "pdf_layout", &late).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_is_indexed_next_to_file_text() {
    let name = "supply-agreement-SA-2025-017.pdf";
    let house = TestIndex::with_samples(&["Contracts/supply-agreement-SA-2025-017.pdf"]).await;
    house.job(OcrMode::Never, false).await;
    let before = house.record(name).chunks as usize;
    let (chunks, _) = house.run_and_store(name).await;
    assert_eq!(house.record(name).chunks as usize, before + chunks);
    let tiers: Vec<Tier> = house.passages("Ada Quill Jorun Salte").await.iter().map(|it| it.chunk.tier).collect();
    assert!(tiers.contains(&Tier::L1) && tiers.contains(&Tier::L2), "{tiers:?}");
    let refused = house.index.add_evidence(&house.record(name), "guess", &Document::default()).await;
    assert!(refused.unwrap_err().message.contains("guess"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ocr_text_is_indexed_with_its_document() {
    let house =
        TestIndex::with_samples(&["Contracts/idr-contract-scan.pdf", "Scans/piano-receipt.png", "Notes/rye-bread.md"])
            .await;
    house.job(OcrMode::Auto, false).await;
    let scan = house.record(SCAN);
    assert_eq!((scan.state, scan.detail.as_str()), (FileState::Indexed, "2 pages read by OCR"));
    let found = house.passages("Henrike Dahl Harbour Master").await;
    assert!(
        found
            .iter()
            .any(|it| it.file_id == scan.id && it.chunk.tier == Tier::L1 && it.chunk.body_anchor(0..1).page.is_some())
    );
    assert_eq!(house.record("piano-receipt.png").state, FileState::Indexed);
    let chunks = scan.chunks;
    house.job(OcrMode::Auto, true).await;
    assert_eq!(house.record(SCAN).chunks, chunks, "a rebuild must reuse the cached text");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_models_skip_ocr_and_name_the_command() {
    let house = TestIndex::open(&["Scans/piano-receipt.png", "Notes/rye-bread.md"], false).await;
    house.job(OcrMode::Auto, false).await;
    assert_eq!(house.record("rye-bread.md").state, FileState::Indexed);
    let receipt = house.record("piano-receipt.png");
    assert_eq!(receipt.reason, Some(Reason::NoText));
    let degraded = house.index.degraded();
    assert!(degraded.iter().any(|it| it.contains("vic models pull")), "{degraded:?}");
    let skills = ["ocr_image".to_string()];
    let findings = house.skills.run_all(&[receipt], &skills, PrivacyMode::LocalOnly, Duration::from_secs(9)).await;
    assert!(findings.found.is_empty() && findings.warnings.len() == 1);
    assert!(findings.warnings[0].contains("vic models pull"), "{:?}", findings.warnings);
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_skill_is_a_warning_after_its_budget() {
    let house = TestIndex::with_samples(&["Scans/piano-receipt.png"]).await;
    house.job(OcrMode::Never, false).await;
    let models = ModelStore::new(vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("models/cache")]);
    let settings = vic::skills::pool_settings(&models, &vic::model::ExtractLimits::default());
    // `yes`, as a worker program, writes output without end, so the skill hangs.
    let pool = Arc::new(WorkerPool::new("/usr/bin/yes".into(), settings));
    let evidence = Arc::new(EvidenceCache::open(&house.dir.path().join("e.sqlite"), 1 << 20).unwrap());
    let skills = Skills::new(pool, evidence, models);
    let begun = std::time::Instant::now();
    let files = [house.record("piano-receipt.png")];
    let wanted = ["ocr_image".to_string()];
    let findings = skills.run_all(&files, &wanted, PrivacyMode::LocalOnly, Duration::from_secs(2)).await;
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(findings.found.is_empty() && findings.warnings[0].contains("no time left"), "{:?}", findings.warnings);
}

#[tokio::test(flavor = "multi_thread")]
async fn skill_evidence_is_indexed_during_pause() {
    let house = TestIndex::with_samples(&["Scans/piano-receipt.png"]).await;
    house.job(OcrMode::Never, false).await;
    house.index.pause(PauseRequest { seconds: None }).await.unwrap();
    let receipt = house.record("piano-receipt.png");
    let found = house.skills.run("ocr_image", &receipt, PrivacyMode::LocalOnly, Duration::from_secs(20)).await.unwrap();
    let brought_in = house.index.add_evidence(&receipt, "ocr_image", &found.document);
    let chunks =
        tokio::time::timeout(Duration::from_secs(20), brought_in).await.expect("a pause must not block questions");
    assert!(!chunks.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn deadly_file_is_skipped_after_two_questions() {
    let house = TestIndex::with_samples(&["Scans/piano-receipt.png"]).await;
    house.job(OcrMode::Never, false).await;
    let models = ModelStore::new(vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("models/cache")]);
    let settings = vic::skills::pool_settings(&models, &vic::model::ExtractLimits::default());
    // This worker program reports that it is ready and exits, so it fails on every file.
    let program = house.dir.path().join("dies");
    std::fs::write(&program, "#!/bin/sh\nprintf '\\002\\000\\000\\000{}' >&0\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let pool = Arc::new(WorkerPool::new(program, settings));
    let receipt = house.record("piano-receipt.png");
    let mut said = Vec::new();
    for _question in 0..3 {
        let skills = Skills::new(pool.clone(), house.evidence.clone(), models.clone());
        let run = skills.run("ocr_image", &receipt, PrivacyMode::LocalOnly, Duration::from_secs(20)).await;
        said.push(run.unwrap_err().0);
    }
    assert!(said[0].contains("worker_crash") && said[1].contains("worker_crash"), "{said:#?}");
    assert!(said[2].contains("skips") && said[2].contains("failed 2 times"), "{said:#?}");
    let same = house.skills.run("pdf_layout", &receipt, PrivacyMode::LocalOnly, Duration::from_secs(20)).await;
    assert!(!same.unwrap_err().0.contains("skips"), "another skill must try the file");
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_pages_are_read_by_next_question() {
    let house = TestIndex::with_samples(&["Contracts/idr-contract-scan.pdf"]).await;
    house.job(OcrMode::Never, false).await;
    let text = "What an earlier question read on the first page.";
    let block = Block {
        kind: BlockKind::Paragraph,
        text: text.into(),
        anchor: Anchor { page: Some(1), ..Anchor::default() },
        rows: Vec::new(),
    };
    let earlier = Document { blocks: vec![block], pages_without_text: vec![2], truncated: true, ..Document::default() };
    let hash = house.record(SCAN).hash.unwrap();
    house.evidence.put(&EvidenceKey { hash, skill: "pdf_layout".into(), version: "1".into() }, &earlier);
    let (_, cached) = house.run_and_store(SCAN).await;
    assert!(!cached);
    let first = house.passages("earlier question read first page").await;
    assert!(first.iter().any(|it| it.chunk.body().contains(text)), "{first:#?}");
    let signed = house.passages("Signed by Henrike Dahl").await;
    let is_signature = |it: &StoredChunk| it.chunk.body().starts_with("Signed by") && it.chunk.anchor.page == Some(2);
    assert!(signed.iter().any(is_signature), "{signed:#?}");
    let sum = house.passages("Contract sum EUR 48,750 between").await;
    assert!(!sum.iter().any(|it| it.chunk.body().contains("48,750")), "OCR ran on the first page again: {sum:#?}");
    assert!(house.run_and_store(SCAN).await.1, "the second run must be complete and cached");
}
