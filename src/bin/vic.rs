//! The command line. Everything is in [`vic::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    // `vic bench` embeds in this process. ONNX Runtime reads the environment when it loads, so this precedes all threads.
    vic::embed::disable_telemetry();
    vic::cli::main()
}
