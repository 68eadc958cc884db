//! TODO_DOC

pub(in crate::index) mod availability;
pub(in crate::index) mod file;
pub(in crate::index) mod merge;
pub(in crate::index) mod queue;
pub(in crate::index) mod slice;
pub(in crate::index) mod throttle;
