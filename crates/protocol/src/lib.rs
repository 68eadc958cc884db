//! What the daemon and its clients share: data types, settings, the gRPC protocol with its conversions, and the client.
//!
//! The modules in dependency order:
//!
//! - [`error`]: one [`error::ErrorCode`] for gRPC, HTTP and exit codes.
//! - [`config`]: settings from environment and file to [`config::Config`]; the only reader of either.
//! - [`model`]: the types passed between stages: `FoundFile -> FileRecord -> Document -> Chunk -> Embedded -> LegHit ->
//!   SearchHit`.
//! - [`escape`]: escapes control characters; pure.
//! - [`compact_output`]: formats an answer in few characters, with the location of each passage; pure.
//! - [`units`]: parses sizes and times as users type them; pure.
//! - [`verbs`]: the fixed tables of the corpus API's verbs: names, fields, limits, examples; pure.
//! - [`data_dir`]: the data directory, its lock, and the table of API keys.
//! - [`proto`]: the generated gRPC types, their conversions, and the size limits.
//! - [`client`]: the typed gRPC client, which starts the daemon if none runs.

#![forbid(unsafe_code)]

pub mod error;
pub mod config;
pub mod model;
pub mod escape;
pub mod compact_output;
pub mod units;
pub mod verbs;
pub mod data_dir;
pub mod proto;
pub mod client;
