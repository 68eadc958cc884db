//! The eleven verbs of the corpus API, one file each.

pub(in crate::corpus) mod compare;
pub(in crate::corpus) mod delta;
pub(in crate::corpus) mod detect;
pub(in crate::corpus) mod explain_failure;
pub(in crate::corpus) mod extract;
pub(in crate::corpus) mod field_diff;
pub(in crate::corpus) mod ingest;
pub(in crate::corpus) mod ingest_run;
pub(in crate::corpus) mod normalize;
pub(in crate::corpus) mod query;
pub(in crate::corpus) mod score;
pub(in crate::corpus) mod summarize;
pub(in crate::corpus) mod trace;
