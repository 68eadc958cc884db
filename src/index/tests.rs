//! An index at work over a model that says the same of every text, and without readers: what comes into its catalog, and
//! what is to leave the disk.

use super::*;
use crate::embed::Vector;
use crate::extract::{PoolSettings, Tools};
use crate::model::{Anchor, Chunk, ChunkId, Embedded, FileChunks, FileId, Tier, TokenCounter};

/// The longest that anything may take on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// A model, and its tokens.
struct Plain;

#[async_trait::async_trait]
impl Embedder for Plain {
    async fn embed_documents(&self, texts: &[String]) -> Result<Vec<Vector>> {
        Ok(texts.iter().map(|_| vector()).collect())
    }

    async fn embed_query(&self, _text: &str) -> Result<Vector> {
        Ok(vector())
    }

    fn dimension(&self) -> usize {
        vector().len()
    }

    fn max_tokens(&self) -> usize {
        256
    }

    fn batch_size(&self) -> usize {
        1
    }

    fn fingerprint(&self) -> &str {
        "0123456789abcdef"
    }

    fn name(&self) -> &str {
        "plain"
    }

    fn token_counter(&self) -> Arc<dyn TokenCounter> {
        Arc::new(Plain)
    }
}

impl TokenCounter for Plain {
    fn token_spans(&self, text: &str) -> Vec<(usize, usize)> {
        text.char_indices().map(|(at, letter)| (at, at + letter.len_utf8())).collect()
    }

    fn max_chunk_tokens(&self) -> usize {
        256
    }
}

fn vector() -> Vector {
    vec![1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
}

/// The chunks of a file that is one of a line.
fn chunks_of(file_id: FileId) -> FileChunks {
    let chunk = Chunk {
        id: ChunkId(format!("{file_id:032x}")),
        ordinal: 0,
        text: "The observatory opens on Fridays.".into(),
        body_start: 0,
        anchor: Anchor::default(),
        heading_path: Vec::new(),
        tokens: 7,
        tier: Tier::L1,
    };
    FileChunks { file_id, chunks: vec![Embedded { chunk, vector: vector() }] }
}

async fn until(holds: impl Fn() -> bool, what: &str) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < SOON, "{what} at no time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

struct Scene {
    index: Index,
    shutdown: CancellationToken,
    dir: tempfile::TempDir,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Scene {
    async fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data").into_os_string();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone())).unwrap();
        let pool = |skills| {
            let (limits, tools) = (config.limits.clone(), Tools::default());
            Arc::new(WorkerPool::new("/no/such/program".into(), PoolSettings { workers: 1, limits, tools, skills }))
        };
        let parts = Parts {
            catalog: Catalog::open(&config.catalog_path()).unwrap(),
            jobs: Jobs::open(&config.job_db_path).unwrap(),
            embedder: Arc::new(Plain),
            pool: pool(false),
            skills: pool(true),
            evidence: Arc::new(EvidenceCache::open(&config.evidence_path(), 1 << 20).unwrap()),
            book: Arc::new(CorpusBook::open(&config.corpus_path()).unwrap()),
            models: ModelStore::new(Vec::new()),
            config,
        };
        let shutdown = CancellationToken::new();
        let index = Index::open(parts, shutdown.clone()).await.unwrap();
        Scene { index, shutdown, dir }
    }

    /// Makes a folder beside the index.
    fn folder(&self, name: &str) -> PathBuf {
        let path = self.dir.path().canonicalize().unwrap().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn id(&self, path: &Path) -> Option<FileId> {
        self.index.inner.catalog.record_by_path(path).unwrap().map(|it| it.id)
    }

    /// Saves a file, and waits until it is known.
    async fn save(&self, path: &Path) {
        std::fs::write(path, "The observatory opens on Fridays.").unwrap();
        until(|| self.id(path).is_some(), "it is known").await;
    }
}

#[tokio::test]
async fn text_that_was_stored_and_never_marked_leaves_the_disk_with_its_root() {
    let scene = Scene::new().await;
    let (inner, folder) = (scene.index.inner.clone(), scene.folder("files"));
    scene.index.add_root(&folder).await.unwrap();
    // Whatever is read meanwhile does not get into the way.
    let _engine = inner.engine.lock().await;
    let _urgent = inner.overtaking.write().await;
    scene.save(&folder.join("notes.md")).await;
    let file = scene.id(&folder.join("notes.md")).unwrap();
    // Vic was killed before the catalog heard of it.
    inner.tables.writing().replace(vec![chunks_of(file)]).await.unwrap();
    scene.index.remove_root(&folder).await.unwrap();
    assert!(!inner.tables.writing().knows(file));
    assert!(inner.catalog.meta_get("purge_asked_ms").unwrap().is_some_and(|it| !it.is_empty()));
}

#[tokio::test]
async fn a_root_that_is_watched_under_its_old_number_is_heard_of_by_the_one_that_took_it_in() {
    let scene = Scene::new().await;
    let (inner, child) = (scene.index.inner.clone(), scene.folder("above/child"));
    let old = scene.index.add_root(&child).await.unwrap();
    // Whoever walks for long still has it in hand when it is taken in, and watches it first.
    let above = inner.catalog.add_root(&scene.folder("above")).unwrap();
    inner.watch(&old).await;
    inner.watch(&above).await;
    scene.save(&child.join("notes.md")).await;
    until(|| !inner.watching.is_whole(old.id), "it is watched under its new number alone").await;
    scene.save(&child.join("later.md")).await;
}
