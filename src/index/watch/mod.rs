//! Watching: the watcher of the roots, and what its events change.

pub(in crate::index) mod apply;
pub(in crate::index) mod watching;
