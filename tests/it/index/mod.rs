//! What the index holds of a file: words first, skills, scanned pages, places, retries.

pub(crate) mod keywords_first;
pub(crate) mod locations;
pub(crate) mod retries;
pub(crate) mod scans;
pub(crate) mod skills;
