//! Isolates plugins from the network in mode `local_only`, with the system call filter of [`vic_system::network_filter`].

use std::io;

use tokio::process::Command;
use vic_system::network_filter;

use crate::error::{Error, ErrorCode, Result};

/// Configures a command that is not started yet, so that it will have no network access.
///
/// # Errors
/// `FailedPrecondition`: vic has no filter for this platform.
pub(super) fn confine(command: &mut Command) -> Result<()> {
    network_filter::install(command.as_std_mut()).map_err(|error| cannot_confine(&error.to_string()))
}

/// Returns the error for a confined command that did not start; `None` if the filter was not the cause.
pub(super) fn filter_error(error: &io::Error) -> Option<Error> {
    network_filter::was_refused(error).then(|| cannot_confine("the system refuses the system call filter"))
}

/// Checks, without starting a command, that network access can be denied on this machine.
///
/// # Errors
/// `FailedPrecondition` with a hint, if it cannot be denied.
pub(super) fn check_supported() -> Result<()> {
    network_filter::check_supported().map_err(|error| cannot_confine(&error.to_string()))
}

fn cannot_confine(cause: &str) -> Error {
    let text = format!("in mode local_only a plugin runs without a network, which this system cannot enforce: {cause}");
    Error::new(ErrorCode::FailedPrecondition, text).hint(
        "use Linux 4.14 or later with CONFIG_SECCOMP_FILTER, and a container that allows seccomp; or let plugins use the \
         network with VIC_PRIVACY_MODE=cloud_reasoning_ok",
    )
}

#[cfg(test)]
mod tests;
