//! Tables of the corpus API: results, parsed documents, sessions.

pub(in crate::catalog) mod document_cache;
pub(in crate::catalog) mod sessions;
pub(in crate::catalog) mod store;
