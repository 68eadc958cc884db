//! `vic index`: starts an index job, and waits until it ends unless `--no-wait` is given.

use std::path::PathBuf;

use crate::output::{Format, FormatArgs, Printer, print_error_at, print_note};
use crate::progress::Progress;
use crate::{jobs, status, text, value_parsers};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::{Error, ErrorCode, Result};
use vic_protocol::model::{IndexRequest, JobSnapshot, JobState, OcrMode, Place};

/// Arguments of `vic index`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders or files to index [default: all roots]
    paths: Vec<PathBuf>,
    /// Read and embed all files again, even if unchanged
    #[arg(long)]
    full: bool,
    /// Record only names, sizes and dates, without reading content
    #[arg(long)]
    metadata_only: bool,
    /// Maximum number of files to read; the others stay pending
    #[arg(long, value_name = "N")]
    max_files: Option<u64>,
    /// Wait until the job ends (the default)
    #[arg(long, conflicts_with = "no_wait")]
    wait: bool,
    /// When to read text in images by OCR: auto (pages without a text layer, and images), never or always
    #[arg(long, value_parser = ocr_mode, default_value = "auto", value_name = "MODE")]
    ocr: OcrMode,
    /// Remove files from the index even if that looks like a fault: all files of a folder, more than half of them, or
    /// those of a file system that is not mounted
    #[arg(long)]
    accept_losses: bool,
    /// Print the job id and exit without waiting
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    output: FormatArgs,
}

/// Parses the name of an OCR mode.
pub fn ocr_mode(name: &str) -> Result<OcrMode, String> {
    OcrMode::from_name(name).ok_or_else(|| "use `auto`, `never` or `always`".to_string())
}

/// Starts the job, waits for it if requested, and prints its result.
pub async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    let mut paths = Vec::with_capacity(args.paths.len());
    for path in &args.paths {
        paths.push(value_parsers::resolve_path(&client, path).await?);
    }
    let request = IndexRequest {
        paths,
        full: args.full,
        metadata_only: args.metadata_only,
        max_files: args.max_files,
        ocr: args.ocr,
        accept_losses: args.accept_losses,
    };
    let job = client.start_index(request).await?;
    if args.no_wait {
        return match args.output.format {
            Format::Json => printer.json(&job),
            Format::Human => printer.line(&job.job_id),
        };
    }
    let job = watch_job(&client, job).await?;
    match args.output.format {
        Format::Json => printer.json(&job)?,
        Format::Human => {
            printer.line(&jobs::job_summary(&job))?;
            // Ignores an error, because the summary is useful even without the coverage.
            if let Ok(status) = client.status().await {
                printer.raw(&status::format_coverage(&status.coverage))?;
                status.advice.iter().for_each(|it| print_note(&format!("advice: {}", text::escape_controls(it))));
            }
        }
    }
    if job.state == JobState::Completed && job.files_found == 0 {
        explain_left_out(&client, &args.paths, &job.request.paths).await;
    }
    if let (JobState::Completed, None, Some(problem)) = (job.state, job.error_exit_code, &job.last_error) {
        print_note(&format!("warning: {}", text::escape_controls(problem)));
    }
    job_outcome(&job)
}

/// Tells why named files are not indexed, such as the rule that leaves them out.
async fn explain_left_out(client: &Client, typed: &[PathBuf], named: &[String]) {
    for (_, path) in typed.iter().zip(named).filter(|(typed, _)| typed.is_file()) {
        match client.read(path, &Place::default()).await {
            Err(error) if error.code == ErrorCode::NotFound => print_error_at("note", &error),
            _ => (),
        }
    }
}

/// Shows the progress of a job until it ends. Ctrl-C cancels the job; a second Ctrl-C exits at once.
pub async fn watch_job(client: &Client, mut job: JobSnapshot) -> Result<JobSnapshot> {
    use futures::StreamExt;
    use tokio::signal::unix::{SignalKind, signal};

    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::internal)?;
    let mut snapshots = std::pin::pin!(client.watch_job(&job.job_id).await?);
    let mut progress = Progress::start();
    let mut cancelled = false;
    while !job.state.is_final() {
        tokio::select! {
            item = snapshots.next() => match item {
                Some(snapshot) => {
                    job = snapshot?;
                    progress.show(&job);
                }
                None => return Err(Error::new(ErrorCode::Unavailable, "vicd stopped before the job ended")),
            },
            _ = interrupt.recv() => {
                if cancelled {
                    return Err(cancelled_error());
                }
                cancelled = true;
                client.cancel_job(&job.job_id).await?;
            }
        }
    }
    Ok(job)
}

/// Returns an error if the job failed, was cancelled, or ended with a problem.
fn job_outcome(job: &JobSnapshot) -> Result<()> {
    let is_code = |it: &ErrorCode| Some(u32::from(it.exit_code())) == job.error_exit_code;
    let code = ErrorCode::ALL.into_iter().find(is_code);
    match job.state {
        JobState::Failed => {
            let cause = job.error.as_deref().unwrap_or("the cause is unknown");
            let code = code.unwrap_or(ErrorCode::Internal);
            Err(Error::new(code, format!("the job failed: {cause}")).hint("`vic status` lists problems"))
        }
        JobState::Cancelled => Err(cancelled_error()),
        JobState::Completed => match (code, &job.last_error) {
            (Some(code), Some(problem)) => Err(Error::new(code, format!("the job ended with a problem: {problem}"))),
            (_, _) => Ok(()),
        },
        JobState::Queued | JobState::Running => Ok(()),
    }
}

fn cancelled_error() -> Error {
    Error::new(ErrorCode::Cancelled, "the job was cancelled")
        .hint("files already read stay indexed; `vic index` continues")
}

#[cfg(test)]
mod tests {
    use super::*;
    use vic_protocol::model::samples;

    #[test]
    fn outcome_maps_job_state_to_exit_code() {
        for (state, code) in
            [(JobState::Completed, None), (JobState::Cancelled, Some(130)), (JobState::Failed, Some(8))]
        {
            assert_eq!(job_outcome(&samples::job(state, 1)).err().map(|it| it.code.exit_code()), code);
        }
        let emptied = JobSnapshot {
            error_exit_code: Some(6),
            last_error: Some("`/w`: the folder is empty now".into()),
            ..samples::job(JobState::Completed, 1)
        };
        let error = job_outcome(&emptied).unwrap_err();
        assert!(error.code.exit_code() == 6 && error.message.contains("`/w`: the folder is empty now"), "{error}");
        assert_eq!(
            job_outcome(&samples::job(JobState::Failed, 1)).unwrap_err().message,
            "the job failed: the disk is full"
        );
    }
}
