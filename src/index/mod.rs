//! Keeps the index up to date: jobs, scans of roots, watching, the indexing pipeline, OCR and maintenance.
//!
//! Start reading at [`pipeline`], which alone defines the order of all indexing work. `state` holds the shared state
//! and documents the order of its locks. The daemon and the services use [`Index`].

mod api;
mod background;
mod blocking_tasks;
mod clock;
mod disk_space;
mod evidence_chunks;
mod jobs;
mod languages;
pub(crate) mod maintenance;
mod ocr;
mod open;
mod paths;
mod pause;
mod pipeline;
mod problems;
mod progress;
mod roots;
mod skill_evidence;
mod state;
mod sync_barrier;
mod table_cache;
mod tables;
mod watch;

pub use crate::index::api::Index;
pub(crate) use crate::index::blocking_tasks::{blocking, blocking_with_timeout};
pub(crate) use crate::index::disk_space::DiskSpace;
pub use crate::index::ocr::availability::ocr_tools;
pub(crate) use crate::index::paths::{
    StatBefore, blocking_at_file, blocking_at_path, content_hash, find_record, resolve, resolve_or_keep,
};
pub(crate) use crate::index::pipeline::memory_caps;
pub use crate::index::state::IndexParts;
pub use crate::index::tables::{ServingTable, is_building, serving_table};

#[cfg(test)]
mod tests;
