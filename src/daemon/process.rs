//! The environment of the daemon's process: signals, permissions, resource limits, memory figures, logging.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorCode, IoContext, Result};

/// Wanted limit of open files: a store table of many fragments needs some thousands of descriptors, SQLite a few.
const OPEN_FILES: u64 = 16_384;

/// Sticky bit in the mode of folders that all users may write to, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// Maximum time from the shutdown request to the exit of the process: below 10 seconds with all overhead.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(9_300);

/// Resident memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Current resident memory in MiB.
    pub rss_mib: f64,
    /// Peak resident memory in MiB since the process started.
    pub peak_mib: f64,
}

impl Memory {
    /// Returns the figures of this process; both are zero if `/proc` does not report them.
    pub fn of_this_process() -> Memory {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mib = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib / 1024.0)
        };
        Memory { rss_mib: mib("VmRSS:").unwrap_or(0.0), peak_mib: mib("VmHWM:").unwrap_or(0.0) }
    }
}

/// Shuts the daemon down in order on SIGTERM and SIGINT, immediately on the second signal, and in any case
/// [`SHUTDOWN_LIMIT`] after the shutdown request. Runs on its own thread, so that it responds while all other threads are
/// busy.
pub(crate) fn shut_down_on_signal(shutdown: &CancellationToken) -> Result<()> {
    let (shutdown, (ready, is_ready)) = (shutdown.clone(), std::sync::mpsc::channel());
    let watch = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            let _heard = ready.send(());
            tokio::select! {
                _ = terminate.recv() => (),
                _ = interrupt.recv() => (),
                () = shutdown.cancelled() => (),
            }
            shutdown.cancel();
            tokio::select! {
                _ = terminate.recv() => tracing::warn!("exiting immediately on the second signal"),
                _ = interrupt.recv() => tracing::warn!("exiting immediately on the second signal"),
                () = tokio::time::sleep(SHUTDOWN_LIMIT) => tracing::warn!("exiting with unfinished work; the next start resumes it"),
            }
            // Exits without cleanup. Nothing is lost, because data that is on disk also survives a kill.
            vic_system::process::exit_now()
        })
    };
    let thread = std::thread::Builder::new().name("signals".into());
    thread.spawn(move || -> std::io::Result<()> { watch() }).map_err(Error::internal)?;
    is_ready.recv().map_err(|_| Error::internal("cannot listen for signals"))
}

/// Makes all new files of this process accessible to their owner only, even in a directory that other users may enter.
pub fn set_private_umask() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// Creates a directory that only its owner may enter. A directory that exists must be writable.
pub(crate) fn private_dir(path: &Path) -> Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).io_context("create", path)?;
    let probe = tempfile::Builder::new().prefix(".vic-probe").tempfile_in(path);
    probe.map(drop).map_err(|error| {
        // Builds a new error, because the one of `tempfile` is wrapped and names the probe file instead of the directory.
        let plain = error.raw_os_error().map_or(error.kind().into(), std::io::Error::from_raw_os_error);
        Error::io("write to", path, &plain)
    })
}

/// Removes the access of other users to the data directory, because with write access they could replace the socket.
///
/// # Errors
/// The sticky bit shows that the directory is shared by all users on purpose, or it belongs to another user.
pub(crate) fn restrict_dir(path: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let mode = path.metadata().io_context("read", path)?.mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    if mode & STICKY != 0 {
        return Err(Error::new(ErrorCode::PermissionDenied, format!("`{}` is shared by all users", path.display()))
            .hint("set VIC_DATA_DIR to a private folder, e.g. one below the shared folder"));
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).io_context("protect", path)
}

/// Removes the access of other users to a file.
pub(crate) fn make_private(path: &Path) -> Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).io_context("protect", path)
}

/// Raises the limit of open files to [`OPEN_FILES`], or to the hard limit if that is lower.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    if limit.current.is_some_and(|now| now < wanted) {
        // Ignores an error, because a low limit makes queries on large tables slow but not wrong.
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }).ok();
    }
}

/// Disables core dumps, because the memory holds texts of documents and the owner's key.
pub(crate) fn disable_core_dumps() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Core).maximum;
    if let Err(error) = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum }) {
        tracing::warn!("cannot disable core dumps: {error}");
    }
}

/// Starts logging to standard error, which the process that started the daemon redirects to the log file.
///
/// # Errors
/// The log level is not a valid filter.
pub fn start_logging(level: &str) -> Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(directives(level)).map_err(|error| {
        Error::new(ErrorCode::InvalidArgument, format!("cannot parse VIC_LOG_LEVEL `{level}`: {error}"))
    })?;
    install_panic_hook();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    Ok(())
}

/// Returns the log filter for a level. Libraries log at most warnings, because at finer levels HTTP libraries log
/// headers, which contain keys.
fn directives(level: &str) -> String {
    let is_level = ["off", "error", "warn", "info", "debug", "trace"].contains(&level);
    match level {
        "off" | "error" => level.to_string(),
        _ if is_level => format!("warn,vic={level},vicd={level}"),
        // The user wrote a filter instead of a level: only the three noisiest libraries are limited.
        _ => format!("{level},lance=warn,lancedb=warn,datafusion=warn"),
    }
}

/// Makes a panic print its location, and its message only if that is a string literal, because a formatted message may
/// quote a document.
pub(crate) fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        use std::io::Write;
        let what = panic.payload().downcast_ref::<&'static str>().copied().unwrap_or("(not shown)");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let name = std::thread::current().name().unwrap_or("unnamed").to_string();
        writeln!(std::io::stderr(), "thread `{name}` panicked at {place}: {what}").ok();
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// Environment variable with the message with which the child process of this test panics.
    const PANICS_WITH: &str = "VIC_TESTS_PANIC_WITH";

    #[expect(clippy::disallowed_methods, reason = "how this test configures its child process")]
    #[test]
    fn panic_hook_omits_formatted_messages() {
        if let Ok(text) = std::env::var(PANICS_WITH) {
            install_panic_hook();
            let panics = [
                std::thread::spawn(move || assert!(text.is_empty(), "cannot understand `{text}`")),
                std::thread::spawn(|| panic!("a queue without an end")),
            ];
            assert!(panics.into_iter().all(|it| it.join().is_err()));
            return;
        }
        // Runs in a child process, because a panic hook affects the whole process and the test reads the output.
        let (_, module) = module_path!().split_once("::").unwrap();
        let name = format!("{module}::panic_hook_omits_formatted_messages");
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &name, "--nocapture"]).env(PANICS_WITH, "a canary in a document");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        assert!(!said.contains("canary"), "{said}");
        for part in ["panicked at src/daemon/process.rs:", ": (not shown)", ": a queue without an end"] {
            assert!(said.contains(part), "no `{part}` in {said}");
        }
    }

    #[test]
    fn libraries_log_warnings_at_most_at_plain_level() {
        for (level, directives) in [
            ("trace", "warn,vic=trace,vicd=trace"),
            ("info", "warn,vic=info,vicd=info"),
            ("error", "error"),
            ("h2=debug", "h2=debug,lance=warn,lancedb=warn,datafusion=warn"),
        ] {
            assert_eq!(super::directives(level), directives);
        }
    }

    #[test]
    fn open_data_directory_is_closed_and_sticky_refused() {
        let dir = tempfile::tempdir().unwrap();
        let set = |mode| std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        set(0o777);
        restrict_dir(dir.path()).unwrap();
        assert_eq!(dir.path().metadata().unwrap().mode() & 0o777, 0o700);
        set(0o1777);
        assert_eq!(restrict_dir(dir.path()).unwrap_err().code, ErrorCode::PermissionDenied);
    }
}
