//! The protocol: the generated gRPC types, their conversions from and to the model types, and the size limits that client
//! and server share.

pub mod convert;
pub mod grpc_status;
pub mod json;
pub mod wire;

/// Maximum size of a request, in bytes: 2048 texts of 2 KiB. Equals tonic's default, and is part of the API.
pub const MAX_REQUEST: usize = 4 << 20;

/// Maximum size of a request to a language model, in bytes: some images, or a file of proposals.
pub const MAX_LLM_REQUEST: usize = 64 << 20;

/// Maximum size of a response, in bytes: the text of a file at its limit of 10 MiB, with anchors for every line.
pub const MAX_RESPONSE: usize = 64 << 20;
