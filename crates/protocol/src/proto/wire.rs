//! Types and stubs that `build.rs` generates from `proto/`. Only the conversions, the daemon's gRPC service and the client
//! use them.

#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    reason = "generated code, documented in the proto files"
)]

tonic::include_proto!("vic.v1");

/// Descriptor set of the proto files, which gRPC reflection serves.
pub const DESCRIPTORS: &[u8] = tonic::include_file_descriptor_set!("vic");
