//! Logs in SQLite: outbound requests, agent runs, index jobs and searches.

pub(in crate::catalog) mod audit;
pub(in crate::catalog) mod jobs;
pub(in crate::catalog) mod searches;
pub(in crate::catalog) mod transcripts;
