//! The data directory: its format check and creation, its lock, and the files with API keys.

pub mod directory;
pub mod keys;
pub mod lock;
