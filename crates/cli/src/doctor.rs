//! `vic doctor`: checks all data of vic, and repairs it with `--fix`. Runs `vicd doctor`, which can open the store and
//! the models; the daemon need not run.

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
    /// Repair the problems that can be repaired; the daemon must not run
    #[arg(long)]
    fix: bool,
    #[command(flatten)]
    output: FormatArgs,
}

/// Runs the checks and prints them. Fails with exit code 10 if a problem remains.
pub(crate) fn run(args: &Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let mut command = client::vicd_command(config);
    command.arg("doctor").args(args.fix.then_some("--fix")).stdin(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().io_context("start", Path::new("vicd"))?;
    if !output.status.success() {
        return Err(vicd_error(&output));
    }
    let report: DoctorReport = serde_json::from_slice(&output.stdout).map_err(Error::internal)?;
    match args.output.format {
        Format::Json => printer.json(&report)?,
        Format::Human => report.checks.iter().try_for_each(|it| printer.raw(&format_check(it)))?,
    }
    if report.has_no_problem() {
        return Ok(());
    }
    printer.flush()?;
    Err(Error::new(ErrorCode::DataLoss, "`vic doctor` found problems")
        .hint("the `cure` of each problem above says how to fix it"))
}

/// Formats a check in one line, and its fix in a second one.
fn format_check(check: &Check) -> String {
    let first = format!("{:<8} {:<18} {}\n", check.health.name(), check.name, text::escape_controls(&check.finding));
    match &check.cure {
        Some(cure) => format!("{first}{:<27} cure: {}\n", "", text::escape_controls(cure)),
        None => first,
    }
}

/// Returns the error that `vicd` printed to standard error.
fn vicd_error(output: &std::process::Output) -> Error {
    let said = String::from_utf8_lossy(&output.stderr);
    client::last_error(&said, output.status.code()).unwrap_or_else(|| Error::internal(said.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vic_protocol::model::Health;

    #[test]
    fn check_is_formatted_with_its_remedy() {
        let check = Check {
            name: "catalog".into(),
            health: Health::Problem,
            finding: "`/d/catalog.sqlite` is damaged".into(),
            cure: Some("vic doctor --fix".into()),
        };
        assert_eq!(
            format_check(&check),
            "problem  catalog            `/d/catalog.sqlite` is damaged\n                            cure: vic doctor --fix\n"
        );
    }
}
