//! Maintenance: compaction, purging, the daily scrub, retries after an upgrade, reconciliation.

pub(crate) mod purge;
pub(in crate::index) mod reconcile;
pub(in crate::index) mod retry;
pub(in crate::index) mod schedule;
pub(in crate::index) mod scrub;
