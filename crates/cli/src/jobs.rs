//! `vic jobs`: lists, shows and cancels index jobs.

use chrono::{DateTime, Local, SecondsFormat};

use crate::output::{Format, FormatArgs, Printer};
use crate::text;
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::JobSnapshot;

/// Arguments of `vic jobs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    output: FormatArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Lists jobs, newest first (the default)
    List {
        /// Maximum number of jobs to list
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        limit: u32,
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Shows one job with its result
    Show {
        /// Id of the job
        id: String,
        #[command(flatten)]
        output: FormatArgs,
    },
    /// Cancels a job; files that it has already read stay indexed
    Cancel {
        /// Id of the job
        id: String,
        #[command(flatten)]
        output: FormatArgs,
    },
}

/// Runs the selected subcommand.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    match args.command.unwrap_or(Command::List { limit: 20, output: args.output }) {
        Command::List { limit, output } => {
            let jobs = client.jobs(limit).await?;
            match output.format {
                Format::Json => printer.json(&jobs),
                Format::Human if jobs.is_empty() => printer.line("no jobs yet"),
                Format::Human => jobs.iter().try_for_each(|job| printer.line(&job_summary(job))),
            }
        }
        Command::Show { id, output } => print_job(&client.job(&id).await?, output.format, printer),
        Command::Cancel { id, output } => print_job(&client.cancel_job(&id).await?, output.format, printer),
    }
}

fn print_job(job: &JobSnapshot, format: Format, printer: &mut Printer) -> Result<()> {
    match format {
        Format::Json => printer.json(job),
        Format::Human => printer.raw(&job_details(job)),
    }
}

/// Formats the state and the counts of a job in one line.
pub(crate) fn job_summary(job: &JobSnapshot) -> String {
    let mut line = format!("job {} {}", job.job_id, job.state.name());
    if let Some(seconds) = job_seconds(job) {
        line.push_str(&format!(" in {}", text::format_duration(seconds)));
    }
    line.push_str(&format!(
        ": {} found, {} read",
        text::plural(job.files_found, "file"),
        text::group_digits(job.files_done)
    ));
    for (number, what) in [(job.files_failed, "failed"), (job.files_removed, "removed")] {
        if number > 0 {
            line.push_str(&format!(", {} {what}", text::group_digits(number)));
        }
    }
    line.push_str(&format!(", {} written", text::plural(job.chunks_written, "chunk")));
    text::escape_controls(&line).into_owned()
}

fn job_details(job: &JobSnapshot) -> String {
    let mut lines = vec![job_summary(job)];
    let paths = match job.request.paths.as_slice() {
        [] => "every root".to_string(),
        paths => paths.join(", "),
    };
    lines.push(format!("  asked for: {paths}"));
    lines.push(format!("  created:   {}", local_time(job.created_ms)));
    if !job.state.is_final() {
        lines.push(format!("  phase:     {}, {}/{} files", job.phase.name(), job.files_done, job.files_total));
    }
    for (name, value) in [("last error:", &job.last_error), ("failed:    ", &job.error)] {
        lines.extend(value.as_ref().map(|it| format!("  {name} {it}")));
    }
    lines.iter().map(|line| format!("{}\n", text::escape_controls(line))).collect()
}

fn job_seconds(job: &JobSnapshot) -> Option<f64> {
    Some((job.finished_ms? - job.started_ms?) as f64 / 1_000.0)
}

/// Formats milliseconds since the epoch as local time.
fn local_time(milliseconds: i64) -> String {
    match DateTime::from_timestamp_millis(milliseconds) {
        Some(moment) => moment.with_timezone(&Local).to_rfc3339_opts(SecondsFormat::Secs, true),
        None => milliseconds.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vic_protocol::model::{JobState, samples};

    #[test]
    fn summary_formats_a_job_in_one_line() {
        let expected = "job job-1 completed in 2.5 s: 12 files found, 10 read, 1 failed, 2 removed, 40 chunks written";
        assert_eq!(job_summary(&samples::job(JobState::Completed, 10)), expected);
        let running = "job job-1 running: 12 files found, 4 read, 1 failed, 2 removed, 40 chunks written";
        assert_eq!(job_summary(&samples::job(JobState::Running, 4)), running);
    }

    #[test]
    fn failed_job_shows_its_errors() {
        let shown = job_details(&samples::job(JobState::Failed, 4));
        assert!(shown.contains("  asked for: /w\n"), "{shown}");
        assert!(shown.contains("  last error: a.pdf: damaged\n"), "{shown}");
        assert!(shown.ends_with("  failed:     the disk is full\n"), "{shown}");
    }
}
