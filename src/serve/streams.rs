//! Streams the events of an answer and the snapshots of a job. Every stream ends when the daemon shuts down, because the
//! shutdown would otherwise wait until the client disconnects.

use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorCode, Result};
use crate::model::{AskEvent, JobSnapshot};
use crate::serve::Service;

/// Minimum interval between two snapshots of a job in a stream.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Streams the events of an answer. If the daemon shuts down, the last item is an error. Dropping the stream cancels the
/// work.
pub(crate) fn answer_stream(
    receiver: mpsc::Receiver<Result<AskEvent>>,
    shutdown: CancellationToken,
) -> BoxStream<'static, Result<AskEvent>> {
    stream::unfold(Some(receiver), move |receiver| {
        let shutdown = shutdown.clone();
        async move {
            let mut receiver = receiver?;
            match shutdown.run_until_cancelled(receiver.recv()).await {
                Some(Some(Ok(event))) => Some((Ok(event), Some(receiver))),
                Some(Some(Err(error))) => Some((Err(error), None)),
                Some(None) => None,
                None => {
                    let error = Error::new(ErrorCode::Unavailable, "vicd stopped before the answer was complete");
                    Some((Err(error), None))
                }
            }
        }
    })
    .boxed()
}

/// Streams the snapshots of a job until it ends. For a job that ended long ago, the stream has only the final snapshot.
pub(crate) async fn job_stream(
    service: &dyn Service,
    job_id: &str,
    shutdown: CancellationToken,
) -> Result<BoxStream<'static, Result<JobSnapshot>>> {
    match service.watch_job(job_id) {
        Ok(receiver) => Ok(progress_stream(receiver, shutdown)),
        Err(error) if error.code == ErrorCode::NotFound => {
            let snapshot = service.job(job_id).await?;
            Ok(stream::iter([Ok(snapshot)]).boxed())
        }
        Err(error) => Err(error),
    }
}

/// State of a job's stream, between two snapshots.
enum ProgressState {
    Begin(watch::Receiver<JobSnapshot>),
    /// Holds the last snapshot that was sent.
    Sent(watch::Receiver<JobSnapshot>, Box<JobSnapshot>),
    End,
}

/// Streams the snapshots of a job up to the final one. If the daemon shuts down, the last item is an error.
fn progress_stream(
    receiver: watch::Receiver<JobSnapshot>,
    shutdown: CancellationToken,
) -> BoxStream<'static, Result<JobSnapshot>> {
    stream::unfold(ProgressState::Begin(receiver), move |watch| {
        let shutdown = shutdown.clone();
        async move {
            let (receiver, next) = match watch {
                ProgressState::End => return None,
                ProgressState::Begin(receiver) => {
                    let first = receiver.borrow().clone();
                    (receiver, Some(first))
                }
                ProgressState::Sent(mut receiver, last) => {
                    let next = shutdown.run_until_cancelled(next_snapshot(&mut receiver, &last)).await.flatten();
                    (receiver, next)
                }
            };
            match next {
                Some(snapshot) if snapshot.state.is_final() => Some((Ok(snapshot), ProgressState::End)),
                Some(snapshot) => Some((Ok(snapshot.clone()), ProgressState::Sent(receiver, Box::new(snapshot)))),
                None => {
                    let error = Error::new(ErrorCode::Unavailable, "vicd stopped before the job ended")
                        .hint("`vic index` continues the job");
                    Some((Err(error), ProgressState::End))
                }
            }
        }
    })
    .boxed()
}

/// Waits at least [`PROGRESS_INTERVAL`], and until the snapshot differs from `last`; returns at once when the job ends.
/// Returns `None` if no more snapshots follow.
async fn next_snapshot(receiver: &mut watch::Receiver<JobSnapshot>, last: &JobSnapshot) -> Option<JobSnapshot> {
    let ended = receiver.wait_for(|it| it.state.is_final());
    if let Ok(Ok(snapshot)) = tokio::time::timeout(PROGRESS_INTERVAL, ended).await {
        return Some(snapshot.clone());
    }
    receiver.wait_for(|it| it != last).await.ok().map(|it| it.clone())
}
