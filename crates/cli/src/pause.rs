//! `vic pause` and `vic resume`: no file is read for a while.

use chrono::{DateTime, Local};

use crate::output::{Format, FormatArgs, Printer};
use crate::values;
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::{Pause, PauseReason, PauseRequest, PauseState};

/// Arguments of `vic pause`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Go on by itself after this time: `90s`, `30m`, `1h`, `2d`
    #[arg(long = "for", value_name = "TIME", value_parser = values::seconds)]
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

/// Pauses.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let request = PauseRequest { seconds: args.seconds };
    show(Client::connect_or_start(config).await?.pause(request).await?, &args.output, printer)
}

/// Goes on.
pub(crate) async fn resume(args: ResumeArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    show(Client::connect_or_start(config).await?.resume().await?, &args.output, printer)
}

fn show(state: PauseState, output: &FormatArgs, printer: &mut Printer) -> Result<()> {
    match output.format {
        Format::Json => printer.json(&state),
        Format::Human => printer.line(&state.paused.map_or_else(|| "indexing goes on".into(), |it| sentence(&it))),
    }
}

/// One line on a pause.
pub(crate) fn sentence(pause: &Pause) -> String {
    let until = pause.until_ms.and_then(DateTime::from_timestamp_millis).map(|it| it.with_timezone(&Local));
    match (pause.reason, until) {
        (PauseReason::Asked, Some(until)) => {
            format!("indexing pauses until {}; `vic resume` goes on", until.format("%Y-%m-%d %H:%M:%S"))
        }
        (PauseReason::Asked, None) => "indexing pauses; `vic resume` goes on".into(),
        (PauseReason::Battery, _) => "indexing waits for mains power (VIC_PAUSE_ON_BATTERY)".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_says_who_wanted_it_and_when_it_ends() {
        let check = |reason, until_ms, parts: &[&str]| {
            let said = sentence(&Pause { reason, until_ms });
            assert!(parts.iter().all(|it| said.contains(it)), "{said}");
        };
        check(PauseReason::Asked, None, &["vic resume"]);
        check(PauseReason::Asked, Some(1_800_000_000_000), &["until 2027-01-1", "vic resume"]);
        check(PauseReason::Battery, None, &["mains", "VIC_PAUSE_ON_BATTERY"]);
    }
}
