//! Tests of file events: freshness, saves, renames, lost events, and sync.

pub(crate) mod continuous_saves;
pub(crate) mod events;
pub(crate) mod freshness;
pub(crate) mod kernel_watches;
pub(crate) mod random_operations;
pub(crate) mod sync;
