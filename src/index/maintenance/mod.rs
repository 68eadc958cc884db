//! TODO_DOC

pub(crate) mod purge;
pub(in crate::index) mod reconcile;
pub(in crate::index) mod retry;
pub(in crate::index) mod schedule;
pub(in crate::index) mod scrub;
