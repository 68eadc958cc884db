//! Tests that files of a failed job are indexed without another job once the cause of the failure is gone. Uses the library
//! as the daemon does, with an embedding model that can be unavailable.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use vic::catalog::{Catalog, CorpusStore, EvidenceCache, JobLog};
use vic::config::Config;
use vic::embed::models::ModelStore;
use vic::embed::{Embedder, Vector};
use vic::error::{Error, ErrorCode, Result};
use vic::extract::{PoolSettings, Tools, WorkerPool};
use vic::index::{Index, IndexParts};
use vic::model::{IndexRequest, JobState, Principal, Scope, TokenCounter};

/// Maximum time until a retry has succeeded: twice the retry interval, for a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// An embedding model that fails as long as `is_away` is set, as if its server could not be reached.
struct UnavailableModel {
    is_away: Arc<AtomicBool>,
    model: Arc<dyn Embedder>,
}

#[async_trait::async_trait]
impl Embedder for UnavailableModel {
    async fn embed_documents(&self, texts: &[String]) -> Result<Vec<Vector>> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorCode::Unavailable, "the model server cannot be reached"));
        }
        self.model.embed_documents(texts).await
    }

    async fn embed_query(&self, text: &str) -> Result<Vector> {
        self.model.embed_query(text).await
    }

    fn dimension(&self) -> usize {
        self.model.dimension()
    }

    fn max_tokens(&self) -> usize {
        self.model.max_tokens()
    }

    fn batch_size(&self) -> usize {
        self.model.batch_size()
    }

    fn fingerprint(&self) -> &str {
        self.model.fingerprint()
    }

    fn name(&self) -> &str {
        self.model.name()
    }

    fn token_counter(&self) -> Arc<dyn TokenCounter> {
        self.model.token_counter()
    }
}

/// Opens an index whose data is below this folder. Watching is on, so that no periodic walk finds the file.
async fn open_index(folder: &Path, is_away: &Arc<AtomicBool>, shutdown: &CancellationToken) -> (Index, Catalog) {
    vic::embed::disable_telemetry();
    let data = folder.join("data").into_os_string();
    let config = Config::from_lookup(&|name| match name {
        "VIC_DATA_DIR" => Some(data.clone()),
        "VIC_OCR" => Some(OsString::from("never")),
        "VIC_MODELS_DIR" => std::env::var_os(name),
        _ => None,
    })
    .unwrap();
    let (program, models) = (Path::new(env!("CARGO_BIN_EXE_vic-worker")), ModelStore::new(config.model_dirs.clone()));
    let tools = Tools { pdfium: None, ocr: None };
    let settings = PoolSettings { workers: 1, limits: config.limits.clone(), tools, skills: false };
    let skills = vic::skills::pool_settings(&models, &config.limits);
    let catalog = Catalog::open(&config.catalog_path()).unwrap();
    let model = vic::embed::open(&config).await.unwrap();
    let parts = IndexParts {
        jobs: JobLog::open(&config.job_db_path).unwrap(),
        embedder: Arc::new(UnavailableModel { is_away: is_away.clone(), model }),
        pool: Arc::new(WorkerPool::new(program.into(), settings)),
        skills: Arc::new(WorkerPool::new(program.into(), skills)),
        evidence: Arc::new(EvidenceCache::open(&config.evidence_path(), 1 << 20).unwrap()),
        book: Arc::new(CorpusStore::open(&config.corpus_path()).unwrap()),
        models,
        catalog: catalog.clone(),
        config,
    };
    (Index::open(parts, shutdown.clone()).await.unwrap(), catalog)
}

// Case E4
#[tokio::test]
async fn files_of_failed_job_are_indexed_without_new_job() {
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("notes.md"), "The observatory opens on Fridays.").unwrap();
    let (is_away, shutdown) = (Arc::new(AtomicBool::new(true)), CancellationToken::new());
    let _ends = shutdown.clone().drop_guard();
    let (index, catalog) = open_index(dir.path(), &is_away, &shutdown).await;
    let paths = vec![files.to_str().unwrap().to_string()];
    let job = index
        .start_job(IndexRequest { paths, ..IndexRequest::default() }, &Scope::All, &Principal::Owner)
        .await
        .unwrap();
    let mut watch = index.watch_job(&job.job_id).unwrap();
    let end = watch.wait_for(|it| it.state.is_final()).await.unwrap().clone();
    assert_eq!(end.state, JobState::Failed, "{end:?}");
    assert_eq!(catalog.coverage(None).unwrap().indexed, 0);
    is_away.store(false, Ordering::Relaxed);
    let begun = Instant::now();
    while catalog.coverage(None).unwrap().indexed == 0 {
        assert!(begun.elapsed() < SOON, "the failed file was not retried");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
