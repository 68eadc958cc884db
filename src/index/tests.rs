//! Tests of the background work of an index over a temporary folder, with an embedder without a model and scripted
//! workers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::catalog::{Catalog, CorpusStore, EvidenceCache, JobLog, RequeueScope};
use crate::config::Config;
use crate::embed::models::ModelStore;
use crate::embed::tokenizer::TokenEstimate;
use crate::embed::{Embedder, Vector};
use crate::error::Result;
use crate::extract::{SkillJob, WorkerPool, scripted_worker};
use crate::index::ocr::cached_text::{self, OcrState};
use crate::index::ocr::read_queue;
use crate::index::pipeline::context::Run;
use crate::index::progress::{Progress, snapshot_without_job};
use crate::model::{
    Anchor, Block, BlockKind, Chunk, ChunkId, Document, Embedded, EncodedPieces, ExtractFailure, FileChunks, FileId,
    FileRecord, OCR_MODELS_UNAVAILABLE, OcrMode, PauseRequest, Reason, Tier, TokenCounter,
};

/// Maximum time that a test waits for background work. Enough also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An embedder that returns equal vectors; the field is the fingerprint of its model.
pub(super) struct FakeEmbedder(pub(super) &'static str);

#[async_trait]
impl Embedder for FakeEmbedder {
    async fn embed_documents(&self, texts: &[String]) -> Result<Vec<Vector>> {
        Ok(vec![vec![8_f32.sqrt().recip(); 8]; texts.len()])
    }

    async fn embed_query(&self, _text: &str) -> Result<Vector> {
        Ok(vec![8_f32.sqrt().recip(); 8])
    }

    fn dimension(&self) -> usize {
        8
    }

    fn max_tokens(&self) -> usize {
        256
    }

    fn batch_size(&self) -> usize {
        8
    }

    fn fingerprint(&self) -> &str {
        self.0
    }

    fn name(&self) -> &str {
        "m"
    }

    fn token_counter(&self) -> Arc<dyn TokenCounter> {
        Arc::new(TokenEstimate::new(256))
    }
}

/// Opens an index below this folder with a model of this fingerprint. Watches the roots if `watch` is `1`.
async fn open(
    folder: &Path,
    fingerprint: &'static str,
    skills: WorkerPool,
    watch: &'static str,
) -> (Index, CancellationToken) {
    let data = folder.join("data");
    let config = Config::from_lookup(&|name| match name {
        "VIC_DATA_DIR" => Some(data.clone().into_os_string()),
        "VIC_MODELS_DIR" => Some(folder.join("nowhere").into_os_string()),
        "VIC_WATCH" => Some(OsString::from(watch)),
        _ => None,
    })
    .unwrap();
    let parts = IndexParts {
        catalog: Catalog::open(&config.catalog_path()).unwrap(),
        jobs: JobLog::open(&config.job_db_path).unwrap(),
        embedder: Arc::new(FakeEmbedder(fingerprint)),
        pool: Arc::new(scripted_worker::scripted_pool(folder, "", &Ok(Document::default()))),
        skills: Arc::new(skills),
        evidence: Arc::new(EvidenceCache::open(&config.evidence_path(), 1 << 20).unwrap()),
        book: Arc::new(CorpusStore::open(&config.corpus_path()).unwrap()),
        // An empty folder, so that no installed model is used.
        models: ModelStore::new(vec![folder.join("nowhere")]),
        config,
    };
    let shutdown = CancellationToken::new();
    (Index::open(parts, shutdown.clone()).await.unwrap(), shutdown)
}

/// Waits until a condition holds.
async fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let looking = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, looking).await.is_ok(), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_model_takes_over_after_pause_without_rewrite_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let skills = || scripted_worker::scripted_pool(folder.path(), "", &Ok(Document::default()));
    let (index, shutdown) = open(folder.path(), "aaaaaaaaaaaa", skills(), "0").await;
    index.pause(PauseRequest { seconds: None }).await.unwrap();
    shutdown.cancel();
    drop(index);

    let (index, shutdown) = open(folder.path(), "bbbbbbbbbbbb", skills(), "0").await;
    let (inner, run) = (&index.inner, Run::background(shutdown.clone()));
    inner.run_pending(&run).await.unwrap();
    inner.maintain().await;
    assert!(inner.tables.is_switching() && index.paused().is_some(), "in a pause the old table answers");
    index.resume().await.unwrap();
    wait_until("the new table does not take over", || !inner.tables.is_switching()).await;
    shutdown.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_skill_workers_end_while_files_are_queued() {
    let folder = tempfile::tempdir().unwrap();
    let skills =
        scripted_worker::scripted_pool(folder.path(), "", &Ok(Document::default())).with_max_idle(Duration::ZERO);
    let (index, shutdown) = open(folder.path(), "aaaaaaaaaaaa", skills, "0").await;
    let inner = &index.inner;
    // Holds the lock of the OCR queue, as a job does that runs OCR or waits through a pause.
    let _lane = inner.ocr_queue.lock_reading().await;
    inner.ocr_queue.push("", 7, false);
    inner.ocr_queue.arrived.notify_one();
    let job = SkillJob { skill: "any".into(), seconds: 20, ..SkillJob::default() };
    inner.workers.skills.run_skill(tempfile::tempfile().unwrap(), "a.png", job).await.unwrap();
    wait_until("the worker stays", || inner.workers.skills.idle_count() == 0).await;
    shutdown.cancel();
}

/// Returns the chunks of a file with a single line of text.
pub(crate) fn chunks_of(file_id: FileId) -> FileChunks {
    let chunk = Chunk {
        id: ChunkId(format!("{file_id:032x}")),
        ordinal: 0,
        text: "The observatory opens on Fridays.".into(),
        body_start: 0,
        anchor: Anchor::default(),
        pieces: EncodedPieces::default(),
        heading_path: Vec::new(),
        tokens: 7,
        tier: Tier::L1,
    };
    FileChunks { file_id, chunks: vec![Embedded { chunk, vector: vec![8_f32.sqrt().recip(); 8] }] }
}

struct TestIndex {
    index: Index,
    shutdown: CancellationToken,
    dir: tempfile::TempDir,
}

impl Drop for TestIndex {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl TestIndex {
    async fn new() -> TestIndex {
        TestIndex::with_skill_reply(&Ok(Document::default())).await
    }

    async fn with_skill_reply(says: &Result<Document, ExtractFailure>) -> TestIndex {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("skills");
        std::fs::create_dir(&folder).unwrap();
        let skills = scripted_worker::scripted_pool(&folder, "", says);
        let (index, shutdown) = open(dir.path(), "aaaaaaaaaaaa", skills, "1").await;
        TestIndex { index, shutdown, dir }
    }

    /// Changes what the skill workers reply.
    fn set_skill_reply(&self, says: &Result<Document, ExtractFailure>) {
        let aside = self.folder("aside");
        drop(scripted_worker::scripted_pool(&aside, "", says));
        std::fs::rename(aside.join("reply"), self.dir.path().join("skills/reply")).unwrap();
    }

    /// Puts empty files in place of the OCR library and models.
    fn install_models(&self) {
        for name in ["onnxruntime", "ppocr"] {
            let entry = self.index.inner.workers.models.entry(name).unwrap();
            let folder = self.folder("nowhere").join(entry.folder());
            std::fs::create_dir_all(&folder).unwrap();
            entry.platform_files().for_each(|it| std::fs::write(folder.join(&it.name), "").unwrap());
        }
    }

    /// Saves a file, and waits until it was indexed as a file without text.
    async fn save_and_read(&self, path: &Path) -> FileRecord {
        self.save(path).await;
        let record = || self.index.inner.catalog.record_by_path(path).unwrap();
        let is_read = || record().is_some_and(|it| it.reason == Some(Reason::NoText));
        wait_until("the file is never read", is_read).await;
        record().unwrap()
    }

    fn is_reported(&self, what: &str) -> bool {
        self.index.degraded().iter().any(|it| it.contains(what))
    }

    fn is_purge_asked(&self) -> bool {
        self.index.inner.catalog.meta_get("purge_asked_ms").unwrap().is_some_and(|it| !it.is_empty())
    }

    /// Creates a folder beside the index's own folder.
    fn folder(&self, name: &str) -> PathBuf {
        let path = self.dir.path().canonicalize().unwrap().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn id(&self, path: &Path) -> Option<FileId> {
        self.index.inner.catalog.record_by_path(path).unwrap().map(|it| it.id)
    }

    /// Saves a file, and waits until the catalog has it.
    async fn save(&self, path: &Path) {
        std::fs::write(path, "The observatory opens on Fridays.").unwrap();
        wait_until("the file is never in the catalog", || self.id(path).is_some()).await;
    }
}

// Case B12
#[tokio::test]
async fn unmarked_stored_text_is_purged_with_its_root() {
    let scene = TestIndex::new().await;
    let (inner, folder) = (scene.index.inner.clone(), scene.folder("files"));
    scene.index.add_root(&folder).await.unwrap();
    // No other run reads the file meanwhile.
    let _engine = inner.runs.lock_engine().await;
    let _urgent = inner.runs.block_urgent_runs().await;
    scene.save(&folder.join("notes.md")).await;
    let file = scene.id(&folder.join("notes.md")).unwrap();
    // Stores chunks without marking the file, as if vic was killed in between.
    inner.tables.writing().replace(vec![chunks_of(file)]).await.unwrap();
    scene.index.remove_root(&folder).await.unwrap();
    assert!(!inner.tables.writing().has_file(file));
    assert!(scene.is_purge_asked());
}

#[tokio::test]
async fn failed_delete_with_root_is_reported_and_retried() {
    let scene = TestIndex::new().await;
    let (inner, folder) = (scene.index.inner.clone(), scene.folder("files"));
    scene.index.add_root(&folder).await.unwrap();
    let _engine = inner.runs.lock_engine().await;
    let _urgent = inner.runs.block_urgent_runs().await;
    scene.save(&folder.join("notes.md")).await;
    let file = scene.id(&folder.join("notes.md")).unwrap();
    inner.tables.writing().replace(vec![chunks_of(file)]).await.unwrap();
    let database = rusqlite::Connection::open(inner.config.catalog_path()).unwrap();
    let refuses = "CREATE TRIGGER refuses BEFORE INSERT ON meta WHEN NEW.key = 'purge_asked_ms' \
                   BEGIN SELECT RAISE(ABORT, 'the disk does not write'); END";
    database.execute_batch(refuses).unwrap();
    scene.index.remove_root(&folder).await.unwrap();
    assert!(inner.tables.writing().has_file(file) && scene.is_reported("cannot delete from the index"));
    database.execute_batch("DROP TRIGGER refuses").unwrap();
    wait_until("the file stays in the index", || !inner.tables.writing().has_file(file)).await;
    wait_until("the problem is reported for ever", || !scene.is_reported("cannot delete from the index")).await;
}

#[tokio::test]
async fn pending_tombstones_are_deleted_at_next_start() {
    let scene = TestIndex::new().await;
    let folder = scene.folder("files");
    let root = scene.index.add_root(&folder).await.unwrap();
    scene.save_and_read(&folder.join("notes.md")).await;
    scene.index.inner.catalog.remove_root(root.id).unwrap();
    scene.shutdown.cancel();
    let skills = scripted_worker::scripted_pool(&scene.folder("skills"), "", &Ok(Document::default()));
    let (index, shutdown) = open(scene.dir.path(), "aaaaaaaaaaaa", skills, "1").await;
    wait_until("the tombstone is not deleted", || index.inner.catalog.tombstones(1).unwrap().is_empty()).await;
    shutdown.cancel();
}

#[tokio::test]
async fn skill_evidence_of_excluded_file_is_purged() {
    let scene = TestIndex::new().await;
    let (inner, folder) = (scene.index.inner.clone(), scene.folder("files"));
    let root = scene.index.add_root(&folder).await.unwrap();
    scene.save_and_read(&folder.join("other.md")).await;
    let record = scene.save_and_read(&folder.join("scan.pdf")).await;
    std::fs::write(folder.join(".vicignore"), "scan.pdf\n").unwrap();
    inner.scan(&root, None, &scene.shutdown).await.unwrap();
    assert_eq!(scene.id(&record.absolute()), None);
    assert!(!scene.is_purge_asked(), "nothing of it was in the index");
    let text = "Signed by: Henrike Dahl, Harbour Master".to_string();
    let anchor = Anchor { page: Some(1), ..Anchor::default() };
    let block = Block { kind: BlockKind::Paragraph, text, anchor, rows: Vec::new() };
    let found = Document { blocks: vec![block], ..Document::default() };
    assert_eq!(scene.index.add_evidence(&record, "ocr_image", &found).await.unwrap(), []);
    assert!(!inner.tables.writing().has_file(record.id) && scene.is_purge_asked());
}

#[tokio::test]
async fn failed_ocr_files_stay_queued_and_are_read_later() {
    let unloaded = ExtractFailure { reason: Reason::UnsupportedType, detail: format!("{OCR_MODELS_UNAVAILABLE}: why") };
    let unread = ExtractFailure { reason: Reason::Io, detail: "no worker could be started".into() };
    for (failure, told) in [(unloaded, "vic models pull"), (unread, "cannot index OCR text")] {
        let scene = TestIndex::with_skill_reply(&Err(failure)).await;
        scene.install_models();
        let (inner, folder) = (scene.index.inner.clone(), scene.folder("files"));
        scene.index.add_root(&folder).await.unwrap();
        let file = scene.save_and_read(&folder.join("scan.png")).await.id;
        inner.ocr_queue.push("", file, false);
        inner.ocr_queue.arrived.notify_one();
        wait_until("the problem is not reported", || scene.is_reported(told)).await;
        scene.set_skill_reply(&Ok(Document::default()));
        wait_until("the problem is reported for ever", || !scene.is_reported(told)).await;
        wait_until("the file stays in the OCR queue", || !inner.ocr_queue.contains(file)).await;
    }
}

#[tokio::test]
async fn files_stay_queued_until_ocr_models_are_installed() {
    let scene = TestIndex::new().await;
    let (inner, folder) = (scene.index.inner.clone(), scene.folder("files"));
    scene.index.add_root(&folder).await.unwrap();
    let file = scene.save_and_read(&folder.join("scan.png")).await.id;
    inner.ocr_queue.push("", file, false);
    inner.ocr_queue.arrived.notify_one();
    wait_until("the problem is not reported", || scene.is_reported("vic models pull")).await;
    assert!(inner.ocr_queue.contains(file));
    scene.install_models();
    wait_until("the problem is reported for ever", || !scene.is_reported("vic models pull")).await;
    wait_until("the file stays in the OCR queue", || !inner.ocr_queue.contains(file)).await;
}

#[tokio::test]
async fn ocr_waits_until_file_is_in_index() {
    let scene = TestIndex::new().await;
    scene.install_models();
    let (inner, folder) = (scene.index.inner.clone(), scene.folder("files"));
    scene.index.add_root(&folder).await.unwrap();
    let engine = inner.runs.lock_engine().await;
    let urgent = inner.runs.block_urgent_runs().await;
    scene.save(&folder.join("scan.png")).await;
    let file = scene.id(&folder.join("scan.png")).unwrap();
    inner.ocr_queue.push("a job that has ended", file, false);
    let progress = Arc::new(Progress::new(snapshot_without_job()));
    read_queue::read_queue(&inner, OcrMode::Auto, &progress, &scene.shutdown).await.unwrap();
    assert!(inner.ocr_queue.contains(file), "the request is lost");
    drop((engine, urgent));
    wait_until("the file stays in the OCR queue", || !inner.ocr_queue.contains(file)).await;
    let hash = inner.catalog.records(&[file]).unwrap()[0].hash.unwrap();
    wait_until("the file is not read", || {
        cached_text::cached_state(&inner.caches.evidence, hash, OcrMode::Auto) != OcrState::Unread
    })
    .await;
}

#[tokio::test]
async fn watched_file_is_recorded_before_it_is_read() {
    let scene = TestIndex::new().await;
    let (inner, folder) = (scene.index.inner.clone(), scene.folder("files"));
    scene.index.add_root(&folder).await.unwrap();
    let _engine = inner.runs.lock_engine().await;
    let _urgent = inner.runs.block_urgent_runs().await;
    scene.save(&folder.join("scan.png")).await;
    let file = scene.id(&folder.join("scan.png")).unwrap();
    wait_until("the change of the file is not recorded", || inner.ocr_queue.take_changed(file)).await;
}

// Case B6
#[tokio::test]
async fn roots_are_walked_without_job_and_status_reports_why() {
    let scene = TestIndex::new().await;
    let (inner, folder) = (scene.index.inner.clone(), scene.folder("files"));
    let root = scene.index.add_root(&folder).await.unwrap();
    // Stops watching, so that the change below is not reported, as if no daemon ran.
    inner.unwatch(root.id).await;
    let list = rusqlite::Connection::open(&inner.config.job_db_path).unwrap();
    list.execute_batch("ALTER TABLE jobs RENAME TO away").unwrap();
    std::fs::write(folder.join("notes.md"), "The observatory opens on Fridays.").unwrap();
    let is_walked =
        || scene.id(&folder.join("notes.md")).is_some() && scene.is_reported("folders are walked without a job");
    let begun = Instant::now();
    // A walk that was queued before the table was renamed may stand for this one: then the next one has no job.
    while !is_walked() && begun.elapsed() < Duration::from_secs(20) {
        inner.reconcile_roots().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(is_walked());
    list.execute_batch("ALTER TABLE away RENAME TO jobs").unwrap();
    inner.reconcile_roots().await;
    assert!(!scene.is_reported("folders are walked without a job") && !scene.index.jobs(9).unwrap().is_empty());
}

#[tokio::test]
async fn unavailable_root_is_reported_with_path_and_hint() {
    let scene = TestIndex::new().await;
    let (inner, folder) = (scene.index.inner.clone(), scene.folder("files"));
    let root = scene.index.add_root(&folder).await.unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let error = inner.scan(&root, None, &scene.shutdown).await.unwrap_err();
    assert!(error.hint.unwrap().contains("vic roots remove"));
    let told = scene.index.roots().await.unwrap().remove(0);
    assert!(!told.available && told.problem.contains("vic roots remove"), "{}", told.problem);
    assert!(told.problem.contains(folder.to_str().unwrap()), "{}", told.problem);
    inner.reconcile_roots().await;
    assert!(
        !scene.is_reported("not indexed before") && !scene.is_reported("not walked"),
        "twice: {:?}",
        scene.index.degraded()
    );
}

#[tokio::test]
async fn root_watched_under_old_id_is_taken_over_by_parent() {
    let scene = TestIndex::new().await;
    let (inner, child) = (scene.index.inner.clone(), scene.folder("above/child"));
    let old = scene.index.add_root(&child).await.unwrap();
    // Watches the absorbed root before its parent, as a walk does that began before the parent absorbed the root.
    let above = inner.catalog.add_root(&scene.folder("above")).unwrap();
    inner.watch(&old).await;
    inner.watch(&above).await;
    scene.save(&child.join("notes.md")).await;
    wait_until("the absorbed root is still watched under its old id", || !inner.walks.watching.is_whole(old.id)).await;
    scene.save(&child.join("later.md")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_ends_while_files_keep_changing() {
    let scene = TestIndex::new().await;
    let (inner, folder) = (scene.index.inner.clone(), scene.folder("files"));
    scene.index.add_root(&folder).await.unwrap();
    for number in 0..5 {
        scene.save_and_read(&folder.join(format!("{number}.md"))).await;
    }
    let changing = tokio::spawn({
        let catalog = inner.catalog.clone();
        async move {
            loop {
                catalog.requeue(&RequeueScope::Under(folder.clone())).unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    // Hold the lock of the pipeline, so that no other run reads files meanwhile.
    let engine = inner.runs.lock_engine().await;
    let mut has_left = false;
    for _ in 0..100 {
        let run = Run::background(scene.shutdown.clone());
        let drained = tokio::time::timeout(PATIENCE, inner.run_pending(&run)).await;
        drained.expect("it has no end").unwrap();
        assert!(run.progress.snapshot().files_done <= 10, "each twice at most");
        has_left |= run.deferral.has_skipped();
    }
    assert!(has_left, "the test could not fail");
    changing.abort();
    assert!(changing.await.unwrap_err().is_cancelled());
    drop(engine);
    wait_until("skipped files are never read", || inner.catalog.pending_count(None).unwrap() == 0).await;
}
