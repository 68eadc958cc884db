//! Roots (the folders that vic indexes): their list, scans and walks, the watchdog of walks, and the probes of mounts.

pub(in crate::index) mod list;
pub(in crate::index) mod monitor;
pub(in crate::index) mod mount_probe;
pub(in crate::index) mod scan;
pub(in crate::index) mod walk;
pub(in crate::index) mod walk_state;
pub(in crate::index) mod walk_watchdog;
