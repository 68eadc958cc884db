//! The store: chunks and vectors on disk, with keyword search, vector search and maintenance.
//!
//! The store does not merge the results of several searches (`ask` does), and does not know paths of files or decide
//! which files are out of date (`index` does). [`LanceStore`] is the implementation; start reading at [`Store`].

mod backend;
mod milvus;
mod analysed_terms;
mod analysis;
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
mod prefix_search;
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

use std::sync::Arc;

use crate::config::{Config, VectorBackend};
use crate::error::Result;
use crate::store::milvus::{MilvusBackend, Use};

pub use crate::store::backend::{
    Backend, Capabilities, Durability, FileSet, Inspection, KeywordQuery, KeywordSearch, Maintenance, Recovery, Store,
    StoreStats,
};
pub use crate::store::lance::{LanceStore, memory_caps};
pub use crate::store::lance_backend::LanceBackend;
pub use crate::store::lance_runtime::{limit_library, start_pool};

/// Opens the backend of the settings for the daemon.
///
/// # Errors
/// The server of the backend cannot be used.
pub async fn open_backend(config: &Config) -> Result<Arc<dyn Backend>> {
    open(config, Use::Serve).await
}

/// Opens the backend of the settings to read it. `has_daemon` tells whether a daemon uses it now.
///
/// # Errors
/// The server of the backend cannot be used.
pub async fn inspect_backend(config: &Config, has_daemon: bool) -> Result<Arc<dyn Backend>> {
    open(config, Use::Inspect { has_daemon }).await
}

async fn open(config: &Config, purpose: Use) -> Result<Arc<dyn Backend>> {
    Ok(match config.vectors.backend {
        VectorBackend::Lance => Arc::new(LanceBackend::new(config.db_path.clone())),
        VectorBackend::Milvus => Arc::new(MilvusBackend::connect(config, purpose).await?),
    })
}
