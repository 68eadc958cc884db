//! A client of Milvus over gRPC, with the calls that vic needs, and no more.
//!
//! [`Client`] is the entry. Each call has its own deadline and its own bounded retries; nothing depends on wall time.
//! Filters are built with [`Filter`] only, so that no value can change the meaning of an expression. Every reply is
//! checked for its shape and its types: a reply of another shape is an error, never a panic.
//!
//! # Layout
//!
//! `settings`, `version` and `error` come first; `column`, `convert`, `collection_schema` and `filter` are the values that travel;
//! `client` sends and retries, over `lite_connection` to Milvus Lite; `collections`, `indexes`, `rows`, `search` and `aliases` are its calls. `mock` is a server
//! for tests.
#![forbid(unsafe_code)]

#[allow(
    clippy::all,
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    reason = "generated code"
)]
#[rustfmt::skip]
mod generated;

mod settings;
mod version;
mod error;
mod codes;
mod column;
mod convert;
mod collection_schema;
mod filter;
mod retry;
mod reply;
mod lite_connection;
mod client;
mod collections;
mod indexes;
mod rows;
mod search;
mod aliases;
#[cfg(feature = "mock")]
pub mod mock;

pub use client::Client;
pub use collection_schema::{Collection, Field, FieldType, Schema};
pub use column::{Column, Rows, Values};
pub use error::{Error, ErrorKind};
pub use filter::Filter;
pub use indexes::IndexParams;
pub use rows::{Guarantee, MAX_ROWS, Mutation};
pub use search::{Hits, Metric, Search, Vector};
pub use settings::{MAX_MESSAGE_BYTES, OnConnect, Settings, Token};
pub use version::{Features, Version};

/// The result of a call to Milvus.
pub type Result<T> = std::result::Result<T, Error>;
