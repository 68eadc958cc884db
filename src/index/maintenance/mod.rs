//! Maintenance: compaction, purging, the daily check of contents, retries, reconciliation, the check of disk space.

pub(crate) mod purge;
pub(in crate::index) mod disk_check;
pub(in crate::index) mod due;
pub(in crate::index) mod languages;
pub(in crate::index) mod reconcile;
pub(in crate::index) mod retry;
pub(in crate::index) mod schedule;
pub(in crate::index) mod scrub;
