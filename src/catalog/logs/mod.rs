//! Logs in SQLite: outbound requests, agent runs and index jobs.

pub(in crate::catalog) mod audit;
pub(in crate::catalog) mod jobs;
pub(in crate::catalog) mod transcripts;
