//! What the process itself needs: signals, permissions, limits, memory figures.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorCode, IoContext, Result};

/// Files that LanceDB and SQLite may hold open together: a table of many fragments needs some thousands.
const OPEN_FILES: u64 = 16_384;

/// Resident memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Now, in MiB.
    pub rss_mib: f64,
    /// At most so far, in MiB.
    pub peak_mib: f64,
}

impl Memory {
    /// Reads the figures of this process; zeros where the system does not tell.
    pub fn of_this_process() -> Memory {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mib = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib / 1024.0)
        };
        Memory { rss_mib: mib("VmRSS:").unwrap_or(0.0), peak_mib: mib("VmHWM:").unwrap_or(0.0) }
    }
}

/// Ends the daemon in order on SIGTERM and SIGINT.
pub(crate) fn end_on_signal(shutdown: &CancellationToken) -> Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut signals = signal(kind).map_err(Error::internal)?;
        let shutdown = shutdown.clone();
        tokio::spawn(async move {
            signals.recv().await;
            shutdown.cancel();
        });
    }
    Ok(())
}

/// Lets every file that this process makes be read by its owner alone, whatever the directory allows.
pub fn keep_files_private() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// Makes a directory that only its owner may enter; an existing one must be a directory we can write to.
pub(crate) fn private_dir(path: &Path) -> Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).at("create", path)?;
    let probe = tempfile::Builder::new().prefix(".vic-probe").tempfile_in(path);
    probe.map(drop).map_err(|error| {
        // `tempfile` wraps the error and names its own path: we want ours.
        let plain = error.raw_os_error().map_or(error.kind().into(), std::io::Error::from_raw_os_error);
        Error::io("write to", path, &plain)
    })
}

/// Takes everybody else's rights to a file away.
pub(crate) fn make_private(path: &Path) -> Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).at("protect", path)
}

/// Raises the limit of open files as far as it goes.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    if limit.current.is_some_and(|now| now < wanted) {
        // Fewer files make large tables slow, not wrong.
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }).ok();
    }
}

/// Makes the allocator give freed memory back to the system at once. A question reads some MiB of columns on whichever
/// thread is free; kept for reuse, as is usual, that adds up to hundreds of MiB on the threads of a daemon at rest.
/// Call it before there is a second thread.
pub fn return_memory_early() {
    /// Allocations from this size on are mapped, and unmapped when freed.
    const MAPPED_FROM: libc::c_int = 256 << 10;
    /// Heaps shared by all threads: each keeps its own free lists.
    const HEAPS: libc::c_int = 2;
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "the allocator's settings have no safe interface")]
    // SAFETY: `mallopt` only sets numbers; no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
        libc::mallopt(libc::M_TRIM_THRESHOLD, MAPPED_FROM);
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
    }
}

/// Writes log lines to standard error, which whoever starts the daemon points at its log file.
///
/// # Errors
/// The level is no filter.
pub fn start_logging(level: &str) -> Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(format!("{level},lance=warn,lancedb=warn,datafusion=warn"))
        .map_err(|error| {
            Error::new(ErrorCode::InvalidArgument, format!("cannot understand VIC_LOG_LEVEL `{level}`: {error}"))
        })?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    Ok(())
}
