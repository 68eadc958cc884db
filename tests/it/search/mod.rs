//! Tests of questions, quotes, citations, file names and printed paths.

pub(crate) mod answer_quality;
pub(crate) mod citations;
pub(crate) mod file_names;
pub(crate) mod printed_paths;
pub(crate) mod questions;
pub(crate) mod scripts;
