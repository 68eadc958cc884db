//! The corpus API for programs such as language model agents: eleven verbs over views of documents.
//!
//! `api::aliases` reads a request as language models write it; `api::validate` checks it against the tables in
//! `crate::verbs`. `views` resolves its view to documents.
//! `document::loader` parses each document in the jailed worker and caches the result by content hash. The verb, each in
//! its own file in `verbs`, processes the parsed documents in memory and in a fixed order. `api::envelope` wraps the
//! answer; `dispatch` calls these steps in order.
//!
//! The same request on the same view gives the same bytes: ids are hashes and lists are sorted. Only diffs have a time
//! limit; an answer reports that a diff was stopped at it.
//!
//! `api::schema` publishes the schemas of requests and responses. `api::output_budget` limits the tokens of answers, errors
//! and help. `objects` finds objects (tables, quotes etc.), and `document::location` their exact locations; `analysis` finds
//! statements, and `text` dates. No step uses a language model.

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
