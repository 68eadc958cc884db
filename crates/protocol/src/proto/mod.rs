//! The protocol: the generated gRPC types, their conversions from and to the model types, and the size limits that client
//! and server share.

pub mod convert;
pub mod grpc_status;
pub mod json;
pub mod wire;

/// Maximum size of a request in bytes: enough for 2048 texts of 2 KiB. Equals tonic's default; part of the published API.
pub const MAX_REQUEST: usize = 4 << 20;

/// Maximum size of a request to a language model in bytes: enough for some images, or a file of proposals.
pub const MAX_LLM_REQUEST: usize = 64 << 20;

/// Maximum size of a response in bytes: enough for the longest text of a file (10 MiB) with a location for every line.
pub const MAX_RESPONSE: usize = 64 << 20;
