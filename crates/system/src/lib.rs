//! The system calls of vic that have no safe form in the libraries it uses, behind safe functions. See the README.

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
