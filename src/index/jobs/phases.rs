//! The single phases of a job. [`IndexState::run_job`] calls them in order.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::catalog::RequeueScope;
use crate::error::{Error, ErrorCode, Result};
use crate::index::blocking_tasks::blocking;
use crate::index::jobs::request::{RootPart, folder_of};
use crate::index::maintenance::retry;
use crate::index::ocr::read_queue;
use crate::index::progress::Progress;
use crate::index::state::IndexState;
use crate::model::{IndexRequest, OcrMode, RootId, display_path};

/// Maximum time that a job waits for the runs over urgent files to finish.
const URGENT_WAIT: Duration = Duration::from_secs(10);

/// A started job: the roots or parts of roots that it walks, its progress and its cancellation token.
pub(in crate::index) struct Job {
    pub(in crate::index) parts: Vec<RootPart>,
    pub(in crate::index) progress: Arc<Progress>,
    pub(in crate::index) cancel: CancellationToken,
}

impl Job {
    pub(in crate::index) fn request(&self) -> IndexRequest {
        self.progress.snapshot().request
    }
}

/// Walks the roots, or parts of roots, of a job. If the request is `full`, makes all files in them pending.
pub(in crate::index) async fn scan_parts(inner: &Arc<IndexState>, job: &Job, request: &IndexRequest) -> Result<()> {
    for part in &job.parts {
        match scan_part(inner, job, part).await {
            // A job over several roots goes on after an error. An unavailable root, for example, keeps its index
            // entries. A job over a single root fails.
            Err(error) if job.parts.len() > 1 && error.code != ErrorCode::Cancelled => {
                job.progress.update(|job| job.last_error = Some(error.message.clone()));
            }
            outcome => outcome?,
        }
        if request.full && !request.metadata_only {
            let (catalog, under) = (inner.catalog.clone(), folder_of(&part.0, part.1.as_deref()));
            blocking(move || catalog.requeue(&RequeueScope::Under(under))).await?;
        }
    }
    Ok(())
}

/// Walks a root, or a part of it. After a successful walk the root is watched again, in case it was unavailable before.
/// After a failed walk the root is no longer watched, because its watches no longer work.
async fn scan_part(inner: &Arc<IndexState>, job: &Job, (root, within): &RootPart) -> Result<()> {
    let accept_losses = job.request().accept_losses;
    match inner.scan_accepting_losses(root, within.clone(), accept_losses, &job.cancel).await {
        Ok((outcome, problems)) => {
            inner.watch(root).await;
            let doubt = if within.is_none() { rejection_reason(inner, root.id).await? } else { None };
            let is_only = job.parts.len() == 1;
            job.progress.update(|job| {
                job.files_found += outcome.found;
                job.files_removed += outcome.removed;
                job.last_error = problems.into_iter().next().map(|it| it.sentence).or(job.last_error.take());
                if let Some(doubt) = doubt {
                    job.last_error = Some(doubt);
                    // A root whose walk was not accepted fails the job if it is the only one or was requested by path.
                    let is_meant = is_only || !job.request.paths.is_empty();
                    job.error_exit_code = is_meant.then(|| ErrorCode::FailedPrecondition.exit_code().into());
                }
            });
            Ok(())
        }
        Err(error) => {
            if error.code != ErrorCode::Cancelled {
                inner.unwatch(root.id).await;
            }
            Err(error)
        }
    }
}

/// Returns why a completed walk was not accepted: the root is suddenly empty or lost most of its files.
async fn rejection_reason(inner: &Arc<IndexState>, id: RootId) -> Result<Option<String>> {
    let root = inner.roots().await?.into_iter().find(|it| it.id == id && !it.available);
    Ok(root.map(|it| format!("`{}`: {}", display_path(&it.path), it.problem)))
}

/// Returns how many files are pending, and how many chunks wait for their vectors. First makes files pending that
/// failed because of the machine, unless the request reads no files.
pub(in crate::index) async fn count_work(inner: &IndexState, request: &IndexRequest) -> Result<(u64, u64)> {
    let (catalog, reads_files) = (inner.catalog.clone(), !request.metadata_only);
    blocking(move || {
        if reads_files {
            retry::retry_machine_errors(&catalog)?;
        }
        Ok((catalog.pending_count(None)?, catalog.awaiting_chunks()?))
    })
    .await
}

/// Waits for the runs over urgent files, unless the job's number of files is limited, and returns whether they left
/// pending files. Such files are part of the job's request, like the files that the watcher's runs indexed first.
pub(in crate::index) async fn have_urgent_runs_left_files(inner: &IndexState, job: &Job) -> Result<bool> {
    if job.request().max_files.is_some() {
        return Ok(false);
    }
    let settled = job.cancel.run_until_cancelled(inner.runs.urgent.wait_idle(URGENT_WAIT)).await;
    let catalog = inner.catalog.clone();
    Ok(settled == Some(true) && blocking(move || catalog.pending_count(None)).await? > 0)
}

/// Returns whether a run without a job must continue the job's work after this error. Not if the disk is full, because
/// indexing resumes by itself when space is free. Not if the request is partial, because the remaining files wait for
/// another job.
pub(in crate::index) fn should_continue(error: &Error, request: &IndexRequest) -> bool {
    let is_told = matches!(error.code, ErrorCode::Cancelled | ErrorCode::StorageFull);
    !is_told && !request.metadata_only && request.max_files.is_none()
}

/// Runs OCR on the unread images in the folders of the job.
pub(in crate::index) async fn run_ocr(inner: &Arc<IndexState>, job: &Job) -> Result<()> {
    let request = job.request();
    if request.metadata_only || request.ocr == OcrMode::Never {
        return Ok(());
    }
    if request.max_files.is_none() {
        let folders: Vec<PathBuf> = job.parts.iter().map(|(root, within)| folder_of(root, within.as_deref())).collect();
        read_queue::enqueue_folders(inner, &job.progress.job_id(), &folders, request.ocr).await?;
    }
    read_queue::read_queue(inner, request.ocr, &job.progress, &job.cancel).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_job_continues_without_job_unless_partial_or_resumed() {
        let all = IndexRequest::default();
        let check = |code, request: &IndexRequest| should_continue(&Error::new(code, "it failed"), request);
        let failures = [ErrorCode::Unavailable, ErrorCode::Internal, ErrorCode::Cancelled, ErrorCode::StorageFull];
        assert_eq!(failures.map(|it| check(it, &all)), [true, true, false, false]);
        assert!(!check(ErrorCode::Unavailable, &IndexRequest { max_files: Some(9), ..all.clone() }));
        assert!(!check(ErrorCode::Unavailable, &IndexRequest { metadata_only: true, ..all }));
    }
}
