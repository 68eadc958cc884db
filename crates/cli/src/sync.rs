//! `vic sync`: waits until all earlier changes on disk are searchable.

use std::path::PathBuf;

use crate::output::{Format, FormatArgs, Printer, print_note};
use crate::{text, value_parsers};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::{SyncReport, SyncRequest};

/// Arguments of `vic sync`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Wait only for this folder or file [default: all roots]
    path: Option<PathBuf>,
    /// Maximum time to wait: `30`, `90s`, `5m`
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = value_parsers::parse_seconds)]
    timeout: u64,
    #[command(flatten)]
    output: FormatArgs,
}

/// Waits for the daemon and prints the result.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    let path = value_parsers::resolve_root(&client, args.path.as_deref()).await?;
    let timeout_seconds = Some(u32::try_from(args.timeout).unwrap_or(u32::MAX));
    let report = client.sync(SyncRequest { path, timeout_seconds }).await?;
    match args.output.format {
        Format::Json => printer.json(&report),
        Format::Human => {
            printer.line(&describe_sync(&report))?;
            if report.roots_away > 0 {
                let roots = text::plural(report.roots_away, "root");
                print_note(&format!(
                    "warning: {roots} unavailable: changes there are indexed later; `vic status` says why"
                ));
            }
            Ok(())
        }
    }
}

fn describe_sync(report: &SyncReport) -> String {
    let seconds = text::format_duration(report.waited_ms as f64 / 1_000.0);
    let changed = format!("{} in {seconds}", text::plural(report.files, "changed file"));
    match report.unread_pictures {
        0 => format!("everything is searchable ({changed})"),
        some => format!(
            "everything is searchable ({changed}) except the text in images of {}, which is not read yet",
            text::plural(some, "file")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentence_mentions_unread_pictures() {
        let report = SyncReport { files: 2, waited_ms: 500, ..SyncReport::default() };
        assert_eq!(describe_sync(&report), "everything is searchable (2 changed files in 0.5 s)");
        let told = describe_sync(&SyncReport { unread_pictures: 1, ..report });
        assert!(
            told.ends_with("(2 changed files in 0.5 s) except the text in images of 1 file, which is not read yet")
        );
    }
}
