//! Commands that need the models or the store in their own process. `vicd command NAME ARGS...` runs them, with the
//! output and exit code of a `vic` command.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use vic_protocol::client;
use vic_protocol::config::Config;
use vic_protocol::error::{Error, Result};

use crate::output::Printer;

/// Arguments as typed; `vicd` parses them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Arguments; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<OsString>,
}

/// Runs a command in `vicd` and waits for its end.
///
/// # Errors
/// `vicd` is missing. Errors of the command are reported there, and its exit code becomes that of this program.
pub(crate) fn run_in_vicd(name: &str, args: &Args, printer: &mut Printer) -> Result<()> {
    printer.flush()?;
    let mut command = vicd_program();
    command.arg("command").arg(name).args(&args.arguments);
    let status = command.status().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => client::no_vicd(),
        _ => Error::io("start", Path::new("vicd"), &error),
    })?;
    // A process killed by a signal has no exit code.
    printer.exit_code = status.code().map_or(1, |it| u8::try_from(it).unwrap_or(1));
    Ok(())
}

/// If the configuration cannot be read, `vicd` reports it where the command needs it.
fn vicd_program() -> Command {
    Config::load().map_or_else(|_| client::vicd(), |config| client::vicd_command(&config))
}
