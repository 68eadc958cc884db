//! TODO_DOC

pub(crate) mod graph;
pub(in crate::serve) mod llm;
pub(in crate::serve) mod vic;
