//! The daemon. `vicd worker` is a process that reads files for it.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|it| it == "worker") {
        return match vic::extract::run_worker() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    ExitCode::SUCCESS
}
