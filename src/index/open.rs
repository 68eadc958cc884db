//! Builds the index from its parts and starts its background tasks.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tokio::runtime::{Handle, Runtime};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, CorpusStore, EvidenceCache, JobLog, VectorCache};
use crate::chunk::{ChunkSettings, Chunker};
use crate::config::{Config, EmbedBackend};
use crate::embed::Embedder;
use crate::embed::models::ModelStore;
use crate::error::{Error, ErrorCode, Result};
use crate::extract::WorkerPool;
use crate::files::Rules;
use crate::index::disk_space::DiskSpace;
use crate::index::maintenance::{retry, scrub};
use crate::index::ocr::queue::OcrQueue;
use crate::index::ocr::{availability, queue};
use crate::index::pause::PauseGate;
use crate::index::pipeline::urgent_queue::{self, UrgentQueue};
use crate::index::sync_barrier::CatchUp;
use crate::index::table_cache::TableCache;
use crate::index::tables::Tables;
use crate::index::watch::Watching;
use crate::index::{Index, IndexState, blocking, disk_space, watch};
use crate::machine::{self, IoClass};

/// Maximum cached vectors: 400,000 of 384 dimensions take about 600 MiB on disk.
const MAX_CACHED_VECTORS: u64 = 400_000;

/// The parts of an index. The caller opens them, so that tests can pass others.
pub struct IndexParts {
    /// Settings.
    pub config: Config,
    /// Catalog of files.
    pub catalog: Catalog,
    /// Job list.
    pub jobs: JobLog,
    /// Embedder of the configured model.
    pub embedder: Arc<dyn Embedder>,
    /// Extraction workers.
    pub pool: Arc<WorkerPool>,
    /// Skill workers: one more than the index uses, so that a query never waits for it.
    pub skills: Arc<WorkerPool>,
    /// Cached skill results.
    pub evidence: Arc<EvidenceCache>,
    /// Cache of the corpus API.
    pub book: Arc<CorpusStore>,
    /// Installed models.
    pub models: ModelStore,
}

/// Threads of all background work. They run at low priority, and a thread cannot raise its priority again. Queries
/// therefore never run on these threads.
pub(super) struct BackgroundRuntime(Option<Runtime>);

impl BackgroundRuntime {
    fn start() -> Result<BackgroundRuntime> {
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("index")
            .on_thread_start(|| machine::lower_priority(IoClass::LowestBestEffort))
            .enable_all()
            .build();
        threads.map(|it| BackgroundRuntime(Some(it))).map_err(Error::internal)
    }

    fn handle(&self) -> Handle {
        self.0.as_ref().map_or_else(Handle::current, |it| it.handle().clone())
    }
}

impl Drop for BackgroundRuntime {
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
    pub async fn open(parts: IndexParts, shutdown: CancellationToken) -> Result<Index> {
        let config = &parts.config;
        let own = [config.data_dir.clone(), config.db_path.clone(), config.job_db_path.clone()];
        let rules = Rules::new(&config.walk)?.excluding(own);
        let (watching, changes) = Watching::start(config.walk.watch, &rules);
        let background = BackgroundRuntime::start()?;
        let inner = Arc::new(IndexState::assemble(parts, rules, watching, background.handle(), shutdown).await?);
        inner.set_rule_roots(None).await?;
        inner.note_damaged_tables();
        let catalog = inner.catalog.clone();
        blocking(move || retry::fail_repeat_offenders(&catalog)).await?;
        inner.reconcile_store().await?;
        let parts = inner.clone();
        blocking(move || {
            retry::retry_with_new_readers(&parts.catalog, &parts.config.limits)?;
            retry::requeue_if_chunking_changed(&parts.catalog)?;
            let redaction = parts.config.limits.redaction;
            retry::requeue_if_redaction_changed(&parts.catalog, &parts.evidence, &parts.corpus_cache, redaction)
        })
        .await?;
        inner.background.spawn(watch::apply_loop(inner.clone(), changes));
        let table = inner.tables.writing();
        inner.background.spawn(async move { table.preload().await });
        inner.fill_names();
        inner.spawn_background_tasks();
        Ok(Index { inner, _background: Arc::new(background) })
    }
}

impl IndexState {
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
        parts: IndexParts,
        rules: Rules,
        watching: Watching,
        background: Handle,
        shutdown: CancellationToken,
    ) -> Result<IndexState> {
        let IndexParts { config, catalog, jobs, embedder, pool, skills, evidence, book, models } = parts;
        let vectors = Arc::new(VectorCache::open(&config.vector_cache_path(), MAX_CACHED_VECTORS)?);
        let model = serde_json::json!({ "backend": config.embed.backend.name(),
            "model": config.embed.model, "precision": config.embed.precision });
        let old_config = config.clone();
        let tables = Tables::open(&catalog, &config.db_path, embedder.clone(), model.to_string(), async move |text| {
            open_old_embedder(old_config, text).await
        })
        .await?;
        let places = vec![config.data_dir.clone(), config.db_path.clone()];
        let space = Arc::new(DiskSpace::new(places, config.disk_reserve_bytes));
        let pictures = Arc::new(OcrQueue::new(config.ocr));
        Ok(IndexState {
            rules,
            chunker: Arc::new(Chunker::new(embedder.token_counter(), ChunkSettings::default())),
            config,
            jobs,
            vectors,
            pool,
            skills,
            evidence,
            corpus_cache: book,
            models,
            ocr_queue: pictures,
            embedder,
            tables,
            table_cache: TableCache::default(),
            watching: Arc::new(watching),
            background,
            pause: Arc::new(PauseGate::open(&catalog)?),
            catalog,
            engine: tokio::sync::Mutex::new(()),
            urgent: Arc::new(UrgentQueue::new()),
            urgent_runs: tokio::sync::RwLock::new(()),
            disk_space: space,
            committing: Arc::default(),
            changed: Notify::new(),
            tombstones_ready: Notify::new(),
            scanning: tokio::sync::Mutex::new(()),
            abandoned_walks: Mutex::default(),
            catch_up: CatchUp::default(),
            vanished: Arc::default(),
            unattended: Arc::default(),
            interrupted: AtomicBool::new(false),
            running: Mutex::default(),
            job_shares: crate::index::jobs::job_shares(),
            maintenance_due: Mutex::default(),
            problems: Mutex::default(),
            unreadable: Mutex::default(),
            shutdown,
        })
    }

    fn note_damaged_tables(&self) {
        for aside in self.tables.quarantined() {
            let sentence = format!(
                "the index was damaged: re-indexing all files; the damaged index is kept as `{}`",
                aside.display()
            );
            self.note(&format!("damage {}", aside.display()), Some(sentence));
        }
    }

    /// Starts all background tasks except the watcher.
    fn spawn_background_tasks(self: &Arc<IndexState>) {
        self.background.spawn(retry::probe_jail(self.clone()));
        self.background.spawn(disk_space::check_loop(self.clone()));
        self.background.spawn(self.clone().maintenance_loop());
        self.background.spawn(self.clone().purge_loop());
        self.background.spawn(queue::ocr_loop(self.clone()));
        self.background.spawn(queue::end_idle_workers_loop(self.clone()));
        self.background.spawn(availability::retry_loop(self.clone()));
        self.background.spawn(self.clone().run_pending_loop());
        self.background.spawn(self.clone().delete_tombstoned_loop());
        for _ in 0..urgent_queue::URGENT_RUNS {
            self.background.spawn(urgent_queue::urgent_loop(self.clone()));
        }
        self.background.spawn(scrub::verify_loop(self.clone()));
        self.background.spawn(self.clone().reconcile_loop());
    }
}

/// Opens the embedder of an old table from its saved settings.
async fn open_old_embedder(mut config: Config, text: &str) -> Result<Arc<dyn Embedder>> {
    let remembered: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let setting = |name: &str| {
        let value = remembered[name].as_str().map(String::from);
        value.ok_or_else(|| Error::not_found(format!("its {name} is no longer known")))
    };
    let backend = setting("backend")?;
    config.embed.backend = EmbedBackend::ALL.into_iter().find(|it| it.name() == backend).ok_or_else(|| {
        let catalog = config.catalog_path();
        Error::new(
            ErrorCode::FailedPrecondition,
            format!("`{}` names the unknown embedding backend `{backend}`", catalog.display()),
        )
        .hint("use the version of vic that wrote it")
    })?;
    config.embed.model = setting("model")?;
    config.embed.precision = setting("precision")?;
    // Its vectors may come from either device, and the CPU supports every model.
    config.embed.device = crate::config::EmbedDevice::Cpu;
    crate::embed::open(&config).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unknown_backend_of_old_table_is_rejected_with_path_and_hint() {
        let config = Config::from_lookup(&|name: &str| (name == "VIC_DATA_DIR").then(|| "/d".into())).unwrap();
        let saved = r#"{ "backend": "gguf", "model": "m", "precision": "int8" }"#;
        let error = open_old_embedder(config, saved).await.err().unwrap();
        assert_eq!(error.code, ErrorCode::FailedPrecondition);
        assert_eq!(error.message, "`/d/catalog.sqlite` names the unknown embedding backend `gguf`");
        assert!(error.hint.is_some());
    }
}
