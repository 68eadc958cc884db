//! Roots: their list, scans and walks, the watchdog over them, and the probe of mounts.

pub(in crate::index) mod list;
pub(in crate::index) mod monitor;
pub(in crate::index) mod mount_probe;
pub(in crate::index) mod scan;
pub(in crate::index) mod walk;
pub(in crate::index) mod walk_state;
pub(in crate::index) mod walk_watchdog;
