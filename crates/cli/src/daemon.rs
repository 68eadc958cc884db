//! `vic daemon`: starts, stops and inspects the daemon `vicd`. Other commands start a daemon if none runs.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use crate::output::{Format, FormatArgs, Printer, print_note};
use crate::status;
use vic_protocol::client::{self, Client};
use vic_protocol::config::Config;
use vic_protocol::data_dir::lock;
use vic_protocol::error::{Error, ErrorCode, Result};

/// How long `vic daemon stop` waits for the daemon to exit. A daemon that works as intended exits within ten seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of the shutdown request; after it, the daemon is sent a signal.
const SHUTDOWN_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval at which `vic daemon stop` checks whether the daemon still holds its lock.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Arguments of `vic daemon`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Starts the daemon in the background if none runs
    Start,
    /// Stops the daemon and waits until it has exited
    Stop,
    /// Prints whether the daemon runs
    Status {
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Runs the daemon in the foreground
    Run,
}

/// Runs the selected action.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    match args.command {
        Command::Start => {
            let status = Client::connect_or_start(config).await?.status().await?;
            printer.line(&status::daemon_line(&status))
        }
        Command::Stop => stop(config, printer).await,
        Command::Status { output } => {
            let status = match Client::connect(config).await {
                Err(error) if error.code == ErrorCode::Unavailable => {
                    return report_unreachable(error, output, config, printer);
                }
                connected => connected?.status().await?,
            };
            if let Some(warning) = client::version_warning(&status) {
                print_note(&format!("warning: {warning}"));
            }
            match output.format {
                Format::Json => printer.json(&status.with_printable_paths()),
                Format::Human => printer.line(&status::daemon_line(&status)),
            }
        }
        Command::Run => {
            let mut command = client::vicd_command(config);
            let program = PathBuf::from(command.get_program());
            // Replaces this process by the daemon, so that an error is returned only if the daemon cannot be started.
            Err(Error::io("start", &program, &command.exec()))
        }
    }
}

/// JSON output of `vic daemon status` for a daemon whose socket cannot be used.
#[derive(Debug, Serialize)]
struct UnreachableDaemon {
    pid: u32,
    reachable: bool,
}

/// Reports a daemon whose socket cannot be used, but whose lock shows that it runs. Returns `error` if none runs.
fn report_unreachable(error: Error, output: FormatArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let Some(pid) = lock::holder_pid(config) else { return Err(error) };
    match output.format {
        Format::Json => printer.json(&UnreachableDaemon { pid, reachable: false }),
        Format::Human => printer.line(&format!(
            "vicd:   pid {pid} runs, but is still starting or has lost its socket file; `vic daemon stop` ends it"
        )),
    }
}

async fn stop(config: &Config, printer: &mut Printer) -> Result<()> {
    let line = if stop_daemon(config).await? { "vicd stopped" } else { "vicd was not running" };
    printer.line(line)
}

/// Stops the daemon and waits until it has exited. Returns whether one ran.
///
/// # Errors
/// The daemon refuses to stop or still runs after the time limit.
pub async fn stop_daemon(config: &Config) -> Result<bool> {
    // Watches the lock instead of the answer or the process, because a hung daemon does not answer, and a daemon that has
    // exited remains a zombie process until its parent reaps it.
    let holder = lock::holder_pid(config);
    let told = async { Client::connect(config).await?.shutdown().await };
    match tokio::time::timeout(SHUTDOWN_REQUEST_TIMEOUT, told).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) if error.code != ErrorCode::Unavailable => return Err(error),
        _ if holder.is_none() => return Ok(false),
        // Sends a signal, because a daemon without a socket, or too busy to answer, still handles signals.
        _ => send_terminate(holder)?,
    }
    let deadline = Instant::now() + STOP_TIMEOUT;
    while holder.is_some() && lock::holder_pid(config) == holder {
        if Instant::now() > deadline {
            return Err(Error::new(ErrorCode::DeadlineExceeded, "vicd still runs after it was asked to stop")
                .hint(format!("see `{}`", config.log_path().display())));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(true)
}

fn send_terminate(holder: Option<u32>) -> Result<()> {
    let Some(pid) = holder.and_then(process) else { return Ok(()) };
    kill_process(pid, Signal::TERM).map_err(|error| Error::internal(format!("cannot end vicd: {error}")))
}

fn process(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}
