//! Observer of the attempts to read a file.

/// Is notified of every worker that is given a file, and decides whether there is another attempt.
#[async_trait::async_trait]
pub trait Witness: Send + Sync {
    /// Called when a worker is given the file.
    fn begins(&self);

    /// Called when the worker ended without a reply. Returns whether the file may be given to another worker.
    async fn may_again(&self) -> bool;
}

/// An observer that counts nothing and allows every retry.
pub(super) struct Nobody;

#[async_trait::async_trait]
impl Witness for Nobody {
    fn begins(&self) {}

    async fn may_again(&self) -> bool {
        true
    }
}
