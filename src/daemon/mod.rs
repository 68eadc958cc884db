//! Configuration to a running process.
