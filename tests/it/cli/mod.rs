//! Tests of `vic` commands that need no running daemon.

pub(crate) mod bench;
