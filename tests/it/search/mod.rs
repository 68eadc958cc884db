//! Tests of questions, quotes, citations, dates, numbers, file names, printed paths and `vic quality`.

pub(crate) mod answer_quality;
pub(crate) mod citations;
pub(crate) mod dates;
pub(crate) mod file_names;
pub(crate) mod numbers_and_codes;
pub(crate) mod printed_paths;
pub(crate) mod quality;
pub(crate) mod questions;
pub(crate) mod reranker;
pub(crate) mod scripts;
pub(crate) mod typing_errors;
