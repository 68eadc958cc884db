//! Runs blocking work off the async threads.

use crate::error::{Error, Result};

/// Runs blocking work on the blocking pool.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(Error::internal)?
}
