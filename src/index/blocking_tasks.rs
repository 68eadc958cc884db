//! Blocking work off the async threads.

use std::time::Duration;

use crate::error::{Error, ErrorCode, Result};

/// Runs blocking work (SQLite, files, tokenizers) off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_cancelled() => Err(Error::new(ErrorCode::Cancelled, "the daemon is ending")),
        // The panic message may hold text of a document.
        Err(_) => Err(Error::new(ErrorCode::Internal, "a stage panicked; see the log of vicd")),
    }
}

/// As [`blocking`], for work that opens files. Stops waiting after `most`, because a disk may never respond.
///
/// # Errors
/// Errors of the work, and that it did not finish in time.
pub(crate) async fn blocking_with_timeout<T: Send + 'static>(
    most: Duration,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::time::timeout(most, blocking(work)).await.unwrap_or_else(|_| {
        let text = format!("a disk with files of the answer has not responded for {} s", most.as_secs());
        Err(Error::new(ErrorCode::Unavailable, text).hint("`vic status` names the folder once it is known"))
    })
}
