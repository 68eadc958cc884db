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
mod generated;
mod harness;
mod hostile;
mod http;
mod h2;
mod layers;
mod llama;
mod load;
mod models;
mod ollama;
mod openai;
mod operations;
mod origin;
mod politeness;
mod privacy;
mod robustness;
mod sample;
mod scans;
mod scopes;
mod secrecy;
mod server;
mod shutdown;
mod skills;
mod socket;
mod tls;
mod trace;
mod vision;
mod watching;
