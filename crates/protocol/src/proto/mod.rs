//! The protocol: the generated gRPC types, their conversions from and to the model types, and the size limits that client
//! and server share.

pub mod convert;
pub mod grpc_status;
pub mod json;
pub mod wire;

/// Largest request, in bytes: 2048 texts of 2 KiB. tonic's own default, written down because it is a promise.
pub const MAX_REQUEST: usize = 4 << 20;

/// Largest request for a model, in bytes: some images, or a file of proposals.
pub const MAX_LLM_REQUEST: usize = 64 << 20;

/// Largest response, in bytes: the text of a file at its limit of 10 MiB, with anchors for every line.
pub const MAX_RESPONSE: usize = 64 << 20;
