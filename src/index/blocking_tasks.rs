//! Runs blocking work of the daemon (SQLite, files, tokenizers) on threads that may block, not on the async threads.

use std::time::Duration;

use crate::error::{Error, ErrorCode, Result};

/// Runs blocking work on a thread that may block, and waits for its result.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_cancelled() => Err(Error::new(ErrorCode::Cancelled, "the daemon shuts down")),
        // The panic message is left out, because it may contain text of a document.
        Err(_) => Err(Error::new(ErrorCode::Internal, "a task panicked; see the log of vicd")),
    }
}

/// As [`blocking`], for work that opens files. Waits no longer than `most`, because a disk may never respond.
///
/// # Errors
/// Errors of the work, and `Unavailable` if it did not finish in time.
pub(crate) async fn blocking_with_timeout<T: Send + 'static>(
    most: Duration,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::time::timeout(most, blocking(work)).await.unwrap_or_else(|_| {
        let text = format!("the disk of a file in the answer has not responded for {} s", most.as_secs());
        Err(Error::new(ErrorCode::Unavailable, text).hint("`vic status` names that folder once vic has found it"))
    })
}
