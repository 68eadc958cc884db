//! Everything that needs the real programs: a daemon on a temporary data directory, and the command line.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test ends where it goes wrong, sets its own scene, and says what it found"
)]

mod asking;
mod audit;
mod contract;
mod daemon;
mod damage;
mod disk;
mod freshness;
mod harness;
mod http;
mod kills;
mod layers;
mod mix;
mod oracle;
mod owner;
mod power;
mod privacy;
mod robustness;
mod room;
mod sample;
mod skills;
mod torture;
mod trace;
