//! Requests and answers of the corpus API: validation, envelope, schemas, help, errors and the output budget.

pub(in crate::corpus) mod aliases;
pub(in crate::corpus) mod answer;
pub(in crate::corpus) mod envelope;
pub(in crate::corpus) mod error;
pub mod help;
pub(in crate::corpus) mod help_pages;
pub(in crate::corpus) mod management;
pub(in crate::corpus) mod output_budget;
pub(in crate::corpus) mod render;
pub(in crate::corpus) mod request;
pub(in crate::corpus) mod response_schema;
pub mod schema;
pub(in crate::corpus) mod validate;
