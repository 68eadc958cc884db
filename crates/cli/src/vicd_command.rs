//! Runs the commands that need the models or the store in their own process: starts `vicd command NAME ARGS...`, and
//! takes over its output and exit code.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use vic_protocol::client;
use vic_protocol::config::Config;
use vic_protocol::error::{Error, Result};

use crate::output::Printer;

/// Arguments as the user typed them, which `vicd` parses.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Arguments; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<OsString>,
}

/// Runs a command in a `vicd` process and waits until it ends.
///
/// # Errors
/// `vicd` cannot be started. Errors of the command are printed by `vicd`, and its exit code becomes that of this process.
pub(crate) fn run_in_vicd(name: &str, args: &Args, printer: &mut Printer) -> Result<()> {
    printer.flush()?;
    let mut command = vicd_program();
    command.arg("command").arg(name).args(&args.arguments);
    let status = command.status().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => client::no_vicd(),
        _ => Error::io("start", Path::new("vicd"), &error),
    })?;
    // A process that was killed by a signal has no exit code. `vic` then exits with 1, the code of an internal error.
    printer.exit_code = status.code().map_or(1, |it| u8::try_from(it).unwrap_or(1));
    Ok(())
}

/// Returns the program `vicd`. If the configuration cannot be read, `vicd` itself reports that, if the command needs it.
fn vicd_program() -> Command {
    Config::load().map_or_else(|_| client::vicd(), |config| client::vicd_command(&config))
}
