//! Maintenance: compaction, purging, the daily scrub, retries after an upgrade, reconciliation, the check of the disk space.

pub(crate) mod purge;
pub(in crate::index) mod disk_check;
pub(in crate::index) mod due;
pub(in crate::index) mod reconcile;
pub(in crate::index) mod retry;
pub(in crate::index) mod schedule;
pub(in crate::index) mod scrub;
