//! Types and stubs that `build.rs` generates from `proto/`. Only `crate::serve::convert`, the adapter and the client use
//! them.

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

/// Compiled proto files, for reflection.
pub const DESCRIPTORS: &[u8] = tonic::include_file_descriptor_set!("vic");
