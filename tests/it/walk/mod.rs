//! Walks over roots, mounts and odd directory entries.

pub(crate) mod mounts;
pub(crate) mod odd_entries;
pub(crate) mod roots;
