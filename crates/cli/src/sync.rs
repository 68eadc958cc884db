//! `vic sync`: waits until what changed is searchable.

use std::path::PathBuf;

use crate::output::{Format, FormatArgs, Printer, note};
use crate::{text, values};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::{SyncReport, SyncRequest};

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
    let client = Client::connect_or_start(config).await?;
    let path = values::named_root(&client, args.path.as_deref()).await?;
    let timeout_seconds = Some(u32::try_from(args.timeout).unwrap_or(u32::MAX));
    let report = client.sync(SyncRequest { path, timeout_seconds }).await?;
    match args.output.format {
        Format::Json => printer.json(&report),
        Format::Human => {
            printer.line(&sentence(&report))?;
            if report.roots_away > 0 {
                let roots = text::plural(report.roots_away, "root");
                note(&format!("warning: {roots} away: what changed there is seen later; `vic status` says why"));
            }
            Ok(())
        }
    }
}

fn sentence(report: &SyncReport) -> String {
    let seconds = text::duration(report.waited_ms as f64 / 1_000.0);
    let changed = format!("{} in {seconds}", text::plural(report.files, "changed file"));
    match report.unread_pictures {
        0 => format!("everything is searchable ({changed})"),
        some => format!(
            "everything is searchable ({changed}) but the text in pictures of {}, which is not read yet",
            text::plural(some, "file")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_pictures_are_still_to_be_read_is_said() {
        let report = SyncReport { files: 2, waited_ms: 500, ..SyncReport::default() };
        assert_eq!(sentence(&report), "everything is searchable (2 changed files in 0.5 s)");
        let told = sentence(&SyncReport { unread_pictures: 1, ..report });
        assert!(told.ends_with("(2 changed files in 0.5 s) but the text in pictures of 1 file, which is not read yet"));
    }
}
