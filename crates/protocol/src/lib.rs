//! What the daemon and its clients share: model types, settings, the gRPC protocol with its conversions, and the client.

pub mod error;
pub mod config;
pub mod model;
pub mod units;
pub mod verbs;
pub mod data_dir;
pub mod proto;
pub mod client;
