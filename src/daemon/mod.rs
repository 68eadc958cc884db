//! Turns a configuration into a running process: directories, lock, parts, listeners, signals.

mod doctor;
mod archive_member;
mod privacy_check;
mod process;
mod service;
mod endpoint_files;
mod databases;
mod scoped_view;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::agent::{Assistant, GraphTools};
use crate::ask::Asker;
use crate::catalog::{EvidenceCache, TranscriptLog};
use crate::config::Config;
use crate::corpus::Contract;
use crate::daemon::databases::Stores;
use crate::data_dir::lock::DataLock;
use crate::embed::Embedder;
use crate::embed::models::ModelStore;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::extract::{PoolSettings, Tools, WorkerPool};
use crate::graph::{GraphService, Reads};
use crate::index::{Index, Parts};
use crate::llm::{self, Task};
use crate::model::{Holder, MemoryCap, Scope};
use crate::serve::{self, Access, Listeners};
use crate::skills::Skills;
use crate::{corpus, machine};

pub use crate::daemon::doctor::doctor;
use crate::daemon::endpoint_files::OwnFile;
pub use crate::daemon::process::{Memory, keep_files_private, return_memory_early, start_logging};
use crate::daemon::service::{Daemon, Facts};
pub use crate::data_dir::lock::holder;

/// How long shutdown waits for the commit in progress.
const SETTLE: Duration = Duration::from_secs(8);

/// Runs until a signal or a request ends it. `program` is started with the argument `worker` for extraction.
///
/// # Errors
/// Another daemon holds the data directory; it is damaged or belongs to another program; the model is missing; the address
/// is in use.
pub async fn run(config: Config, program: PathBuf) -> Result<()> {
    let shutdown = CancellationToken::new();
    process::end_on_signal(&shutdown)?;
    run_until(config, program, shutdown).await
}

/// As [`run`], but ends with `shutdown` and ignores signals.
///
/// # Errors
/// As [`run`].
pub async fn run_until(config: Config, program: PathBuf, shutdown: CancellationToken) -> Result<()> {
    let mut lock = own_directory(&config)?;
    endpoint_files::forget_address(&config.address_path())?;
    endpoint_files::make_room(&config.socket_path()).await?;
    process::private_dir(&config.db_path)?;
    lock.hold_index(&config.db_path)?;
    let access = Access::open(&config)?;
    privacy_check::check(&config)?;
    process::raise_file_limit();
    process::leave_no_core();
    crate::store::start_pool().await;
    let stores = Stores::open(&config)?;
    let catalog = stores.catalog.clone();
    let embedder = crate::embed::open(&config).await?;
    machine::cap_processors(config.background.cpu_percent);
    let (listeners, socket) = bind(&config).await?;
    let listen = listeners.tcp.local_addr().at("bind", &config.address_path())?;
    let facts = facts(&config, listen, &access);
    let daemon = Arc::new(assemble(&config, program, stores, embedder, facts, shutdown).await?);
    let address = endpoint_files::write_address(&config.address_path(), &listen.to_string())?;
    debug!(listen = %config.listen, index = %config.db_path.display(), privacy = config.privacy_mode.name(), "settings");
    info!(pid = std::process::id(), tcp = %listen, data = %config.data_dir.display(), "vicd is ready");
    let outcome = serve_to_the_end(daemon, listeners, access, &config, &lock).await;
    if let Err(error) = catalog.clear_tries() {
        warn!(%error, "cannot clear the read attempts; the next start may suspect the files that were being read");
    }
    socket.remove();
    address.remove();
    info!("vicd has ended");
    outcome
}

/// Opens every part and connects it to the parts it uses.
async fn assemble(
    config: &Config,
    program: PathBuf,
    stores: Stores,
    embedder: Arc<dyn Embedder>,
    facts: Facts,
    shutdown: CancellationToken,
) -> Result<Daemon> {
    let Stores { catalog, jobs, audit, evidence, book, rescue } = stores;
    let old_jobs = jobs.set_aside().map(Path::to_path_buf);
    let models = ModelStore::new(config.model_dirs.clone());
    let (pool, skill_pool) = worker_pools(config, program, &models);
    let parts = Parts {
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
    databases::report(rescue, &index);
    databases::report_loss(&index, "the list of jobs", old_jobs.as_deref());
    databases::report_loss(&index, "sessions, views and results of `vic corpus`", book.set_aside());
    databases::report_loss(&index, "the audit log", audit.set_aside());
    let facts = Facts { memory_caps: memory_caps(&pool, &skill_pool), ..facts };
    let asker = Asker::new(config, catalog.clone(), index.clone(), skills(config, skill_pool, evidence, models)?)?;
    let contract = Contract::new(corpus::Parts {
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
    let reads = Reads { catalog: catalog.clone(), index: index.clone(), asker: asker.clone(), pool: pool.clone() };
    let (graph, assistant) = graph_and_assistant(config, reads, shutdown.child_token())?;
    let (scope, started) = (Scope::All, Instant::now());
    Ok(Daemon {
        facts,
        scope,
        holder: Holder::Owner,
        catalog,
        index,
        asker,
        contract,
        graph,
        assistant,
        embedder,
        pool,
        audit,
        shutdown,
        started,
    })
}

/// Opens the graph and the assistant that queries it.
fn graph_and_assistant(config: &Config, reads: Reads, end: CancellationToken) -> Result<(GraphService, Assistant)> {
    let (index, witness) = (reads.index.clone(), Arc::new(reads.asker.clone()));
    let graph = GraphService::open(&config.graph_path(), Some(reads), end)?;
    let transcripts = TranscriptLog::open(&config.transcripts_path())?;
    databases::report_loss(&index, "imported graphs", graph.set_aside());
    databases::report_loss(&index, "the log of agents", transcripts.set_aside());
    let assistant = Assistant::new(config, Arc::new(GraphTools(graph.clone())), witness, Some(transcripts));
    Ok((graph, assistant))
}

fn facts(config: &Config, listen: SocketAddr, access: &Access) -> Facts {
    Facts {
        listen,
        data_dir: config.data_dir.clone(),
        privacy: config.privacy_mode,
        auth_enabled: access.auth_enabled(),
        warnings: access.warnings().to_vec(),
        memory_caps: Vec::new(),
    }
}

/// Checks and locks the data directory for this process.
fn own_directory(config: &Config) -> Result<DataLock> {
    crate::data_dir::directory::check(config)?;
    process::private_dir(&config.data_dir)?;
    process::close_dir(&config.data_dir)?;
    let lock = crate::data_dir::lock::take(config)?;
    crate::data_dir::directory::note(config)?;
    Ok(lock)
}

/// Serves until shutdown, then waits for the commit in progress.
async fn serve_to_the_end(
    daemon: Arc<Daemon>,
    listeners: Listeners,
    access: Access,
    config: &Config,
    lock: &DataLock,
) -> Result<()> {
    let (index, shutdown) = (daemon.index.clone(), daemon.shutdown.clone());
    let served = async {
        let outcome = serve::run(daemon, listeners, access, config, shutdown.clone()).await;
        shutdown.cancel();
        outcome
    };
    let settled = async {
        shutdown.cancelled().await;
        index.settle(SETTLE).await;
    };
    let held = async {
        tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            lost = lock.lost() => {
                shutdown.cancel();
                Err(lost)
            }
        }
    };
    let (outcome, held, ()) = tokio::join!(served, held, settled);
    held.and(outcome)
}

/// Opens the skills, with the vision model if one is configured.
fn skills(config: &Config, pool: Arc<WorkerPool>, evidence: Arc<EvidenceCache>, models: ModelStore) -> Result<Skills> {
    let budget = Duration::from_secs(config.l2_seconds.into());
    let skills = Skills::new(pool, evidence, models).with_budget(budget);
    Ok(match llm::open(config, Task::Vision)? {
        Some(llm) => skills.with_vision(llm, config.llm.max_image_bytes),
        None => skills,
    })
}

/// Makes the worker pools of extraction and of skills.
fn worker_pools(config: &Config, program: PathBuf, models: &ModelStore) -> (Arc<WorkerPool>, Arc<WorkerPool>) {
    let tools = Tools { pdfium: models.library("pdfium").ok(), ocr: None };
    // One more than a job uses: just-saved files and `vic read` do not wait for the large files of a job.
    let workers = config.workers + 1;
    let extraction = PoolSettings { workers, limits: config.limits.clone(), tools, skills: false };
    let skills = WorkerPool::new(program.clone(), crate::skills::pool_settings(models, &config.limits));
    (Arc::new(WorkerPool::new(program, extraction)), Arc::new(skills))
}

/// Returns the memory limit of each part.
fn memory_caps(pool: &WorkerPool, skills: &WorkerPool) -> Vec<MemoryCap> {
    let mut caps = crate::store::memory_caps();
    caps.extend(crate::index::memory_caps());
    caps.push(pool.memory_cap("processes that read files"));
    caps.push(skills.memory_cap("processes that read pictures and pages"));
    caps
}

/// Opens both listeners.
async fn bind(config: &Config) -> Result<(Listeners, OwnFile)> {
    let (unix, socket) = endpoint_files::bind(&config.socket_path()).await?;
    let tcp = TcpListener::bind(config.listen).await.map_err(|error| {
        Error::new(ErrorCode::Unavailable, format!("cannot listen on `{}`: {error}", config.listen))
            .hint("set VIC_LISTEN to another address, e.g. 127.0.0.1:0 for any free port")
    })?;
    Ok((Listeners { unix, tcp }, socket))
}
