//! The gRPC adapters, one file per gRPC service.

pub(crate) mod graph;
pub(in crate::serve) mod llm;
pub(in crate::serve) mod vic;
