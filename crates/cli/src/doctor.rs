//! `vic doctor`: looks at everything that vic keeps, and sets right what it may. `vicd doctor` does the work: it knows the
//! store and the models, and no daemon has to run.

use std::path::Path;
use std::process::Stdio;

use crate::output::{Format, FormatArgs, Printer};
use crate::text;
use vic_protocol::client;
use vic_protocol::config::Config;
use vic_protocol::error::{Error, ErrorCode, IoContext, Result};
use vic_protocol::model::{Check, DoctorReport};

/// Arguments of `vic doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Mend what can be mended; no daemon may run
    #[arg(long)]
    fix: bool,
    #[command(flatten)]
    output: FormatArgs,
}

/// Looks, and prints. Fails with exit code 10 when a problem is left.
pub(crate) fn run(args: &Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let mut command = client::vicd_command(config);
    command.arg("doctor").args(args.fix.then_some("--fix")).stdin(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().at("start", Path::new("vicd"))?;
    if !output.status.success() {
        return Err(failure(&output));
    }
    let report: DoctorReport = serde_json::from_slice(&output.stdout).map_err(Error::internal)?;
    match args.output.format {
        Format::Json => printer.json(&report)?,
        Format::Human => report.checks.iter().try_for_each(|it| printer.raw(&lines(it)))?,
    }
    if report.is_well() {
        return Ok(());
    }
    printer.flush()?;
    Err(Error::new(ErrorCode::DataLoss, "not everything is as it should be").hint("each problem above names its cure"))
}

/// A check in one line, and its cure in another.
fn lines(check: &Check) -> String {
    let first = format!("{:<8} {:<18} {}\n", check.health.name(), check.name, text::visible(&check.finding));
    match &check.cure {
        Some(cure) => format!("{first}{:<27} cure: {}\n", "", text::visible(cure)),
        None => first,
    }
}

/// The error that `vicd` ended with.
fn failure(output: &std::process::Output) -> Error {
    let said = String::from_utf8_lossy(&output.stderr);
    client::last_error(&said, output.status.code()).unwrap_or_else(|| Error::internal(said.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vic_protocol::model::Health;

    #[test]
    fn a_check_reads_like_this() {
        let check = Check {
            name: "catalog".into(),
            health: Health::Problem,
            finding: "`/d/catalog.sqlite` is damaged".into(),
            cure: Some("vic doctor --fix".into()),
        };
        assert_eq!(
            lines(&check),
            "problem  catalog            `/d/catalog.sqlite` is damaged\n                            cure: vic doctor --fix\n"
        );
    }
}
