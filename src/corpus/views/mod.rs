//! Views, which are sets of documents: selection, snapshots of sessions, baselines, saved views.

pub(in crate::corpus) mod baseline;
pub(in crate::corpus) mod documents;
pub(in crate::corpus) mod file_names;
pub(in crate::corpus) mod filter_row;
mod resolve_baseline;
pub(in crate::corpus) mod saved_view;
pub(in crate::corpus) mod select;
pub(in crate::corpus) mod sessions;
pub(in crate::corpus) mod snapshot;
