//! SQLite databases: what vic knows of every file, and the logs and caches beside it.
//!
//! Start with [`Catalog`]: one writer, concurrent readers; every method is short and blocks. `scan.rs` decides what a walk
//! changes, `transitions.rs` moves files between states, `query.rs` answers filters. Nothing here reads the files themselves.
//! [`JobLog`], [`VectorCache`], [`EvidenceCache`] and [`TranscriptLog`] are separate: they may be lost.
//!
//! Commits of the catalog are synced (`synchronous=FULL`): a mark asserts that the store has the file on disk, and a
//! counted try has to survive the crash that it causes. Scans and marks come in batches, so that a sync is paid once per
//! batch.

mod caches;
mod corpus_db;
mod files;
mod logs;
mod quarantine;
mod catalog_db;
mod database;
mod graph;
mod recovery;

pub use crate::catalog::caches::evidence::{EvidenceCache, EvidenceKey};
pub use crate::catalog::caches::vectors::{VectorCache, VectorKey};
pub use crate::catalog::catalog_db::Catalog;
pub use crate::catalog::corpus_db::sessions::SessionFile;
pub use crate::catalog::corpus_db::store::{CorpusStore, StoredJob, StoredResult};
pub use crate::catalog::files::name_index::{NameMatch, NameWord, name_words};
pub use crate::catalog::files::query::{READ_BY_OCR, WITHOUT_TEXT_LAYER};
pub use crate::catalog::files::roots::ROOT_HINT;
pub use crate::catalog::files::row_predicate::{Cell, Column, PredicateRow};
pub use crate::catalog::files::scan::walk_result::{DeletionPolicy, ScanOutcome, ScanPass, WalkResult};
pub use crate::catalog::files::transitions::{
    EvidenceMark, FileStamp, IndexedMark, MAX_STRIKES, MAX_TRIES, ReasonMark, RequeueScope,
};
pub use crate::catalog::logs::audit::AuditLog;
pub use crate::catalog::logs::jobs::JobLog;
pub use crate::catalog::logs::transcripts::TranscriptLog;
pub use crate::catalog::quarantine::quarantine_database;
pub use crate::catalog::recovery::Recovery;
pub(crate) use crate::catalog::recovery::listed_root_count;
pub use database::{check_database, flush_database};
pub use graph::{FileVersion, GraphStore, Replacement};

#[cfg(test)]
mod tests;
