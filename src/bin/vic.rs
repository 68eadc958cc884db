//! The command line. Everything is in [`vic::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    vic::cli::main()
}
