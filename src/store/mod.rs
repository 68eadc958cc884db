//! The store: chunks and vectors on disk, with keyword search, vector search and maintenance.
//!
//! The store does not merge the results of several searches (`ask` does), and does not know paths of files or decide
//! which files are out of date (`index` does). [`LanceStore`] is the implementation; start reading at [`Store`].

mod backend;
mod commit;
mod compaction;
mod indexes;
mod lance_runtime;
mod lance_error;
mod memory;
mod inspect;
mod lance;
mod lance_backend;
mod queries;
mod manifests;
mod recovery;
mod purge;
mod version_pins;
mod schema;
mod fsync;
mod durable_version;
#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod tests;
mod maintenance;
mod footer_check;
mod write;

pub use crate::store::backend::{FileSet, KeywordQuery, Store, StoreStats};
pub use crate::store::inspect::Inspection;
pub use crate::store::lance::{LanceStore, memory_caps};
pub use crate::store::lance_runtime::{limit_library, start_pool};
