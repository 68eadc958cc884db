//! The daemon: `vicd` runs it, `vicd worker` is the process in which it reads files, `vicd doctor` looks whether all is well.

use std::ffi::{CStr, c_char};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use vic::config::Config;
use vic::error::{Error, Result};

/// For all that is written in Rust. A question allocates thousands of times on several threads: at 100,000 chunks it took
/// 7.3 ms with the system's allocator and takes 6.6 with this one, at the same size of the process.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Four heaps at most, however many cores there are: each keeps free memory of its own. What was free for a second goes back
/// to the system: a question reads some MiB on whichever thread is at hand.
#[expect(
    unsafe_code,
    reason = "the allocator reads this name when it starts, before there is a call that could set it"
)]
// SAFETY: the name is the allocator's own, and what it expects there is a pointer to a text with a zero at its end.
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_SETTINGS: Option<&'static c_char> = {
    let settings: &'static CStr = c"narenas:4,dirty_decay_ms:1000,muzzy_decay_ms:0";
    // SAFETY: the pointer is that of a text which is never gone.
    Some(unsafe { &*settings.as_ptr() })
};

/// How long threads that read or compute may take to end, once all is on disk.
const REST: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    // Before any thread is there: ONNX Runtime looks at the environment when it is loaded.
    vic::embed::disable_telemetry();
    vic::daemon::return_memory_early();
    let argument = std::env::args().nth(1);
    let outcome =
        match argument.as_deref() {
            Some("worker") => vic::extract::run_worker(vic::skills::HANDLERS).map_err(Error::internal),
            Some("--version" | "-V") => {
                eprintln_line(&format!("vicd {}", env!("CARGO_PKG_VERSION")));
                Ok(())
            }
            Some("doctor") => doctor(std::env::args().nth(2).as_deref()),
            None => run(),
            Some(other) => Err(Error::invalid(format!("unknown argument `{other}`"))
                .hint("vicd takes none; settings are VIC_* variables")),
        };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln_line(&format!("error: {error}"));
            if let Some(hint) = &error.hint {
                eprintln_line(&format!("hint: {hint}"));
            }
            ExitCode::from(error.code.exit_code())
        }
    }
}

fn run() -> Result<()> {
    let config = Config::load()?;
    vic::daemon::keep_files_private();
    vic::daemon::start_logging(&config.log_level)?;
    // Memory goes back although nothing is allocated any more. Not in workers, which may start no thread of their own.
    if let Err(error) = tikv_jemalloc_ctl::background_thread::write(true) {
        tracing::warn!(%error, "free memory goes back to the system late");
    }
    let program = std::env::current_exe().map_err(Error::internal)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(Error::internal)?;
    let outcome = runtime.block_on(vic::daemon::run(config, program));
    // Not longer: what is still at work reads or computes for nobody.
    runtime.shutdown_timeout(REST);
    outcome
}

/// Prints what is found as JSON, for `vic doctor`.
fn doctor(option: Option<&str>) -> Result<()> {
    let fix = match option {
        None => false,
        Some("--fix") => true,
        Some(other) => return Err(Error::invalid(format!("unknown argument `{other}`"))),
    };
    let config = Config::load()?;
    vic::daemon::keep_files_private();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    let report = runtime.block_on(vic::daemon::doctor(&config, fix))?;
    let text = serde_json::to_string(&report).map_err(Error::internal)?;
    writeln!(std::io::stdout(), "{text}").map_err(Error::internal)
}

/// Whoever starts the daemon reads its last words here.
fn eprintln_line(text: &str) {
    writeln!(std::io::stderr(), "{text}").ok();
}
