//! Starts and runs the daemon process from a configuration: checks directories, takes the lock, opens the parts, binds
//! the listeners, and handles signals.

mod doctor;
mod archive_member;
mod privacy_check;
mod process;
mod service;
mod endpoint_files;
mod databases;
mod scoped_view;
mod page_frames;
mod preview;
mod settings;
mod ui;
mod ui_parts;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use include_dir::Dir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::agent::{Assistant, GraphTools};
use crate::ask::Asker;
use crate::catalog::{EvidenceCache, TranscriptLog};
use crate::config::Config;
use crate::corpus::CorpusApi;
use crate::daemon::databases::Databases;
use crate::daemon::preview::Previews;
use crate::daemon::settings::SettingsFile;
use crate::daemon::ui_parts::UiParts;
use crate::data_dir::lock::DataLock;
use crate::embed::Embedder;
use crate::embed::models::ModelStore;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::extract::{PoolSettings, Tools, WorkerPool};
use crate::graph::{GraphInputs, GraphService};
use crate::index::{Index, IndexParts};
use crate::llm::{self, Task};
use crate::model::{MemoryCap, Principal, Scope};
use crate::serve::{self, AccessConfig, Listeners};
use crate::skills::Skills;
use crate::{corpus, machine};

pub use crate::daemon::doctor::doctor;
use crate::daemon::endpoint_files::OwnFile;
pub use crate::daemon::process::{Memory, set_private_umask, start_logging};
use crate::daemon::service::{Daemon, DaemonFacts};
pub use crate::data_dir::lock::holder_pid;

/// How long shutdown waits for a commit in progress; the daemon then exits without it.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(8);

/// Runs the daemon until a signal or a shutdown request. `program` is the worker program that extracts text from files,
/// `page` the folder with the files of the web page.
///
/// # Errors
/// Another daemon holds the data directory; the directory is damaged or belongs to another program; the model is missing;
/// the TCP address is in use.
pub async fn run(config: Config, program: PathBuf, page: &'static Dir<'static>) -> Result<()> {
    let shutdown = CancellationToken::new();
    process::shut_down_on_signal(&shutdown)?;
    run_until(config, program, page, shutdown).await
}

/// Runs the daemon like [`run`], but until `shutdown` is cancelled; ignores signals.
///
/// # Errors
/// The same as for [`run`].
pub async fn run_until(
    config: Config,
    program: PathBuf,
    page: &'static Dir<'static>,
    shutdown: CancellationToken,
) -> Result<()> {
    let mut lock = claim_data_directory(&config)?;
    endpoint_files::remove_stale_address(&config.address_path())?;
    endpoint_files::remove_stale(&config.socket_path()).await?;
    process::private_dir(&config.db_path)?;
    lock.lock_index_folder(&config.db_path)?;
    let access = AccessConfig::open(&config)?;
    privacy_check::check_settings(&config)?;
    process::raise_file_limit();
    process::disable_core_dumps();
    crate::store::start_pool().await;
    let stores = Databases::open(&config)?;
    let catalog = stores.catalog.clone();
    let embedder = crate::embed::open(&config).await?;
    machine::cap_processors(config.background.cpu_percent);
    let (listeners, socket) = bind_listeners(&config).await?;
    let listen = listeners.tcp.local_addr().io_context("bind", &config.address_path())?;
    let facts = daemon_facts(&config, listen, &access);
    let daemon = Arc::new(assemble(&config, program, stores, embedder, facts, shutdown).await?);
    let address = endpoint_files::write_address(&config.address_path(), &listen.to_string())?;
    debug!(listen = %config.listen, index = %config.db_path.display(), privacy = config.privacy_mode.name(), "settings");
    info!(pid = std::process::id(), tcp = %listen, data = %config.data_dir.display(), "vicd is ready");
    let outcome = serve_until_shutdown(daemon, listeners, access, &config, page, &lock).await;
    if let Err(error) = catalog.clear_tries() {
        warn!(%error, "cannot reset the read attempts; the interrupted reads count as failed attempts of their files");
    }
    socket.remove();
    address.remove();
    info!("vicd has ended");
    outcome
}

/// Opens every part of the daemon (index, asker, graph, assistant etc.) and passes each the parts that it uses.
async fn assemble(
    config: &Config,
    program: PathBuf,
    stores: Databases,
    embedder: Arc<dyn Embedder>,
    facts: DaemonFacts,
    shutdown: CancellationToken,
) -> Result<Daemon> {
    let Databases { catalog, jobs, audit, evidence, book, searches, rescue } = stores;
    let old_jobs = jobs.quarantined().map(Path::to_path_buf);
    let models = ModelStore::new(config.model_dirs.clone());
    let previews = Previews::new(program.clone(), &models, &config.limits, evidence.clone());
    tokio::spawn(previews.end_idle_workers_loop());
    let (pool, skill_pool) = worker_pools(config, program, &models);
    let parts = IndexParts {
        config: config.clone(),
        catalog: catalog.clone(),
        jobs,
        embedder: embedder.clone(),
        pool: pool.clone(),
        skills: skill_pool.clone(),
        evidence: evidence.clone(),
        book: book.clone(),
        models: models.clone(),
    };
    let index = Index::open(parts, shutdown.child_token()).await?;
    databases::report_catalog_recovery(rescue, &index);
    databases::report_loss(&index, "the list of jobs", old_jobs.as_deref());
    databases::report_loss(&index, "sessions, views and results of `vic corpus`", book.quarantined());
    databases::report_loss(&index, "the audit log", audit.quarantined());
    databases::report_loss(&index, "the list of searches", searches.quarantined());
    let facts = DaemonFacts { memory_caps: memory_caps(&pool, &skill_pool), ..facts };
    let asker = Asker::new(config, catalog.clone(), index.clone(), open_skills(config, skill_pool, evidence, models)?)?;
    let contract = CorpusApi::new(corpus::CorpusServices {
        catalog: catalog.clone(),
        index: index.clone(),
        pool: pool.clone(),
        embedder: embedder.clone(),
        book,
        privacy: config.privacy_mode,
        redaction: config.limits.redaction,
        folder: config.data_dir.clone(),
        pages: config.pages_path(),
    });
    let reads =
        GraphInputs { catalog: catalog.clone(), index: index.clone(), asker: asker.clone(), pool: pool.clone() };
    let (graph, assistant) = open_graph_and_assistant(config, reads, shutdown.child_token())?;
    let settings = SettingsFile::new(config.data_dir.clone(), config.privacy_mode);
    let ui = Arc::new(UiParts { config: config.clone(), previews, searches, settings });
    let (scope, started) = (Scope::All, Instant::now());
    Ok(Daemon {
        facts,
        scope,
        holder: Principal::Owner,
        catalog,
        index,
        asker,
        contract,
        graph,
        assistant,
        embedder,
        pool,
        audit,
        ui,
        shutdown,
        started,
    })
}

/// Opens the graph, and the assistant whose tools query the graph.
fn open_graph_and_assistant(
    config: &Config,
    reads: GraphInputs,
    end: CancellationToken,
) -> Result<(GraphService, Assistant)> {
    let (index, witness) = (reads.index.clone(), Arc::new(reads.asker.clone()));
    let graph = GraphService::open(&config.graph_path(), Some(reads), end)?;
    let transcripts = TranscriptLog::open(&config.transcripts_path())?;
    databases::report_loss(&index, "imported graphs", graph.set_aside());
    databases::report_loss(&index, "the log of agents", transcripts.quarantined());
    let assistant = Assistant::new(config, Arc::new(GraphTools(graph.clone())), witness, Some(transcripts));
    Ok((graph, assistant))
}

fn daemon_facts(config: &Config, listen: SocketAddr, access: &AccessConfig) -> DaemonFacts {
    DaemonFacts {
        listen,
        data_dir: config.data_dir.clone(),
        privacy: config.privacy_mode,
        auth_enabled: access.auth_enabled(),
        warnings: access.warnings().to_vec(),
        memory_caps: Vec::new(),
    }
}

/// Checks that the data directory belongs to vic, makes it private, and locks it for this process.
fn claim_data_directory(config: &Config) -> Result<DataLock> {
    crate::data_dir::directory::check_directory(config)?;
    process::private_dir(&config.data_dir)?;
    process::restrict_dir(&config.data_dir)?;
    let lock = crate::data_dir::lock::acquire(config)?;
    crate::data_dir::directory::write_format(config)?;
    Ok(lock)
}

/// Serves requests until shutdown or loss of the data lock, then waits for a commit in progress.
async fn serve_until_shutdown(
    daemon: Arc<Daemon>,
    listeners: Listeners,
    access: AccessConfig,
    config: &Config,
    page: &'static Dir<'static>,
    lock: &DataLock,
) -> Result<()> {
    let (index, shutdown) = (daemon.index.clone(), daemon.shutdown.clone());
    let served = async {
        let outcome = serve::run(daemon, listeners, access, config, page, shutdown.clone()).await;
        shutdown.cancel();
        outcome
    };
    let settled = async {
        shutdown.cancelled().await;
        index.wait_idle(COMMIT_TIMEOUT).await;
    };
    let held = async {
        tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            lost = lock.wait_until_lost() => {
                shutdown.cancel();
                Err(lost)
            }
        }
    };
    let (outcome, held, ()) = tokio::join!(served, held, settled);
    held.and(outcome)
}

/// Opens the skills (OCR, layout), with the vision model if one is configured.
fn open_skills(
    config: &Config,
    pool: Arc<WorkerPool>,
    evidence: Arc<EvidenceCache>,
    models: ModelStore,
) -> Result<Skills> {
    let budget = Duration::from_secs(config.l2_seconds.into());
    let skills = Skills::new(pool, evidence, models).with_budget(budget);
    Ok(match llm::open(config, Task::Vision)? {
        Some(llm) => skills.with_vision(llm, config.llm.max_image_bytes),
        None => skills,
    })
}

/// Creates two pools of worker processes: one for extraction, one for skills.
fn worker_pools(config: &Config, program: PathBuf, models: &ModelStore) -> (Arc<WorkerPool>, Arc<WorkerPool>) {
    let tools = Tools { pdfium: models.library("pdfium").ok(), ocr: None };
    // One worker more than a job uses, so that just-saved files and `vic read` do not wait for the large files of a job.
    let workers = config.workers + 1;
    let extraction = PoolSettings { workers, limits: config.limits.clone(), tools, skills: false };
    let skills = WorkerPool::new(program.clone(), crate::skills::pool_settings(models, &config.limits));
    (Arc::new(WorkerPool::new(program, extraction)), Arc::new(skills))
}

/// Returns the memory limits of the store, the index and the worker pools, for the status.
fn memory_caps(pool: &WorkerPool, skills: &WorkerPool) -> Vec<MemoryCap> {
    let mut caps = crate::store::memory_caps();
    caps.extend(crate::index::memory_caps());
    caps.push(pool.memory_cap("processes that read files"));
    caps.push(skills.memory_cap("processes that run OCR and page layout"));
    caps
}

/// Binds the Unix socket and the TCP address.
async fn bind_listeners(config: &Config) -> Result<(Listeners, OwnFile)> {
    let (unix, socket) = endpoint_files::bind(&config.socket_path()).await?;
    let tcp = TcpListener::bind(config.listen).await.map_err(|error| {
        Error::new(ErrorCode::Unavailable, format!("cannot listen on `{}`: {error}", config.listen))
            .hint("set VIC_LISTEN to another address, e.g. 127.0.0.1:0 for any free port")
    })?;
    Ok((Listeners { unix, tcp }, socket))
}
