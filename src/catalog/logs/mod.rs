//! TODO_DOC

pub(in crate::catalog) mod audit;
pub(in crate::catalog) mod jobs;
pub(in crate::catalog) mod transcripts;
