//! The program `vicd`: without arguments the daemon; `vicd doctor` checks the data directory; `vicd command` runs a
//! command of `vic`.

#![forbid(unsafe_code)]

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use include_dir::{Dir, include_dir};
use vic::config::Config;
use vic::error::{Error, ErrorCode, Result};

/// The allocator of the daemon is jemalloc on Linux with glibc, and the system allocator on other platforms.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: vic_system::allocator::Jemalloc = vic_system::allocator::Jemalloc;

/// The files of the web page. They are part of this program and not of the library, so that a change of the page compiles in
/// seconds.
static WEB_PAGE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/ui");

/// How long the exit waits for threads that still read or compute, after all data is on disk; they are then abandoned.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    // Must run before any thread starts, because ONNX Runtime reads the environment variables when it is loaded.
    vic::embed::disable_telemetry();
    vic::store::limit_library();
    vic_system::malloc::return_memory_early();
    let argument = std::env::args().nth(1);
    let outcome =
        match argument.as_deref() {
            Some("--version" | "-V") => {
                write_stderr_line(&format!("vicd {}", env!("CARGO_PKG_VERSION")));
                Ok(())
            }
            Some("command") => return vic::commands::main(std::env::args_os().skip(2)),
            Some("doctor") => doctor(std::env::args().nth(2).as_deref()),
            None => run(),
            Some(other) => Err(Error::invalid(format!("unknown argument `{other}`"))
                .hint("run it without arguments; set VIC_* variables")),
        };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            write_stderr_line(&format!("error: {error}"));
            if let Some(hint) = &error.hint {
                write_stderr_line(&format!("hint: {hint}"));
            }
            ExitCode::from(error.code.exit_code())
        }
    }
}

fn run() -> Result<()> {
    let config = Config::load()?;
    vic::daemon::set_private_umask();
    vic::daemon::start_logging(&config.log_level)?;
    for stranger in vic::config::unknown_variables() {
        tracing::warn!("{stranger} is not a setting of vic and is ignored; `vic config show` lists the settings");
    }
    // Makes jemalloc return freed memory from a background thread, because an idle daemon allocates nothing that would
    // trigger it.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if let Err(error) = tikv_jemalloc_ctl::background_thread::write(true) {
        tracing::warn!(%error, "cannot start the background thread of the memory allocator; freed memory returns to the system late");
    }
    let worker = worker_program()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(Error::internal)?;
    let outcome = runtime.block_on(vic::daemon::run(config, worker, &WEB_PAGE));
    // A short timeout suffices, because no caller waits for the results of the threads that still run.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    outcome
}

/// Returns the path of the program `vic-worker`, which is installed in the same folder as `vicd`.
fn worker_program() -> Result<PathBuf> {
    let worker = std::env::current_exe().map_err(Error::internal)?.with_file_name("vic-worker");
    // Only a missing file is an error here. Any other problem with it shows when a worker is started.
    if worker.try_exists().unwrap_or(true) {
        return Ok(worker);
    }
    Err(Error::new(ErrorCode::FailedPrecondition, format!("`{}` is missing", worker.display()))
        .hint("install vicd and vic-worker into the same folder; `make build` makes both"))
}

/// Checks the data directory, repairs it with `--fix`, and prints the report as JSON, which `vic doctor` displays.
fn doctor(option: Option<&str>) -> Result<()> {
    let fix = match option {
        None => false,
        Some("--fix") => true,
        Some(other) => return Err(Error::invalid(format!("unknown argument `{other}`"))),
    };
    let config = Config::load()?;
    vic::daemon::set_private_umask();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    let report = runtime.block_on(vic::daemon::doctor(&config, fix))?;
    let text = serde_json::to_string(&report).map_err(Error::internal)?;
    writeln!(std::io::stdout(), "{text}").map_err(Error::internal)
}

/// Writes a line to standard error, where the process that started the daemon reads its final error.
fn write_stderr_line(text: &str) {
    writeln!(std::io::stderr(), "{text}").ok();
}
