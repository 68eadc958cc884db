//! Builds the index from its parts and starts its background tasks.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tokio::runtime::{Handle, Runtime};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, CorpusBook, EvidenceCache, Jobs, VectorCache};
use crate::chunk::{ChunkSettings, Chunker};
use crate::config::Config;
use crate::embed::Embedder;
use crate::embed::models::ModelStore;
use crate::error::{Error, Result};
use crate::extract::WorkerPool;
use crate::files::Rules;
use crate::index::disk_space::Space;
use crate::index::maintenance::{retry, scrub};
use crate::index::ocr::queue::Pictures;
use crate::index::ocr::{availability, queue};
use crate::index::pause::Gate;
use crate::index::pipeline::urgent_queue::{self, Urgent};
use crate::index::sync_barrier::Walks;
use crate::index::table_cache::AskedTables;
use crate::index::tables::Tables;
use crate::index::watch::Watching;
use crate::index::{Index, Inner, blocking, disk_space, watch};
use crate::machine::{self, Disk};

/// Maximum cached vectors: 400,000 of 384 dimensions take about 600 MiB on disk.
const CACHED_VECTORS: u64 = 400_000;

/// The parts of an index. The caller opens them, so that tests can pass others.
pub struct Parts {
    /// Settings.
    pub config: Config,
    /// Catalog of files.
    pub catalog: Catalog,
    /// Job list.
    pub jobs: Jobs,
    /// Embedder of the configured model.
    pub embedder: Arc<dyn Embedder>,
    /// Extraction workers.
    pub pool: Arc<WorkerPool>,
    /// Skill workers: one more than the index uses, so that a query never waits for it.
    pub skills: Arc<WorkerPool>,
    /// Cached skill results.
    pub evidence: Arc<EvidenceCache>,
    /// Cache of the corpus API.
    pub book: Arc<CorpusBook>,
    /// Installed models.
    pub models: ModelStore,
}

/// Threads of all background work. They run at low priority, and a thread cannot raise its priority again. Queries
/// therefore never run on these threads.
pub(super) struct Background(Option<Runtime>);

impl Background {
    fn start() -> Result<Background> {
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("index")
            .on_thread_start(|| machine::step_back(Disk::Last))
            .enable_all()
            .build();
        threads.map(|it| Background(Some(it))).map_err(Error::internal)
    }

    fn handle(&self) -> Handle {
        self.0.as_ref().map_or_else(Handle::current, |it| it.handle().clone())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Waiting for the threads here would block a thread of another runtime.
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

impl Index {
    /// Opens the index, and starts to watch and reconcile every root in the background.
    ///
    /// # Errors
    /// A part of the data directory is damaged, foreign, or of a newer format.
    pub async fn open(parts: Parts, shutdown: CancellationToken) -> Result<Index> {
        let config = &parts.config;
        let own = [config.data_dir.clone(), config.db_path.clone(), config.job_db_path.clone()];
        let rules = Rules::new(&config.walk)?.excluding(own);
        let (watching, changes) = Watching::start(config.walk.watch, &rules);
        let background = Background::start()?;
        let inner = Arc::new(Inner::assemble(parts, rules, watching, background.handle(), shutdown).await?);
        inner.name_roots(None).await?;
        inner.note_damaged_tables();
        let catalog = inner.catalog.clone();
        blocking(move || retry::fail_struck(&catalog)).await?;
        inner.reconcile_store().await?;
        let parts = inner.clone();
        blocking(move || {
            retry::retry_with_new_readers(&parts.catalog, &parts.config.limits)?;
            retry::cut_by_other_rules(&parts.catalog)?;
            let redaction = parts.config.limits.redaction;
            retry::read_by_other_rules(&parts.catalog, &parts.evidence, &parts.book, redaction)
        })
        .await?;
        inner.background.spawn(watch::follow(inner.clone(), changes));
        let table = inner.tables.writing();
        inner.background.spawn(async move { table.warm().await });
        inner.fill_names();
        inner.go_on();
        Ok(Index { inner, _background: Arc::new(background) })
    }
}

impl Inner {
    /// Indexes the file names that are not indexed yet, in the background.
    pub(crate) fn fill_names(&self) {
        let (names, ends) = (self.catalog.clone(), self.shutdown.clone());
        tokio::task::spawn_blocking(move || {
            if let Err(error) = names.fill_names(&|| !ends.is_cancelled()) {
                tracing::warn!(%error, "some files cannot be found by name; the next start tries again");
            }
        });
    }

    async fn assemble(
        parts: Parts,
        rules: Rules,
        watching: Watching,
        background: Handle,
        shutdown: CancellationToken,
    ) -> Result<Inner> {
        let Parts { config, catalog, jobs, embedder, pool, skills, evidence, book, models } = parts;
        let vectors = Arc::new(VectorCache::open(&config.vector_cache_path(), CACHED_VECTORS)?);
        let model = serde_json::json!({ "backend": format!("{:?}", config.embed.backend).to_lowercase(),
            "model": config.embed.model, "precision": config.embed.precision });
        let old_config = config.clone();
        let tables = Tables::open(&catalog, &config.db_path, embedder.clone(), model.to_string(), async move |text| {
            open_old(old_config, text).await
        })
        .await?;
        let places = vec![config.data_dir.clone(), config.db_path.clone()];
        let space = Arc::new(Space::new(places, config.disk_reserve_bytes));
        let pictures = Arc::new(Pictures::new(config.ocr));
        Ok(Inner {
            rules,
            chunker: Arc::new(Chunker::new(embedder.token_counter(), ChunkSettings::default())),
            config,
            jobs,
            vectors,
            pool,
            skills,
            evidence,
            book,
            models,
            pictures,
            embedder,
            tables,
            asked_tables: AskedTables::default(),
            watching: Arc::new(watching),
            background,
            gate: Arc::new(Gate::open(&catalog)?),
            catalog,
            engine: tokio::sync::Mutex::new(()),
            urgent: Arc::new(Urgent::new()),
            overtaking: tokio::sync::RwLock::new(()),
            space,
            committing: Arc::default(),
            changed: Notify::new(),
            buried: Notify::new(),
            scanning: tokio::sync::Mutex::new(()),
            stuck: Mutex::default(),
            walks: Walks::default(),
            missing: Arc::default(),
            unasked: Arc::default(),
            interrupted: AtomicBool::new(false),
            running: Mutex::default(),
            shares: crate::index::jobs::shares(),
            upkeep_owed: Mutex::default(),
            degraded: Mutex::default(),
            unseen: Mutex::default(),
            shutdown,
        })
    }

    fn note_damaged_tables(&self) {
        for aside in self.tables.set_aside() {
            let sentence = format!(
                "the index was damaged: re-indexing all files; the damaged index is kept as `{}`",
                aside.display()
            );
            self.note(&format!("damage {}", aside.display()), Some(sentence));
        }
    }

    /// Starts all background tasks except the watcher.
    fn go_on(self: &Arc<Inner>) {
        self.background.spawn(retry::look_at_jail(self.clone()));
        self.background.spawn(disk_space::follow(self.clone()));
        self.background.spawn(self.clone().keep_small());
        self.background.spawn(self.clone().purge_when_asked());
        self.background.spawn(queue::follow(self.clone()));
        self.background.spawn(queue::dismiss_rested(self.clone()));
        self.background.spawn(availability::follow(self.clone()));
        self.background.spawn(self.clone().drain_when_told());
        self.background.spawn(self.clone().bury_when_told());
        for _ in 0..urgent_queue::LANES {
            self.background.spawn(urgent_queue::follow(self.clone()));
        }
        self.background.spawn(scrub::follow(self.clone()));
        self.background.spawn(self.clone().keep_fresh());
    }
}

/// Opens the embedder of an old table from its saved settings.
async fn open_old(mut config: Config, text: &str) -> Result<Arc<dyn Embedder>> {
    let remembered: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let setting = |name: &str| {
        let value = remembered[name].as_str().map(String::from);
        value.ok_or_else(|| Error::not_found(format!("its {name} is no longer known")))
    };
    config.embed.backend = match setting("backend")?.as_str() {
        "ollama" => crate::config::EmbedBackend::Ollama,
        "openai" => crate::config::EmbedBackend::OpenAi,
        _ => crate::config::EmbedBackend::Onnx,
    };
    config.embed.model = setting("model")?;
    config.embed.precision = setting("precision")?;
    // Its vectors may come from either device, and the CPU supports every model.
    config.embed.device = crate::config::EmbedDevice::Cpu;
    crate::embed::open(&config).await
}
