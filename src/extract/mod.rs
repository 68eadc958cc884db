//! Bytes to documents, in a worker process.

mod sink;

pub(crate) use sink::{Input, ReadResult, Sink, failure};
