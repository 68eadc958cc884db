//! Who is told how often a file is read.

/// Is told of every reader that is given a file, and has the last word on whether there is another.
#[async_trait::async_trait]
pub trait Witness: Send + Sync {
    /// A reader is given the file.
    fn begins(&self);

    /// The reader ended without an answer. Returns whether the file may be given to one more.
    async fn may_again(&self) -> bool;
}

/// For what nobody counts.
pub(super) struct Nobody;

#[async_trait::async_trait]
impl Witness for Nobody {
    fn begins(&self) {}

    async fn may_again(&self) -> bool {
        true
    }
}
