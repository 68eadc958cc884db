//! The data directory: how it is made, the lock of the daemon that owns it, and the file of API keys.

pub mod directory;
pub mod keys;
pub mod lock;
