//! `vic bench search`: measures how fast the running daemon answers questions.

use std::path::PathBuf;

use crate::bench;
use crate::bench::search::SearchPlan;
use crate::bench::{Report, input_texts};
use crate::commands::bench::output::{OutputArgs, print_report};
use crate::config::Config;
use crate::error::Result;
use vic_cli::output::Printer;

/// Arguments of `vic bench search`: the questions to ask, and the load on the daemon.
#[derive(Debug, clap::Args)]
pub(crate) struct SearchArgs {
    /// File with the questions: the `query`, `question` or `text` of each line (JSON), asked in rotation
    #[arg(long, value_name = "FILE.jsonl")]
    queries: PathBuf,
    /// Number of connections; each waits for an answer before it sends the next question
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    clients: u16,
    /// Questions per second, sent without waiting for answers; default: half the rate of one sequential client
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    rate: Option<f64>,
    /// Duration of the measurement, in seconds
    #[arg(long, default_value = "10", value_name = "N", value_parser = parse_positive)]
    seconds: f64,
    /// Maximum number of hits per answer
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// Parses a number above 0, up to a million.
pub(crate) fn parse_positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|it| *it > 0.0 && *it <= 1e6);
    number.ok_or_else(|| format!("`{text}` is not a number above 0 and at most a million"))
}

/// Runs the benchmark and prints the report.
pub(crate) async fn run(args: &SearchArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    let earlier = args.output.earlier()?;
    let plan = SearchPlan {
        queries: input_texts::read_json_lines(&args.queries, &["query", "question", "text"])?,
        clients: args.clients.into(),
        rate: args.rate,
        seconds: args.seconds,
        limit: args.limit,
    };
    let mut report = Report::new("search", None);
    let (row, warnings) = bench::search::measure(config, &plan).await?;
    (report.rows, report.warnings) = (vec![row], warnings);
    print_report(report, &args.output, earlier.as_ref(), config, printer)
}
