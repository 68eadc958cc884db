//! `vic daemon`: starts, stops and inspects `vicd`. Only here is a command content without a daemon.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use crate::output::{Format, FormatArgs, Printer, note};
use crate::status;
use vic_protocol::client::{self, Client};
use vic_protocol::config::Config;
use vic_protocol::data_dir::lock;
use vic_protocol::error::{Error, ErrorCode, Result};

/// How long a daemon may take to end: its requests have 10 seconds, then the store is closed.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a daemon may take to hear that it is to end.
const HEARS_WITHIN: Duration = Duration::from_secs(5);

/// Pause between two looks at whether it still runs.
const POLL: Duration = Duration::from_millis(20);

/// Arguments of `vic daemon`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Starts the daemon in the background, unless it runs
    Start,
    /// Ends the daemon and waits until it is gone
    Stop,
    /// Says whether the daemon runs
    Status {
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Runs the daemon in the foreground
    Run,
}

/// Does what was asked.
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
                    return unreachable(error, output, config, printer);
                }
                connected => connected?.status().await?,
            };
            if let Some(warning) = client::version_warning(&status) {
                note(&format!("warning: {warning}"));
            }
            match output.format {
                Format::Json => printer.json(&status.printable()),
                Format::Human => printer.line(&status::daemon_line(&status)),
            }
        }
        Command::Run => {
            let mut command = client::vicd_command(config);
            let program = PathBuf::from(command.get_program());
            // Returns only when it could not be started.
            Err(Error::io("start", &program, &command.exec()))
        }
    }
}

/// A daemon that cannot be talked to.
#[derive(Debug, Serialize)]
struct Unreachable {
    pid: u32,
    reachable: bool,
}

/// Says of a daemon that nobody can talk to whether it runs all the same: its lock tells.
fn unreachable(error: Error, output: FormatArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let Some(pid) = lock::holder(config) else { return Err(error) };
    match output.format {
        Format::Json => printer.json(&Unreachable { pid, reachable: false }),
        Format::Human => printer.line(&format!(
            "vicd:   pid {pid} runs, but its socket is gone or it is just starting; `vic daemon stop` ends it"
        )),
    }
}

/// Ends the daemon. One that does not run is as good as ended.
async fn stop(config: &Config, printer: &mut Printer) -> Result<()> {
    // Not as it says itself: one that hangs says nothing, and one that has ended is still a process where whoever began it
    // has not asked for its end. Its lock tells.
    let holder = lock::holder(config);
    let told = async { Client::connect(config).await?.shutdown().await };
    match tokio::time::timeout(HEARS_WITHIN, told).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) if error.code != ErrorCode::Unavailable => return Err(error),
        _ if holder.is_none() => return printer.line("vicd was not running"),
        // Without its socket, and too busy to listen, it hears signals.
        _ => signal(holder)?,
    }
    let deadline = Instant::now() + STOP_TIMEOUT;
    while holder.is_some() && lock::holder(config) == holder {
        if Instant::now() > deadline {
            return Err(Error::new(ErrorCode::DeadlineExceeded, "vicd was told to stop but still runs")
                .hint(format!("see `{}`", config.log_path().display())));
        }
        tokio::time::sleep(POLL).await;
    }
    printer.line("vicd stopped")
}

fn signal(holder: Option<u32>) -> Result<()> {
    let Some(pid) = holder.and_then(process) else { return Ok(()) };
    kill_process(pid, Signal::TERM).map_err(|error| Error::internal(format!("cannot end vicd: {error}")))
}

fn process(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}
