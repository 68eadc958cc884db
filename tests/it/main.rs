//! Integration tests: they run the real daemon on a temporary data directory, and the real `vic` command.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test stops at its first failure, creates its own environment, and prints its findings"
)]

mod api;
mod browser;
mod cli;
mod crash;
mod daemon;
mod hostile;
mod index;
mod limits;
mod llm;
mod milvus;
mod privacy;
mod project;
mod search;
mod support;
mod walk;
mod watch;
