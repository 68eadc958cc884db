//! Bytes to documents, in a worker process.
