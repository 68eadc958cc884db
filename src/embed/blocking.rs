//! Helper of the embedding module for blocking work in async code.

use crate::error::{Error, Result};

/// Runs blocking work on the runtime's blocking pool, so that it does not block async threads.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(Error::internal)?
}
