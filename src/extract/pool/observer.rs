//! The observer that a caller passes to the worker pool, to count the attempts to read a file and to decide on a retry.

/// Observes the attempts to read one file. It is notified of each attempt, and decides whether the file may be retried.
#[async_trait::async_trait]
pub trait ReadObserver: Send + Sync {
    /// Called when a worker is about to get the file.
    fn attempt_started(&self);

    /// Called after a worker died without a reply. Returns whether another worker may read the file.
    async fn may_retry(&self) -> bool;
}

/// Observer that ignores notifications and allows every retry.
pub(super) struct NoObserver;

#[async_trait::async_trait]
impl ReadObserver for NoObserver {
    fn attempt_started(&self) {}

    async fn may_retry(&self) -> bool {
        true
    }
}
