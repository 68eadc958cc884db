//! `vic audit`: what was sent to other machines, or refused, and what agents did.

use chrono::{DateTime, SecondsFormat, Utc};

use crate::output::{Format, FormatArgs, Printer};
use crate::text;
use vic_protocol::client::{Client, Work};
use vic_protocol::config::Config;
use vic_protocol::error::{Error, Result};
use vic_protocol::model::agent::Override;
use vic_protocol::model::{AgentRun, AuditRecord};

/// Arguments of `vic audit`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Most requests, newest first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// What agents did instead: when, what they were asked, how it ended. Keys in questions are blacked out (VIC_REDACT)
    #[arg(long)]
    agents: bool,
    #[command(flatten)]
    output: FormatArgs,
}

/// Asks, and prints.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    if args.agents {
        return agents(&client, &args, printer).await;
    }
    let records = client.audit(args.limit).await?;
    match args.output.format {
        Format::Json => printer.json(&records),
        Format::Human if records.is_empty() => printer.line("nothing was sent to other machines, and nothing refused"),
        Format::Human => records.iter().try_for_each(|record| printer.line(&line(record))),
    }
}

async fn agents(client: &Client, args: &Args, printer: &mut Printer) -> Result<()> {
    let runs = client.assist(Work::Runs(args.limit), Override::default()).await?;
    let runs: Vec<AgentRun> = serde_json::from_value(runs).map_err(Error::internal)?;
    match args.output.format {
        Format::Json => printer.json(&runs),
        Format::Human if runs.is_empty() => printer.line("no agent was asked anything yet"),
        Format::Human => runs.iter().try_for_each(|it| printer.line(&run_line(it))),
    }
}

/// When, in UTC.
fn told_time(time_ms: i64) -> String {
    let time = DateTime::<Utc>::from_timestamp_millis(time_ms);
    time.map(|it| it.to_rfc3339_opts(SecondsFormat::Secs, true)).unwrap_or_default()
}

/// What an agent did in one line.
fn run_line(it: &AgentRun) -> String {
    format!(
        "{}  {:<13}  {:>9}  {:>8}  {}  ({})",
        told_time(it.time_ms),
        text::visible(&it.ended),
        text::plural(it.steps, "step"),
        text::duration(it.elapsed_ms as f64 / 1e3),
        text::visible(&it.question),
        text::visible(&it.model),
    )
}

/// One request in one line.
fn line(record: &AuditRecord) -> String {
    format!(
        "{}  {:<7}  {:>10}  {:<10}  {:<18}  {}",
        told_time(record.time_ms),
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
    use vic_protocol::model::PrivacyMode;

    #[test]
    fn what_an_agent_did_reads_like_this() {
        let run = AgentRun {
            time_ms: 1_700_000_000_000,
            model: "mock".into(),
            question: "how heavy was the hive\u{1b}[2J".into(),
            ended: "nothing_found".into(),
            steps: 1,
            citations: 0,
            elapsed_ms: 1_500,
        };
        let line = run_line(&run);
        assert!(line.starts_with("2023-11-14T22:13:20Z  nothing_found     1 step"), "{line}");
        assert!(line.ends_with("1.5 s  how heavy was the hive\\u{1b}[2J  (mock)"), "{line}");
    }

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
