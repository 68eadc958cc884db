//! Watching: the watcher of the roots, and the task that applies its events.

pub(in crate::index) mod apply;
pub(in crate::index) mod watching;
