//! The worker process `vic-worker`: parses files of unknown origin in a sandbox. Only the daemon starts it.
//!
//! Uses the system allocator; the daemon uses jemalloc. Under the memory limit of a worker, the system allocator grows a
//! large buffer in place; jemalloc copies it, so that an archive that inflates to 150 MiB would exceed the limit.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Must run before any thread starts, because ONNX Runtime reads the environment variables when it is loaded.
    vic::embed::disable_telemetry();
    vic_system::malloc::return_memory_early();
    match vic::extract::run_worker(vic::skills::HANDLERS) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If the worker exits early, the daemon reads this line from standard error and reports it.
            writeln!(std::io::stderr(), "error: {error}").ok();
            ExitCode::FAILURE
        }
    }
}
