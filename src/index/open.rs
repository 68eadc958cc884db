//! Opens the index from its parts and starts its background tasks.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::catalog::VectorCache;
use crate::chunk::{ChunkSettings, Chunker};
use crate::config::{Config, EmbedBackend};
use crate::embed::Embedder;
use crate::error::{Error, ErrorCode, Result};
use crate::files::Rules;
use crate::index::api::Index;
use crate::index::background::BackgroundRuntime;
use crate::index::blocking_tasks::blocking;
use crate::index::disk_space::DiskSpace;
use crate::index::jobs::unended::Jobs;
use crate::index::languages::LanguageSample;
use crate::index::maintenance::due::MaintenanceDue;
use crate::index::maintenance::{disk_check, retry, scrub};
use crate::index::ocr::queue::OcrQueue;
use crate::index::ocr::{availability, read_queue};
use crate::index::pause::PauseGate;
use crate::index::pipeline::run_control::RunControl;
use crate::index::pipeline::urgent_queue::URGENT_RUNS;
use crate::index::pipeline::urgent_run;
use crate::index::problems::Problems;
use crate::index::roots::walk_state::WalkState;
use crate::index::state::{Caches, IndexParts, IndexState, Workers};
use crate::index::tables::Tables;
use crate::index::watch::apply;
use crate::index::watch::watching::Watching;
use crate::store;

/// Maximum vectors in the vector cache, which evicts the oldest beyond it: 400,000 of 384 dimensions take about 600 MiB on
/// disk.
const MAX_CACHED_VECTORS: u64 = 400_000;

impl Index {
    /// Opens the index, and starts to watch and reconcile every root in the background.
    ///
    /// # Errors
    /// A part of the data directory is damaged, was not written by vic, or has a newer format.
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
            retry::requeue_if_redaction_changed(&parts.catalog, &parts.caches.evidence, &parts.caches.corpus, redaction)
        })
        .await?;
        inner.background.spawn(apply::apply_loop(inner.clone(), changes));
        let table = inner.tables.writing();
        inner.background.spawn(async move { table.preload().await });
        inner.fill_names();
        let fill = inner.clone();
        inner.background.spawn(async move { fill.fill_languages().await });
        inner.spawn_background_tasks();
        Ok(Index { inner, _background: Arc::new(background) })
    }
}

impl IndexState {
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
        let backend = store::open_backend(&config).await?;
        let tables = Tables::open(&catalog, backend, embedder.clone(), model.to_string(), async move |text| {
            open_old_embedder(old_config, text).await
        })
        .await?;
        let places = vec![config.data_dir.clone(), config.db_path.clone()];
        let chunker = Arc::new(Chunker::new(embedder.token_counter(), ChunkSettings::default()));
        Ok(IndexState {
            caches: Arc::new(Caches { vectors, evidence, corpus: book, tables: Arc::default() }),
            workers: Arc::new(Workers { pool, skills, chunker, embedder, models }),
            jobs: Jobs::new(jobs),
            walks: WalkState::new(rules, watching),
            runs: Arc::new(RunControl::new()),
            ocr_queue: Arc::new(OcrQueue::new(config.ocr)),
            maintenance_due: MaintenanceDue::default(),
            disk_space: Arc::new(DiskSpace::new(places, config.disk_reserve_bytes)),
            pause: Arc::new(PauseGate::open(&catalog)?),
            problems: Problems::default(),
            languages: LanguageSample::default(),
            config,
            catalog,
            tables,
            background,
            shutdown,
        })
    }

    fn note_damaged_tables(&self) {
        for aside in self.tables.quarantined() {
            let sentence = format!(
                "the index was damaged: re-indexing all files; the damaged index is kept as `{}`",
                aside.display()
            );
            self.problems.set(&format!("damage {}", aside.display()), Some(sentence));
        }
    }

    /// Starts all background tasks except the one that applies the watcher's events.
    fn spawn_background_tasks(self: &Arc<IndexState>) {
        self.background.spawn(retry::probe_jail(self.clone()));
        self.background.spawn(disk_check::check_loop(self.clone()));
        self.background.spawn(self.clone().maintenance_loop());
        self.background.spawn(self.clone().purge_loop());
        self.background.spawn(read_queue::ocr_loop(self.clone()));
        self.background.spawn(read_queue::end_idle_workers_loop(self.clone()));
        self.background.spawn(availability::retry_loop(self.clone()));
        self.background.spawn(self.clone().run_pending_loop());
        self.background.spawn(self.clone().delete_tombstoned_loop());
        for _ in 0..URGENT_RUNS {
            self.background.spawn(urgent_run::urgent_loop(self.clone()));
        }
        self.background.spawn(scrub::verify_loop(self.clone()));
        self.background.spawn(self.clone().reconcile_loop());
    }
}

/// Opens the embedder that filled the previous vector table. `text` holds the saved settings (JSON) of that embedder.
async fn open_old_embedder(mut config: Config, text: &str) -> Result<Arc<dyn Embedder>> {
    let remembered: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let setting = |name: &str| {
        let value = remembered[name].as_str().map(String::from);
        value.ok_or_else(|| Error::not_found(format!("the setting `{name}` of the old model was not saved")))
    };
    let backend = setting("backend")?;
    config.embed.backend = EmbedBackend::ALL.into_iter().find(|it| it.name() == backend).ok_or_else(|| {
        let catalog = config.catalog_path();
        Error::new(
            ErrorCode::FailedPrecondition,
            format!("`{}` names the unknown embedding backend `{backend}`", catalog.display()),
        )
        .hint("use the version of vic that wrote this catalog")
    })?;
    config.embed.model = setting("model")?;
    config.embed.precision = setting("precision")?;
    // Uses the CPU, which runs every model. Its query vectors are comparable with vectors that a GPU computed.
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
