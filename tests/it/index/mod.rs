//! Tests of what the index contains of a file: keywords before vectors, skill output, OCR text, locations, retries.

pub(crate) mod keywords_first;
pub(crate) mod locations;
pub(crate) mod retries;
pub(crate) mod scans;
pub(crate) mod skills;
