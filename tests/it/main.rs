//! Everything that needs the real programs: a daemon on a temporary data directory, and the command line.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where it goes wrong, and sets its own scene"
)]

mod asking;
mod audit;
mod caller;
mod contract;
mod daemon;
mod freshness;
mod harness;
mod http;
mod layers;
mod operations;
mod politeness;
mod privacy;
mod robustness;
mod sample;
mod skills;
mod trace;
mod watching;
