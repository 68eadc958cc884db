//! Views of documents: selection, snapshots of sessions, saved views.

pub(in crate::corpus) mod documents;
pub(in crate::corpus) mod file_names;
pub(in crate::corpus) mod saved_view;
pub(in crate::corpus) mod select;
pub(in crate::corpus) mod snapshot;
