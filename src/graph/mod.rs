//! The graph of vic: a typed property graph of the references between files, and of graphs that the user imports.
//!
//! [`GraphService`] is the entry point. A [`Snapshot`] is the whole graph, immutable and in memory; `catalog` stores on disk
//! the parts that a snapshot is made from. A query arrives as AxQL (`axql`), as `query_ir_v1` (`ir`) or as `graph_query`.
//! This module checks, plans and runs each query; a language model only writes it. `extract` turns files into nodes and
//! edges, `index_sync` keeps them up to date with the index, and [`tools`] is the registry of tools that a model may call.
//!
//! The graph is built when it is first used. This module never writes to the index or to files of users.

mod context;
mod export;
mod extract;
pub mod import;
mod index_sync;
mod node_names;
mod pending_changes;
mod publish;
pub mod query;
mod question;
mod request;
mod scc;
mod semantic_id;
mod service;
mod similar_names;
pub mod snapshot;
pub(crate) mod suggest;
#[cfg(test)]
mod tests;
pub mod tools;

pub use context::GraphInputs;
pub use service::GraphService;
pub use snapshot::Snapshot;
