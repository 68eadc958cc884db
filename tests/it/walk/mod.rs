//! Tests of walks over roots, mounts and unusual directory entries.

pub(crate) mod mounts;
pub(crate) mod odd_entries;
pub(crate) mod roots;
