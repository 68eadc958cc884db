//! The index in a Milvus server or in Milvus Lite.
//!
//! The server stores vectors, texts and weighted words; the ledger (`catalog`) decides which rows are valid. Start with
//! [`backend`], then `write` for a change and `search` for a query.

mod backend;
mod clean;
mod errors;
mod keywords;
mod lite;
mod live_rows;
mod read;
mod rows;
mod search;
mod store;
mod table;
mod write;
#[cfg(test)]
mod tests;

pub(super) use backend::{MilvusBackend, Use};
