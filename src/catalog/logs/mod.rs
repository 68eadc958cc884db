//! Logs in SQLite: audit records, transcripts, index jobs.

pub(in crate::catalog) mod audit;
pub(in crate::catalog) mod jobs;
pub(in crate::catalog) mod transcripts;
