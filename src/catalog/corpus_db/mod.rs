//! TODO_DOC

pub(in crate::catalog) mod document_cache;
pub(in crate::catalog) mod sessions;
pub(in crate::catalog) mod store;
