//! The command line. Everything is in [`vic_cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    vic_cli::main()
}
