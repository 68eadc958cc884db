//! Proposed entities and relations for the graph: found in files, extended by a model, checked, and turned into a graph.

pub(in crate::agent) mod augment;
pub(in crate::agent) mod promote;
pub(in crate::agent) mod propose;
