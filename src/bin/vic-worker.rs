//! The process that reads files of unknown origin: jailed, and started by the daemon only.
//!
//! It uses the system allocator, unlike the daemon. A worker holds one large buffer after the other under a memory limit. The
//! system allocator grows such a buffer in place; jemalloc copies it, and an archive that inflates to 150 MiB no longer fits.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Runs before any thread starts: ONNX Runtime reads the environment when it loads.
    vic::embed::disable_telemetry();
    vic_system::malloc::return_memory_early();
    match vic::extract::run_worker(vic::skills::HANDLERS) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The daemon reads this line when the worker ends early.
            writeln!(std::io::stderr(), "error: {error}").ok();
            ExitCode::FAILURE
        }
    }
}
