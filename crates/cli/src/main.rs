//! The program `vic`. All of its code is in the library [`vic_cli`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    vic_cli::main()
}
