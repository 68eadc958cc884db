//! The types and stubs that `build.rs` makes of `proto/`. Only [`crate::proto::convert`], the adapter and the client know
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

/// The compiled proto files, for reflection.
pub const DESCRIPTORS: &[u8] = tonic::include_file_descriptor_set!("vic");
