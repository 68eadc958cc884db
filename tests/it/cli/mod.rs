//! Commands of `vic` that need no running daemon.

pub(crate) mod bench;
