//! Database of the corpus API: views, results, jobs, parsed documents and sessions.

pub(in crate::catalog) mod document_cache;
pub(in crate::catalog) mod sessions;
pub(in crate::catalog) mod store;
