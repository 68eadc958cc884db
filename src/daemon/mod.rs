//! Configuration to a running process: directories, lock, parts, listeners, signals.

pub(crate) mod directory;
mod doctor;
mod lock;
mod process;
mod service;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::ask::Asker;
use crate::catalog::{AuditLog, Catalog, EvidenceCache, Jobs, Rescue};
use crate::config::Config;
use crate::embed::egress;
use crate::embed::models::ModelStore;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::extract::{PoolSettings, Tools, WorkerPool};
use crate::index::{Index, Parts};
use crate::llm::{self, Task};
use crate::serve::{self, Listeners};
use crate::skills::{self, Skills};

pub use crate::daemon::doctor::doctor;
pub use crate::daemon::process::{Memory, keep_files_private, return_memory_early, start_logging};
use crate::daemon::service::{Daemon, Facts};

/// Kept of what skills found: the text of some hundred thousand scanned pages.
const EVIDENCE_BYTES: u64 = 512 << 20;
/// The longest that a daemon at its end waits for the commit that is under way.
const SETTLE: Duration = Duration::from_secs(10);

/// Runs until a signal, or a request, ends it. `program` is run with the argument `worker` for extraction.
///
/// # Errors
/// The data directory is held by another daemon, damaged or foreign; the model is missing; the address is taken.
pub async fn run(config: Config, program: PathBuf) -> Result<()> {
    let shutdown = CancellationToken::new();
    process::end_on_signal(&shutdown)?;
    run_until(config, program, shutdown).await
}

/// As [`run`], but ends with `shutdown` and leaves signals alone.
///
/// # Errors
/// As [`run`].
pub async fn run_until(config: Config, program: PathBuf, shutdown: CancellationToken) -> Result<()> {
    if !config.listen.ip().is_loopback() && config.bridge.api_key.is_none() {
        return Err(Error::invalid(format!("VIC_LISTEN `{}` is not an address of this machine alone", config.listen))
            .hint("set VIC_BRIDGE_API_KEY, so that only who has the key may ask, or use 127.0.0.1"));
    }
    directory::check(&config)?;
    process::private_dir(&config.data_dir)?;
    let _lock = lock::take(&config)?;
    directory::note(&config)?;
    process::raise_file_limit();
    let (catalog, rescue) = Catalog::open_or_rescue(&config.catalog_path())?;
    process::private_dir(config.job_db_path.parent().unwrap_or(&config.data_dir))?;
    let jobs = Jobs::open(&config.job_db_path)?;
    if let Err(error) = jobs.interrupt_running() {
        // A full disk, say. They are ended at the next start.
        warn!(%error, "cannot end the jobs of the last run");
    }
    // Before anything can be sent.
    egress::keep_log(AuditLog::open(&config.audit_path())?);
    let audit = Arc::new(AuditLog::open(&config.audit_path())?);
    let embedder = crate::embed::open(&config).await?;
    let models = ModelStore::new(config.model_dirs.clone());
    let tools = Tools { pdfium: models.library("pdfium").ok(), ocr: None };
    // One more than a job uses: what was just saved, and `vic read`, do not wait for the large files of a job.
    let workers = config.workers + 1;
    let extraction = PoolSettings { workers, limits: config.limits.clone(), tools: tools.clone(), skills: false };
    let pool = Arc::new(WorkerPool::new(program.clone(), extraction));
    let skill_pool = Arc::new(WorkerPool::new(program, skills::pool_settings(&models, &config.limits)));
    let evidence = Arc::new(EvidenceCache::open(&config.evidence_path(), EVIDENCE_BYTES)?);
    let listeners = bind(&config).await?;
    let tcp = listeners.tcp.local_addr().at("bind", &config.address_path())?;
    process::private_dir(&config.db_path)?;
    let parts = Parts {
        config: config.clone(),
        catalog: catalog.clone(),
        jobs,
        embedder: embedder.clone(),
        pool: pool.clone(),
        skills: skill_pool.clone(),
        evidence: evidence.clone(),
        models: models.clone(),
    };
    let index = Index::open(parts, shutdown.child_token()).await?;
    if let Some(Rescue { set_aside, roots }) = rescue {
        let (kept, roots) = (set_aside.display(), roots.len());
        let sentence =
            format!("the catalog was damaged: the files of its {roots} roots are read again, it is kept as `{kept}`");
        index.note_damage("catalog", sentence);
    }
    let mut skills = Skills::new(skill_pool, evidence, models);
    if let Some(llm) = llm::open(&config, Task::Vision)? {
        skills = skills.with_vision(llm, config.llm.max_image_bytes);
    }
    let asker = Asker::new(&config, catalog.clone(), index.clone(), skills)?;
    let facts = Facts {
        listen: tcp,
        data_dir: config.data_dir.clone(),
        privacy: config.privacy_mode,
        auth_enabled: config.bridge.api_key.is_some(),
    };
    let daemon = Arc::new(Daemon {
        facts,
        catalog: catalog.clone(),
        index: index.clone(),
        asker,
        embedder,
        pool,
        audit,
        shutdown: shutdown.clone(),
        started: Instant::now(),
    });
    write_address(&config, &tcp.to_string())?;
    info!(pid = std::process::id(), %tcp, data = %config.data_dir.display(), "vicd is ready");
    let outcome = serve::run(daemon, listeners, &config, shutdown.clone()).await;
    shutdown.cancel();
    index.settle(SETTLE).await;
    catalog.clear_tries()?;
    remove(&config.socket_path());
    remove(&config.address_path());
    info!("vicd has ended");
    outcome
}

/// Opens both listeners. A socket file without a daemon behind it is stale: the lock is ours.
async fn bind(config: &Config) -> Result<Listeners> {
    let socket = config.socket_path();
    remove(&socket);
    let unix = UnixListener::bind(&socket).map_err(|error| {
        Error::io("bind", &socket, &error).hint("a socket path may have about 100 bytes: choose a shorter VIC_DATA_DIR")
    })?;
    process::make_private(&socket)?;
    let tcp = TcpListener::bind(config.listen).await.map_err(|error| {
        Error::new(ErrorCode::Unavailable, format!("cannot listen on `{}`: {error}", config.listen))
            .hint("set VIC_LISTEN to another address, e.g. 127.0.0.1:0 for any free port")
    })?;
    Ok(Listeners { unix, tcp })
}

fn write_address(config: &Config, address: &str) -> Result<()> {
    let path = config.address_path();
    std::fs::write(&path, format!("{address}\n")).at("write", &path)
}

fn remove(path: &Path) {
    // Missing is what we want; anything else shows when the path is used next.
    let _missing = std::fs::remove_file(path);
}
