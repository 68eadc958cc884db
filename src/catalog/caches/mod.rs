//! TODO_DOC

pub(in crate::catalog) mod evidence;
pub(in crate::catalog) mod vectors;
