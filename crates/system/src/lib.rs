//! System calls that the libraries of vic do not offer in a safe form, behind safe functions; README.md lists them.

#![allow(unsafe_code, reason = "system calls without a safe form; README.md lists them")]

#[cfg(feature = "jemalloc")]
pub mod allocator;
pub mod environment;
pub mod fd_passing;
pub mod jail;
pub mod malloc;
pub mod network_filter;
pub mod priority;
pub mod process;
