//! The command line. Everything is in [`vic::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    // `vic bench` embeds in this process. Before any thread is there: the library reads the environment when it is loaded.
    vic::embed::disable_telemetry();
    vic::cli::main()
}
