//! `vic sync`: waits until what changed is searchable.

use std::path::PathBuf;

use crate::cli::output::{Format, FormatArgs, Printer};
use crate::cli::{text, values};
use crate::client::Client;
use crate::config::Config;
use crate::error::Result;
use crate::model::SyncRequest;

/// Arguments of `vic sync`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A folder or file; without any, every known root
    path: Option<PathBuf>,
    /// Wait at most so long: `30`, `90s`, `5m`
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = values::seconds)]
    timeout: u64,
    #[command(flatten)]
    output: FormatArgs,
}

/// Waits, and says for what.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let path = args.path.as_deref().map(values::absolute).transpose()?;
    let timeout_seconds = Some(u32::try_from(args.timeout).unwrap_or(u32::MAX));
    let report = Client::connect_or_start(config).await?.sync(SyncRequest { path, timeout_seconds }).await?;
    match args.output.format {
        Format::Json => printer.json(&report),
        Format::Human => {
            let seconds = text::duration(report.waited_ms as f64 / 1_000.0);
            printer.line(&format!(
                "everything is searchable ({} in {seconds})",
                text::plural(report.files, "changed file")
            ))
        }
    }
}
