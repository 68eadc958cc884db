//! Everything that needs the real programs: a daemon on a temporary data directory, and the command line.

mod daemon;
mod freshness;
mod harness;
mod layers;
mod privacy;
mod robustness;
