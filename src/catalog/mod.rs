//! SQLite databases: the catalog, which records the state of every file, and separate logs and caches.
//!
//! Start with [`Catalog`]: one writer, concurrent readers; every method is short and blocks. `scan.rs` decides what a
//! walk changes, `transitions.rs` moves files between states, `query.rs` answers filters. Nothing here reads the user's
//! files. [`JobLog`], [`VectorCache`], [`EvidenceCache`] and [`TranscriptLog`] are separate databases, whose loss does
//! no harm to the index.
//!
//! Commits of the catalog are synced (`synchronous=FULL`). A file marked as indexed must have its chunks in the store
//! even after a power loss, and a counted attempt to read a file must survive the crash that the file causes. Scans and
//! marks come in batches, so that a sync is paid once per batch.

mod caches;
mod corpus_db;
mod files;
mod logs;
mod quarantine;
mod catalog_db;
mod database;
mod graph;
mod recovery;
mod store_ledger;

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
pub use crate::catalog::logs::searches::SearchLog;
pub use crate::catalog::logs::transcripts::TranscriptLog;
pub use crate::catalog::quarantine::quarantine_database;
pub use crate::catalog::recovery::Recovery;
pub(crate) use crate::catalog::recovery::listed_root_count;
pub use database::{check_database, flush_database};
pub use graph::{FileVersion, GraphStore, Replacement};
pub use store_ledger::{ChunkRun, LedgerChange, StoreLedger, WordCounts};

#[cfg(test)]
mod tests;
