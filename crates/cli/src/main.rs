//! The command line. Everything is in [`vic_cli`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    vic_cli::main()
}
