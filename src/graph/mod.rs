//! The warehouse as one typed property graph: references between files, and imported graphs.
//!
//! [`GraphService`] is the entry point. A [`Snapshot`] is immutable and in memory; `catalog` stores its sources on disk.
//! Queries arrive as AxQL (`axql`), as `query_ir_v1` (`ir`) or as `graph_query`. This module checks, plans and runs all
//! of them, so a language model only proposes. `extract` turns files into nodes and edges, `index_sync` syncs them
//! with the index, and [`tools`] is the registry of tools that a model may call.
//!
//! The graph is built on first use. Nothing here writes to the index or to files of users.

mod context;
mod export;
mod extract;
pub mod import;
mod index_sync;
mod pending_changes;
mod publish;
pub mod query;
mod question;
mod request;
mod scc;
mod semantic_id;
mod service;
pub mod snapshot;
mod suggest;
#[cfg(test)]
mod tests;
pub mod tools;

pub use context::GraphInputs;
pub use service::GraphService;
pub use snapshot::Snapshot;
