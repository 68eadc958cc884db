//! Runs one job, from the check of its request to its last snapshot.

use std::sync::Arc;

use tracing::info;

use crate::error::{Error, ErrorCode, Result};
use crate::index::clock::now_ms;
use crate::index::jobs::phases::Job;
use crate::index::jobs::request::resolve_parts;
use crate::index::progress::snapshot_without_job;
use crate::index::state::IndexState;
use crate::model::{IndexRequest, JobSnapshot, JobState, Phase, Principal, Scope};

/// Checks the request against the caller's `scope`, records the job and runs it in the background.
pub(in crate::index) async fn start(
    inner: &Arc<IndexState>,
    request: IndexRequest,
    scope: &Scope,
    holder: &Principal,
) -> Result<JobSnapshot> {
    // Reserves the job's slot before any path is read or added as a root.
    let share = inner.jobs.admit(&request, holder)?;
    let parts = resolve_parts(inner, &request, scope).await?;
    let snapshot = JobSnapshot { job_id: new_id()?, request, ..snapshot_without_job() };
    let cancel = inner.shutdown.child_token();
    // Checks the limit of jobs again, because other jobs may have started meanwhile.
    let progress = inner.jobs.add(&snapshot, holder, cancel.clone())?;
    let run = run(inner.clone(), Job { parts, progress, cancel });
    inner.background.spawn(async move {
        run.await;
        drop(share);
    });
    Ok(snapshot)
}

async fn run(inner: Arc<IndexState>, job: Job) {
    let outcome = inner.run_job(&job).await;
    let is_cancelled = job.cancel.is_cancelled();
    inner.ocr_queue.end_job(&job.progress.job_id(), is_cancelled);
    job.progress.update(|job| record_end(job, outcome, is_cancelled));
    let last = job.progress.snapshot();
    info!(
        job = last.job_id,
        state = last.state.name(),
        files = last.files_done,
        chunks = last.chunks_written,
        "job ended"
    );
    inner.jobs.end(&last);
}

fn record_end(job: &mut JobSnapshot, outcome: Result<()>, cancelled: bool) {
    job.finished_ms = Some(now_ms());
    job.phase = Phase::Done;
    job.eta_seconds = None;
    job.state = match outcome {
        Ok(()) if !cancelled => JobState::Completed,
        Err(error) if error.code != ErrorCode::Cancelled && !cancelled => {
            job.error_exit_code = Some(u32::from(error.code.exit_code()));
            job.error = Some(match error.hint {
                Some(hint) => format!("{} ({hint})", error.message),
                None => error.message,
            });
            JobState::Failed
        }
        Ok(()) | Err(_) => JobState::Cancelled,
    };
}

/// Returns a short id that sorts by time: milliseconds and a random number. A counter would reveal how many jobs other
/// callers started.
fn new_id() -> Result<String> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(Error::internal)?;
    Ok(format!("{:x}-{:08x}", now_ms(), u32::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_id_does_not_reveal_job_count() {
        let number = |id: String| u32::from_str_radix(id.rsplit_once('-').unwrap().1, 16).unwrap();
        let numbers: Vec<u32> = (0..20).map(|_| number(new_id().unwrap())).collect();
        assert!(numbers.windows(2).all(|it| it[0].abs_diff(it[1]) > 1), "{numbers:?}");
    }
}
