//! Proposals of a model for the graph: made, checked against files, promoted to the graph.

pub(in crate::agent) mod augment;
pub(in crate::agent) mod promote;
pub(in crate::agent) mod propose;
