//! Observer of the attempts to read a file.

/// Is notified of every worker that is given a file, and decides whether there is another attempt.
#[async_trait::async_trait]
pub trait ReadObserver: Send + Sync {
    /// Called when a worker is given the file.
    fn attempt_started(&self);

    /// Called when the worker ended without a reply. Returns whether the file may be given to another worker.
    async fn may_retry(&self) -> bool;
}

/// An observer that counts nothing and allows every retry.
pub(super) struct NoObserver;

#[async_trait::async_trait]
impl ReadObserver for NoObserver {
    fn attempt_started(&self) {}

    async fn may_retry(&self) -> bool {
        true
    }
}
