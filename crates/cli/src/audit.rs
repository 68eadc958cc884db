//! `vic audit`: lists requests to other machines, sent or refused; with `--agents`, lists runs of agents.

use chrono::{DateTime, SecondsFormat, Utc};

use crate::output::{Format, FormatArgs, Printer};
use crate::text;
use vic_protocol::client::{AssistWork, Client};
use vic_protocol::config::Config;
use vic_protocol::error::{Error, Result};
use vic_protocol::model::agent::Override;
use vic_protocol::model::{AgentRun, AuditRecord};

/// Arguments of `vic audit`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Maximum number of entries, newest first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// List runs of agents instead: time, question and outcome. Keys in questions are redacted (VIC_REDACT)
    #[arg(long)]
    agents: bool,
    #[command(flatten)]
    output: FormatArgs,
}

/// Prints the requests in the audit log, or the agent runs.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    if args.agents {
        return print_agent_runs(&client, &args, printer).await;
    }
    let records = client.audit(args.limit).await?;
    match args.output.format {
        Format::Json => printer.json(&records),
        Format::Human if records.is_empty() => printer.line("no request to another machine was sent or refused"),
        Format::Human => records.iter().try_for_each(|record| printer.line(&format_request(record))),
    }
}

async fn print_agent_runs(client: &Client, args: &Args, printer: &mut Printer) -> Result<()> {
    let runs = client.assist(AssistWork::Runs(args.limit), Override::default()).await?;
    let runs: Vec<AgentRun> = serde_json::from_value(runs).map_err(Error::internal)?;
    match args.output.format {
        Format::Json => printer.json(&runs),
        Format::Human if runs.is_empty() => printer.line("no agent runs yet"),
        Format::Human => runs.iter().try_for_each(|it| printer.line(&format_run(it))),
    }
}

/// Formats a time in UTC; `time_ms` is in milliseconds since the epoch.
fn format_time(time_ms: i64) -> String {
    let time = DateTime::<Utc>::from_timestamp_millis(time_ms);
    time.map(|it| it.to_rfc3339_opts(SecondsFormat::Secs, true)).unwrap_or_default()
}

/// Formats a run of an agent in one line.
fn format_run(it: &AgentRun) -> String {
    format!(
        "{}  {:<13}  {:>9}  {:>8}  {}  ({})",
        format_time(it.time_ms),
        text::escape_controls(&it.ended),
        text::plural(it.steps, "step"),
        text::format_duration(it.elapsed_ms as f64 / 1e3),
        text::escape_controls(&it.question),
        text::escape_controls(&it.model),
    )
}

/// Formats a request to another machine in one line.
fn format_request(record: &AuditRecord) -> String {
    format!(
        "{}  {:<7}  {:>10}  {:<10}  {:<18}  {}",
        format_time(record.time_ms),
        if record.allowed { "sent" } else { "refused" },
        text::format_bytes(record.bytes),
        text::escape_controls(&record.purpose),
        record.privacy_mode.name(),
        text::escape_controls(&record.destination),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use vic_protocol::model::PrivacyMode;

    #[test]
    fn agent_run_is_formatted_in_one_line() {
        let run = AgentRun {
            time_ms: 1_700_000_000_000,
            model: "mock".into(),
            question: "how heavy was the hive\u{1b}[2J".into(),
            ended: "nothing_found".into(),
            steps: 1,
            citations: 0,
            elapsed_ms: 1_500,
        };
        let line = format_run(&run);
        assert!(line.starts_with("2023-11-14T22:13:20Z  nothing_found     1 step"), "{line}");
        assert!(line.ends_with("1.5 s  how heavy was the hive\\u{1b}[2J  (mock)"), "{line}");
    }

    #[test]
    fn request_is_formatted_in_one_line() {
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
        assert_eq!(format_request(&record), expected);
        record.allowed = false;
        assert!(format_request(&record).contains("  refused  "));
    }
}
