//! Index jobs, from request to end. [`crate::index::pipeline`] defines the order of their phases.

pub(in crate::index) mod phases;
pub(in crate::index) mod request;
pub(in crate::index) mod run;
pub(in crate::index) mod unended;
