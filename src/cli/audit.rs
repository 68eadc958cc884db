//! `vic audit`: what was sent to other machines, or refused.

use chrono::{DateTime, SecondsFormat, Utc};

use crate::cli::output::{Format, FormatArgs, Printer};
use crate::cli::text;
use crate::client::Client;
use crate::config::Config;
use crate::error::Result;
use crate::model::AuditRecord;

/// Arguments of `vic audit`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Most requests, newest first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    output: FormatArgs,
}

/// Asks, and prints.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let records = Client::connect_or_start(config).await?.audit(args.limit).await?;
    match args.output.format {
        Format::Json => printer.json(&records),
        Format::Human if records.is_empty() => printer.line("nothing was sent to other machines, and nothing refused"),
        Format::Human => records.iter().try_for_each(|record| printer.line(&line(record))),
    }
}

/// One request in one line.
fn line(record: &AuditRecord) -> String {
    let time = DateTime::<Utc>::from_timestamp_millis(record.time_ms);
    format!(
        "{}  {:<7}  {:>10}  {:<10}  {:<18}  {}",
        time.map(|it| it.to_rfc3339_opts(SecondsFormat::Secs, true)).unwrap_or_default(),
        if record.allowed { "sent" } else { "refused" },
        text::bytes(record.bytes),
        text::visible(&record.purpose),
        record.privacy_mode.name(),
        text::visible(&record.destination),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PrivacyMode;

    #[test]
    fn a_request_reads_like_this() {
        let mut record = AuditRecord {
            time_ms: 1_700_000_000_000,
            destination: "https://models.example.com:443".into(),
            bytes: 512,
            purpose: "reasoning".into(),
            privacy_mode: PrivacyMode::CloudReasoningOk,
            allowed: true,
        };
        let expected =
            "2023-11-14T22:13:20Z  sent          512 B  reasoning   cloud_reasoning_ok  https://models.example.com:443";
        assert_eq!(line(&record), expected);
        record.allowed = false;
        assert!(line(&record).contains("  refused  "));
    }
}
