//! gRPC adapters, a file per service.

pub(crate) mod graph;
pub(in crate::serve) mod llm;
pub(in crate::serve) mod vic;
