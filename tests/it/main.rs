//! Tests that need the real programs: a daemon on a temporary data directory, and the command line.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test stops at its first failure, creates its own environment, and prints its findings"
)]

mod agents;
mod answers;
mod asking;
mod audit;
mod bench;
mod caller;
mod cases;
mod citations;
mod clock;
mod contract;
mod corpus;
mod daemon;
mod daemon_mix;
mod damage;
mod dependencies;
mod disk;
mod entries;
mod faults;
mod freshness;
mod generated;
mod graph;
mod h2;
mod harness;
mod hostile;
mod http;
mod injections;
mod kills;
mod layers;
mod llama;
mod load;
mod means;
mod mends;
mod mix;
mod models;
mod mounts;
mod names;
mod named;
mod ollama;
mod openai;
mod openings;
mod operations;
mod oracle;
mod origin;
mod overload;
mod owner;
mod places;
mod plugins;
mod politeness;
mod power;
mod privacy;
mod published;
mod purge;
mod retries;
mod robustness;
mod room;
mod sample;
mod saving;
mod scans;
mod scopes;
mod secrecy;
mod seeds;
mod server;
mod shutdown;
mod skills;
mod soak;
mod socket;
mod storms;
mod strikes;
mod syncing;
mod tables;
mod tls;
mod torture;
mod trace;
mod unreadable;
mod vision;
mod watches;
mod watching;
mod words;
mod workshop;
