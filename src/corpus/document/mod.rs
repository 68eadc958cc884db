//! A document as verbs use it: passages, exact locations, metadata, and the cache of parsed documents.

pub(in crate::corpus) mod cache;
pub(in crate::corpus) mod loader;
pub(in crate::corpus) mod location;
pub(in crate::corpus) mod metadata;
pub(in crate::corpus) mod parsed;
pub(in crate::corpus) mod passages;
pub(in crate::corpus) mod publication_date;
pub(in crate::corpus) mod stored_passage;
