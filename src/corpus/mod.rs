//! The corpus API for programs that reason: eleven verbs over views of documents.
//!
//! `api::validate` checks a request against the closed table in `crate::verbs`. `views` resolves its view to documents.
//! `document::loader` parses each document in the jailed worker and caches the result by content hash. The verb, one file
//! each in `verbs`, works on the parsed documents in memory and in a fixed order. `api::envelope` wraps the answer;
//! `dispatch` is the order of these steps.
//!
//! The same request on the same view gives the same bytes: ids are hashes and lists are sorted. Only the diff has a
//! time limit; the answer reports what it cut.
//!
//! `api::schema` publishes the requests and responses. `api::output_budget` limits the tokens of answers, errors and help.
//! `objects` finds objects, with exact places from `document::location`; `analysis` finds statements; `text` finds dates.
//! No step asks a model.

mod analysis;
pub mod api;
mod context;
mod dispatch;
mod document;
mod objects;
mod filter;
mod jobs;
mod limits;
mod outcome;
mod results;
mod running_jobs;
#[cfg(test)]
mod tests;
mod text;
mod verbs;
mod views;

pub use crate::corpus::context::CorpusApi;
pub use crate::corpus::document::loader::CorpusServices;
