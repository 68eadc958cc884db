//! Caches by content hash: vectors of texts, and results of skills.

pub(in crate::catalog) mod evidence;
pub(in crate::catalog) mod vectors;
