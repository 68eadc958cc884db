//! `vic pause` and `vic resume`: pause and resume reading files for the index.

use chrono::{DateTime, Local};

use crate::output::{Format, FormatArgs, Printer};
use crate::value_parsers;
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::{Pause, PauseReason, PauseRequest, PauseState};

/// Arguments of `vic pause`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Resume by itself after this duration: `90s`, `30m`, `1h`, `2d`
    #[arg(long = "for", value_name = "TIME", value_parser = value_parsers::parse_seconds)]
    seconds: Option<u64>,
    #[command(flatten)]
    output: FormatArgs,
}

/// Arguments of `vic resume`.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    output: FormatArgs,
}

/// Pauses indexing and prints the pause.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let request = PauseRequest { seconds: args.seconds };
    print_pause(Client::connect_or_start(config).await?.pause(request).await?, &args.output, printer)
}

/// Ends the pause, and prints the pause that remains in effect, if any.
pub(crate) async fn resume(args: ResumeArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    print_pause(Client::connect_or_start(config).await?.resume().await?, &args.output, printer)
}

fn print_pause(state: PauseState, output: &FormatArgs, printer: &mut Printer) -> Result<()> {
    match output.format {
        Format::Json => printer.json(&state),
        Format::Human => {
            printer.line(&state.paused.map_or_else(|| "indexing is not paused".into(), |it| describe_pause(&it)))
        }
    }
}

/// Describes a pause in one line.
pub(crate) fn describe_pause(pause: &Pause) -> String {
    let until = pause.until_ms.and_then(DateTime::from_timestamp_millis).map(|it| it.with_timezone(&Local));
    match (pause.reason, until) {
        (PauseReason::Asked, Some(until)) => {
            format!("indexing pauses until {}; `vic resume` ends the pause", until.format("%Y-%m-%d %H:%M:%S"))
        }
        (PauseReason::Asked, None) => "indexing pauses; `vic resume` ends the pause".into(),
        (PauseReason::Battery, _) => "indexing waits for mains power (VIC_PAUSE_ON_BATTERY)".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_shows_its_reason_and_end() {
        let check = |reason, until_ms, parts: &[&str]| {
            let said = describe_pause(&Pause { reason, until_ms });
            assert!(parts.iter().all(|it| said.contains(it)), "{said}");
        };
        check(PauseReason::Asked, None, &["vic resume"]);
        check(PauseReason::Asked, Some(1_800_000_000_000), &["until 2027-01-1", "vic resume"]);
        check(PauseReason::Battery, None, &["mains", "VIC_PAUSE_ON_BATTERY"]);
    }
}
