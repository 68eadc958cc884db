//! Caches by content hash: vectors and the evidence of skills.

pub(in crate::catalog) mod evidence;
pub(in crate::catalog) mod vectors;
